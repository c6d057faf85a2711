/*
 * A network of every kind of section with weights that are made here, against a plain computation of the
 * definitions; and what is refused. Prints its seed.
 */
#include "../folder.h"

#include "darknet/darknet.h"
#include "darknet/net.h"
#include "graph/ops.h"
#include "vision/boxes.h"
#include "vision/runner.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t seed = 1;

static void ok(enum culm_status status, const struct culm_error *error) {
    if (status != CULM_OK) {
        fail_msg("%s", error->text);
    }
}

static float draw(void) {
    seed = seed * 1664525 + 1013904223;
    return (float)(seed >> 8) / (1 << 24) * 2 - 1;
}

static void put(const char *name, const void *data, size_t len) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wbe");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

/* --- the definitions --- */

struct map {
    int h, w, c;
    double *at; /* [c][h][w] */
};

static struct map map_new(int h, int w, int c) {
    return (struct map){h, w, c, calloc((size_t)(h * w * c), sizeof(double))};
}

static double look(const struct map *m, int c, int y, int x) {
    return y < 0 || x < 0 || y >= m->h || x >= m->w ? 0 : m->at[(c * m->h + y) * m->w + x];
}

static double function_of(double x, const char *name) {
    return strcmp(name, "relu") == 0       ? (x > 0 ? x : 0)
           : strcmp(name, "leaky") == 0    ? (x > 0 ? x : 0.1 * x)
           : strcmp(name, "relu6") == 0    ? (x < 0   ? 0
                                              : x > 6 ? 6
                                                      : x)
           : strcmp(name, "logistic") == 0 ? 1 / (1 + exp(-x))
           : strcmp(name, "swish") == 0    ? x / (1 + exp(-x))
           : strcmp(name, "tanh") == 0     ? tanh(x)
           : strcmp(name, "mish") == 0     ? x * tanh(log1p(exp(x)))
                                           : x;
}

/* The weights file as it is written, number by number. */
struct numbers {
    float value[100000];
    int count;
};

static float next(struct numbers *n, float value) {
    assert_true(n->count < 100000);
    return n->value[n->count++] = value;
}

static struct map conv(struct numbers *n, const struct map *in, int filters, int size, int stride,
                       int pad, int groups, int dilation, bool norm, const char *function) {
    int reach = (size - 1) * dilation + 1, each = in->c / groups;
    struct map out = map_new((in->h + 2 * pad - reach) / stride + 1,
                             (in->w + 2 * pad - reach) / stride + 1, filters);
    float *v[4] = {0};
    for (int k = 0; k < (norm ? 4 : 1); k++) {
        v[k] = &n->value[n->count];
        for (int o = 0; o < filters; o++) {
            /* among the variances are what published files have, too */
            float odd = o == 0 ? 0 : o == 1 ? -1e-44F : o == 2 ? 1e-40F : draw() + 1.5F;
            next(n, k == 3 ? odd : k == 1 ? draw() * 0.01F + 0.02F : draw() * 0.3F);
        }
    }
    const float *w = &n->value[n->count];
    for (int i = 0; i < filters * each * size * size; i++) {
        next(n, draw() * 0.5F);
    }
    for (int o = 0; o < filters; o++) {
        for (int y = 0; y < out.h; y++) {
            for (int x = 0; x < out.w; x++) {
                double sum = 0;
                for (int c = 0; c < each; c++) {
                    for (int i = 0; i < size * size; i++) {
                        int from = o / (filters / groups) * each + c;
                        sum += look(in, from, y * stride - pad + i / size * dilation,
                                    x * stride - pad + i % size * dilation) *
                               w[(o * each + c) * size * size + i];
                    }
                }
                if (norm) {
                    sum = (sum - v[2][o]) / sqrt((double)v[3][o] + 1e-5) * v[1][o] + v[0][o];
                } else {
                    sum += v[0][o];
                }
                out.at[(o * out.h + y) * out.w + x] = function_of(sum, function);
            }
        }
    }
    return out;
}

static struct map maxpool(const struct map *in, int size, int stride) {
    int before = (size - 1) / 2;
    struct map out = map_new((in->h - 1) / stride + 1, (in->w - 1) / stride + 1, in->c);
    for (int i = 0; i < out.c * out.h * out.w; i++) {
        int c = i / (out.h * out.w), y = i / out.w % out.h, x = i % out.w;
        double best = -INFINITY;
        for (int k = 0; k < size * size; k++) {
            int v = y * stride - before + k / size, u = x * stride - before + k % size;
            bool inside = v >= 0 && u >= 0 && v < in->h && u < in->w;
            best = inside && look(in, c, v, u) > best ? look(in, c, v, u) : best;
        }
        out.at[i] = best;
    }
    return out;
}

