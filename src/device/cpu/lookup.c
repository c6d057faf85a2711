/*
 * Rows of tables: look-up by id, positions, and rows gathered from a sequence.
 *
 * Forward moves rows; backward adds them, and always in the order of the positions that used a row,
 * so a row that is used twice has one sum. A thread owns columns of a table's gradient, or rows of
 * a sequence's, and walks all ids itself. A negative id stands for a row of zeros.
 */
#include "device/cpu/variant.h"

#include <assert.h>

#define ROW_TILE 16 /* rows */
#define STRIP 64    /* columns of a table's gradient that one thread sums; a multiple of LANES */

struct lookup {
    struct culm_cpu *cpu;
    struct culm_out y;
    struct culm_in x, table;
    const int32_t *ids;
    float *sum;
    int64_t n, b, t, k, c, v;
    bool first;
};

static void copy_row(struct culm_out y, int64_t to, struct culm_in x, int64_t from, int64_t c) {
    for (int64_t i = 0; i < c; i += LANES) {
        tstore_part(y, to + i, tload_part(x, from + i, c - i), c - i);
    }
}

static void zero_row(struct culm_out y, int64_t to, int64_t c) {
    for (int64_t i = 0; i < c; i += LANES) {
        tstore_part(y, to + i, vzero(), c - i);
    }
}

/* ---- look-up ---- */

static void lookup_forward_tile(void *context, int64_t tile, int thread) {
    struct lookup *s = context;
    (void)thread;
    for (int64_t row = tile * ROW_TILE; row < at_most(s->n, (tile + 1) * ROW_TILE); row++) {
        assert(s->ids[row] < s->v);
        if (s->ids[row] < 0) {
            zero_row(s->y, row * s->c, s->c);
        } else {
            copy_row(s->y, row * s->c, s->table, s->ids[row] * s->c, s->c);
        }
    }
}

void ISA_NAME(lookup_forward)(struct culm_cpu *cpu, const struct culm_lookup_forward_args *args) {
    struct lookup s = {.y = args->y,
                       .ids = args->ids,
                       .table = args->table,
                       .n = args->n,
                       .c = args->c,
                       .v = args->v};
    culm_cpu_run(cpu, ceil_div(args->n, ROW_TILE), lookup_forward_tile, &s);
}

static void lookup_backward_tile(void *context, int64_t tile, int thread) {
    struct lookup *s = context;
    (void)thread;
    int64_t from = tile * STRIP, to = at_most(s->c, from + STRIP);
    if (s->first) {
        for (int64_t v = 0; v < s->v; v++) {
            memset(s->sum + v * s->c + from, 0, (size_t)(to - from) * sizeof *s->sum);
        }
    }
    for (int64_t row = 0; row < s->n; row++) {
        assert(s->ids[row] < s->v);
        if (s->ids[row] < 0) {
            continue;
        }
        float *sum = s->sum + s->ids[row] * s->c;
        for (int64_t i = from; i < to; i += LANES) {
            store_part(sum + i,
                       vadd(load_part(sum + i, to - i), tload_part(s->x, row * s->c + i, to - i)),
                       to - i);
        }
    }
}

void ISA_NAME(lookup_backward)(struct culm_cpu *cpu, const struct culm_lookup_backward_args *args) {
    struct lookup s = {.sum = args->dtable,
                       .x = args->dy,
                       .ids = args->ids,
                       .n = args->n,
                       .c = args->c,
                       .v = args->v,
                       .first = args->first};
    culm_cpu_run(cpu, ceil_div(args->c, STRIP), lookup_backward_tile, &s);
}

/* ---- positions ---- */

static void positions_forward_tile(void *context, int64_t tile, int thread) {
    struct lookup *s = context;
    (void)thread;
    for (int64_t row = tile * ROW_TILE; row < at_most(s->b * s->t, (tile + 1) * ROW_TILE); row++) {
        for (int64_t i = 0; i < s->c; i += LANES) {
            vec x = tload_part(s->x, row * s->c + i, s->c - i);
            vec place = tload_part(s->table, row % s->t * s->c + i, s->c - i);
            tstore_part(s->y, row * s->c + i, vadd(x, place), s->c - i);
        }
    }
}

