/*
 * Winograd's F(4x4, 3x3), backward weight. See winograd.h.
 *
 *     dw = G^T [ sum over tiles of (A dy A^T) x (B^T x B) ] G,   x: outer product over channels
 *
 * which is the gradient of the forward algorithm. A tile of work is a block of input channels by a
 * block of outputs by a share of the tiles of all images: its 36 sums stay in the second-level
 * cache while the tiles are transformed and multiplied, CHAIN at a time.
 *
 * Bits: a sum is chains over CHAIN tiles, added in order, within one of `shares` shares, which
 * follow from the geometry; each share is turned into 3x3 weights, and these are added in order.
 */
#include "device/cpu/variant.h"
#include "device/cpu/winograd.h"

#define SHARE_TILES 256 /* at least, of a share */
#define TASKS 16        /* wanted */
#define CHAIN 32        /* tiles, of a chain */
#define CHAIN_STRIDE (CHAIN * BLOCK + 16)
#define SUM_STRIDE U_STRIDE

_Static_assert(PLACES *(SUM_STRIDE + 2 * CHAIN_STRIDE) <= PRIVATE_FLOATS, "a tile's scratch");

struct gradient {
    struct culm_cpu *cpu;
    int64_t in, out, ins, outs; /* channels, and blocks of them */
    struct tiled source, target;
    int64_t tiles, shares;
    struct culm_in x, dy;
    float *dw;
    bool first;
};

WINOGRAD_MICROS(1, BLOCK)

/* dw [out][in][9] of up to 16 x 16 channels from sums[place][in][out]. */
static void gather(const struct gradient *g, const float *sums, float *dw, int64_t ins,
                   int64_t outs, bool first) {
    float taps[144 * 16], rows[16 * 16];
    memset(taps, 0, sizeof taps);
    for (int64_t c = 0; c < ins; c++) {
        vec part[6][3];
#pragma GCC unroll 6
        for (int i = 0; i < 6; i++) {
            vec s[6];
#pragma GCC unroll 6
            for (int j = 0; j < 6; j++) {
                s[j] = vload(sums + (i * 6 + j) * SUM_STRIDE + c * BLOCK);
            }
            winograd_gather(s, part[i]);
        }
#pragma GCC unroll 3
        for (int j = 0; j < 3; j++) {
            vec s[6], r[3];
#pragma GCC unroll 6
            for (int i = 0; i < 6; i++) {
                s[i] = part[i][j];
            }
            winograd_gather(s, r);
#pragma GCC unroll 3
            for (int i = 0; i < 3; i++) {
                vstore(taps + (c * 9 + i * 3 + j) * 16, r[i]);
            }
        }
    }
    for (int64_t j = 0; j < ins * 9; j += 16) {
        int64_t count = at_most(16, ins * 9 - j);
        transpose16(taps + j * 16, 16, rows, 16);
        for (int64_t o = 0; o < outs; o++) {
            float *to = dw + o * g->in * 9 + j;
            vec r = vload(rows + o * 16);
            store_part(to, first ? r : vadd(load_part(to, count), r), count);
        }
    }
}

/* A tile of work: a share of the tiles, for a block of channels by a block of outputs. */
struct work {
    const struct gradient *g;
    float *sums, *v, *u;
    int64_t in, ins, out, outs;
    int64_t end; /* of its tiles */
};

/* sums = or += V^T U of `tiles` tiles, while the inputs of the next ones come near. */
static void multiply(const struct work *k, int64_t tile, int64_t tiles, bool add) {
    const struct gradient *g = k->g;
    int64_t panels = ceil_div(k->outs, WIDTH), vectors = ceil_div(k->outs, LANES);
    int64_t calls = panels * ceil_div(k->ins, ROWS) * PLACES;
    int64_t next = tile + tiles, lines = 4 * at_most(tiles, k->end - next);
    int64_t line = 0, per_call = ceil_div(lines, calls);
    for (int64_t place = 0; place < PLACES; place++) {
        /* of the next place */
        const float *near[2] = {k->u + (place + 1) * CHAIN_STRIDE,
                                k->v + (place + 1) * CHAIN_STRIDE};
        int64_t slice = 0, slices = ceil_div(CHAIN * BLOCK, 16 * tiles);
        for (int64_t panel = 0; panel < panels; panel++) {
            const float *a = k->v + place * CHAIN_STRIDE;
            const float *b = k->u + place * CHAIN_STRIDE + panel * CHAIN * WIDTH;
            float *c = k->sums + place * SUM_STRIDE + panel * WIDTH;
            int64_t left = k->ins, nv = at_most(VECTORS, vectors - panel * VECTORS);
            for (const struct winograd_micros *micro = winograd_micros; left > 0; micro++) {
                for (; left >= micro->rows; left -= micro->rows, slice++) {
                    for (int64_t i = 0; i < per_call && line < lines; i++, line++) {
                        winograd_fetch(&g->source, g->x, next + line / 4, line % 4 + 1, 1, k->in,
                                       k->ins, false);
                        winograd_fetch(&g->target, g->dy, next + line / 4, line % 4, 0, k->out,
                                       k->outs, false);
                    }
                    const float *ahead =
                        slice < 2 * slices ? near[slice / slices] + slice % slices * 16 * tiles : b;
                    micro->run[nv - 1](tiles, a, b, c, add, ahead);
                    a += micro->rows;
                    c += micro->rows * BLOCK;
                }
            }
        }
    }
}

