/* Typed operators: two operands, reductions, softmax, products. */
#include "typed.h"

#include "../astray.h"

#include "tensor/reference_vision.h"

#include <stdio.h>

#define BIT(i) (1u << (i))
#define F32(i) (run->array[i].f32)
#define ADD CULM_FUNCTION_ADD
#define SUB CULM_FUNCTION_SUB
#define MUL CULM_FUNCTION_MUL
#define DIV CULM_FUNCTION_DIV
#define MEAN CULM_FUNCTION_MEAN
#define SUM CULM_FUNCTION_SUM
#define MAX CULM_FUNCTION_MAX

static const struct culm_in nothing = {NULL, CULM_F32};

static int64_t count_of(const struct culm_shape *shape) {
    int64_t count = 1;
    for (int i = 0; i < shape->rank; i++) {
        count *= shape->dim[i];
    }
    return count;
}

static const char *shape_text(const struct culm_shape *shape, int which) {
    static char text[2][64];
    return culm_shape_format(shape, text[which], sizeof text[which]);
}

/* Moves the terms of sums over the dimensions in `axes`. */
static void axes_astray(float *x, const struct culm_shape *shape, int64_t axes, bool back) {
    int64_t outer = 1, inner = count_of(shape);
    for (int i = 0; i < shape->rank; i++) {
        inner /= shape->dim[i];
        if (axes >> i & 1) {
            astray(x, outer, shape->dim[i], inner, back);
        }
        outer *= shape->dim[i];
    }
}

/* ---- binary ---- */

enum { A, B, Y, DY, DA, DB };

static const struct {
    struct culm_shape a, b;
    enum culm_function function;
} pairs[] = {
    {{1, {100}}, {1, {100}}, ADD},
    {{2, {7, 33}}, {1, {33}}, MUL},
    {{2, {7, 33}}, {1, {1}}, DIV},
    {{4, {2, 5, 3, 17}}, {4, {2, 1, 1, 17}}, MUL},
    {{4, {2, 5, 3, 17}}, {3, {5, 1, 1}}, DIV},
    {{3, {4, 9, 20}}, {3, {4, 9, 1}}, SUB},
    {{4, {3, 2, 6, 5}}, {4, {3, 1, 6, 1}}, MUL},
    {{2, {3, 10000}}, {2, {3, 1}}, ADD},
    {{2, {2000, 18}}, {1, {18}}, SUB},
    {{2, {6, 8}}, {2, {6, 8}}, DIV},
};

static const char *describe_pair(int v) {
    static char text[160];
    snprintf(text, sizeof text, "%s and %s, function %d", shape_text(&pairs[v].a, 0),
             shape_text(&pairs[v].b, 1), pairs[v].function);
    return text;
}
static void binary_sizes(struct typed_run *run) {
    int64_t a = count_of(&pairs[run->variant].a), b = count_of(&pairs[run->variant].b);
    typed_declare(run, A, "a", true, a, -1, 1);
    typed_declare(run, B, "b", true, b, 0.5f, 2);
    typed_declare(run, Y, "y", true, a, -1, 1);
    typed_declare(run, DY, "dy", true, a, -1, 1);
    typed_declare(run, DA, "da", true, a, -1, 1);
    typed_declare(run, DB, "db", true, b, -1, 1);
}
static void binary(struct culm_device *cpu, struct typed_run *run) {
    int v = run->variant;
    CULM_RUN(cpu, binary, .y = typed_out(run, Y), .a = typed_in(run, A), .b = typed_in(run, B),
             .a_shape = &pairs[v].a, .b_shape = &pairs[v].b, .function = pairs[v].function);
}
static void binary_ref(struct typed_run *run) {
    int v = run->variant;
    culm_ref_binary(F32(Y), F32(A), F32(B), &pairs[v].a, &pairs[v].b, pairs[v].function);
}
static int64_t axes_of(int v) {
    const struct culm_shape *a = &pairs[v].a, *b = &pairs[v].b;
    int64_t axes = 0;
    for (int i = 0; i < a->rank; i++) {
        int at = i - (a->rank - b->rank);
        axes |= at < 0 || b->dim[at] == 1 ? (int64_t)1 << i : 0;
    }
    return axes;
}
/* Put together as the graph does it. */
static void binary_back(struct culm_device *cpu, struct typed_run *run) {
    int v = run->variant;
    const struct culm_shape *a = &pairs[v].a, *b = &pairs[v].b;
    enum culm_function function = pairs[v].function;
    int64_t axes = axes_of(v);
    bool scales = function == MUL || function == DIV;
    if (scales) {
        CULM_RUN(cpu, binary, .y = typed_out(run, DA), .a = typed_in(run, DY),
                 .b = typed_in(run, B), .a_shape = a, .b_shape = b, .function = function);
    } else {
        CULM_RUN(cpu, affine, .y = typed_out(run, DA), .x = typed_in(run, DY), .count = count_of(a),
                 .scale = 1, .shift = 0);
    }
    struct culm_in factor = function == MUL ? typed_in(run, A) : typed_in(run, Y);
    CULM_RUN(cpu, reduce, .y = typed_out(run, DB), .x = typed_in(run, DY),
             .factor = scales ? factor : nothing, .x_shape = a, .axes = axes, .function = SUM,
             .scale = function == SUB || function == DIV ? -1 : 1);
    if (function == DIV) {
        CULM_RUN(cpu, binary, .y = typed_out(run, DB), .a = typed_in(run, DB),
                 .b = typed_in(run, B), .a_shape = b, .b_shape = b, .function = DIV);
    }
}
static void binary_back_ref(struct typed_run *run) {
    int v = run->variant;
    culm_ref_binary_backward(F32(DA), F32(DB), F32(DY), F32(A), F32(B), &pairs[v].a, &pairs[v].b,
                             pairs[v].function);
}

