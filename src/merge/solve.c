/*
 * Least squares for one layer. See solve.h.
 *
 * For each group of channels, P is [samples, terms] of inputs and T is [samples, outputs] of
 * targets. Solves A W = B with A = P'P + ridge and B = P'T + ridge times the mean of the owners'
 * weights, both summed over owners, by a Cholesky factorization of A in float64.
 */
#include "merge/solve.h"

#include "device/kernels.h"
#include "graph/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The shape of the weights, which all owners have in common. */
struct shape {
    int64_t groups, in, out; /* channels of one group */
    int64_t kh, kw, terms;   /* in * kh * kw */
    bool linear, transposed; /* linear: weights are [out, in], else [in, out] */
};

struct view {
    int64_t n, h, w, c, oh, ow, o; /* a linear layer: n rows, h = w = oh = ow = 1 */
    int64_t stride[2], pad[2], dilation[2];
};

static int64_t or_one(int64_t x) { return x > 0 ? x : 1; }

static struct shape shape_of(const struct culm_solve_owner *owner) {
    const struct culm_attributes *a = &owner->node->attributes;
    const struct culm_shape *w = culm_input_shape(owner->graph, owner->node, 1);
    struct shape s = {.groups = 1, .kh = 1, .kw = 1};
    if (owner->node->op == &culm_op_linear) {
        s.linear = true;
        s.transposed = a->transposed;
        s.in = a->transposed ? w->dim[1] : w->dim[0];
        s.out = a->transposed ? w->dim[0] : w->dim[1];
    } else {
        s.groups = or_one(a->groups);
        s.in = w->dim[1];
        s.out = w->dim[0] / s.groups;
        s.kh = w->dim[2];
        s.kw = w->dim[3];
    }
    s.terms = s.in * s.kh * s.kw;
    return s;
}

static struct view view_of(const struct culm_solve_owner *owner) {
    const struct culm_attributes *a = &owner->node->attributes;
    const struct culm_shape *x = culm_input_shape(owner->graph, owner->node, 0);
    const struct culm_shape *y = &owner->graph->value[owner->node->output[0]].shape;
    if (owner->node->op == &culm_op_linear) {
        return (struct view){.n = culm_row_count(x),
                             .h = 1,
                             .w = 1,
                             .c = culm_last_dim(x),
                             .oh = 1,
                             .ow = 1,
                             .o = culm_last_dim(y),
                             .stride = {1, 1},
                             .dilation = {1, 1}};
    }
    return (struct view){.n = x->dim[0],
                         .h = x->dim[1],
                         .w = x->dim[2],
                         .c = x->dim[3],
                         .oh = y->dim[1],
                         .ow = y->dim[2],
                         .o = y->dim[3],
                         .stride = {or_one(a->stride[0]), or_one(a->stride[1])},
                         .pad = {a->pad[0], a->pad[1]},
                         .dilation = {or_one(a->dilation[0]), or_one(a->dilation[1])}};
}

/* The output position of sample i of `count`, evenly spaced. */
static int64_t place_of(const struct view *v, int64_t i, int64_t count) {
    int64_t all = v->n * v->oh * v->ow;
    return (int64_t)((double)i * (double)all / (double)count);
}

/* The inputs that contribute to output position `at`, for `groups` groups, whose rows are `stride`
 * numbers apart: p[terms] each, as [in, kh, kw]. */
static void gather(const struct shape *s, const struct view *v, const float *x, int64_t group,
                   int64_t groups, int64_t at, float *p, int64_t stride) {
    int64_t ox = at % v->ow, oy = at / v->ow % v->oh, n = at / v->ow / v->oh;
    for (int64_t ky = 0; ky < s->kh; ky++) {
        for (int64_t kx = 0; kx < s->kw; kx++) {
            int64_t iy = oy * v->stride[0] + ky * v->dilation[0] - v->pad[0];
            int64_t ix = ox * v->stride[1] + kx * v->dilation[1] - v->pad[1];
            bool inside = iy >= 0 && iy < v->h && ix >= 0 && ix < v->w;
            const float *from =
                inside ? x + ((n * v->h + iy) * v->w + ix) * v->c + group * s->in : NULL;
            float *to = p + ky * s->kw + kx;
            for (int64_t g = 0; g < groups; g++, to += stride) {
                for (int64_t c = 0; c < s->in; c++) {
                    to[c * s->kh * s->kw] = inside ? from[g * s->in + c] : 0;
                }
            }
        }
    }
}

