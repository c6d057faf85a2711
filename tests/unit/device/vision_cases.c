/* The table of typed operators: element-wise ones and the optimizer. See typed.h. */
#include "typed.h"

#include "tensor/reference_vision.h"

#include <stdio.h>

#define BIT(i) (1u << (i))
#define F32(i) (run->array[i].f32)
#define COUNT(i) (run->array[i].count)

static const int64_t counts[] = {1, 15, 16, 100, 20000};

static const char *describe_count(int variant) {
    static char text[32];
    snprintf(text, sizeof text, "[%lld]", (long long)counts[variant % 5]);
    return text;
}

/* ---- activation: every function at every size ---- */

enum { AX, AY, ADY, ADX };
#define ALPHA 0.1

static enum culm_function function_of(int variant) { return (enum culm_function)(variant / 5); }

static const char *describe_function(int variant) {
    static const char *const names[] = {"none",     "relu", "leaky_relu", "relu6",     "gelu_tanh",
                                        "gelu_erf", "tanh", "sigmoid",    "silu",      "elu",
                                        "exp",      "log",  "sqrt",       "reciprocal"};
    static char text[64];
    snprintf(text, sizeof text, "%s %s", names[function_of(variant)], describe_count(variant));
    return text;
}

static void activation_sizes(struct typed_run *run) {
    enum culm_function function = function_of(run->variant);
    int64_t n = counts[run->variant % 5];
    bool positive = function >= CULM_FUNCTION_LOG;
    float low = positive ? 0.5f : function == CULM_FUNCTION_EXP ? -4 : -9;
    float high = positive ? 3 : function == CULM_FUNCTION_EXP ? 2 : 9;
    typed_declare(run, AX, "x", true, n, low, high);
    typed_declare(run, AY, "y", true, n, -1, 1);
    typed_declare(run, ADY, "dy", true, n, -1, 1);
    typed_declare(run, ADX, "dx", true, n, -1, 1);
}

static int kept(const struct typed_run *run) {
    return culm_function_keeps_output(function_of(run->variant), ALPHA) ? AY : AX;
}
static void activation(struct culm_device *cpu, struct typed_run *run) {
    CULM_RUN(cpu, activation_forward, .y = typed_out(run, AY), .x = typed_in(run, AX),
             .count = COUNT(AX), .function = function_of(run->variant), .alpha = ALPHA);
}
static void activation_ref(struct typed_run *run) {
    culm_ref_activation_forward(F32(AY), F32(AX), COUNT(AX), function_of(run->variant), ALPHA);
}
static void activation_back(struct culm_device *cpu, struct typed_run *run) {
    CULM_RUN(cpu, activation_backward, .dx = typed_out(run, ADX), .dy = typed_in(run, ADY),
             .kept = typed_in(run, kept(run)), .count = COUNT(AX),
             .function = function_of(run->variant), .alpha = ALPHA);
}
static void activation_back_ref(struct typed_run *run) {
    culm_ref_activation_backward(F32(ADX), F32(ADY), F32(kept(run)), COUNT(AX),
                                 function_of(run->variant), ALPHA);
}

static const struct typed_operator activation_operator = {
    "activation",
    14 * 5,
    activation_sizes,
    describe_function,
    {{"forward", activation, activation_ref, BIT(AY), false, 0, NULL},
     {"backward", activation_back, activation_back_ref, BIT(ADX), false, 0, NULL}},
    2e-6,
    .y = AY,
    .dy = ADY,
    .pairs = {{AX, ADX}}};

/* ---- affine and accumulate ---- */

enum { FX, FY, FDY, FDX, FSUM };