static void share_of_tiles(void *context, int64_t index, int thread) {
    const struct gradient *g = context;
    struct work k = {.g = g, .sums = cpu_private(g->cpu, thread)};
    k.v = k.sums + PLACES * SUM_STRIDE;
    k.u = k.v + PLACES * CHAIN_STRIDE;
    int64_t share = index % g->shares, block = index / g->shares;
    k.in = block % g->ins * BLOCK, k.out = block / g->ins * BLOCK;
    k.ins = at_most(BLOCK, g->in - k.in), k.outs = at_most(BLOCK, g->out - k.out);
    int64_t chains = ceil_div(g->tiles, CHAIN);
    int64_t from = chains * share / g->shares * CHAIN;
    k.end = at_most(g->tiles, chains * (share + 1) / g->shares * CHAIN);
    for (int64_t tile = from; tile < k.end; tile += CHAIN) {
        int64_t tiles = at_most(CHAIN, k.end - tile);
        for (int64_t t = 0; t < tiles; t++) {
            float *b = k.u + t * WIDTH;
            if (g->x.dtype == CULM_BF16) {
                winograd_tile(&g->source, g->x.data, true, 6, tile + t, k.in, k.ins,
                              k.v + t * BLOCK, CHAIN_STRIDE, BLOCK, 0);
                winograd_tile(&g->target, g->dy.data, true, 4, tile + t, k.out, k.outs, b,
                              CHAIN_STRIDE, WIDTH, CHAIN * WIDTH);
            } else {
                winograd_tile(&g->source, g->x.data, false, 6, tile + t, k.in, k.ins,
                              k.v + t * BLOCK, CHAIN_STRIDE, BLOCK, 0);
                winograd_tile(&g->target, g->dy.data, false, 4, tile + t, k.out, k.outs, b,
                              CHAIN_STRIDE, WIDTH, CHAIN * WIDTH);
            }
        }
        multiply(&k, tile, tiles, tile > from);
    }
    /* one share: into dw itself; else into a copy of its own */
    float *to = g->shares > 1 ? cpu_shared(g->cpu) + share * g->in * g->out * 9 : g->dw;
    for (int64_t o = 0; o < k.outs; o += 16) {
        for (int64_t c = 0; c < k.ins; c += 16) {
            gather(g, k.sums + c * BLOCK + o, to + ((k.out + o) * g->in + k.in + c) * 9,
                   at_most(16, k.ins - c), at_most(16, k.outs - o), g->shares > 1 || g->first);
        }
    }
}

static void add_shares(void *context, int64_t index, int thread) {
    const struct gradient *g = context;
    (void)thread;
    int64_t row = g->in * 9;
    for (int64_t i = 0; i < row; i += LANES) {
        int64_t left = at_most(LANES, row - i);
        const float *from = cpu_shared(g->cpu) + index * row + i;
        vec sum = load_part(from, left);
        for (int64_t share = 1; share < g->shares; share++) {
            sum = vadd(sum, load_part(from + share * g->out * row, left));
        }
        float *to = g->dw + index * row + i;
        store_part(to, g->first ? sum : vadd(load_part(to, left), sum), left);
    }
}

void ISA_NAME(winograd_backward_weight)(struct culm_cpu *cpu, const struct culm_conv *v, float *dw,
                                        struct culm_in x, struct culm_in dy, bool first) {
    int64_t lines = ceil_div(v->oh, 4), columns = ceil_div(v->ow, 4);
    struct gradient g = {.cpu = cpu,
                         .in = v->c,
                         .out = v->o,
                         .ins = ceil_div(v->c, BLOCK),
                         .outs = ceil_div(v->o, BLOCK),
                         .source = {v->h, v->w, v->c, lines, columns, {-v->pad[0], -v->pad[1]}},
                         .target = {v->oh, v->ow, v->o, lines, columns, {0, 0}},
                         .tiles = v->n * lines * columns,
                         .x = x,
                         .dy = dy,
                         .dw = dw,
                         .first = first};
    g.shares = at_most(ceil_div(TASKS, g.ins * g.outs), g.tiles / SHARE_TILES);
    g.shares = at_least(1, at_most(g.shares, SHARED_FLOATS / (g.in * g.out * 9)));
    culm_cpu_run(cpu, g.ins * g.outs * g.shares, share_of_tiles, &g);
    if (g.shares > 1) {
        culm_cpu_run(cpu, g.out, add_shares, &g);
    }
}
ALIKE(winograd_backward_weight);