/* Subtracts the mean of each column; the means go to sum[width]. */
static void center(float *rows, int64_t count, int64_t width, int64_t stride, double *sum) {
    memset(sum, 0, (size_t)width * sizeof *sum);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t k = 0; k < width; k++) {
            sum[k] += rows[i * stride + k];
        }
    }
    for (int64_t k = 0; k < width; k++) {
        sum[k] /= (double)count;
    }
    for (int64_t i = 0; i < count; i++) {
        for (int64_t k = 0; k < width; k++) {
            rows[i * stride + k] -= (float)sum[k];
        }
    }
}

/* Groups solved together, so that what lies side by side in memory is read at once: limits on their
 * number and on their terms in all. */
#define GROUPS_MAX 16
#define TERMS_MAX 256

/* The system of one group. `terms` includes the bias's column of ones, which is last, if there is a
 * bias. p and t hold one owner's samples; those of all groups solved together lie one behind the
 * other, and these are the first. */
struct system {
    int64_t terms, outputs;
    double *a, *b;     /* [terms, terms], [terms, outputs]: sums */
    double *toward;    /* [terms, outputs]: sum of importance times the owner's weights */
    double importance; /* sum */
    float *p, *t, *pp, *pt;
    double *mean;
};

static double weight_of(const struct shape *s, const struct culm_solve_owner *owner, int64_t group,
                        int64_t term, int64_t output) {
    int64_t o = group * s->out + output;
    return s->linear && !s->transposed ? owner->weight[term * s->out + o]
                                       : owner->weight[o * s->terms + term];
}

/* Fills P and T of several groups with an owner's samples; returns how many there are. */
static int64_t collect(struct system *sys, const struct shape *s,
                       const struct culm_solve_owner *owner, int64_t group, int64_t groups,
                       int64_t samples, bool bias) {
    const struct view v = view_of(owner);
    const int64_t all = v.n * v.oh * v.ow, count = all < samples ? all : samples;
    const int64_t terms = sys->terms, outputs = sys->outputs;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = place_of(&v, i, count);
        float *p = sys->p + i * terms;
        gather(s, &v, owner->x, group, groups, at, p, samples * terms);
        for (int64_t g = 0; g < groups; g++) {
            if (bias) {
                p[g * samples * terms + s->terms] = 1;
            }
            memcpy(sys->t + (g * samples + i) * outputs, owner->y + at * v.o + (group + g) * s->out,
                   (size_t)outputs * sizeof *sys->t);
        }
    }
    return count;
}

