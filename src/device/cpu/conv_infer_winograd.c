/*
 * Convolution for inference, 3x3 without steps: Winograd's F(4x4, 3x3) (winograd.h), a quarter of the
 * products.
 *
 * Bits: the transforms are the fixed sequences of winograd.h; an element of M is one chain of fused
 * multiply-adds over the channels from zero; then as in conv_infer.c. Whether a convolution is done so
 * follows from its shape alone, and not from how many images there are.
 *
 *     U[36][C][WIDTH]      transformed weights of a panel of outputs
 *     V[36][tiles][C]      transformed inputs of a block of tiles
 *     M[36][tiles][WIDTH]  their products
 *
 * How it is done: U is made for as many panels as fit in the shared scratch; then each task is a block of
 * tiles. Where all tiles are one block, each task is a panel, and makes its own U. Nothing of it is kept:
 * weights that models share are transformed again, which takes less than what is gained.
 */
#include "device/cpu/conv_infer.h"
#include "device/cpu/winograd.h"

#define PANEL (SIMD_WIDE ? 2 : 1) /* vectors of outputs */
#define PANEL_WIDTH (PANEL * LANES)
#define PIXELS (SIMD_WIDE ? 8 : 4)
#define MOST_TILES 16 /* of a block */
#define MOST_CHANNELS 512
#define OWN_U 256 /* channels of which a panel's U fits beside V and M */

struct winograd {
    const struct infer *s;
    struct tiled source;                /* 6x6 views */
    int64_t tiles, each;                /* in all; of a block */
    int64_t channels;                   /* C in whole vectors */
    int64_t first, panels;              /* panels of this pass */
    int64_t u_floats, u_place, v_place; /* of a panel; from place to place */
    float *u;                           /* shared; NULL: each task makes its own */
};

_Static_assert(PLACES *(OWN_U *PANEL_WIDTH + LANES) + PLACES * (MOST_TILES * OWN_U + LANES) +
                       PLACES * (MOST_TILES * PANEL_WIDTH + LANES) <=
                   PRIVATE_FLOATS,
               "U, V and M of a task");
_Static_assert(PLACES *(MOST_TILES *MOST_CHANNELS + LANES) +
                       PLACES * (MOST_TILES * PANEL_WIDTH + LANES) <=
                   PRIVATE_FLOATS,
               "V and M of a task");

#define M_PLACE (MOST_TILES * PANEL_WIDTH + LANES)

/* --- weights --- */

/* U of one channel and the outputs from `column` on. */
SIMD void filter(const struct infer *s, int64_t c, int64_t column, int64_t left, float *to,
                 int64_t place, const enum simd_lanes lanes) {
    const int64_t o = s->v->o, step = s->v->c * o;
    const float *from = s->a->w + c * o + column;
    vec part[6][6];
#pragma GCC unroll 3
    for (int j = 0; j < 3; j++) {
        vec g[3];
#pragma GCC unroll 3
        for (int i = 0; i < 3; i++) {
            const float *tap = from + (i * 3 + j) * step;
            g[i] = vload_lanes(tap, left, lanes);
        }
        winograd_column(WINOGRAD_FILTER, g, j, part);
    }
    winograd_rows(WINOGRAD_FILTER, part, to, place);
}

/* U of channels c .. end of a panel. */
static void filters(const struct winograd *w, int64_t panel, int64_t c, int64_t end, float *u) {
    const struct infer *s = w->s;
    for (; c < end; c++) {
        for (int64_t n = 0; n < PANEL; n++) {
            int64_t column = (panel * PANEL + n) * LANES, left = s->v->o - column;
            float *to = u + c * PANEL_WIDTH + n * LANES;
            if (left >= LANES) {
                filter(s, c, column, left, to, w->u_place, SIMD_ALL);
            } else if (left > 0) {
                filter(s, c, column, left, to, w->u_place, SIMD_SOME);
            }
        }
    }
}

static void some_filters(void *context, int64_t index, int thread) {
    const struct winograd *w = context;
    int64_t panel = index % w->panels, c = index / w->panels * LANES;
    (void)thread;
    filters(w, w->first + panel, c, at_most(w->s->v->c, c + LANES), w->u + panel * w->u_floats);
}

/* --- inputs --- */