void ISA_NAME(positions_forward)(struct culm_cpu *cpu,
                                 const struct culm_positions_forward_args *args) {
    struct lookup s = {
        .y = args->y, .x = args->x, .table = args->wpe, .b = args->b, .t = args->t, .c = args->c};
    culm_cpu_run(cpu, ceil_div(args->b * args->t, ROW_TILE), positions_forward_tile, &s);
}

static void positions_backward_tile(void *context, int64_t p, int thread) {
    struct lookup *s = context;
    (void)thread;
    float *sum = s->sum + p * s->c;
    if (p >= s->t) {
        if (s->first) {
            memset(sum, 0, (size_t)s->c * sizeof *sum);
        }
        return;
    }
    for (int64_t i = 0; i < s->c; i += LANES) {
        int64_t left = s->c - i;
        vec total = s->first ? tload_part(s->x, p * s->c + i, left) : load_part(sum + i, left);
        for (int64_t b = s->first; b < s->b; b++) {
            total = vadd(total, tload_part(s->x, (b * s->t + p) * s->c + i, left));
        }
        store_part(sum + i, total, left);
    }
}

void ISA_NAME(positions_backward)(struct culm_cpu *cpu,
                                  const struct culm_positions_backward_args *args) {
    struct lookup s = {.sum = args->dwpe,
                       .x = args->dy,
                       .b = args->b,
                       .t = args->t,
                       .c = args->c,
                       .first = args->first};
    assert(args->b > 0 && args->t <= args->p);
    culm_cpu_run(cpu, args->p, positions_backward_tile, &s);
}

/* ---- gathered rows ---- */

static void gather_forward_tile(void *context, int64_t tile, int thread) {
    struct lookup *s = context;
    (void)thread;
    for (int64_t row = tile * ROW_TILE; row < at_most(s->b * s->k, (tile + 1) * ROW_TILE); row++) {
        int64_t t = s->ids[row];
        assert(t < s->t);
        if (t < 0) {
            zero_row(s->y, row * s->c, s->c);
        } else {
            copy_row(s->y, row * s->c, s->x, (row / s->k * s->t + t) * s->c, s->c);
        }
    }
}

void ISA_NAME(gather_rows_forward)(struct culm_cpu *cpu,
                                   const struct culm_gather_rows_forward_args *args) {
    struct lookup s = {.y = args->y,
                       .x = args->x,
                       .ids = args->index,
                       .b = args->b,
                       .t = args->t,
                       .k = args->k,
                       .c = args->c};
    culm_cpu_run(cpu, ceil_div(args->b * args->k, ROW_TILE), gather_forward_tile, &s);
}

static void gather_backward_tile(void *context, int64_t tile, int thread) {
    struct lookup *s = context;
    int32_t *users = (int32_t *)cpu_private(s->cpu, thread);
    for (int64_t row = tile * ROW_TILE; row < at_most(s->b * s->t, (tile + 1) * ROW_TILE); row++) {
        int64_t sample = row / s->t, count = 0;
        const int32_t *index = s->ids + sample * s->k;
        for (int64_t k = 0; k < s->k; k++) {
            users[count] = (int32_t)k;
            count += index[k] == row % s->t;
        }
        for (int64_t i = 0; i < s->c; i += LANES) {
            vec sum = vzero();
            for (int64_t j = 0; j < count; j++) {
                vec dy = tload_part(s->x, (sample * s->k + users[j]) * s->c + i, s->c - i);
                sum = j ? vadd(sum, dy) : dy;
            }
            tstore_part(s->y, row * s->c + i, sum, s->c - i);
        }
    }
}

void ISA_NAME(gather_rows_backward)(struct culm_cpu *cpu,
                                    const struct culm_gather_rows_backward_args *args) {
    struct lookup s = {.cpu = cpu,
                       .y = args->dx,
                       .x = args->dy,
                       .ids = args->index,
                       .b = args->b,
                       .t = args->t,
                       .k = args->k,
                       .c = args->c};
    assert(args->k <= CULM_CPU_MAX_CONTEXT);
    culm_cpu_run(cpu, ceil_div(args->b * args->t, ROW_TILE), gather_backward_tile, &s);
}