/* Adds the `count` samples of an owner in P and T to the sums. */
static void add_owner(struct system *sys, const struct shape *s,
                      const struct culm_solve_owner *owner, int64_t group, int64_t count,
                      struct culm_device *device) {
    const int64_t terms = sys->terms, outputs = sys->outputs;
    double scale = owner->importance / (double)count, total = 0;
    double *deviation = sys->mean + (terms > outputs ? terms : outputs);
    if (owner->norm) {
        center(sys->p, count, s->terms, terms, sys->mean);
    }
    /* The deviation of the target, by channel. */
    center(sys->t, count, outputs, outputs, sys->mean);
    for (int64_t o = 0; o < outputs; o++) {
        double sum = 0;
        for (int64_t i = 0; i < count; i++) {
            sum += (double)sys->t[i * outputs + o] * sys->t[i * outputs + o];
        }
        deviation[o] = sqrt(sum / (double)count);
        total += sum / (double)count;
    }
    if (owner->norm) {
        for (int64_t o = 0; o < outputs; o++) {
            float by = deviation[o] > 1e-12 ? (float)(1 / deviation[o]) : 0;
            for (int64_t i = 0; i < count; i++) {
                sys->t[i * outputs + o] *= by;
            }
        }
    } else {
        for (int64_t i = 0; i < count; i++) {
            for (int64_t o = 0; o < outputs; o++) {
                sys->t[i * outputs + o] += (float)sys->mean[o];
            }
        }
        scale /= total / (double)outputs + 1e-12;
    }
    double own = scale * (double)count;
    CULM_RUN(device, gemm, .trans_a = true, .m = terms, .n = terms, .k = count, .a = sys->p,
             .b = sys->p, .lda = terms, .ldb = terms, .c = sys->pp, .ldc = terms);
    CULM_RUN(device, gemm, .trans_a = true, .m = terms, .n = outputs, .k = count, .a = sys->p,
             .b = sys->t, .lda = terms, .ldb = outputs, .c = sys->pt, .ldc = outputs);
    for (int64_t i = 0; i < terms * terms; i++) {
        sys->a[i] += scale * sys->pp[i];
    }
    for (int64_t i = 0; i < terms * outputs; i++) {
        sys->b[i] += scale * sys->pt[i];
    }
    for (int64_t k = 0; k < terms; k++) {
        for (int64_t o = 0; o < outputs; o++) {
            double w = k < s->terms  ? weight_of(s, owner, group, k, o)
                       : owner->bias ? owner->bias[group * s->out + o]
                                     : 0;
            double by = !owner->norm ? 1 : deviation[o] > 1e-12 ? 1 / deviation[o] : 0;
            sys->toward[k * outputs + o] += own * w * by;
        }
    }
    sys->importance += own;
}

/* Cholesky: A = L L' in place, lower triangle. False: A is not positive definite. */
static bool factor(double *a, int64_t n) {
    for (int64_t j = 0; j < n; j++) {
        double *row = a + j * n;
        for (int64_t k = 0; k < j; k++) {
            double sum = row[k];
            const double *other = a + k * n;
            for (int64_t i = 0; i < k; i++) {
                sum -= row[i] * other[i];
            }
            row[k] = sum / other[k];
        }
        double sum = row[j];
        for (int64_t i = 0; i < j; i++) {
            sum -= row[i] * row[i];
        }
        if (!(sum > 0)) {
            return false;
        }
        row[j] = sqrt(sum);
    }
    return true;
}

/* Solves L L' X = B in place; B is [n, columns]. */
static void substitute(const double *l, int64_t n, double *b, int64_t columns) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < i; k++) {
            double by = l[i * n + k];
            for (int64_t c = 0; c < columns; c++) {
                b[i * columns + c] -= by * b[k * columns + c];
            }
        }
        for (int64_t c = 0; c < columns; c++) {
            b[i * columns + c] /= l[i * n + i];
        }
    }
    for (int64_t i = n - 1; i >= 0; i--) {
        for (int64_t k = i + 1; k < n; k++) {
            double by = l[k * n + i];
            for (int64_t c = 0; c < columns; c++) {
                b[i * columns + c] -= by * b[k * columns + c];
            }
        }
        for (int64_t c = 0; c < columns; c++) {
            b[i * columns + c] /= l[i * n + i];
        }
    }
}

/* Solves, and stores the weights; falls back to the mean of the owners' own if A cannot be
 * factored. */
static void finish(struct system *sys, const struct shape *s, int64_t group, double ridge,
                   float *ret_weight, float *ret_bias) {
    int64_t terms = sys->terms, outputs = sys->outputs;
    double trace = 0;
    for (int64_t k = 0; k < s->terms; k++) {
        trace += sys->a[k * terms + k];
    }
    double add = ridge * trace / (double)s->terms + 1e-9 * sys->importance;
    for (int64_t k = 0; k < terms; k++) {
        double own = k < s->terms ? add : 1e-9 * sys->importance;
        sys->a[k * terms + k] += own;
        for (int64_t o = 0; o < outputs; o++) {
            double *mean = &sys->toward[k * outputs + o];
            *mean /= sys->importance;
            sys->b[k * outputs + o] += own * *mean;
        }
    }
    const double *solved = sys->toward;
    if (factor(sys->a, terms)) {
        substitute(sys->a, terms, sys->b, outputs);
        solved = sys->b;
    }
    for (int64_t k = 0; k < terms; k++) {
        for (int64_t o = 0; o < outputs; o++) {
            float value = (float)solved[k * outputs + o];
            int64_t at = group * s->out + o;
            if (k == s->terms) {
                ret_bias[at] = value;
            } else if (s->linear && !s->transposed) {
                ret_weight[k * s->out + at] = value;
            } else {
                ret_weight[at * s->terms + k] = value;
            }
        }
    }
}