static void binary_astray(struct typed_run *run, bool back) {
    static const int of_a[] = {A, Y, DY, DA};
    for (int i = 0; i < 4; i++) {
        axes_astray(F32(of_a[i]), &pairs[run->variant].a, axes_of(run->variant), back);
    }
}

const struct typed_operator typed_binary = {
    "binary",
    sizeof pairs / sizeof *pairs,
    binary_sizes,
    describe_pair,
    {{"forward", binary, binary_ref, BIT(Y), false, 0, NULL},
     {"backward", binary_back, binary_back_ref, BIT(DA) | BIT(DB), false, BIT(DB), binary_astray}},
    1e-5,
    .bf16_tolerance = 0.01,
    .y = Y,
    .dy = DY,
    .pairs = {{A, DA}, {B, DB}}};

/* ---- reduce ---- */

enum { X, RY, RDY, DX };

static const struct {
    struct culm_shape x;
    int64_t axes;
    enum culm_function function;
} reductions[] = {
    /* more than one block: of runs of 4096 (RUN), of which the last is short, and of 64 rows of columns */
    {{1, {100}}, 1, SUM},           {{1, {20000}}, 1, MEAN},      {{2, {30, 70}}, 1, SUM},
    {{2, {300, 40}}, 1, MEAN},      {{2, {30, 70}}, 2, MAX},      {{2, {5, 9000}}, 2, SUM},
    {{4, {3, 7, 7, 18}}, 6, MEAN},  {{4, {3, 7, 5, 18}}, 9, SUM}, {{4, {3, 7, 5, 18}}, 5, MAX},
    {{4, {3, 7, 5, 18}}, 10, MEAN}, {{3, {2, 6, 20}}, 0, SUM},    {{3, {2, 1, 20}}, 7, MAX},
    {{3, {70, 9, 3}}, 2, MAX},      {{3, {70, 9, 8}}, 5, SUM},
};

static const char *describe_reduction(int v) {
    static char text[160];
    snprintf(text, sizeof text, "%s axes %lld function %d", shape_text(&reductions[v].x, 0),
             (long long)reductions[v].axes, reductions[v].function);
    return text;
}
static struct culm_shape result_of(int v) {
    struct culm_shape y = reductions[v].x;
    for (int i = 0; i < y.rank; i++) {
        y.dim[i] = reductions[v].axes >> i & 1 ? 1 : y.dim[i];
    }
    return y;
}
static double share_of(int v) {
    const struct culm_shape y = result_of(v);
    double share = (double)count_of(&y) / (double)count_of(&reductions[v].x);
    return reductions[v].function == MEAN ? share : 1;
}
static void reduce_sizes(struct typed_run *run) {
    const struct culm_shape y = result_of(run->variant);
    typed_declare(run, X, "x", true, count_of(&reductions[run->variant].x), -1, 1);
    typed_declare(run, RY, "y", true, count_of(&y), -1, 1);
    typed_declare(run, RDY, "dy", true, count_of(&y), -1, 1);
    typed_declare(run, DX, "dx", true, count_of(&reductions[run->variant].x), -1, 1);
}
static void reduce(struct culm_device *cpu, struct typed_run *run) {
    int v = run->variant;
    CULM_RUN(cpu, reduce, .y = typed_out(run, RY), .x = typed_in(run, X), .factor = nothing,
             .x_shape = &reductions[v].x, .axes = reductions[v].axes,
             .function = reductions[v].function == MAX ? MAX : SUM, .scale = share_of(v));
}
static void reduce_astray(struct typed_run *run, bool back) {
    axes_astray(F32(X), &reductions[run->variant].x, reductions[run->variant].axes, back);
}
static void reduce_ref(struct typed_run *run) {
    int v = run->variant;
    culm_ref_reduce(F32(RY), F32(X), &reductions[v].x, reductions[v].axes, reductions[v].function);
}
static void reduce_back(struct culm_device *cpu, struct typed_run *run) {
    int v = run->variant;
    const struct culm_shape y = result_of(v);
    if (reductions[v].function == MAX) {
        CULM_RUN(cpu, reduce_max_backward, .dx = typed_out(run, DX), .dy = typed_in(run, RDY),
                 .x = typed_in(run, X), .y = typed_in(run, RY), .x_shape = &reductions[v].x,
                 .axes = reductions[v].axes);
    } else {
        CULM_RUN(cpu, spread, .y = typed_out(run, DX), .b = typed_in(run, RDY),
                 .y_shape = &reductions[v].x, .b_shape = &y, .scale = share_of(v));
    }
}
static void reduce_back_ref(struct typed_run *run) {
    int v = run->variant;
    culm_ref_reduce_backward(F32(DX), F32(RDY), F32(X), F32(RY), &reductions[v].x,
                             reductions[v].axes, reductions[v].function);
}