/* Channels [first, first + count) of a map, `times` as large. */
static struct map part(const struct map *in, int first, int count, int times) {
    struct map out = map_new(in->h * times, in->w * times, count);
    for (int i = 0; i < count * out.h * out.w; i++) {
        int c = i / (out.h * out.w), y = i / out.w % out.h, x = i % out.w;
        out.at[i] = look(in, first + c, y / times, x / times);
    }
    return out;
}

static struct map join(const struct map *a, const struct map *b) {
    struct map out = map_new(a->h, a->w, a->c + b->c);
    size_t first = (size_t)(a->c * a->h * a->w), second = (size_t)(b->c * b->h * b->w);
    memcpy(out.at, a->at, first * sizeof *out.at);
    memcpy(out.at + first, b->at, second * sizeof *out.at);
    return out;
}

static struct map add(const struct map *a, const struct map *b, const char *function) {
    struct map out = map_new(a->h, a->w, a->c);
    for (int i = 0; i < a->c * a->h * a->w; i++) {
        out.at[i] = function_of(a->at[i] + b->at[i], function);
    }
    return out;
}

static struct map average(const struct map *in) {
    struct map out = map_new(1, 1, in->c);
    for (int i = 0; i < in->c * in->h * in->w; i++) {
        out.at[i / (in->h * in->w)] += in->at[i] / (in->h * in->w);
    }
    return out;
}

static struct map scale(const struct map *in, const struct map *by) {
    struct map out = map_new(in->h, in->w, in->c);
    for (int i = 0; i < in->c * in->h * in->w; i++) {
        out.at[i] = in->at[i] * by->at[i / (in->h * in->w)];
    }
    return out;
}

/* --- one network --- */

static const char cfg[] =
    "# a comment\n"
    "[net]\nbatch = 4 # of training\nwidth=20\nheight=12\nchannels=3\nburn_in=1000\n"
    "[convolutional]\nbatch_normalize=1\nfilters=8\nsize=3\nstride=2\npad=1\nactivation="
    "leaky\n" /* 0 */
    "[convolutional]\nbatch_normalize=1\nfilters=8\nsize=5\ngroups=8\nstride=1\npad="
    "1\nactivation=relu\n"
    "[convolutional]\nbatch_normalize=1\nfilters=8\nsize=1\nstride=1\npad=1\nactivation="
    "linear\n"
    "[dropout]\nprobability=.2\n"                               /* 3 */
    "[shortcut]\nfrom=-4\nactivation=leaky\n"                   /* 4 */
    "[avgpool]\n"                                               /* 5 */
    "[convolutional]\nfilters=8\nsize=1\nactivation=logistic\n" /* 6 */
    "[scale_channels]\nfrom=4\nactivation=linear\n"             /* 7 */
    "[maxpool]\nsize=2\nstride=2\n"                             /* 8 */
    "[maxpool]\nsize=3\nstride=1\n"                             /* 9 */
    "[convolutional]\nbatch_normalize=1\nfilters=6\nsize=3\ndilation=2\npadding="
    "2\nactivation=mish\n"
    "[upsample]\nstride=2\n"                     /* 11 */
    "[route]\nlayers=-1, 2\n"                    /* 12 */
    "[route]\nlayers=-1\ngroups=2\ngroup_id=1\n" /* 13 */
    "[convolutional]\nbatch_normalize=1\nfilters=4\nsize=3\npad=1\nstride=1\nactivation="
    "relu6\n"
    "[convolutional]\nbatch_normalize=1\nfilters=4\nsize=1\nactivation=swish\n"
    "[convolutional]\nfilters=14\nsize=1\nstride=1\npad=1\nactivation=linear\n"
    "[yolo]\nmask=1,2\nanchors=1,2, 3,4, 5,6\nclasses=2\nscale_x_y=1.05\nignore_thresh=.7\n"
    "[route]\nlayers=10\n"
    "[convolutional]\nfilters=7\nsize=1\nactivation=tanh\n"
    "[yolo]\nmask=0\nanchors=1,2, 3,4, 5,6\nclasses=2\n";

static struct numbers numbers;

