/* Typed operators: pooling. */
#include "typed.h"

#include "../astray.h"

#include "tensor/reference_vision.h"

#include <stdio.h>

#define BIT(i) (1u << (i))
#define F32(i) (run->array[i].f32)

enum { X, Y, INDEX, DY, DX };

static const struct culm_window windows[] = {
    {2, 17, {7, 5}, {3, 2}, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, false, false},
    {1, 5, {9, 8}, {5, 4}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, true, false},
    {2, 3, {8, 9}, {4, 5}, {3, 3}, {2, 2}, {0, 1}, {1, 2}, {1, 1}, true, false}, /* ceil */
    {1, 33, {6, 6}, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, false, false},
    {1, 16, {20, 20}, {1, 1}, {20, 20}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, false, false},
    {3, 600, {7, 7}, {1, 1}, {7, 7}, {7, 7}, {0, 0}, {0, 0}, {1, 1}, false, false},
    {1, 7, {9, 10}, {5, 6}, {3, 3}, {1, 1}, {0, 0}, {0, 0}, {2, 2}, false, false}, /* dilated */
};
static const struct culm_window adaptive[] = {
    {.n = 3, .c = 600, .in = {7, 7}, .out = {1, 1}, .adaptive = true},
    {.n = 1, .c = 9, .in = {7, 10}, .out = {3, 4}, .adaptive = true},
    {.n = 2, .c = 17, .in = {3, 2}, .out = {7, 5}, .adaptive = true},
    {.n = 1, .c = 4, .in = {5, 5}, .out = {5, 5}, .adaptive = true},
};
#define WINDOWS 7

/* Means have neither dilation nor, in the last window of ceil mode, one that starts outside. */
static const struct culm_window *mean_of(int variant) {
    return variant < WINDOWS - 1 ? &windows[variant] : &adaptive[variant - (WINDOWS - 1)];
}

static const char *describe_pool(const struct culm_window *p) {
    static char text[128];
    snprintf(text, sizeof text, "[%lld,%lld,%lld,%lld] to %lldx%lld, kernel %lldx%lld%s",
             (long long)p->n, (long long)p->in[0], (long long)p->in[1], (long long)p->c,
             (long long)p->out[0], (long long)p->out[1], (long long)p->kernel[0],
             (long long)p->kernel[1], p->adaptive ? " adaptive" : "");
    return text;
}
static const char *describe_max(int variant) { return describe_pool(&windows[variant]); }
static const char *describe_mean(int variant) { return describe_pool(mean_of(variant)); }

static void sizes(struct typed_run *run, const struct culm_window *p) {
    int64_t x = p->n * p->in[0] * p->in[1] * p->c, y = p->n * p->out[0] * p->out[1] * p->c;
    typed_declare(run, X, "x", true, x, -1, 1);
    typed_declare(run, Y, "y", true, y, -1, 1);
    typed_declare(run, DY, "dy", true, y, -1, 1);
    typed_declare(run, DX, "dx", true, x, -1, 1);
}

/* Whether the windows lie alike seen from both ends. */
static bool same_turned(const struct culm_window *p) {
    bool same = true;
    for (int d = 0; d < 2 && !p->adaptive; d++) {
        int64_t reach = (p->out[d] - 1) * p->stride[d] + (p->kernel[d] - 1) * p->dilation[d];
        same = same && p->pad[d] == p->pad_end[d] && reach == p->in[d] - 1 + 2 * p->pad[d];
    }
    return same;
}
/* Turns images around, and so the terms of each sum. */
static void turn(struct typed_run *run, int i, const struct culm_window *p, const int64_t size[2]) {
    if (run->array[i].name) {
        astray_turned(F32(i), p->n, size[0] * size[1], p->c);
    }
}
static void windows_astray(struct typed_run *run, const struct culm_window *p) {
    int64_t taps = p->kernel[0] * p->kernel[1];
    if (!same_turned(p)) {
        return;
    }
    turn(run, X, p, p->in);
    turn(run, DX, p, p->in);
    turn(run, Y, p, p->out);
    turn(run, DY, p, p->out);
    turn(run, INDEX, p, p->out);
    for (int64_t j = 0; run->array[INDEX].name && j < run->array[INDEX].count; j++) {
        F32(INDEX)[j] = (float)(taps - 1) - F32(INDEX)[j];
    }
}

static void max_sizes(struct typed_run *run) {
    sizes(run, &windows[run->variant]);
    const struct culm_window *p = &windows[run->variant];
    bool narrow = p->kernel[0] * p->kernel[1] <= CULM_POOL_BF16_TAPS;
    typed_declare(run, INDEX, "index", narrow, run->array[Y].count, 0, 1);
}
static void max_forward(struct culm_device *cpu, struct typed_run *run) {
    CULM_RUN(cpu, maxpool_forward, .y = typed_out(run, Y), .index = typed_out(run, INDEX),
             .x = typed_in(run, X), .window = &windows[run->variant]);
}
static void max_forward_ref(struct typed_run *run) {
    culm_ref_maxpool_forward(F32(Y), F32(INDEX), F32(X), &windows[run->variant]);
}
static void max_backward(struct culm_device *cpu, struct typed_run *run) {
    CULM_RUN(cpu, maxpool_backward, .dx = typed_out(run, DX), .dy = typed_in(run, DY),
             .index = typed_in(run, INDEX), .window = &windows[run->variant]);
}
static void max_backward_ref(struct typed_run *run) {
    culm_ref_maxpool_backward(F32(DX), F32(DY), F32(INDEX), &windows[run->variant]);
}

static void max_astray(struct typed_run *run, bool back) {
    (void)back; /* once more turns them back */
    windows_astray(run, &windows[run->variant]);
}

static void mean_sizes(struct typed_run *run) { sizes(run, mean_of(run->variant)); }
static void mean_forward(struct culm_device *cpu, struct typed_run *run) {
    CULM_RUN(cpu, avgpool_forward, .y = typed_out(run, Y), .x = typed_in(run, X),
             .window = mean_of(run->variant));
}
static void mean_forward_ref(struct typed_run *run) {
    culm_ref_avgpool_forward(F32(Y), F32(X), mean_of(run->variant));
}
static void mean_backward(struct culm_device *cpu, struct typed_run *run) {
    CULM_RUN(cpu, avgpool_backward, .dx = typed_out(run, DX), .dy = typed_in(run, DY),
             .window = mean_of(run->variant));
}
static void mean_backward_ref(struct typed_run *run) {
    culm_ref_avgpool_backward(F32(DX), F32(DY), mean_of(run->variant));
}

static void mean_astray(struct typed_run *run, bool back) {
    (void)back;
    windows_astray(run, mean_of(run->variant));
}

const struct typed_operator typed_maxpool = {
    "maxpool",
    WINDOWS,
    max_sizes,
    describe_max,
    {{"forward", max_forward, max_forward_ref, BIT(Y) | BIT(INDEX), false, 0, NULL},
     {"backward", max_backward, max_backward_ref, BIT(DX), false, BIT(DX), max_astray}},
    1e-6,
    .y = Y,
    .dy = DY,
    .pairs = {{X, DX}}};

const struct typed_operator typed_avgpool = {
    "avgpool",
    WINDOWS + 3,
    mean_sizes,
    describe_mean,
    {{"forward", mean_forward, mean_forward_ref, BIT(Y), false, BIT(Y), mean_astray},
     {"backward", mean_backward, mean_backward_ref, BIT(DX), false, BIT(DX), mean_astray}},
    4e-6,
    .y = Y,
    .dy = DY,
    .pairs = {{X, DX}}};