static void affine_sizes(struct typed_run *run) {
    int64_t n = counts[run->variant];
    typed_declare(run, FX, "x", true, n, -2, 2);
    typed_declare(run, FY, "y", true, n, -1, 1);
    typed_declare(run, FDY, "dy", true, n, -1, 1);
    typed_declare(run, FDX, "dx", true, n, -1, 1);
    typed_declare(run, FSUM, "sum", false, n, -1, 1);
}
static void affine(struct culm_device *cpu, struct typed_run *run) {
    CULM_RUN(cpu, affine, .y = typed_out(run, FY), .x = typed_in(run, FX), .count = COUNT(FX),
             .scale = 0.7, .shift = -0.3);
}
static void affine_ref(struct typed_run *run) {
    culm_ref_affine(F32(FY), F32(FX), COUNT(FX), 0.7, -0.3);
}
static void affine_back(struct culm_device *cpu, struct typed_run *run) {
    CULM_RUN(cpu, affine, .y = typed_out(run, FDX), .x = typed_in(run, FDY), .count = COUNT(FX),
             .scale = 0.7, .shift = 0);
}
static void affine_back_ref(struct typed_run *run) {
    culm_ref_affine(F32(FDX), F32(FDY), COUNT(FX), 0.7, 0);
}
static void accumulate(struct culm_device *cpu, struct typed_run *run) {
    CULM_RUN(cpu, accumulate, .sum = run->array[FSUM].memory, .x = typed_in(run, FX),
             .count = COUNT(FX));
}
static void accumulate_ref(struct typed_run *run) {
    for (int64_t i = 0; i < COUNT(FX); i++) {
        F32(FSUM)[i] += F32(FX)[i];
    }
}

static const struct typed_operator affine_operator = {
    "affine",
    5,
    affine_sizes,
    describe_count,
    {{"forward", affine, affine_ref, BIT(FY), false, 0, NULL},
     {"backward", affine_back, affine_back_ref, BIT(FDX), false, 0, NULL},
     {"accumulate", accumulate, accumulate_ref, BIT(FSUM), false, 0, NULL}},
    1e-6,
    .y = FY,
    .dy = FDY,
    .pairs = {{FX, FDX}}};

/* ---- SGD: five sizes, with and without momentum, first or not, Nesterov ---- */

enum { SP, SB, SG };

static void sgd_sizes(struct typed_run *run) {
    int64_t n = counts[run->variant % 5];
    typed_declare(run, SP, "p", false, n, -1, 1);
    typed_declare(run, SB, "buffer", false, n, -1, 1);
    typed_declare(run, SG, "g", false, n, -1, 1);
}
static const char *describe_sgd(int variant) {
    static const char *const how[] = {"plain", "momentum, first", "momentum", "nesterov"};
    static char text[64];
    snprintf(text, sizeof text, "%s %s", how[variant / 5], describe_count(variant));
    return text;
}
static struct culm_sgd sgd_of(const struct typed_run *run) {
    int how = run->variant / 5;
    return (struct culm_sgd){.lr = 0.1,
                             .momentum = how ? 0.9 : 0,
                             .dampening = how == 2 ? 0.2 : 0,
                             .weight_decay = how == 1 ? 0 : 0.05,
                             .grad_scale = 0.5,
                             .nesterov = how == 3,
                             .first = how == 1};
}
static void sgd(struct culm_device *cpu, struct typed_run *run) {
    struct culm_sgd hyper = sgd_of(run);
    CULM_RUN(cpu, sgd, .p = run->array[SP].memory,
             .buffer = hyper.momentum != 0 ? run->array[SB].memory : NULL,
             .g = run->array[SG].memory, .count = COUNT(SP), .hyper = &hyper);
}
static void sgd_ref(struct typed_run *run) {
    struct culm_sgd hyper = sgd_of(run);
    culm_ref_sgd(F32(SP), F32(SB), F32(SG), COUNT(SP), &hyper);
}

static const struct typed_operator sgd_operator = {
    .name = "sgd",
    .variants = 20,
    .sizes = sgd_sizes,
    .describe = describe_sgd,
    .kernels = {{"step", sgd, sgd_ref, BIT(SP) | BIT(SB), false, 0, NULL}},
    .tolerance = 1e-6,
    .y = -1};

extern const struct typed_operator typed_batchnorm, typed_maxpool, typed_avgpool, typed_permute,
    typed_pad, typed_place, typed_resize, typed_binary, typed_reduce, typed_softmax, typed_matmul;

const struct typed_operator *const typed_operators[] = {
    &activation_operator, &affine_operator, &sgd_operator,  &typed_batchnorm, &typed_maxpool,
    &typed_avgpool,       &typed_permute,   &typed_pad,     &typed_place,     &typed_resize,
    &typed_binary,        &typed_reduce,    &typed_softmax, &typed_matmul,    NULL};