/* The two maps that enter [yolo]. */
static void compute(const struct map *image, struct map head[2]) {
    struct numbers *n = &numbers;
    struct map m[20];
    n->count = 0;
    m[0] = conv(n, image, 8, 3, 2, 1, 1, 1, true, "leaky");
    m[1] = conv(n, &m[0], 8, 5, 1, 2, 8, 1, true, "relu");
    m[2] = conv(n, &m[1], 8, 1, 1, 0, 1, 1, true, "linear");
    m[3] = part(&m[2], 0, 8, 1);
    m[4] = add(&m[3], &m[0], "leaky");
    m[5] = average(&m[4]);
    m[6] = conv(n, &m[5], 8, 1, 1, 0, 1, 1, false, "logistic");
    m[7] = scale(&m[4], &m[6]);
    m[8] = maxpool(&m[7], 2, 2);
    m[9] = maxpool(&m[8], 3, 1);
    m[10] = conv(n, &m[9], 6, 3, 1, 2, 1, 2, true, "mish");
    m[11] = part(&m[10], 0, 6, 2);
    m[12] = join(&m[11], &m[2]);
    m[13] = part(&m[12], 7, 7, 1);
    m[14] = conv(n, &m[13], 4, 3, 1, 1, 1, 1, true, "relu6");
    m[15] = conv(n, &m[14], 4, 1, 1, 0, 1, 1, true, "swish");
    m[16] = conv(n, &m[15], 14, 1, 1, 0, 1, 1, false, "linear");
    m[17] = conv(n, &m[10], 7, 1, 1, 0, 1, 1, false, "tanh");
    head[0] = m[16];
    head[1] = m[17];
    for (int i = 0; i < 16; i++) {
        free(m[i].at);
    }
}

/* `minor` 1: a header of 16 bytes. */
static size_t put_weights(const char *name, int32_t minor, int count) {
    uint8_t *file = calloc(1, 20 + 4 * (size_t)count);
    const int32_t head[] = {0, minor, 0};
    size_t begin = minor >= 2 ? 20 : 16;
    memcpy(file, head, sizeof head);
    memcpy(file + begin, numbers.value, 4 * (size_t)count);
    put(name, file, begin + 4 * (size_t)count);
    free(file);
    return begin + 4 * (size_t)count;
}

static struct culm_vision_model *open_named(const char *name,
                                            const struct culm_darknet_options *options) {
    char path[4096];
    struct culm_error error = {0};
    struct culm_vision_model *model = NULL;
    snprintf(path, sizeof path, "%s/%s.cfg", folder, name);
    ok(culm_darknet_open(path, options, &model, &error), &error);
    return model;
}

static struct culm_vision_model *open_model(const struct culm_darknet_options *options) {
    return open_named("small-one", options);
}

/* As culm_vision_runner_init, but with the graph as it is, not fused. */
static enum culm_status init_plain(struct culm_vision_runner *runner,
                                   struct culm_vision_model *model, int64_t batch, float score,
                                   struct culm_device *device, struct culm_error *error) {
    const struct culm_stage_options how = {.forward_only = true};
    *runner = (struct culm_vision_runner){
        .device = device, .batch = batch, .least = culm_box_least(score)};
    enum culm_status status =
        culm_vision_model_graph(model, batch, CULM_VISION_INFER, &runner->graph, error);
    if (status || (status = culm_stages_compile(runner->graph, 1, &how, &runner->stage, error))) {
        return status;
    }
    const struct culm_stage_info *info = culm_stage_info_of(runner->stage);
    const size_t image = 4 * (size_t)culm_elements(&runner->graph->field[0].shape);
    runner->image = device->ops->alloc(device, image);
    runner->params = device->ops->alloc(device, 4 * (size_t)info->param_floats);
    runner->output = device->ops->alloc(device, info->output_bytes);
    runner->activations = device->ops->alloc(device, info->activation_bytes + 64);
    runner->scratch = device->ops->alloc(device, info->scratch_bytes + 64);
    for (int32_t p = 0; p < info->param_count && status == CULM_OK; p++) {
        const struct culm_param *param = &runner->graph->param[info->params[p].global_index];
        status =
            culm_vision_model_weights(model, param, runner->params + info->params[p].offset, error);
    }
    return status;
}

