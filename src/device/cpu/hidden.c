/*
 * What a layer of a graph network does to each row, in one pass: bias, function and dropout behind the
 * sums over neighbours; scores of heads and dropout before them; and their gradients.
 *
 * Elements and sums are those of the operators one by one: a row's score runs in 16 lanes, lane l taking
 * elements l, l + 16, ..., folded by halves; gradients of what all rows share are sums over rows in
 * the pieces and blocks of columns.h. What dropout keeps is drawn once, in forward.
 */
#include "device/cpu/columns.h"
#include "device/cpu/dots.h"
#include "device/cpu/drop.h"
#include "device/cpu/functions.h"
#include "device/cpu/lanes.h"
#include "device/cpu/variant.h"

#include <assert.h>

#define TILE 4096 /* elements, about */

/* Rows of a tile: fewer where threads would have nothing to do. */
static int64_t tile_rows(const struct culm_cpu *cpu, int64_t n, int64_t c) {
    int64_t rows = at_least(16, TILE / c);
    return cpu->threads == 1 ? rows : at_least(16, at_most(rows, ceil_div(n, cpu->threads * 4)));
}

/* Where the bits of a row are that has some. */
static uint16_t *kept_row(uint32_t *kept, int64_t row, int64_t c) {
    return (uint16_t *)(void *)kept + row * drop_pitch(c);
}

static float scale_of(const struct culm_dropout *dropout) {
    return dropout ? (float)(1.0 / (1.0 - dropout->p)) : 1;
}

/* What dropout makes of elements 16 slot .. 16 slot + 15 of a row; all of them without bits. */
SIMD vec drop_slot_of(const uint16_t *kept, int64_t slot, vec scale, vec x) {
    return kept ? vselect(mask_of_bits(kept[slot]), vmul(x, scale), vzero()) : x;
}

/* Sums of blocks, and of all of them: to = or += those of partial[blocks][count]. */
SIMD void add_blocks(const float *partial, int64_t blocks, int64_t apart, int64_t count, bool first,
                     float *to) {
    for (int64_t i = 0; i < count; i += LANES) {
        int64_t n = count - i;
        vec sum = load_part(partial + i, n);
        for (int64_t b = 1; b < blocks; b++) {
            sum = vadd(sum, load_part(partial + b * apart + i, n));
        }
        store_part(to + i, first ? sum : vadd(load_part(to + i, n), sum), n);
    }
}

/* total += piece, which begins anew. */
SIMD void add_piece(float *total, float *piece, int64_t count) {
    for (int64_t i = 0; i < count; i += LANES) {
        vstore(total + i, vadd(vload(total + i), vload(piece + i)));
        vstore(piece + i, vzero());
    }
}

/* ---- bias, function, dropout ---- */

struct hidden {
    const struct culm_hidden_forward_args *forward;
    const struct culm_hidden_backward_args *backward;
    struct culm_cpu *cpu;
    int64_t rows; /* of a tile */
    struct column_blocks blocks;
    int64_t width; /* c, whole vectors */
};

SIMD void hidden_rows(const struct hidden *s, int64_t first, int64_t end,
                      enum culm_function function) {
    const struct culm_hidden_forward_args *a = s->forward;
    vec alpha = vset((float)a->alpha), scale = vset(scale_of(a->dropout));
    bool result = culm_function_keeps_output(function, a->alpha);
    for (int64_t row = first; row < end; row++) {
        const uint16_t *kept = a->dropout ? kept_row(a->kept, row, a->c) : NULL;
        for (int64_t i = 0; i < a->c; i += LANES) {
            int64_t n = a->c - i, at = row * a->c + i;
            vec v = load_part(a->x + row * a->ldx + i, n);
            v = a->bias ? vadd(v, load_part(a->bias + i, n)) : v;
            vec f = vfunction(function, v, alpha);
            if (a->saved) {
                store_part(a->saved + at, result ? f : v, n);
            }
            store_part(a->y + at, drop_slot_of(kept, i / LANES, scale, f), n);
        }
    }
}

static void hidden_forward_tile(void *context, int64_t tile, int thread) {
    const struct hidden *s = context;
    const struct culm_hidden_forward_args *a = s->forward;
    int64_t first = tile * s->rows, end = at_most(a->n, first + s->rows);
    (void)thread;
    if (a->dropout) {
        drop_rows(a->dropout, first, end, a->c, kept_row(a->kept, first, a->c));
    }
    if (SPECIAL && a->function == CULM_FUNCTION_RELU) {
        hidden_rows(s, first, end, CULM_FUNCTION_RELU);
    } else if (SPECIAL && a->function == CULM_FUNCTION_ELU) {
        hidden_rows(s, first, end, CULM_FUNCTION_ELU);
    } else {
        hidden_rows(s, first, end, a->function);
    }
}

void ISA_NAME(hidden_forward)(struct culm_cpu *cpu, const struct culm_hidden_forward_args *args) {
    struct hidden s = {.forward = args, .rows = tile_rows(cpu, args->n, args->c)};
    assert(!args->dropout || args->dropout->samples == args->n);
    culm_cpu_run(cpu, ceil_div(args->n, s.rows), hidden_forward_tile, &s);
}