const struct typed_operator typed_reduce = {
    "reduce",
    sizeof reductions / sizeof *reductions,
    reduce_sizes,
    describe_reduction,
    {{"forward", reduce, reduce_ref, BIT(RY), false, BIT(RY), reduce_astray},
     {"backward", reduce_back, reduce_back_ref, BIT(DX), false, 0, NULL}},
    1e-5,
    .same_type = true, /* a maximum must be found again */
    .y = RY,
    .dy = RDY,
    .pairs = {{X, DX}}};

/* ---- softmax ---- */

static const int64_t rows[][2] = {{5, 7}, {300, 16}, {3, 1000}, {40, 65}, {1, 40000}};

static const char *describe_rows(int v) {
    static char text[64];
    snprintf(text, sizeof text, "[%lld,%lld]", (long long)rows[v][0], (long long)rows[v][1]);
    return text;
}
static void softmax_sizes(struct typed_run *run) {
    int64_t count = rows[run->variant][0] * rows[run->variant][1];
    typed_declare(run, X, "x", true, count, -4, 4);
    typed_declare(run, RY, "y", true, count, -1, 1);
    typed_declare(run, RDY, "dy", true, count, -1, 1);
    typed_declare(run, DX, "dx", true, count, -1, 1);
}
#define ROWS rows[run->variant][0], rows[run->variant][1]
static void softmax(struct culm_device *cpu, struct typed_run *run) {
    CULM_RUN(cpu, softmax_forward, .y = typed_out(run, RY), .x = typed_in(run, X),
             .n = rows[run->variant][0], .c = rows[run->variant][1]);
}
static void softmax_ref(struct typed_run *run) { culm_ref_softmax_forward(F32(RY), F32(X), ROWS); }
static void softmax_back(struct culm_device *cpu, struct typed_run *run) {
    CULM_RUN(cpu, softmax_backward, .dx = typed_out(run, DX), .dy = typed_in(run, RDY),
             .y = typed_in(run, RY), .n = rows[run->variant][0], .c = rows[run->variant][1]);
}
static void softmax_back_ref(struct typed_run *run) {
    culm_ref_softmax_backward(F32(DX), F32(RDY), F32(RY), ROWS);
}

static void softmax_astray(struct typed_run *run, bool back) {
    static const int all[] = {X, RY, RDY, DX};
    for (int i = 0; i < 4; i++) {
        astray(F32(all[i]), rows[run->variant][0], rows[run->variant][1], 1, back);
    }
}

const struct typed_operator typed_softmax = {
    "softmax",
    sizeof rows / sizeof *rows,
    softmax_sizes,
    describe_rows,
    {{"forward", softmax, softmax_ref, BIT(RY), false, BIT(RY), softmax_astray},
     {"backward", softmax_back, softmax_back_ref, BIT(DX), false, BIT(DX), softmax_astray}},
    5e-6,
    .y = RY,
    .dy = RDY,
    .pairs = {{X, DX}}};

/* ---- matmul: all four ways ---- */

