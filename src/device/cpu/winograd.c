/*
 * Winograd's F(4x4, 3x3), forward and backward data. See winograd.h.
 *
 * Backward data is forward of dy with the filter turned by 180 degrees, inputs and outputs swapped,
 * and padding 2 - pad.
 *
 * A tile of work is a block of tiles by a block of outputs: for each block of channels the inputs
 * are transformed (again for each block of outputs: that is cheaper than fetching them from far
 * memory) and multiplied with the transformed weights. Those are made once for as many outputs as
 * fit in the shared scratch; if there is but one block of tiles, by the tile of work itself.
 */
#include "device/cpu/winograd.h"
#include "device/cpu/variant.h"

#define TILES 30       /* of a block; a multiple of ROWS */
#define TILES_ALONE 66 /* of a single block */
#define TILE_STRIDE (TILES_ALONE * BLOCK + 16)
#define U_FLOATS (PLACES * U_STRIDE)
#define V_FLOATS (PLACES * TILE_STRIDE)

_Static_assert(2 * V_FLOATS + U_FLOATS <= PRIVATE_FLOATS, "a tile's scratch");

struct winograd {
    struct culm_cpu *cpu;
    int64_t in, out;     /* channels */
    struct tiled source; /* 6x6 views */
    struct tiled target; /* 4x4 tiles */
    int64_t tiles;       /* of all images */
    struct culm_in x;
    struct culm_out y;
    const float *w, *bias;
    bool turned;           /* w is [in][out][3][3], to be turned */
    int64_t first, blocks; /* of outputs, whose U is in the shared scratch; */
    bool own;              /* or not */
    int64_t block_tiles, task_tiles;
};

WINOGRAD_MICROS(BLOCK, 1)

/* Sixteen outputs of one channel: U at this channel's place in a panel, from nine weights. */
SIMD void filter_store(const float *taps, bool turned, float *to) {
    vec part[6][6];
#pragma GCC unroll 3
    for (int j = 0; j < 3; j++) {
        vec g[3];
#pragma GCC unroll 3
        for (int i = 0; i < 3; i++) {
            int tap = i * 3 + j;
            g[i] = vload(taps + (turned ? 8 - tap : tap) * LANES);
        }
        winograd_column(WINOGRAD_FILTER, g, j, part);
    }
    winograd_rows(WINOGRAD_FILTER, part, to, U_STRIDE);
}

/* U of `ins` channels from channel `in` and up to 16 outputs from `out`, the first at `to`. */
static void filter_sixteen(const struct winograd *w, int64_t in, int64_t ins, int64_t out,
                           float *to) {
    float rows[16 * 144], taps[144 * 16];
    int64_t outs = at_most(16, w->out - out);
    if (w->turned) { /* [in][out][9]: nine taps of 16 outputs lie together */
        memset(rows, 0, sizeof rows);
        for (int64_t i = 0; i < ins; i++, to += WIDTH) {
            memcpy(rows, w->w + ((in + i) * w->out + out) * 9, (size_t)(outs * 9) * sizeof *rows);
            transpose16(rows, 9, taps, 16);
            filter_store(taps, true, to);
        }
        return;
    }
    for (int64_t i = 0; i < ins; i += 16) { /* [out][in][9]: 16 channels at a time */
        int64_t count = at_most(16, ins - i), stride = w->in * 9;
        const float *from = w->w + (out * w->in + in + i) * 9;
        if (count < 16 || outs < 16) {
            memset(rows, 0, sizeof rows);
            for (int64_t o = 0; o < outs; o++) {
                memcpy(rows + o * 144, from + o * stride, (size_t)(count * 9) * sizeof *rows);
            }
            from = rows;
            stride = 144;
        }
        for (int64_t j = 0; j < 144; j += 16) {
            transpose16(from + j, stride, taps + j * 16, 16);
        }
        for (int64_t c = 0; c < count; c++, to += WIDTH) {
            filter_store(taps + c * 9 * 16, false, to);
        }
    }
}

/* Sixteen outputs of a block of weights, at their place in U. */
static void filter_part(const struct winograd *w, int64_t in, int64_t out, int64_t part, float *u) {
    int64_t column = part * LANES;
    if (out + column < w->out) {
        filter_sixteen(w, in, at_most(BLOCK, w->in - in), out + column,
                       u + column / WIDTH * BLOCK * WIDTH + column % WIDTH);
    }
}

#define PARTS (BLOCK / LANES)