static void compare(struct culm_vision_model *model, const struct map *image,
                    const struct map head[2], int threads, bool fused) {
    struct culm_vision_runner runner;
    struct culm_device *device = NULL;
    struct culm_error error = {0};
    ok(culm_device_new(threads, &device, &error), &error);
    ok((fused ? culm_vision_runner_init : init_plain)(&runner, model, 2, 0, device, &error),
       &error);
    struct culm_graph *plain = NULL; /* what is fused keeps its parameters */
    ok(culm_vision_model_graph(model, 2, CULM_VISION_INFER, &plain, &error), &error);
    assert_int_equal(runner.graph->param_count, plain->param_count);
    assert_true(!fused == (runner.graph->node_count == plain->node_count));
    for (int32_t i = 0; i < plain->param_count; i++) {
        assert_string_equal(runner.graph->param[i].name, plain->param[i].name);
        assert_true(culm_shape_equal(&runner.graph->param[i].written, &plain->param[i].shape));
    }
    culm_graph_free(plain);
    int64_t pixels = (int64_t)image->h * image->w;
    for (int64_t i = 0; i < pixels * 3; i++) {
        runner.image[pixels * 3 + i] = (float)image->at[i % 3 * pixels + i / 3];
    }
    culm_vision_runner_run(&runner);
    for (int32_t h = 0; h < 2; h++) {
        struct culm_shape shape;
        const float *have = culm_vision_runner_output(&runner, h, 1, &shape);
        const int64_t cells = (int64_t)head[h].h * head[h].w;
        assert_int_equal(shape.dim[0], head[h].h);
        assert_int_equal(shape.dim[1], head[h].w);
        assert_int_equal(shape.dim[2], head[h].c);
        for (int64_t i = 0; i < cells * head[h].c; i++) {
            double want = head[h].at[i % head[h].c * cells + i / head[h].c];
            assert_true(isfinite(have[i]) && fabs(have[i] - want) < 1e-4 * (1 + fabs(want)));
        }
    }
    culm_vision_runner_release(&runner);
    culm_device_free(device);
}

static void test_every_section(void **state) {
    (void)state;
    struct map image = map_new(12, 20, 3), head[2];
    for (int i = 0; i < 12 * 20 * 3; i++) {
        image.at[i] = (float)draw();
    }
    compute(&image, head);
    put("small-one.cfg", cfg, sizeof cfg - 1);
    put("one.names", "cat\r\ndog\r\n", 10);
    put_weights("small-one.weights", 2, numbers.count);
    put_weights("old.weights", 1, numbers.count);
    struct culm_vision_model *model = open_model(NULL);
    assert_string_equal(model->name, "small-one");
    assert_int_equal(model->classes, 2);
    assert_int_equal(model->head_count, 2);
    assert_int_equal(model->head[0].anchors, 2);
    assert_float_equal(model->head[0].anchor[1][1], 6, 0);
    assert_float_equal(model->head[0].scale_xy, 1.05, 1e-6);
    assert_int_equal(model->head[1].output, 1);
    assert_float_equal(model->head[1].anchor[0][1], 2, 0);
    char text[24];
    assert_string_equal(culm_vision_class_name(model, 1, text), "dog");
    compare(model, &image, head, 1, true);
    compare(model, &image, head, 2, false);
    compare(model, &image, head, 3, true);
    culm_vision_model_free(model);
    char path[4096];
    snprintf(path, sizeof path, "%s/old.weights", folder);
    const struct culm_darknet_options old = {.weights = path};
    model = open_model(&old);
    compare(model, &image, head, 2, true);
    culm_vision_model_free(model);
    free(image.at);
    free(head[0].at);
    free(head[1].at);
}

/* --- operators together --- */

/* Two inverted residuals on large maps; the second one's expanded map is also read elsewhere. */
static const char large[] =
    "[net]\nwidth=100\nheight=80\nchannels=3\n"
    "[convolutional]\nbatch_normalize=1\nfilters=8\nsize=3\npad=1\nactivation=leaky\n"
    "[convolutional]\nbatch_normalize=1\nfilters=24\nsize=1\nactivation=relu6\n"
    "[convolutional]\nbatch_normalize=1\nfilters=24\nsize=3\npad=1\ngroups=24\nactivation=relu\n"
    "[convolutional]\nbatch_normalize=1\nfilters=8\nsize=1\nactivation=linear\n"
    "[shortcut]\nfrom=-4\nactivation=linear\n"
    "[convolutional]\nbatch_normalize=1\nfilters=24\nsize=1\nactivation=relu6\n" /* 5 */
    "[convolutional]\nbatch_normalize=1\nfilters=24\nsize=3\nstride=2\npad=1\ngroups=24\n"
    "activation=relu6\n"
    "[convolutional]\nfilters=14\nsize=1\nactivation=linear\n"
    "[yolo]\nmask=1,2\nanchors=1,2, 3,4, 5,6\nclasses=2\n"
    "[route]\nlayers=5\n"
    "[convolutional]\nfilters=7\nsize=1\nactivation=linear\n"
    "[yolo]\nmask=0\nanchors=1,2, 3,4, 5,6\nclasses=2\n";
/* Filters, and numbers of one: with a norm there are four more. */
static const struct {
    int filters, each;
    bool norm;
} large_layers[] = {{8, 27, true}, {24, 8, true}, {24, 9, true},   {8, 24, true},
                    {24, 8, true}, {24, 9, true}, {14, 24, false}, {7, 24, false}};

