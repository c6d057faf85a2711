/* Typed operators: moving elements, and images at another size. */
#include "typed.h"

#include "../astray.h"

#include "tensor/reference_vision.h"

#include <stdio.h>

#define BIT(i) (1u << (i))
#define F32(i) (run->array[i].f32)

enum { X, Y, DY, DX };

static void declare(struct typed_run *run, int64_t x, int64_t y) {
    typed_declare(run, X, "x", true, x, -1, 1);
    typed_declare(run, Y, "y", true, y, -1, 1);
    typed_declare(run, DY, "dy", true, y, -1, 1);
    typed_declare(run, DX, "dx", true, x, -1, 1);
}

/* ---- permute ---- */

static const struct {
    struct culm_shape shape;
    int64_t order[CULM_MAX_RANK], inverse[CULM_MAX_RANK];
} permutations[] = {
    {{2, {33, 50}}, {1, 0}, {1, 0}},
    {{2, {1, 7}}, {1, 0}, {1, 0}},
    {{1, {7}}, {0}, {0}},
    {{3, {4, 5, 6}}, {0, 1, 2}, {0, 1, 2}},
    {{3, {4, 21, 17}}, {2, 0, 1}, {1, 2, 0}},
    {{4, {2, 3, 20, 18}}, {0, 2, 3, 1}, {0, 3, 1, 2}},
    {{4, {2, 20, 18, 3}}, {0, 3, 1, 2}, {0, 2, 3, 1}},
    {{4, {2, 9, 4, 32}}, {0, 2, 1, 3}, {0, 2, 1, 3}},
    {{4, {3, 5, 2, 70}}, {3, 2, 1, 0}, {3, 2, 1, 0}},
    {{4, {2, 64, 3, 48}}, {1, 3, 0, 2}, {2, 0, 3, 1}},
};

static int64_t permutation_count(int variant) {
    int64_t count;
    culm_shape_count(&permutations[variant].shape, &count, NULL);
    return count;
}
static const char *describe_permutation(int variant) {
    static char text[128], shape[64];
    snprintf(text, sizeof text, "%s from %lld",
             culm_shape_format(&permutations[variant].shape, shape, sizeof shape),
             (long long)permutations[variant].order[0]);
    return text;
}
static void permute_sizes(struct typed_run *run) {
    declare(run, permutation_count(run->variant), permutation_count(run->variant));
}
static struct culm_shape permuted(int variant) {
    struct culm_shape y = permutations[variant].shape;
    for (int i = 0; i < y.rank; i++) {
        y.dim[i] = permutations[variant].shape.dim[permutations[variant].order[i]];
    }
    return y;
}
static void permute(struct culm_device *cpu, struct typed_run *run) {
    CULM_RUN(cpu, permute, .y = typed_out(run, Y), .x = typed_in(run, X),
             .x_shape = &permutations[run->variant].shape,
             .order = permutations[run->variant].order);
}
static void permute_ref(struct typed_run *run) {
    culm_ref_permute(F32(Y), F32(X), &permutations[run->variant].shape,
                     permutations[run->variant].order);
}
static void permute_back(struct culm_device *cpu, struct typed_run *run) {
    const struct culm_shape y = permuted(run->variant);
    CULM_RUN(cpu, permute, .y = typed_out(run, DX), .x = typed_in(run, DY), .x_shape = &y,
             .order = permutations[run->variant].inverse);
}
static void permute_back_ref(struct typed_run *run) {
    const struct culm_shape y = permuted(run->variant);
    culm_ref_permute(F32(DX), F32(DY), &y, permutations[run->variant].inverse);
}

const struct typed_operator typed_permute = {
    "permute",
    sizeof permutations / sizeof *permutations,
    permute_sizes,
    describe_permutation,
    {{"forward", permute, permute_ref, BIT(Y), false, 0, NULL},
     {"backward", permute_back, permute_back_ref, BIT(DX), false, 0, NULL}},
    0,
    .y = Y,
    .dy = DY,
    .pairs = {{X, DX}}};