SIMD void hidden_back(const struct hidden *s, int64_t first, int64_t end,
                      enum culm_function function, float *sum, float *partial) {
    const struct culm_hidden_backward_args *a = s->backward;
    vec alpha = vset((float)a->alpha), scale = vset((float)(1.0 / (1.0 - a->p)));
    float *piece = sum, *total = partial;
    for (int64_t i = 0; i < s->width && a->dbias; i += LANES) {
        vstore(piece + i, vzero());
        vstore(total + i, vzero());
    }
    for (int64_t from = first; from < end; from += COLUMN_PIECE) {
        for (int64_t row = from; row < at_most(end, from + COLUMN_PIECE); row++) {
            const uint16_t *kept = a->kept ? kept_row((uint32_t *)a->kept, row, a->c) : NULL;
            for (int64_t i = 0; i < a->c; i += LANES) {
                int64_t n = a->c - i, at = row * a->c + i;
                vec d = drop_slot_of(kept, i / LANES, scale, load_part(a->dy + at, n));
                d = vfunction_backward(function, d, load_part(a->saved + at, n), alpha);
                store_part(a->dx + row * a->ldx + i, d, n);
                if (a->dbias) {
                    d = n < LANES ? vselect(vfirst(n), d, vzero()) : d;
                    vstore(piece + i, vadd(vload(piece + i), d));
                }
            }
            for (int64_t i = a->c; i < a->ldx; i += LANES) {
                store_part(a->dx + row * a->ldx + i, vzero(), a->ldx - i);
            }
        }
        if (a->dbias) {
            add_piece(total, piece, s->width);
        }
    }
}

static void hidden_backward_tile(void *context, int64_t tile, int thread) {
    const struct hidden *s = context;
    const struct culm_hidden_backward_args *a = s->backward;
    int64_t first = tile * s->blocks.terms, end = at_most(a->n, first + s->blocks.terms);
    float *sum = cpu_private(s->cpu, thread), *partial = cpu_shared(s->cpu) + tile * s->width;
    if (SPECIAL && a->function == CULM_FUNCTION_RELU) {
        hidden_back(s, first, end, CULM_FUNCTION_RELU, sum, partial);
    } else if (SPECIAL && a->function == CULM_FUNCTION_ELU) {
        hidden_back(s, first, end, CULM_FUNCTION_ELU, sum, partial);
    } else {
        hidden_back(s, first, end, a->function, sum, partial);
    }
}

void ISA_NAME(hidden_backward)(struct culm_cpu *cpu, const struct culm_hidden_backward_args *args) {
    struct hidden s = {.backward = args, .cpu = cpu, .width = round_up(args->c, LANES)};
    s.blocks = blocks_of(ceil_div(args->c, COLUMN_STRIP), s.width, args->n, 64);
    culm_cpu_run(cpu, s.blocks.count, hidden_backward_tile, &s);
    if (args->dbias) {
        add_blocks(cpu_shared(cpu), s.blocks.count, s.width, args->c, args->first, args->dbias);
    }
}

/* ---- scores of heads, dropout ---- */

struct heads {
    const struct culm_heads_forward_args *forward;
    const struct culm_heads_backward_args *backward;
    struct culm_cpu *cpu;
    int64_t rows; /* of a tile */
    int64_t c, heads, width;
    struct column_blocks blocks;
    int64_t apart;  /* floats between sums of blocks: of a, then of b */
    float *partial; /* [blocks][apart] */
    int64_t *head;  /* [vectors]: of each vector's first column */
    uint32_t *lane; /* [vectors][LANES]: each lane's head, counted from that */
};

/* <t, a> of each head of a row. */
SIMD void scores_of(const float *t, const float *a, int64_t heads, int64_t width, float *score) {
    if (width == 8) {
        dots_of_8(culm_in_f32(t), culm_in_f32(a), 0, 0, heads, score);
        return;
    }
    for (int64_t h = 0; h < heads; h++, t += width, a += width) {
        vec sum = vmul(load_part(t, width), load_part(a, width));
        for (int64_t i = LANES; i < width; i += LANES) {
            vec part = vmul(load_part(t + i, width - i), load_part(a + i, width - i));
            sum = vadd(sum, part);
        }
        score[h] = vsum(sum);
    }
}

SIMD void heads_rows(const struct heads *s, int64_t first, int64_t end, int64_t width) {
    const struct culm_heads_forward_args *a = s->forward;
    vec scale = vset(scale_of(a->dropout));
    for (int64_t row = first; row < end; row++) {
        const float *t = a->t + row * a->c;
        float *y = a->y + row * (a->c + 2 * a->heads), *score = y + a->c;
        const uint16_t *kept = a->dropout ? kept_row(a->kept, row, a->c) : NULL;
        for (int64_t i = 0; i < a->c; i += LANES) {
            vec v = load_part(t + i, a->c - i);
            store_part(y + i, drop_slot_of(kept, i / LANES, scale, v), a->c - i);
        }
        scores_of(t, a->a, a->heads, width, score);
        scores_of(t, a->b, a->heads, width, score + a->heads);
    }
}