static const struct culm_matmul products[] = {
    {1, 5, 7, 9, false, false, 1},      {3, 17, 33, 20, false, false, 0.5},
    {3, 17, 33, 20, false, true, 0.25}, {2, 30, 18, 40, true, false, 1},
    {2, 16, 16, 300, true, true, 2},    {4, 1, 50, 3, false, true, 1},
    {2, 4, 5, 6, true, false, 0.3},     {2, 4, 5, 6, true, true, 1},
    {2, 4, 5, 6, false, true, 1},       {2, 4, 5, 6, false, false, 3},
};

static const char *describe_product(int v) {
    static char text[96];
    snprintf(text, sizeof text, "%lld of %lldx%lldx%lld%s%s", (long long)products[v].batch,
             (long long)products[v].m, (long long)products[v].n, (long long)products[v].k,
             products[v].trans_a ? " a^T" : "", products[v].trans_b ? " b^T" : "");
    return text;
}
static void matmul_sizes(struct typed_run *run) {
    const struct culm_matmul *p = &products[run->variant];
    int64_t a = p->batch * p->m * p->k, b = p->batch * p->k * p->n, y = p->batch * p->m * p->n;
    typed_declare(run, A, "a", true, a, -1, 1);
    typed_declare(run, B, "b", true, b, -1, 1);
    typed_declare(run, Y, "y", true, y, -1, 1);
    typed_declare(run, DY, "dy", true, y, -1, 1);
    typed_declare(run, DA, "da", true, a, -1, 1);
    typed_declare(run, DB, "db", true, b, -1, 1);
}
static void matmul(struct culm_device *cpu, struct typed_run *run) {
    CULM_RUN(cpu, matmul, .c = typed_out(run, Y), .a = typed_in(run, A), .b = typed_in(run, B),
             .how = &products[run->variant]);
}
static void matmul_ref(struct typed_run *run) {
    culm_ref_matmul(F32(Y), F32(A), F32(B), &products[run->variant]);
}
static void matmul_back(struct culm_device *cpu, struct typed_run *run) {
    struct culm_matmul da = culm_matmul_of_a(&products[run->variant]);
    struct culm_matmul db = culm_matmul_of_b(&products[run->variant]);
    bool ta = products[run->variant].trans_a, tb = products[run->variant].trans_b;
    CULM_RUN(cpu, matmul, .c = typed_out(run, DA), .a = typed_in(run, ta ? B : DY),
             .b = typed_in(run, ta ? DY : B), .how = &da);
    CULM_RUN(cpu, matmul, .c = typed_out(run, DB), .a = typed_in(run, tb ? DY : A),
             .b = typed_in(run, tb ? A : DY), .how = &db);
}
static void matmul_back_ref(struct typed_run *run) {
    struct culm_matmul da = culm_matmul_of_a(&products[run->variant]);
    struct culm_matmul db = culm_matmul_of_b(&products[run->variant]);
    bool ta = products[run->variant].trans_a, tb = products[run->variant].trans_b;
    culm_ref_matmul(F32(DA), F32(ta ? B : DY), F32(ta ? DY : B), &da);
    culm_ref_matmul(F32(DB), F32(tb ? DY : A), F32(tb ? A : DY), &db);
}

/* Each product sums over a dimension that the others keep. */
static void matmul_astray(struct typed_run *run, bool back) {
    static const int of[2][3] = {{A, B, Y}, {DA, DB, DY}};
    const struct culm_matmul *p = &products[run->variant];
    int64_t outer = p->batch;
    for (int d = 0; d < 2; d++) {
        float *a = F32(of[d][0]), *b = F32(of[d][1]), *y = F32(of[d][2]);
        astray(a, p->trans_a ? outer : outer * p->m, p->k, p->trans_a ? p->m : 1, back);
        astray(a, p->trans_a ? outer * p->k : outer, p->m, p->trans_a ? 1 : p->k, back);
        astray(b, p->trans_b ? outer * p->n : outer, p->k, p->trans_b ? 1 : p->n, back);
        astray(b, p->trans_b ? outer : outer * p->k, p->n, p->trans_b ? p->k : 1, back);
        astray(y, outer, p->m, p->n, back);
        astray(y, outer * p->m, p->n, 1, back);
    }
}

const struct typed_operator typed_matmul = {
    "matmul",
    sizeof products / sizeof *products,
    matmul_sizes,
    describe_product,
    {{"forward", matmul, matmul_ref, BIT(Y), false, BIT(Y), matmul_astray},
     {"backward", matmul_back, matmul_back_ref, BIT(DA) | BIT(DB), false, BIT(DA) | BIT(DB),
      matmul_astray}},
    2e-6,
    .bf16_tolerance = 0.01,
    .same_type = true,
    .y = Y,
    .dy = DY,
    .pairs = {{A, DA}, {B, DB}}};