/* ---- pad, and crop ---- */

static const struct {
    int64_t n, h, w, c, pad[4];
} boxes[] = {{2, 5, 6, 3, {1, 2, 3, 0}},
             {1, 7, 9, 40, {0, 1, 0, 2}},
             {3, 4, 1, 37, {2, 0, 5, 0}},
             {1, 1, 1, 1, {0, 0, 0, 0}}};

static int64_t box_count(int v) { return boxes[v].n * boxes[v].h * boxes[v].w * boxes[v].c; }
static const char *describe_box(int v) {
    static char text[128];
    snprintf(text, sizeof text, "[%lld,%lld,%lld,%lld]", (long long)boxes[v].n,
             (long long)boxes[v].h, (long long)boxes[v].w, (long long)boxes[v].c);
    return text;
}
static void pad_sizes(struct typed_run *run) {
    int v = run->variant;
    int64_t high = boxes[v].h + boxes[v].pad[0] + boxes[v].pad[2];
    int64_t wide = boxes[v].w + boxes[v].pad[1] + boxes[v].pad[3];
    declare(run, box_count(v), boxes[v].n * high * wide * boxes[v].c);
}
#define BOX(v) boxes[v].n, boxes[v].h, boxes[v].w, boxes[v].c, boxes[v].pad
static void pad(struct culm_device *cpu, struct typed_run *run) {
    CULM_RUN(cpu, pad, .y = typed_out(run, Y), .x = typed_in(run, X), .n = boxes[run->variant].n,
             .h = boxes[run->variant].h, .w = boxes[run->variant].w, .c = boxes[run->variant].c,
             .pad = boxes[run->variant].pad, .value = 0.5);
}
static void pad_ref(struct typed_run *run) { culm_ref_pad(F32(Y), F32(X), BOX(run->variant), 0.5); }
static void pad_back(struct culm_device *cpu, struct typed_run *run) {
    CULM_RUN(cpu, crop, .y = typed_out(run, DX), .x = typed_in(run, DY), .n = boxes[run->variant].n,
             .h = boxes[run->variant].h, .w = boxes[run->variant].w, .c = boxes[run->variant].c,
             .pad = boxes[run->variant].pad);
}
static void pad_back_ref(struct typed_run *run) {
    culm_ref_crop(F32(DX), F32(DY), BOX(run->variant));
}

const struct typed_operator typed_pad = {
    "pad",
    sizeof boxes / sizeof *boxes,
    pad_sizes,
    describe_box,
    {{"forward", pad, pad_ref, BIT(Y), false, 0, NULL},
     {"backward", pad_back, pad_back_ref, BIT(DX), false, 0, NULL}},
    0,
    .y = Y,
    .dy = DY,
    .pairs = {{X, DX}}};

/* ---- place: what concat does with each input ---- */

static const struct {
    int64_t rows, row, pitch, offset;
} places[] = {{5, 7, 20, 13}, {1, 300, 500, 100}, {300, 16, 48, 16}, {2, 20000, 20001, 1}};

static const char *describe_place(int v) {
    static char text[128];
    snprintf(text, sizeof text, "[%lld,%lld] into [%lld,%lld]", (long long)places[v].rows,
             (long long)places[v].row, (long long)places[v].rows, (long long)places[v].pitch);
    return text;
}
static void place_sizes(struct typed_run *run) {
    int v = run->variant;
    declare(run, places[v].rows * places[v].row, places[v].rows * places[v].pitch);
}
#define PLACE(v) places[v].rows, places[v].row, places[v].pitch, places[v].offset
static void place(struct culm_device *cpu, struct typed_run *run) {
    CULM_RUN(cpu, place, .y = typed_out(run, Y), .x = typed_in(run, X),
             .rows = places[run->variant].rows, .row = places[run->variant].row,
             .pitch = places[run->variant].pitch, .offset = places[run->variant].offset);
}
static void place_ref(struct typed_run *run) {
    culm_ref_place(F32(Y), F32(X), PLACE(run->variant), false);
}

