/*
 * Images at another size: the nearest pixel, or bilinear between four.
 *
 * Where every output row and column lies is tabulated first. Backward goes over inputs and gathers
 * from the outputs that looked at them, in order: no two threads write one element.
 */
#include "device/cpu/variant.h"

#include <assert.h>

#define TILE 16384 /* elements, about */

struct along {           /* one dimension */
    int64_t *low, *high; /* of each output */
    float *share;        /* of high */
    int64_t *from, *to;  /* outputs [from, to) may look at an input */
};

struct resizing {
    struct culm_resize how;
    struct culm_in in;
    struct culm_out out;
    struct along along[2];
    int64_t rows, tile_rows;
};

static void tabulate_tile(void *context, int64_t d, int thread) {
    struct resizing *s = context;
    struct along *a = &s->along[d];
    (void)thread;
    for (int64_t i = 0; i < s->how.in[d]; i++) {
        a->from[i] = s->how.out[d];
        a->to[i] = 0;
    }
    for (int64_t o = 0; o < s->how.out[d]; o++) {
        a->share[o] = culm_resize_at(&s->how, (int)d, o, &a->low[o], &a->high[o]);
        for (int64_t i = a->low[o]; i <= a->high[o]; i++) {
            a->from[i] = at_most(a->from[i], o);
            a->to[i] = o + 1;
        }
    }
}

static void tabulate(struct culm_cpu *cpu, struct resizing *s) {
    int64_t *at = (int64_t *)cpu_shared(cpu);
    for (int d = 0; d < 2; d++) {
        assert(s->how.in[d] <= CULM_RESIZE_MAX && s->how.out[d] <= CULM_RESIZE_MAX);
        s->along[d] = (struct along){at, at + CULM_RESIZE_MAX, (float *)(at + 4 * CULM_RESIZE_MAX),
                                     at + 2 * CULM_RESIZE_MAX, at + 3 * CULM_RESIZE_MAX};
        at += 5 * CULM_RESIZE_MAX;
    }
    culm_cpu_run(cpu, 2, tabulate_tile, s);
}

static void run(struct culm_cpu *cpu, struct resizing *s, int64_t rows, int64_t row,
                culm_cpu_tile *tile) {
    tabulate(cpu, s);
    s->rows = rows;
    s->tile_rows = at_least(at_least(1, TILE / row), ceil_div(rows, 1 << 20));
    culm_cpu_run(cpu, ceil_div(rows, s->tile_rows), tile, s);
}

static void forward_tile(void *context, int64_t tile, int thread) {
    const struct resizing *s = context;
    const struct culm_resize *how = &s->how;
    const struct along *h = &s->along[0], *w = &s->along[1];
    (void)thread;
    for (int64_t row = tile * s->tile_rows; row < at_most(s->rows, (tile + 1) * s->tile_rows);
         row++) {
        int64_t o = row % how->out[0], image = row / how->out[0] * how->in[0];
        int64_t above = (image + h->low[o]) * how->in[1], below = (image + h->high[o]) * how->in[1];
        vec down = vset(h->share[o]), up = vset(1.0f - h->share[o]);
        for (int64_t i = 0; i < how->out[1]; i++) {
            vec right = vset(w->share[i]), left = vset(1.0f - w->share[i]);
            for (int64_t c = 0; c < how->c; c += LANES) {
                int64_t n = how->c - c;
                vec y = tload_part(s->in, (above + w->low[i]) * how->c + c, n);
                if (how->bilinear) {
                    vec b = tload_part(s->in, (above + w->high[i]) * how->c + c, n);
                    vec d = tload_part(s->in, (below + w->low[i]) * how->c + c, n);
                    vec e = tload_part(s->in, (below + w->high[i]) * how->c + c, n);
                    y = vfma(vfma(e, right, vmul(d, left)), down,
                             vmul(vfma(b, right, vmul(y, left)), up));
                }
                tstore_part(s->out, (row * how->out[1] + i) * how->c + c, y, n);
            }
        }
    }
}

void ISA_NAME(resize_forward)(struct culm_cpu *cpu, const struct culm_resize_forward_args *args) {
    struct resizing s = {.how = *args->how, .in = args->x, .out = args->y};
    run(cpu, &s, args->how->n * args->how->out[0], args->how->out[1] * args->how->c, forward_tile);
}

/* What output o of a dimension takes of input i. */
static float share_of(const struct along *a, int64_t o, int64_t i) {
    float share = a->low[o] == i ? 1.0f - a->share[o] : 0;
    return a->high[o] == i ? share + a->share[o] : share;
}

static void backward_tile(void *context, int64_t tile, int thread) {
    const struct resizing *s = context;
    const struct culm_resize *how = &s->how;
    const struct along *h = &s->along[0], *w = &s->along[1];
    (void)thread;
    for (int64_t row = tile * s->tile_rows; row < at_most(s->rows, (tile + 1) * s->tile_rows);
         row++) {
        int64_t i = row % how->in[0], image = row / how->in[0] * how->out[0];
        for (int64_t j = 0; j < how->in[1]; j++) {
            for (int64_t c = 0; c < how->c; c += LANES) {
                int64_t n = how->c - c;
                vec sum = vzero();
                for (int64_t p = h->from[i]; p < h->to[i]; p++) {
                    float down = share_of(h, p, i);
                    for (int64_t q = w->from[j]; q < w->to[j]; q++) {
                        int64_t from = ((image + p) * how->out[1] + q) * how->c + c;
                        sum = vfma(tload_part(s->in, from, n), vset(down * share_of(w, q, j)), sum);
                    }
                }
                tstore_part(s->out, (row * how->in[1] + j) * how->c + c, sum, n);
            }
        }
    }
}

void ISA_NAME(resize_backward)(struct culm_cpu *cpu, const struct culm_resize_backward_args *args) {
    struct resizing s = {.how = *args->how, .in = args->dy, .out = args->dx};
    run(cpu, &s, args->how->n * args->how->in[0], args->how->in[1] * args->how->c, backward_tile);
}
