/*
 * Winograd's F(4x4, 3x3), backward weight. See winograd.h.
 *
 *     dw = G^T [ sum over tiles of (A dy A^T) x (B^T x B) ] G,   x: outer product over channels
 *
 * which is the gradient of the forward algorithm. A tile of work is a block of input channels by a
 * block of outputs by a share of the tiles of all images: its 36 sums stay in the second-level
 * cache while the tiles are transformed and multiplied, BLOCK at a time.
 *
 * Bits: a sum is chains over BLOCK tiles, added in order, within one of `shares` shares, which
 * follow from the geometry; each share is turned into 3x3 weights, and these are added in order.
 */
#include "device/cpu/variant.h"
#include "device/cpu/winograd.h"

#define SHARE_TILES 256 /* at least, of a share */
#define TASKS 16        /* wanted */
#define SUM_STRIDE U_STRIDE

_Static_assert(3 * PLACES * U_STRIDE <= PRIVATE_FLOATS, "a tile's scratch");

struct gradient {
    struct culm_cpu *cpu;
    int64_t in, out, ins, outs; /* channels, and blocks of them */
    struct tiled source, target;
    int64_t tiles, shares;
    struct culm_in x, dy;
    float *dw;
    bool first;
};

typedef void micro(int64_t k, const float *a, const float *b, float *c, bool add);
#define MICRO(mr)                                                                                  \
    static void micro_##mr(int64_t k, const float *a, const float *b, float *c, bool add) {        \
        vec acc[MR][NV];                                                                           \
        chain(acc, mr, 1, BLOCK, k, a, b);                                                         \
        finish(acc, mr, c, BLOCK, NR, add ? ADD : STORE, NULL);                                    \
    }
#if MR == 14
MICRO(14)
MICRO(8)
#else
MICRO(6)
#endif
MICRO(4)
MICRO(2)
MICRO(1)
static const struct {
    int rows;
    micro *run;
} micros[] = {
#if MR == 14
    {14, micro_14},
    {8, micro_8},
#else
    {6, micro_6},
#endif
    {4, micro_4},
    {2, micro_2},
    {1, micro_1}};

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
            for (int j = 0; j < 6; j++)
                s[j] = vload(sums + (i * 6 + j) * SUM_STRIDE + c * BLOCK);
            winograd_gather(s, part[i]);
        }
#pragma GCC unroll 3
        for (int j = 0; j < 3; j++) {
            vec s[6], r[3];
#pragma GCC unroll 6
            for (int i = 0; i < 6; i++)
                s[i] = part[i][j];
            winograd_gather(s, r);
#pragma GCC unroll 3
            for (int i = 0; i < 3; i++)
                vstore(taps + (c * 9 + i * 3 + j) * 16, r[i]);
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

static void share_of_tiles(void *context, int64_t index, int thread) {
    const struct gradient *g = context;
    float *sums = cpu_private(g->cpu, thread);
    float *v = sums + PLACES * U_STRIDE, *u = v + PLACES * U_STRIDE;
    int64_t share = index % g->shares, block = index / g->shares;
    int64_t in = block % g->ins * BLOCK, out = block / g->ins * BLOCK;
    int64_t ins = at_most(BLOCK, g->in - in), outs = at_most(BLOCK, g->out - out);
    int64_t chains = ceil_div(g->tiles, BLOCK), panels = ceil_div(outs, NR);
    int64_t from = chains * share / g->shares * BLOCK;
    int64_t end = at_most(g->tiles, chains * (share + 1) / g->shares * BLOCK);
    for (int64_t tile = from; tile < end; tile += BLOCK) {
        int64_t tiles = at_most(BLOCK, end - tile);
        for (int64_t t = 0; t < tiles; t++) {
            float *b = u + t * NR;
            if (g->x.dtype == CULM_BF16) {
                winograd_tile(&g->source, g->x.data, true, 6, tile + t, in, ins, v + t * BLOCK,
                              U_STRIDE, BLOCK, 0);
                winograd_tile(&g->target, g->dy.data, true, 4, tile + t, out, outs, b, U_STRIDE, NR,
                              BLOCK * NR);
            } else {
                winograd_tile(&g->source, g->x.data, false, 6, tile + t, in, ins, v + t * BLOCK,
                              U_STRIDE, BLOCK, 0);
                winograd_tile(&g->target, g->dy.data, false, 4, tile + t, out, outs, b, U_STRIDE,
                              NR, BLOCK * NR);
            }
        }
        for (int64_t place = 0; place < PLACES; place++)
            for (int64_t panel = 0; panel < panels; panel++) {
                const float *a = v + place * U_STRIDE;
                const float *b = u + place * U_STRIDE + panel * BLOCK * NR;
                float *c = sums + place * SUM_STRIDE + panel * NR;
                int64_t left = ins;
                for (size_t i = 0; left > 0; i++)
                    for (; left >= micros[i].rows; left -= micros[i].rows) {
                        micros[i].run(tiles, a, b, c, tile > from);
                        a += micros[i].rows;
                        c += micros[i].rows * BLOCK;
                    }
            }
    }
    /* one share: into dw itself; else into a copy of its own */
    float *to = g->shares > 1 ? cpu_shared(g->cpu) + share * g->in * g->out * 9 : g->dw;
    for (int64_t o = 0; o < outs; o += 16)
        for (int64_t c = 0; c < ins; c += 16)
            gather(g, sums + c * BLOCK + o, to + ((out + o) * g->in + in + c) * 9,
                   at_most(16, ins - c), at_most(16, outs - o), g->shares > 1 || g->first);
}

static void add_shares(void *context, int64_t index, int thread) {
    const struct gradient *g = context;
    (void)thread;
    int64_t row = g->in * 9;
    for (int64_t i = 0; i < row; i += LANES) {
        int64_t left = at_most(LANES, row - i);
        const float *from = cpu_shared(g->cpu) + index * row + i;
        vec sum = load_part(from, left);
        for (int64_t share = 1; share < g->shares; share++)
            sum = vadd(sum, load_part(from + share * g->out * row, left));
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
    if (g.shares > 1)
        culm_cpu_run(cpu, g.out, add_shares, &g);
}