static void filter_shared(void *context, int64_t index, int thread) {
    const struct winograd *w = context;
    (void)thread;
    int64_t block = index / PARTS, outs = block % w->blocks, ins = block / w->blocks;
    filter_part(w, ins * BLOCK, (w->first + outs) * BLOCK, index % PARTS,
                cpu_shared(w->cpu) + block * U_FLOATS);
}

/* Writes one tile of y, of outputs out .. out + outs - 1. */
SIMD void output_tile(const struct winograd *w, const float *m, int64_t tile, int64_t out,
                      int64_t outs, bool half) {
    struct tile_place at = tile_at(&w->target, tile);
    int64_t lines = at_most(4, w->target.height - at.y),
            pixels = at_most(4, w->target.width - at.x);
    struct culm_out y = {w->y.data, half ? CULM_BF16 : CULM_F32};
    int64_t first = (at.image * w->target.height + at.y) * w->target.width + at.x;
    for (int64_t o = 0; o < outs; o += LANES) {
        int64_t left = at_most(LANES, outs - o);
        vec part[4][6], bias = w->bias ? load_part(w->bias + out + o, left) : vzero();
        winograd_output_columns(m + o, TILE_STRIDE, part);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            vec r[4];
            winograd_output(part[i], r);
            if (i >= lines) {
                break;
            }
            int64_t to = (first + i * w->target.width) * w->out + out + o;
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
                if (j < pixels) {
                    tstore_part(y, to + j * w->out, vadd(r[j], bias), left);
                }
            }
        }
    }
}

/* A tile of work: blocks of tiles from one to another, of one block of outputs. */
struct work {
    const struct winograd *w;
    float *m, *v, *own;
    int64_t out, outs, block; /* outputs: first, count, which of those in the shared scratch */
    int64_t end;              /* of its tiles */
};

struct step {
    int64_t tile, tiles, in;
};

static struct step step_after(const struct work *k, struct step s) {
    const struct winograd *w = k->w;
    s.in += BLOCK;
    if (s.in >= w->in) {
        s.in = 0;
        s.tile += s.tiles;
        s.tiles = at_most(w->block_tiles, k->end - s.tile);
    }
    return s;
}

static const float *weights_of(const struct work *k, int64_t in) {
    const struct winograd *w = k->w;
    return w->own ? k->own : cpu_shared(w->cpu) + (in / BLOCK * w->blocks + k->block) * U_FLOATS;
}

/* M = or += V U, while the inputs of the next step and the places of the outputs come near. */
static void multiply(const struct work *k, struct step s, struct step next) {
    const struct winograd *w = k->w;
    const float *u = weights_of(k, s.in), *next_u = weights_of(k, next.in);
    int64_t ins = at_most(BLOCK, w->in - s.in), next_ins = at_most(BLOCK, w->in - next.in);
    struct culm_in y = culm_in_of(w->y);
    int64_t panels = ceil_div(k->outs, WIDTH), vectors = ceil_div(k->outs, LANES);
    int64_t calls = panels * ceil_div(s.tiles, ROWS), slice = ceil_div(U_STRIDE, 16 * calls) * 16;
    bool last = s.in + BLOCK >= w->in;
    int64_t line = 0, lines = 4 * at_least(s.tiles, next.tiles); /* of tiles, to be fetched */
    int64_t per_call = ceil_div(lines, calls * PLACES);
    for (int64_t place = 0; place < PLACES; place++) {
        const float *ahead = place + 1 < PLACES ? u + (place + 1) * U_STRIDE : next_u;
        for (int64_t panel = 0; panel < panels; panel++) {
            const float *a = k->v + place * TILE_STRIDE;
            const float *b = u + place * U_STRIDE + panel * BLOCK * WIDTH;
            float *c = k->m + place * TILE_STRIDE + panel * WIDTH;
            int64_t left = s.tiles, nv = at_most(VECTORS, vectors - panel * VECTORS);
            for (const struct winograd_micros *micro = winograd_micros; left > 0; micro++) {
                for (; left >= micro->rows; left -= micro->rows) {
                    for (int64_t i = 0; i < per_call && line < lines; i++, line++) {
                        int64_t tile = line / 4;
                        if (tile < next.tiles) {
                            winograd_fetch(&w->source, w->x, next.tile + tile, line % 4 + 1, 1,
                                           next.in, next_ins, false);
                        }
                        if (last && tile < s.tiles) {
                            winograd_fetch(&w->target, y, s.tile + tile, line % 4, 0, k->out,
                                           k->outs, true);
                        }
                    }
                    micro->run[nv - 1](ins, a, b, c, s.in > 0, ahead);
                    ahead += slice;
                    a += micro->rows * BLOCK;
                    c += micro->rows * BLOCK;
                }
            }
        }
    }
}