/* Splits `all` into the systems of `groups` groups and clears their sums. */
static void clear(const struct system *all, int64_t groups, int64_t samples,
                  struct system *ret_sys) {
    const int64_t squares = all->terms * all->terms, products = all->terms * all->outputs;
    memset(all->a, 0, (size_t)(groups * squares) * sizeof *all->a);
    memset(all->b, 0, (size_t)(groups * products) * sizeof *all->b);
    memset(all->toward, 0, (size_t)(groups * products) * sizeof *all->toward);
    for (int64_t g = 0; g < groups; g++) {
        ret_sys[g] = *all;
        ret_sys[g].a += g * squares;
        ret_sys[g].b += g * products;
        ret_sys[g].toward += g * products;
        ret_sys[g].p += g * samples * all->terms;
        ret_sys[g].t += g * samples * all->outputs;
        ret_sys[g].importance = 0;
    }
}

enum culm_status culm_solve(const struct culm_solve_owner *owners, int32_t count,
                            const struct culm_solve_options *options, struct culm_device *device,
                            float *ret_weight, float *ret_bias, struct culm_error *error) {
    const struct shape s = shape_of(&owners[0]);
    bool norm = true;
    for (int32_t i = 0; i < count; i++) {
        norm = norm && owners[i].norm;
    }
    bool bias = ret_bias && !norm;
    const int64_t terms = s.terms + bias, most = options->samples;
    int64_t together = TERMS_MAX / terms < GROUPS_MAX ? TERMS_MAX / terms : GROUPS_MAX;
    together = together < 1 ? 1 : together < s.groups ? together : s.groups;
    const size_t sums = (size_t)(together * terms * s.out);
    struct system all = {
        .terms = terms,
        .outputs = s.out,
        .a = malloc((size_t)(together * terms * terms) * sizeof *all.a),
        .b = malloc(sums * sizeof *all.b),
        .toward = malloc(sums * sizeof *all.toward),
        .p = malloc((size_t)(together * most * terms) * sizeof *all.p),
        .t = malloc((size_t)(together * most * s.out) * sizeof *all.t),
        .pp = malloc((size_t)(terms * terms) * sizeof *all.pp),
        .pt = malloc((size_t)(terms * s.out) * sizeof *all.pt),
        .mean = malloc((size_t)(terms + 2 * s.out) * sizeof *all.mean), /* means, then deviations */
    };
    enum culm_status status = CULM_OK;
    if (!all.a || !all.b || !all.toward || !all.p || !all.t || !all.pp || !all.pt || !all.mean) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "merging: out of memory for a layer");
    }
    for (int64_t group = 0; group < s.groups && status == CULM_OK; group += together) {
        const int64_t groups = s.groups - group < together ? s.groups - group : together;
        struct system sys[GROUPS_MAX];
        clear(&all, groups, most, sys);
        for (int32_t i = 0; i < count; i++) {
            const int64_t samples = collect(&all, &s, &owners[i], group, groups, most, bias);
            for (int64_t g = 0; g < groups; g++) {
                add_owner(&sys[g], &s, &owners[i], group + g, samples, device);
            }
        }
        for (int64_t g = 0; g < groups; g++) {
            finish(&sys[g], &s, group + g, options->ridge, ret_weight, ret_bias);
        }
    }
    if (status == CULM_OK && ret_bias && norm) { /* the norms subtract it again: any will do */
        memcpy(ret_bias, owners[0].bias, (size_t)(s.groups * s.out) * sizeof *ret_bias);
    }
    free(all.a);
    free(all.b);
    free(all.toward);
    free(all.p);
    free(all.t);
    free(all.pp);
    free(all.pt);
    free(all.mean);
    return status;
}