/* With a score, both heads have gates, and the boxes of that score and of higher ones are the same. */
static void compare_answers(struct culm_vision_model *model, struct culm_device *device) {
    static const float scores[] = {0.4F, 0.6F, 0.9F, 1};
    struct culm_error error = {0};
    int32_t boxes = 0;
    int64_t left_out = 0;
    for (int s = 0; s < 4; s++) {
        struct culm_vision_runner whole, gated;
        struct culm_answer want = {0}, have = {0};
        ok(culm_vision_runner_init(&whole, model, 2, 0, device, &error), &error);
        ok(culm_vision_runner_init(&gated, model, 2, scores[s], device, &error), &error);
        int32_t gates = 0;
        for (int32_t i = 0; i < gated.graph->node_count; i++) {
            gates += gated.graph->node[i].op == &culm_op_conv_infer &&
                     gated.graph->node[i].attributes.heads > 0;
        }
        assert_int_equal(gates, 2);
        for (int64_t i = 0; i < culm_elements(&whole.graph->field[0].shape); i++) {
            gated.image[i] = whole.image[i] = draw();
        }
        culm_vision_runner_run(&whole);
        culm_vision_runner_run(&gated);
        for (int64_t sample = 0; sample < 2; sample++) {
            for (int higher = s; higher < 4; higher++) {
                const float *of[2][2];
                struct culm_shape shape[2];
                for (int32_t h = 0; h < 2; h++) {
                    of[0][h] = culm_vision_runner_output(&whole, h, sample, &shape[h]);
                    of[1][h] = culm_vision_runner_output(&gated, h, sample, &shape[h]);
                    for (int64_t i = 0; i < culm_elements(&shape[h]); i++) {
                        left_out += of[0][h][i] != of[1][h][i];
                    }
                }
                ok(culm_answer_read(model, of[0], shape, 100, 80, scores[higher], &want, &error),
                   &error);
                ok(culm_answer_read(model, of[1], shape, 100, 80, scores[higher], &have, &error),
                   &error);
                assert_int_equal(have.box_count, want.box_count);
                boxes += want.box_count;
                for (int32_t b = 0; b < want.box_count; b++) {
                    assert_memory_equal(&have.box[b], &want.box[b], sizeof *want.box);
                }
            }
        }
        culm_answer_release(&want);
        culm_answer_release(&have);
        culm_vision_runner_release(&whole);
        culm_vision_runner_release(&gated);
    }
    assert_true(boxes > 100 && left_out > 1000);
}

/* What a run executes together has the bits that it has one by one. */
static void test_together(void **state) {
    (void)state;
    numbers.count = 0;
    for (size_t k = 0; k < sizeof large_layers / sizeof *large_layers; k++) {
        int filters = large_layers[k].filters;
        for (int i = 0; i < (large_layers[k].norm ? 4 : 1) * filters; i++) {
            next(&numbers, draw() * 0.3F + 0.4F);
        }
        for (int i = 0; i < filters * large_layers[k].each; i++) {
            next(&numbers, draw() * 0.5F);
        }
    }
    put("large.cfg", large, sizeof large - 1);
    put_weights("large.weights", 2, numbers.count);
    struct culm_vision_model *model = open_named("large", NULL);
    for (int threads = 1; threads <= 3; threads++) {
        struct culm_vision_runner r;
        struct culm_device *device = NULL;
        struct culm_error error = {0};
        ok(culm_device_new(threads, &device, &error), &error);
        ok(culm_vision_runner_init(&r, model, 1, 0, device, &error), &error);
        const struct culm_stage_info *info = culm_stage_info_of(r.stage);
        const void *fields[] = {r.image};
        float *together = malloc(info->output_bytes);
        assert_non_null(together);
        for (int64_t i = 0; i < culm_elements(&r.graph->field[0].shape); i++) {
            r.image[i] = draw();
        }
        culm_vision_runner_run(&r);
        memcpy(together, r.output, info->output_bytes);
        memset(r.output, 0, info->output_bytes);
        struct culm_stage_run run = {.params = r.params,
                                     .fields = fields,
                                     .output = r.output,
                                     .loss_scale = 1,
                                     .activations = r.activations,
                                     .scratch = r.scratch,
                                     .first = true};
        for (int32_t i = 0; i < info->forward_ops; i++) {
            culm_stage_execute(r.stage, device, &run, i);
        }
        for (int32_t h = 0; h < 2; h++) { /* whichever are not made in their place are copied */
            struct culm_shape shape;
            const float *at = culm_vision_runner_output(&r, h, 0, &shape);
            const float *have = together + (at - (const float *)r.output);
            const float *want = culm_stage_value(r.stage, &run, r.graph->output[h].value);
            assert_true(isfinite(have[0]) && have[0] != 0);
            assert_memory_equal(have, want, (size_t)culm_elements(&shape) * sizeof *have);
        }
        free(together);
        culm_vision_runner_release(&r);
        compare_answers(model, device);
        culm_device_free(device);
    }
    culm_vision_model_free(model);
}