static void heads_forward_tile(void *context, int64_t tile, int thread) {
    const struct heads *s = context;
    const struct culm_heads_forward_args *a = s->forward;
    int64_t first = tile * s->rows, end = at_most(a->n, first + s->rows);
    (void)thread;
    if (a->dropout) {
        drop_rows(a->dropout, first, end, a->c, kept_row(a->kept, first, a->c));
    }
    if (SPECIAL && s->width == 8) {
        heads_rows(s, first, end, 8);
    } else {
        heads_rows(s, first, end, s->width);
    }
}

void ISA_NAME(heads_forward)(struct culm_cpu *cpu, const struct culm_heads_forward_args *args) {
    struct heads s = {
        .forward = args, .rows = tile_rows(cpu, args->n, args->c), .width = args->c / args->heads};
    assert(args->c % args->heads == 0 && (!args->dropout || args->dropout->samples == args->n));
    culm_cpu_run(cpu, ceil_div(args->n, s.rows), heads_forward_tile, &s);
}

/* piece[count] = zeros, total too. */
static void clear(float *piece, float *total, int64_t count) {
    memset(piece, 0, (size_t)count * sizeof *piece);
    memset(total, 0, (size_t)count * sizeof *total);
}

static void heads_backward_tile(void *context, int64_t tile, int thread) {
    const struct heads *s = context;
    const struct culm_heads_backward_args *a = s->backward;
    float *piece = cpu_private(s->cpu, thread);
    int64_t from = tile * s->blocks.terms, end = at_most(a->n, from + s->blocks.terms);
    int64_t whole = s->apart / 2;
    float *total = s->partial + tile * s->apart;
    vec scale = vset((float)(1.0 / (1.0 - a->p)));
    clear(piece, total, s->apart);
    for (int64_t first = from; first < end; first += COLUMN_PIECE) {
        for (int64_t row = first; row < at_most(end, first + COLUMN_PIECE); row++) {
            const float *dy = a->dy + row * (a->c + 2 * a->heads), *t = a->t + row * a->c;
            const float *da = dy + a->c, *db = da + a->heads;
            float *dt = a->dt + row * a->c;
            const uint16_t *kept = a->kept ? kept_row((uint32_t *)a->kept, row, a->c) : NULL;
            for (int64_t i = 0, v = 0; i < a->c; i += LANES, v++) {
                int64_t n = a->c - i, h = s->head[v], some = a->heads - h;
                uvec lane;
                memcpy(&lane, s->lane + v * LANES, sizeof lane);
                vec by_a = look_up(load_part(da + h, some), da + h, lane);
                vec by_b = look_up(load_part(db + h, some), db + h, lane);
                vec x = load_part(t + i, n);
                vec d = drop_slot_of(kept, i / LANES, scale, load_part(dy + i, n));
                d = vadd(d, vmul(by_b, load_part(a->b + i, n)));
                d = vadd(d, vmul(by_a, load_part(a->a + i, n)));
                store_part(dt + i, d, n);
                float *sum_a = piece + i, *sum_b = sum_a + whole;
                vstore(sum_a, vadd(vload(sum_a), vmul(by_a, x)));
                vstore(sum_b, vadd(vload(sum_b), vmul(by_b, x)));
            }
        }
        add_piece(total, piece, s->apart);
    }
}

void ISA_NAME(heads_backward)(struct culm_cpu *cpu, const struct culm_heads_backward_args *args) {
    struct heads s = {
        .backward = args, .cpu = cpu, .apart = 2 * round_up(args->c, LANES), .c = args->c};
    int64_t vectors = ceil_div(args->c, LANES), width = args->c / args->heads;
    float *memory = cpu_shared(cpu);
    s.head = (int64_t *)(void *)memory;
    s.lane = (uint32_t *)(memory + round_up(2 * vectors, LANES));
    s.partial = memory + round_up(2 * vectors, LANES) + vectors * LANES;
    s.blocks = blocks_of(ceil_div(args->c, COLUMN_STRIP), 2 * s.apart, args->n, 64);
    assert(s.blocks.count * s.apart <= SHARED_FLOATS - (s.partial - memory) &&
           s.apart <= PRIVATE_FLOATS);
    for (int64_t v = 0; v < vectors; v++) {
        s.head[v] = v * LANES / width;
        for (int64_t i = 0; i < LANES; i++) {
            int64_t column = at_most(args->c - 1, v * LANES + i);
            s.lane[v * LANES + i] = (uint32_t)(column / width - s.head[v]);
        }
    }
    culm_cpu_run(cpu, s.blocks.count, heads_backward_tile, &s);
    add_blocks(s.partial, s.blocks.count, s.apart, args->c, args->first, args->da);
    add_blocks(s.partial + s.apart / 2, s.blocks.count, s.apart, args->c, args->first, args->db);
}
