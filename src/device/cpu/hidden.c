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

/* An array whose type the compiler knows, where that is common. */
SIMD struct culm_in in_as(struct culm_in x, bool f32) {
    return (struct culm_in){x.data, f32 ? CULM_F32 : x.dtype};
}
SIMD struct culm_out out_as(struct culm_out y, bool f32) {
    return (struct culm_out){y.data, f32 ? CULM_F32 : y.dtype};
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
                      enum culm_function function, bool f32) {
    const struct culm_hidden_forward_args *a = s->forward;
    struct culm_in x = in_as(a->x, f32);
    struct culm_out y = out_as(a->y, f32), saved = out_as(a->saved, f32);
    vec alpha = vset((float)a->alpha), scale = vset(scale_of(a->dropout));
    bool result = culm_function_keeps_output(function, a->alpha);
    for (int64_t row = first; row < end; row++) {
        const uint16_t *kept = a->dropout ? kept_row(a->kept, row, a->c) : NULL;
        for (int64_t i = 0; i < a->c; i += LANES) {
            int64_t n = a->c - i, at = row * a->c + i;
            vec v = tload_part(x, row * a->ldx + i, n);
            v = a->bias ? vadd(v, load_part(a->bias + i, n)) : v;
            vec f = vfunction(function, v, alpha);
            if (saved.data) {
                tstore_part(saved, at, result ? f : v, n);
            }
            tstore_part(y, at, drop_slot_of(kept, i / LANES, scale, f), n);
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
    bool f32 = a->x.dtype == CULM_F32 && a->y.dtype == CULM_F32 && a->saved.dtype == CULM_F32;
    if (SPECIAL && f32 && a->function == CULM_FUNCTION_RELU) {
        hidden_rows(s, first, end, CULM_FUNCTION_RELU, true);
    } else if (SPECIAL && f32 && a->function == CULM_FUNCTION_ELU) {
        hidden_rows(s, first, end, CULM_FUNCTION_ELU, true);
    } else {
        hidden_rows(s, first, end, a->function, false);
    }
}

void ISA_NAME(hidden_forward)(struct culm_cpu *cpu, const struct culm_hidden_forward_args *args) {
    struct hidden s = {.forward = args, .rows = tile_rows(cpu, args->n, args->c)};
    assert(!args->dropout || args->dropout->samples == args->n);
    culm_cpu_run(cpu, ceil_div(args->n, s.rows), hidden_forward_tile, &s);
}

SIMD void hidden_back(const struct hidden *s, int64_t first, int64_t end,
                      enum culm_function function, bool f32, float *sum, float *partial) {
    const struct culm_hidden_backward_args *a = s->backward;
    struct culm_in dy = in_as(a->dy, f32), saved = in_as(a->saved, f32);
    struct culm_out dx = out_as(a->dx, f32);
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
                vec d = drop_slot_of(kept, i / LANES, scale, tload_part(dy, at, n));
                d = vfunction_backward(function, d, tload_part(saved, at, n), alpha);
                tstore_part(dx, row * a->ldx + i, d, n);
                if (a->dbias) {
                    d = n < LANES ? vselect(vfirst(n), d, vzero()) : d;
                    vstore(piece + i, vadd(vload(piece + i), d));
                }
            }
            for (int64_t i = a->c; i < a->ldx; i += LANES) {
                tstore_part(dx, row * a->ldx + i, vzero(), a->ldx - i);
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
    bool f32 = a->dy.dtype == CULM_F32 && a->saved.dtype == CULM_F32 && a->dx.dtype == CULM_F32;
    if (SPECIAL && f32 && a->function == CULM_FUNCTION_RELU) {
        hidden_back(s, first, end, CULM_FUNCTION_RELU, true, sum, partial);
    } else if (SPECIAL && f32 && a->function == CULM_FUNCTION_ELU) {
        hidden_back(s, first, end, CULM_FUNCTION_ELU, true, sum, partial);
    } else {
        hidden_back(s, first, end, a->function, false, sum, partial);
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

/* <t, a> of each head, of the row at t[at]. */
SIMD void scores_of(struct culm_in t, int64_t at, const float *a, int64_t heads, int64_t width,
                    float *score) {
    if (width == 8) {
        dots_of_8(t, culm_in_f32(a), at, 0, heads, score);
        return;
    }
    for (int64_t h = 0; h < heads; h++, at += width, a += width) {
        vec sum = vmul(tload_part(t, at, width), load_part(a, width));
        for (int64_t i = LANES; i < width; i += LANES) {
            vec part = vmul(tload_part(t, at + i, width - i), load_part(a + i, width - i));
            sum = vadd(sum, part);
        }
        score[h] = vsum(sum);
    }
}

SIMD void heads_rows(const struct heads *s, int64_t first, int64_t end, int64_t width, bool f32) {
    const struct culm_heads_forward_args *a = s->forward;
    struct culm_in t = in_as(a->t, f32);
    struct culm_out y = out_as(a->y, f32);
    vec scale = vset(scale_of(a->dropout));
    float narrow[2 * CULM_EDGE_HEADS_MAX];
    for (int64_t row = first; row < end; row++) {
        int64_t from = row * a->c, to = row * (a->c + 2 * a->heads);
        const uint16_t *kept = a->dropout ? kept_row(a->kept, row, a->c) : NULL;
        for (int64_t i = 0; i < a->c; i += LANES) {
            vec v = tload_part(t, from + i, a->c - i);
            tstore_part(y, to + i, drop_slot_of(kept, i / LANES, scale, v), a->c - i);
        }
        float *score = f32 ? (float *)y.data + to + a->c : narrow;
        scores_of(t, from, a->a, a->heads, width, score);
        scores_of(t, from, a->b, a->heads, width, score + a->heads);
        for (int64_t i = 0; i < 2 * a->heads && !f32; i += LANES) {
            int64_t n = 2 * a->heads - i;
            tstore_part(y, to + a->c + i, load_part(narrow + i, n), n);
        }
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
    bool f32 = SPECIAL && a->t.dtype == CULM_F32 && a->y.dtype == CULM_F32;
    if (f32 && s->width == 8) {
        heads_rows(s, first, end, 8, true);
    } else if (f32) {
        heads_rows(s, first, end, s->width, true);
    } else {
        heads_rows(s, first, end, s->width, false);
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

/* The heads' numbers of f32, in the room if they are of another type. */
SIMD const float *numbers(struct culm_in x, int64_t at, int64_t count, float *room) {
    for (int64_t i = 0; i < count && x.dtype != CULM_F32; i += LANES) {
        store_part(room + i, tload_part(x, at + i, count - i), count - i);
    }
    return x.dtype == CULM_F32 ? (const float *)x.data + at : room;
}

SIMD void heads_back(const struct heads *s, int64_t tile, float *piece, bool f32) {
    const struct culm_heads_backward_args *a = s->backward;
    struct culm_in dy = in_as(a->dy, f32), t = in_as(a->t, f32);
    struct culm_out dt = out_as(a->dt, f32);
    int64_t from = tile * s->blocks.terms, end = at_most(a->n, from + s->blocks.terms);
    int64_t whole = s->apart / 2;
    float *total = s->partial + tile * s->apart, room[2 * CULM_EDGE_HEADS_MAX];
    vec scale = vset((float)(1.0 / (1.0 - a->p)));
    clear(piece, total, s->apart);
    for (int64_t first = from; first < end; first += COLUMN_PIECE) {
        for (int64_t row = first; row < at_most(end, first + COLUMN_PIECE); row++) {
            int64_t by = row * (a->c + 2 * a->heads), at = row * a->c;
            const float *da = numbers(dy, by + a->c, 2 * a->heads, room), *db = da + a->heads;
            const uint16_t *kept = a->kept ? kept_row((uint32_t *)a->kept, row, a->c) : NULL;
            for (int64_t i = 0, v = 0; i < a->c; i += LANES, v++) {
                int64_t n = a->c - i, h = s->head[v], some = a->heads - h;
                uvec lane;
                memcpy(&lane, s->lane + v * LANES, sizeof lane);
                vec by_a = look_up(load_part(da + h, some), da + h, lane);
                vec by_b = look_up(load_part(db + h, some), db + h, lane);
                vec x = tload_part(t, at + i, n);
                vec d = drop_slot_of(kept, i / LANES, scale, tload_part(dy, by + i, n));
                d = vadd(d, vmul(by_b, load_part(a->b + i, n)));
                d = vadd(d, vmul(by_a, load_part(a->a + i, n)));
                tstore_part(dt, at + i, d, n);
                float *sum_a = piece + i, *sum_b = sum_a + whole;
                vstore(sum_a, vadd(vload(sum_a), vmul(by_a, x)));
                vstore(sum_b, vadd(vload(sum_b), vmul(by_b, x)));
            }
        }
        add_piece(total, piece, s->apart);
    }
}

static void heads_backward_tile(void *context, int64_t tile, int thread) {
    const struct heads *s = context;
    const struct culm_heads_backward_args *a = s->backward;
    float *piece = cpu_private(s->cpu, thread);
    if (SPECIAL && a->dy.dtype == CULM_F32 && a->t.dtype == CULM_F32 && a->dt.dtype == CULM_F32) {
        heads_back(s, tile, piece, true);
    } else {
        heads_back(s, tile, piece, false);
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