static void place_add(struct culm_device *cpu, struct typed_run *run) {
    CULM_RUN(cpu, place, .y = typed_out(run, Y), .x = typed_in(run, X),
             .rows = places[run->variant].rows, .row = places[run->variant].row,
             .pitch = places[run->variant].pitch, .offset = places[run->variant].offset,
             .add = true);
}
static void place_add_ref(struct typed_run *run) {
    culm_ref_place(F32(Y), F32(X), PLACE(run->variant), true);
}

const struct typed_operator typed_place = {
    .name = "place",
    .variants = sizeof places / sizeof *places,
    .sizes = place_sizes,
    .describe = describe_place,
    .kernels = {{"forward", place, place_ref, BIT(Y), false, 0, NULL},
                {"add", place_add, place_add_ref, BIT(Y), false, 0, NULL}},
    .tolerance = 1e-6,
    .y = -1};

/* ---- resize ---- */

static const struct culm_resize resizes[] = {
    {2, 3, {5, 7}, {10, 14}, false, false}, {1, 17, {9, 9}, {5, 4}, false, false},
    {2, 3, {5, 7}, {10, 14}, true, false},  {1, 17, {9, 9}, {5, 4}, true, false},
    {1, 16, {4, 6}, {9, 9}, true, true},    {1, 40, {1, 3}, {4, 1}, true, true},
    {1, 40, {3, 1}, {1, 4}, true, false},
};

static const char *describe_resize(int v) {
    static char text[128];
    snprintf(text, sizeof text, "[%lld,%lld,%lld,%lld] to %lldx%lld%s%s", (long long)resizes[v].n,
             (long long)resizes[v].in[0], (long long)resizes[v].in[1], (long long)resizes[v].c,
             (long long)resizes[v].out[0], (long long)resizes[v].out[1],
             resizes[v].bilinear ? " bilinear" : "", resizes[v].corners ? " corners" : "");
    return text;
}
static void resize_sizes(struct typed_run *run) {
    const struct culm_resize *r = &resizes[run->variant];
    declare(run, r->n * r->in[0] * r->in[1] * r->c, r->n * r->out[0] * r->out[1] * r->c);
}
static void resize(struct culm_device *cpu, struct typed_run *run) {
    CULM_RUN(cpu, resize_forward, .y = typed_out(run, Y), .x = typed_in(run, X),
             .how = &resizes[run->variant]);
}
static void resize_ref(struct typed_run *run) {
    culm_ref_resize_forward(F32(Y), F32(X), &resizes[run->variant]);
}
static void resize_back(struct culm_device *cpu, struct typed_run *run) {
    CULM_RUN(cpu, resize_backward, .dx = typed_out(run, DX), .dy = typed_in(run, DY),
             .how = &resizes[run->variant]);
}
static void resize_back_ref(struct typed_run *run) {
    culm_ref_resize_backward(F32(DX), F32(DY), &resizes[run->variant]);
}

/* Turns images around where each pixel becomes the same number of pixels: shares are as they were. */
static void resize_astray(struct typed_run *run, bool back) {
    const struct culm_resize *r = &resizes[run->variant];
    (void)back; /* once more turns them back */
    if (!r->bilinear && r->out[0] % r->in[0] == 0 && r->out[1] % r->in[1] == 0) {
        astray_turned(F32(DX), r->n, r->in[0] * r->in[1], r->c);
        astray_turned(F32(DY), r->n, r->out[0] * r->out[1], r->c);
    }
}

const struct typed_operator typed_resize = {
    "resize",
    sizeof resizes / sizeof *resizes,
    resize_sizes,
    describe_resize,
    {{"forward", resize, resize_ref, BIT(Y), false, 0, NULL},
     {"backward", resize_back, resize_back_ref, BIT(DX), false, BIT(DX), resize_astray}},
    2e-6,
    .y = Y,
    .dy = DY,
    .pairs = {{X, DX}}};
