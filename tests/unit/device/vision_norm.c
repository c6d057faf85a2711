/* Typed operators: batch norm. */
#include "typed.h"

#include "../astray.h"

#include "tensor/reference_vision.h"

#include <stdio.h>

#define BIT(i) (1u << (i))
#define F32(i) (run->array[i].f32)
#define DATA(i) (run->array[i].memory)

enum { X, G, B, RES, MEAN, VAR, Y, DY, DX, DRES, DG, DB, SM, SV };

static const struct {
    int64_t n, c;
    enum culm_function function;
    bool residual, inference;
    float offset; /* of x: variance must survive a large mean */
} shapes[] = {{37, 5, CULM_FUNCTION_NONE, false, false, 0},
              {9, 16, CULM_FUNCTION_RELU, false, false, 0},
              {700, 40, CULM_FUNCTION_RELU, true, false, 0},
              {300, 64, CULM_FUNCTION_RELU, false, false, 300},
              {129, 16, CULM_FUNCTION_RELU6, true, false, 0},
              {17, 33, CULM_FUNCTION_LEAKY_RELU, true, false, 0},
              {8, 16, CULM_FUNCTION_RELU, true, false, 0},
              {65, 33, CULM_FUNCTION_LEAKY_RELU, false, false, 0},
              {300, 17, CULM_FUNCTION_NONE, true, false, 0},
              {90, 48, CULM_FUNCTION_RELU, false, true, 0},
              {90, 48, CULM_FUNCTION_RELU6, true, true, 0},
              {601, 8, CULM_FUNCTION_LEAKY_RELU, false, true, 0},
              {300, 24, CULM_FUNCTION_LEAKY_RELU, false, false, 0},
              {259, 56, CULM_FUNCTION_NONE, false, true, 0},
              {70, 96, CULM_FUNCTION_LEAKY_RELU, false, true, 0},
              {70, 100, CULM_FUNCTION_RELU, false, true, 0}};

static struct culm_batchnorm how_of(const struct typed_run *run) {
    return (struct culm_batchnorm){.n = shapes[run->variant].n,
                                   .c = shapes[run->variant].c,
                                   .eps = 1e-5,
                                   .function = shapes[run->variant].function,
                                   .alpha = 0.2,
                                   .inference = shapes[run->variant].inference};
}

static void sizes(struct typed_run *run) {
    int64_t n = shapes[run->variant].n, c = shapes[run->variant].c;
    float offset = shapes[run->variant].offset;
    typed_declare(run, X, "x", true, n * c, offset - 2, offset + 2);
    typed_declare(run, G, "gamma", false, c, 0.5f, 1.5f);
    typed_declare(run, B, "beta", false, c, -1, 1);
    if (shapes[run->variant].residual) {
        typed_declare(run, RES, "residual", true, n * c, -1, 1);
        typed_declare(run, DRES, "dresidual", true, n * c, -1, 1);
    }
    typed_declare(run, MEAN, "mean", false, c, -0.3f, 0.3f);
    typed_declare(run, VAR, "variance", false, c, 0.5f, 2);
    typed_declare(run, Y, "y", true, n * c, -1, 1);
    typed_declare(run, DY, "dy", true, n * c, -1, 1);
    typed_declare(run, DX, "dx", true, n * c, -1, 1);
    typed_declare(run, DG, "dgamma", false, c, -1, 1);
    typed_declare(run, DB, "dbeta", false, c, -1, 1);
    typed_declare(run, SM, "sum_mean", false, c, -1, 1);
    typed_declare(run, SV, "sum_variance", false, c, -1, 1);
}

static const char *describe(int variant) {
    static char text[64];
    snprintf(text, sizeof text, "[%lld,%lld] function %d%s%s", (long long)shapes[variant].n,
             (long long)shapes[variant].c, shapes[variant].function,
             shapes[variant].residual ? " residual" : "",
             shapes[variant].inference ? " inference" : "");
    return text;
}

static void forward(struct culm_device *cpu, struct typed_run *run) {
    struct culm_batchnorm how = how_of(run);
    CULM_RUN(cpu, batchnorm_forward, .y = typed_out(run, Y), .mean = DATA(MEAN),
             .variance = DATA(VAR), .x = typed_in(run, X), .gamma = DATA(G), .beta = DATA(B),
             .residual = typed_in(run, RES), .how = &how);
}
static void forward_ref(struct typed_run *run) {
    struct culm_batchnorm how = how_of(run);
    culm_ref_batchnorm_forward(F32(Y), F32(MEAN), F32(VAR), F32(X), F32(G), F32(B), F32(RES), &how);
}
static bool looks_at_y(const struct typed_run *run) {
    return shapes[run->variant].residual && shapes[run->variant].function != CULM_FUNCTION_NONE;
}
static void backward(struct culm_device *cpu, struct typed_run *run) {
    struct culm_batchnorm how = how_of(run);
    struct culm_in y = looks_at_y(run) ? typed_in(run, Y) : (struct culm_in){NULL, CULM_F32};
    CULM_RUN(cpu, batchnorm_backward, .dx = typed_out(run, DX), .dresidual = typed_out(run, DRES),
             .dgamma = DATA(DG), .dbeta = DATA(DB), .sum_mean = DATA(SM), .sum_variance = DATA(SV),
             .dy = typed_in(run, DY), .x = typed_in(run, X), .y = y, .gamma = DATA(G),
             .beta = DATA(B), .mean = DATA(MEAN), .variance = DATA(VAR), .how = &how,
             .first = run->first);
}
static void backward_ref(struct typed_run *run) {
    struct culm_batchnorm how = how_of(run);
    culm_ref_batchnorm_backward(F32(DX), F32(DRES), F32(DG), F32(DB), F32(SM), F32(SV), F32(DY),
                                F32(X), looks_at_y(run) ? F32(Y) : NULL, F32(G), F32(B), F32(MEAN),
                                F32(VAR), &how, run->first);
}

/* Rows. */
static void rows_astray(struct typed_run *run, bool back) {
    static const int rows[] = {X, RES, Y, DY, DX, DRES};
    for (int i = 0; i < 6; i++) {
        if (run->array[rows[i]].name) {
            astray(F32(rows[i]), 1, shapes[run->variant].n, shapes[run->variant].c, back);
        }
    }
}

const struct typed_operator typed_batchnorm = {
    "batchnorm",
    sizeof shapes / sizeof *shapes,
    sizes,
    describe,
    {{"forward", forward, forward_ref, BIT(Y) | BIT(MEAN) | BIT(VAR), false,
      BIT(Y) | BIT(MEAN) | BIT(VAR), rows_astray},
     {"backward", backward, backward_ref,
      BIT(DX) | BIT(DRES) | BIT(DG) | BIT(DB) | BIT(SM) | BIT(SV), true,
      BIT(DX) | BIT(DG) | BIT(DB), rows_astray}},
    2e-5,
    .y = Y,
    .dy = DY,
    .pairs = {{X, DX}, {G, DG}, {B, DB}, {RES, DRES}}};