/* V of a tile; row[i] is the pixel at the left of the view's line i, NULL outside of the image; pixels
 * [low, high) of a line are inside. */
SIMD void view_vectors(const struct winograd *w, const float *const row[6], int low, int high,
                       float *to, const bool inside) {
    static const float zeros[LANES];
    const int64_t channels = w->s->v->c;
    for (int64_t c = 0; c < channels; c += LANES) {
        int64_t left = at_most(LANES, channels - c);
        vec part[6][6];
#pragma GCC unroll 6
        for (int j = 0; j < 6; j++) {
            vec d[6];
#pragma GCC unroll 6
            for (int k = 0; k < 6; k++) {
                const float *from =
                    inside || (row[k] && j >= low && j < high) ? row[k] + j * channels + c : zeros;
                d[k] = load_part(from, left);
            }
            winograd_column(WINOGRAD_INPUT, d, j, part);
        }
        winograd_rows(WINOGRAD_INPUT, part, to + c, w->v_place);
    }
}

static void view(const struct winograd *w, int64_t tile, float *to) {
    const struct tiled *t = &w->source;
    struct tile_place at = tile_at(t, tile);
    const float *row[6];
    bool inside = at.x >= 0 && at.x + 6 <= t->width;
    for (int i = 0; i < 6; i++) {
        int64_t y = at.y + i;
        bool there = y >= 0 && y < t->height;
        inside = inside && there;
        row[i] = there ? w->s->a->x + ((at.image * t->height + y) * t->width + at.x) * t->channels
                       : NULL;
    }
    if (inside) {
        view_vectors(w, row, 0, 6, to, true);
    } else {
        view_vectors(w, row, (int)at_least(0, -at.x), (int)at_most(6, t->width - at.x), to, false);
    }
}

/* --- products --- */

SIMD void product(const struct winograd *w, const float *v, const float *u, float *m,
                  const int rows, const int vectors) {
    const int64_t step = w->channels, channels = w->s->v->c;
    vec sum[PIXELS][PANEL];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int n = 0; n < vectors; n++) {
            sum[r][n] = vzero();
        }
    for (int64_t i = 0; i < channels; i++) {
        vec weights[PANEL];
#pragma GCC unroll 2
        for (int n = 0; n < vectors; n++) {
            weights[n] = vload(u + n * LANES);
        }
        u += PANEL_WIDTH;
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            vec x = vset(v[r * step + i]);
#pragma GCC unroll 2
            for (int n = 0; n < vectors; n++) {
                sum[r][n] = vfma(x, weights[n], sum[r][n]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int n = 0; n < vectors; n++) {
            vstore(m + r * PANEL_WIDTH + n * LANES, sum[r][n]);
        }
}

/* All places of a block of tiles, in whole groups: what lies behind the last tile is never looked at. */
SIMD void products(const struct winograd *w, const float *v, const float *u, float *m,
                   int64_t tiles, const int rows, const int vectors) {
    for (int64_t place = 0; place < PLACES; place++) {
        for (int64_t t = 0; t < tiles; t += rows) {
            product(w, v + place * w->v_place + t * w->channels, u + place * w->u_place,
                    m + place * M_PLACE + t * PANEL_WIDTH, rows, vectors);
        }
    }
}

static void multiply(const struct winograd *w, const float *v, const float *u, float *m,
                     int64_t tiles, int64_t vectors) {
    if (vectors == 1) {
        if (tiles > 4) {
            products(w, v, u, m, tiles, PIXELS, 1);
        } else {
            products(w, v, u, m, tiles, 4, 1);
        }
    } else {
        if (tiles > 4) {
            products(w, v, u, m, tiles, PIXELS, PANEL);
        } else {
            products(w, v, u, m, tiles, 4, PANEL);
        }
    }
}

/* --- outputs --- */

/* Sixteen pixels of one vector of outputs. */
SIMD void output(const struct winograd *w, const float *m, int64_t tile, int64_t column,
                 const enum simd_lanes lanes) {
    const struct culm_conv *v = w->s->v;
    int64_t x = tile % w->source.columns, line = tile / w->source.columns;
    int64_t y = line % w->source.lines * 4, image = line / w->source.lines;
    int64_t lines = at_most(4, v->oh - y), pixels = at_most(4, v->ow - 4 * x);
    int64_t at = ((image * v->oh + y) * v->ow + 4 * x) * v->o;
    int64_t left = v->o - column;
    vec part[4][6];
    winograd_output_columns(m, M_PLACE, part);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        vec r[4];
        int64_t to = at + i * v->ow * v->o;
        winograd_output(part[i], r);
        if (i >= lines) {
            break;
        }
        if (pixels == 4) {
            emit_free(w->s, r, 4, to, v->o, column, left, lanes);
            continue;
        }
#pragma GCC unroll 3
        for (int j = 0; j < 3; j++) {
            if (j < pixels) {
                emit_free(w->s, r + j, 1, to + j * v->o, v->o, column, left, lanes);
            }
        }
    }
}