/* --- structure --- */

static void test_layers(void **state) {
    (void)state;
    const struct culm_darknet_options without = {.structure = true};
    struct culm_vision_model *model = open_model(&without);
    struct culm_graph *graph = NULL;
    struct culm_vision_layers layers = {0};
    struct culm_error error = {0};
    float data[8];
    ok(culm_vision_model_graph(model, 4, CULM_VISION_LEARN, &graph, &error), &error);
    ok(culm_vision_layers_of(graph, &layers, &error), &error);
    assert_int_equal(layers.count, 9);
    const struct culm_vision_layer *deep = &layers.layer[1], *plain = &layers.layer[3];
    assert_string_equal(graph->param[deep->weight].name, "conv1.weight");
    assert_int_equal(deep->bias, -1);
    assert_true(deep->norm >= 0 && graph->node[deep->norm].op == &culm_op_batchnorm);
    assert_false(graph->node[deep->norm].attributes.inference);
    assert_int_equal(deep->bytes, 8 * 25 * 4);
    assert_int_equal(deep->signature.groups, 8);
    assert_int_equal(deep->signature.in, 8);
    assert_int_equal(deep->signature.pad[3], 2);
    assert_string_equal(graph->param[plain->bias].name, "conv3.bias");
    assert_int_equal(plain->norm, -1);
    assert_int_equal(plain->bytes, (8 * 8 + 8) * 4);
    struct culm_vision_signature other = deep->signature;
    assert_true(culm_vision_signature_equal(&other, &deep->signature));
    other.stride[0] = 2;
    assert_false(culm_vision_signature_equal(&other, &deep->signature));
    assert_true(culm_vision_signature_fits(&other, &deep->signature));
    other.groups = 4;
    assert_false(culm_vision_signature_fits(&other, &deep->signature));
    assert_int_equal(culm_vision_model_weights(model, &graph->param[plain->bias], data, &error),
                     CULM_ERR_CONFIG);
    culm_vision_layers_release(&layers);
    culm_graph_free(graph);
    culm_vision_model_free(model);
}

/* --- what is refused --- */