static void blocks_of_tiles(void *context, int64_t index, int thread) {
    const struct winograd *w = context;
    struct work k = {.w = w, .m = cpu_private(w->cpu, thread)};
    k.v = k.m + V_FLOATS;
    k.own = k.v + V_FLOATS;
    k.block = index % w->blocks;
    k.out = (w->first + k.block) * BLOCK;
    k.outs = at_most(BLOCK, w->out - k.out);
    struct step s = {.tile = index / w->blocks * w->task_tiles};
    k.end = at_most(w->tiles, s.tile + w->task_tiles);
    s.tiles = at_most(w->block_tiles, k.end - s.tile);
    while (s.tile < k.end) {
        struct step next = step_after(&k, s);
        int64_t ins = at_most(BLOCK, w->in - s.in);
        for (int64_t t = 0; t < s.tiles; t++) {
            if (w->x.dtype == CULM_BF16) {
                winograd_tile(&w->source, w->x.data, true, 6, s.tile + t, s.in, ins,
                              k.v + t * BLOCK, TILE_STRIDE, BLOCK, 0);
            } else {
                winograd_tile(&w->source, w->x.data, false, 6, s.tile + t, s.in, ins,
                              k.v + t * BLOCK, TILE_STRIDE, BLOCK, 0);
            }
        }
        for (int64_t part = 0; w->own && part < PARTS; part++) {
            filter_part(w, s.in, k.out, part, k.own);
        }
        multiply(&k, s, next);
        for (int64_t t = 0; next.tile > s.tile && t < s.tiles; t++) {
            if (w->y.dtype == CULM_BF16) {
                output_tile(w, k.m + t * BLOCK, s.tile + t, k.out, k.outs, true);
            } else {
                output_tile(w, k.m + t * BLOCK, s.tile + t, k.out, k.outs, false);
            }
        }
        s = next;
    }
}

static void run(struct winograd *w) {
    int64_t ins = ceil_div(w->in, BLOCK), outs = ceil_div(w->out, BLOCK);
    w->block_tiles = w->tiles <= TILES_ALONE ? w->tiles : TILES;
    int64_t blocks = ceil_div(w->tiles, w->block_tiles);
    w->own = blocks == 1 || ins * U_FLOATS > SHARED_FLOATS;
    int64_t most = w->own ? outs : at_most(outs, SHARED_FLOATS / (ins * U_FLOATS));
    for (w->first = 0; w->first < outs; w->first += w->blocks) {
        w->blocks = at_most(most, outs - w->first);
        if (!w->own) {
            culm_cpu_run(w->cpu, ins * w->blocks * PARTS, filter_shared, w);
        }
        /* several blocks a task, so that one prepares the next */
        int64_t each = at_least(1, at_most(8, blocks * w->blocks / (8 * w->cpu->threads)));
        w->task_tiles = each * w->block_tiles;
        culm_cpu_run(w->cpu, ceil_div(blocks, each) * w->blocks, blocks_of_tiles, w);
    }
}

void ISA_NAME(winograd_forward)(struct culm_cpu *cpu, const struct culm_conv *v, struct culm_out y,
                                struct culm_in x, const float *w, const float *b) {
    int64_t lines = ceil_div(v->oh, 4), columns = ceil_div(v->ow, 4);
    run(&(struct winograd){.cpu = cpu,
                           .in = v->c,
                           .out = v->o,
                           .source = {v->h, v->w, v->c, lines, columns, {-v->pad[0], -v->pad[1]}},
                           .target = {v->oh, v->ow, v->o, lines, columns, {0, 0}},
                           .tiles = v->n * lines * columns,
                           .x = x,
                           .y = y,
                           .w = w,
                           .bias = b});
}

void ISA_NAME(winograd_backward_data)(struct culm_cpu *cpu, const struct culm_conv *v,
                                      struct culm_out dx, struct culm_in dy, const float *w) {
    int64_t lines = ceil_div(v->h, 4), columns = ceil_div(v->w, 4);
    run(&(struct winograd){
        .cpu = cpu,
        .in = v->o,
        .out = v->c,
        .source = {v->oh, v->ow, v->o, lines, columns, {v->pad[0] - 2, v->pad[1] - 2}},
        .target = {v->h, v->w, v->c, lines, columns, {0, 0}},
        .tiles = v->n * lines * columns,
        .x = dy,
        .y = dx,
        .w = w,
        .turned = true});
}