/* --- all --- */

static void some_tiles(void *context, int64_t index, int thread) {
    const struct winograd *w = context;
    bool own = !w->u;
    float *v = cpu_private(w->s->cpu, thread), *m = v + w->v_place * PLACES;
    float *u = own ? m + M_PLACE * PLACES : w->u;
    int64_t tile = own ? 0 : index * w->each, tiles = at_most(w->each, w->tiles - tile);
    int64_t panel = w->first + (own ? index : 0), end = own ? panel + 1 : w->first + w->panels;
    for (int64_t t = 0; t < tiles; t++) {
        view(w, tile + t, v + t * w->channels);
    }
    if (own) {
        filters(w, panel, 0, w->s->v->c, u);
    }
    for (; panel < end; panel++, u += w->u_floats) {
        int64_t column = panel * PANEL_WIDTH;
        int64_t vectors = at_most(PANEL, ceil_div(w->s->v->o - column, LANES));
        multiply(w, v, u, m, tiles, vectors);
        for (int64_t t = 0; t < tiles; t++) {
            for (int64_t n = 0; n < vectors; n++) {
                int64_t at = column + n * LANES;
                const float *from = m + t * PANEL_WIDTH + n * LANES;
                if (w->s->v->o - at >= LANES) {
                    output(w, from, tile + t, at, SIMD_ALL);
                } else {
                    output(w, from, tile + t, at, SIMD_SOME);
                }
            }
        }
    }
}

bool ISA_NAME(conv_infer_by_winograd)(const struct culm_conv *v) {
    return v->groups == 1 && v->kh == 3 && v->kw == 3 && v->stride[0] == 1 && v->stride[1] == 1 &&
           v->dilation[0] == 1 && v->dilation[1] == 1 && v->c >= LANES && v->c <= MOST_CHANNELS &&
           v->o >= LANES && ceil_div(v->oh, 4) * ceil_div(v->ow, 4) >= 4;
}

void ISA_NAME(conv_infer_winograd)(struct culm_cpu *cpu, const struct infer *s, float *shared,
                                   int64_t floats) {
    const struct culm_conv *v = s->v;
    int64_t lines = ceil_div(v->oh, 4), columns = ceil_div(v->ow, 4);
    struct winograd w = {.s = s,
                         .source = {v->h, v->w, v->c, lines, columns, {-v->pad[0], -v->pad[1]}},
                         .tiles = v->n * lines * columns,
                         .each = MOST_TILES,
                         .channels = round_up(v->c, LANES)};
    while (cpu->threads > 1 && w.each > 4 && ceil_div(w.tiles, w.each) < 2 * cpu->threads) {
        w.each /= 2;
    }
    int64_t panels = ceil_div(v->o, PANEL_WIDTH), blocks = ceil_div(w.tiles, w.each);
    w.u_place = v->c * PANEL_WIDTH + LANES;
    w.u_floats = PLACES * w.u_place;
    w.v_place = MOST_TILES * w.channels + LANES;
    if (blocks == 1 && v->c <= OWN_U) {
        w.panels = panels;
        culm_cpu_run(cpu, panels, some_tiles, &w);
        return;
    }
    w.u = shared;
    for (int64_t most = floats / w.u_floats; w.first < panels; w.first += w.panels) {
        w.panels = at_most(most, panels - w.first);
        culm_cpu_run(cpu, w.panels * ceil_div(v->c, LANES), some_filters, &w);
        culm_cpu_run(cpu, blocks, some_tiles, &w);
    }
}