#define HEAD "[net]\nwidth=8\nheight=8\nchannels=3\n"
#define CONV "[convolutional]\nfilters=7\nsize=1\nactivation=linear\n"
#define YOLO "[yolo]\nanchors=1,2\nclasses=2\n"

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
        enum culm_status status;
    } cases[] = {
        {"", "no [net] section", CULM_ERR_FORMAT},
        {"hello", "line 1: 'hello' is neither [section] nor key=value", CULM_ERR_FORMAT},
        {"width=3\n", "neither [section]", CULM_ERR_FORMAT},
        {"[net\n", "a section is written as [name]", CULM_ERR_FORMAT},
        {"[convolutional]\n", "the first section is [convolutional]", CULM_ERR_FORMAT},
        {"[net]\nwidth=8\n", "has to give width, height", CULM_ERR_FORMAT},
        {"[net]\nwidth=8\nheight=8\nchannels=2\n", "1 or 3", CULM_ERR_FORMAT},
        {"[net]\nwidth=99999\nheight=8\nchannels=3\n", "line 2: 'width=99999'", CULM_ERR_FORMAT},
        {HEAD, "no [yolo] or [region] section", CULM_ERR_UNSUPPORTED},
        {HEAD CONV "[reorg]\n" YOLO, "line 9: section [reorg] is not supported",
         CULM_ERR_UNSUPPORTED},
        {HEAD "[convolutional]\nfilters=x\n", "'filters=x'", CULM_ERR_FORMAT},
        {HEAD "[convolutional]\nfilters=-7\n", "'filters=-7'", CULM_ERR_FORMAT},
        {HEAD "[convolutional]\nfilters=7\nfilters=8\n", "line 7: 'filters' is given twice",
         CULM_ERR_FORMAT},
        {HEAD "[convolutional]\nfilters=99999999999999999999\n", "is not possible",
         CULM_ERR_FORMAT},
        {HEAD "[convolutional]\nfilters=7\nsize=9\n", "larger than its padded input",
         CULM_ERR_FORMAT},
        {HEAD "[convolutional]\nfilters=8\ngroups=2\n", "cannot be divided into 2 groups",
         CULM_ERR_FORMAT},
        {HEAD "[convolutional]\nfilters=7\nactivation=gauss\n", "activation 'gauss'",
         CULM_ERR_UNSUPPORTED},
        {HEAD "[convolutional]\nfilters=7\nxnor=1\n", "'xnor=1' in [convolutional]",
         CULM_ERR_UNSUPPORTED},
        {HEAD "[convolutional]\nfilters=1048576\nactivation=linear\n[convolutional]\n"
              "filters=1048576\nsize=3\npad=1\nactivation=linear\n",
         "too many weights", CULM_ERR_FORMAT},
        {HEAD CONV "[route]\nlayers=5\n", "'layers' names section 5, but only 1", CULM_ERR_FORMAT},
        {HEAD CONV "[route]\nlayers=-2\n", "names section -2, but only 1", CULM_ERR_FORMAT},
        {HEAD CONV "[route]\nlayers=\n", "names no section", CULM_ERR_FORMAT},
        {HEAD CONV "[route]\n", "has no 'layers'", CULM_ERR_FORMAT},
        {HEAD CONV "[route]\nlayers=0,x\n", "is not a list of numbers", CULM_ERR_FORMAT},
        {HEAD CONV "[route]\nlayers=0\ngroups=2\n", "cannot be divided into 2 groups",
         CULM_ERR_FORMAT},
        {HEAD CONV "[maxpool]\nsize=2\nstride=2\n[route]\nlayers=-1,0\n", "different sizes",
         CULM_ERR_FORMAT},
        {HEAD CONV "[maxpool]\nsize=2\nstride=2\n[shortcut]\nfrom=-2\n",
         "it adds 8 x 8 x 7 to 4 x 4 x 7", CULM_ERR_UNSUPPORTED},
        {HEAD CONV "[scale_channels]\nfrom=0\n", "one number a channel is needed", CULM_ERR_FORMAT},
        {HEAD CONV "[upsample]\nstride=64\n[upsample]\nstride=64\n", "upsampled map is too large",
         CULM_ERR_FORMAT},
        {HEAD CONV "[yolo]\nclasses=2\n", "has no 'anchors'", CULM_ERR_FORMAT},
        {HEAD CONV "[yolo]\nanchors=1,2\nmask=1\nclasses=2\n", "'mask' picks anchor 1 of 1",
         CULM_ERR_FORMAT},
        {HEAD CONV "[yolo]\nanchors=1,-2\nclasses=2\n", "an anchor of -2 pixels", CULM_ERR_FORMAT},
        {HEAD CONV "[yolo]\nanchors=1,2\nclasses=3\n", "reads 7 channels", CULM_ERR_FORMAT},
        {HEAD CONV "[yolo]\nanchors=1,2\nclasses=2\nscale_x_y=0\n", "'scale_x_y'", CULM_ERR_FORMAT},
        {HEAD CONV "[yolo]\nanchors=1,2\nclasses=2\nnew_coords=1\n", "activation=logistic",
         CULM_ERR_UNSUPPORTED},
        {HEAD "[yolo]\nanchors=1,2\nclasses=2\n", "reads 3 channels", CULM_ERR_FORMAT},
        {"[net]\nwidth=\001\n", "line 2: this is not text", CULM_ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct culm_darknet_net net = {0};
        struct culm_error error = {0};
        enum culm_status status =
            culm_darknet_parse(cases[i].text, strlen(cases[i].text), "x.cfg", &net, &error);
        if (status != cases[i].status || !strstr(error.text, cases[i].says) ||
            strncmp(error.text, "darknet 'x.cfg': ", 17) != 0 || strchr(error.text, '\n')) {
            fail_msg("case %zu: status %d, '%s'", i, (int)status, error.text);
        }
    }
    struct culm_darknet_net net = {0};
    struct culm_error error = {0};
    ok(culm_darknet_parse(HEAD CONV YOLO, strlen(HEAD CONV YOLO), "x", &net, &error), &error);
    culm_darknet_net_release(&net);
}

static void refused(const struct culm_darknet_options *options, enum culm_status status,
                    const char *says) {
    char path[4096];
    struct culm_error error = {0};
    struct culm_vision_model *model = NULL;
    snprintf(path, sizeof path, "%s/small-one.cfg", folder);
    enum culm_status got = culm_darknet_open(path, options, &model, &error);
    if (got != status || !strstr(error.text, says) || strchr(error.text, '\n')) {
        fail_msg("status %d, '%s'", (int)got, error.text);
    }
}

static void test_weights_refused(void **state) {
    (void)state;
    char path[4096];
    struct culm_darknet_options options = {.weights = path};
    snprintf(path, sizeof path, "%s/other.weights", folder);
    refused(&options, CULM_ERR_CONFIG, "other.weights");
    size_t bytes = put_weights("other.weights", 2, numbers.count - 1);
    char text[128];
    snprintf(text, sizeof text, "it has %zu bytes, but the configuration needs %zu; is it trunc",
             bytes, bytes + 4);
    refused(&options, CULM_ERR_FORMAT, text);
    put_weights("other.weights", 2, numbers.count + 1);
    refused(&options, CULM_ERR_FORMAT, "is it for another model?");
    put("other.weights", "short", 5);
    refused(&options, CULM_ERR_FORMAT, "truncated inside its header");
    put("other.weights", "something else altogether", 25);
    refused(&options, CULM_ERR_FORMAT, "does not begin like a darknet file");
    snprintf(path, sizeof path, "%s", folder);
    refused(&options, CULM_ERR_CONFIG, "not a regular file");
    snprintf(path, sizeof path, "%s/one.names", folder);
    put("one.names", "cat\n", 4);
    options = (struct culm_darknet_options){.names = path};
    refused(&options, CULM_ERR_CONFIG, "1 lines for a model of 2 classes");
    culm_vision_model_free(open_model(NULL)); /* those that were not asked for do not count */
}

/* Numbers that no network has: found when they are read. */
static void test_numbers_refused(void **state) {
    (void)state;
    char path[4096];
    struct culm_darknet_options options = {.weights = path};
    snprintf(path, sizeof path, "%s/other.weights", folder);
    static const float bad[] = {NAN, INFINITY, -0.5F};
    for (int i = 0; i < 3; i++) {
        float before = numbers.value[3 * 8 + 5]; /* a variance of the first layer */
        numbers.value[3 * 8 + 5] = bad[i];
        put_weights("other.weights", 2, numbers.count);
        numbers.value[3 * 8 + 5] = before;
        struct culm_vision_model *model = open_model(&options);
        struct culm_device *device = NULL;
        struct culm_vision_runner runner;
        struct culm_error error = {0};
        ok(culm_device_new(1, &device, &error), &error);
        assert_int_equal(culm_vision_runner_init(&runner, model, 1, 0, device, &error),
                         CULM_ERR_FORMAT);
        assert_non_null(strstr(error.text, "'conv0.variance' has "));
        culm_vision_runner_release(&runner);
        culm_device_free(device);
        culm_vision_model_free(model);
    }
}

/* Pinned: packages say of which models they were made, and another version of the program reads them. Where
 * this differs, count up CULM_VISION_STRUCTURE_WAY, so that they are not taken for edited ones. */
static void test_structure(void **state) {
    (void)state;
    static const char described[] =
        "[net]\nwidth=32\nheight=32\nchannels=3\n"
        "[convolutional]\nbatch_normalize=1\nfilters=8\nsize=3\nstride=2\npad=1\nactivation=leaky\n"
        "[maxpool]\nsize=2\nstride=2\n[convolutional]\nfilters=7\nsize=1\nactivation=linear\n"
        "[yolo]\nmask=0\nanchors=10,14\nclasses=2\nnum=1\nscale_x_y=1.05\n";
    static const struct {
        const char *from, *to;
    } edits[] = {{"leaky", "mish\n"},
                 {"stride=2\npad", "stride=1\npad"},
                 {"10,14", "10,15"},
                 {"1.05", "1.10"},
                 {"width=32", "width=64"}};
    const struct culm_darknet_options options = {.structure = true};
    char text[1024], first[CULM_VISION_STRUCTURE], other[CULM_VISION_STRUCTURE];
    struct culm_error error = {0};
    for (int i = -1; i < (int)(sizeof edits / sizeof *edits); i++) {
        snprintf(text, sizeof text, "%s", described);
        if (i >= 0) {
            char *at = strstr(text, edits[i].from);
            assert_non_null(at);
            memcpy(at, edits[i].to, strlen(edits[i].to));
        }
        put("structure.cfg", text, strlen(text));
        struct culm_vision_model *model = open_named("structure", &options);
        ok(culm_vision_structure(model, i < 0 ? first : other, &error), &error);
        culm_vision_model_free(model);
        assert_true(i < 0 || culm_vision_structure_differs(first, other));
    }
    assert_string_equal(first,
                        "2:99bc63a57498a6755f8d82045e00001366bed2dffc8a63fed3643562d5a225ea");
    assert_false(culm_vision_structure_differs(first, ""));
    assert_false(culm_vision_structure_differs("", first));
    assert_false(culm_vision_structure_differs("0:1", first)); /* another way */
}

int main(void) {
    const char *given = getenv("CULM_SEED");
    seed = given ? (uint32_t)strtoul(given, NULL, 10) : 1;
    printf("# CULM_SEED=%u\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_section),   cmocka_unit_test(test_layers),
        cmocka_unit_test(test_refused),         cmocka_unit_test(test_weights_refused),
        cmocka_unit_test(test_numbers_refused), cmocka_unit_test(test_together),
        cmocka_unit_test(test_structure),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
