/*
 * What 35 architectures could share, to the byte: against figures that another program made
 * (golden/structure.json), for every pair and ten workloads. Architectures are those of the house, those
 * of darknet files, and lists of layers for what is neither.
 */
#include "darknet/darknet.h"
#include "merge/match.h"
#include "model/model.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MODELS_MAX 64

struct model {
    char name[64];
    struct culm_vision_layers layers;
};
static struct model model[MODELS_MAX];
static int models;
static json_t *golden;
static const char *folder;

/* --- architectures --- */

static struct model *add(const char *name) {
    assert_true(models < MODELS_MAX);
    snprintf(model[models].name, sizeof model[models].name, "%s", name);
    return &model[models++];
}

static void add_layer(struct model *m, struct culm_vision_signature s) {
    int32_t n = m->layers.count;
    m->layers.layer = realloc(m->layers.layer, (size_t)(n + 1) * sizeof *m->layers.layer);
    assert_non_null(m->layers.layer);
    int64_t weights = s.linear ? s.in * s.out : s.in / s.groups * s.out * s.kernel[0] * s.kernel[1];
    m->layers.layer[n] =
        (struct culm_vision_layer){.signature = s, .bytes = 4 * (weights + (s.bias ? s.out : 0))};
    m->layers.count++;
}

static void conv(struct model *m, int64_t in, int64_t out, int64_t k, int64_t stride, int64_t pad,
                 int64_t groups, bool bias) {
    add_layer(m, (struct culm_vision_signature){.bias = bias,
                                                .in = in,
                                                .out = out,
                                                .kernel = {k, k},
                                                .stride = {stride, stride},
                                                .dilation = {1, 1},
                                                .pad = {pad, pad, pad, pad},
                                                .groups = groups});
}

static void linear(struct model *m, int64_t in, int64_t out) {
    add_layer(m, (struct culm_vision_signature){
                     .linear = true, .bias = true, .in = in, .out = out, .groups = 1});
}

static void add_house(const char *name, const char *preset) {
    const struct culm_model_preset *p = culm_model_preset_find(preset);
    struct culm_model_options options = p->options;
    struct culm_graph *graph = NULL;
    struct culm_error error = {0};
    options.batch = 1;
    options.inference = true;
    if (culm_model_build(p->arch, &options, &graph, &error) ||
        culm_vision_layers_of(graph, &add(name)->layers, &error)) {
        fail_msg("%s: %s", name, error.text);
    }
    culm_graph_free(graph);
}

/* One map of 2048 channels, 15 anchors, one class and the background. */
static void add_faster_rcnn(void) {
    add_house("fasterrcnn-r50", "resnet50");
    struct model *m = &model[models - 1];
    m->layers.count--; /* without the classifier */
    conv(m, 2048, 2048, 3, 1, 1, 1, true);
    conv(m, 2048, 15, 1, 1, 0, 1, true);
    conv(m, 2048, 60, 1, 1, 0, 1, true);
    linear(m, 2048 * 49, 1024);
    linear(m, 1024, 1024);
    linear(m, 1024, 2);
    linear(m, 1024, 8);
}

static void add_mobilenet_v2(void) {
    static const int64_t row[][4] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                     {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    struct model *m = add("mobilenet-v2");
    int64_t in = 32;
    conv(m, 3, 32, 3, 2, 1, 1, false);
    for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
        for (int64_t b = 0; b < row[r][2]; b++) {
            int64_t hidden = in * row[r][0];
            if (row[r][0] != 1) {
                conv(m, in, hidden, 1, 1, 0, 1, false);
            }
            conv(m, hidden, hidden, 3, b == 0 ? row[r][3] : 1, 1, hidden, false);
            conv(m, hidden, row[r][1], 1, 1, 0, 1, false);
            in = row[r][1];
        }
    }
    conv(m, 320, 1280, 1, 1, 0, 1, false);
    linear(m, 1280, 1000);
}

static void add_squeezenet(void) {
    static const int64_t fire[][3] = {{64, 16, 64},   {128, 16, 64},  {128, 32, 128},
                                      {256, 32, 128}, {256, 48, 192}, {384, 48, 192},
                                      {384, 64, 256}, {512, 64, 256}};
    struct model *m = add("squeezenet1.1");
    conv(m, 3, 64, 3, 2, 0, 1, true);
    for (size_t i = 0; i < sizeof fire / sizeof *fire; i++) {
        conv(m, fire[i][0], fire[i][1], 1, 1, 0, 1, true);
        conv(m, fire[i][1], fire[i][2], 1, 1, 0, 1, true);
        conv(m, fire[i][1], fire[i][2], 3, 1, 1, 1, true);
    }
    conv(m, 512, 1000, 1, 1, 0, 1, true);
}

static void add_cifar_resnet(int depth) {
    char name[64];
    snprintf(name, sizeof name, "cifar10-resnet%d", depth);
    struct model *m = add(name);
    int64_t in = 16;
    conv(m, 3, 16, 3, 1, 1, 1, false);
    for (int64_t out = 16; out <= 64; out *= 2) {
        for (int b = 0; b < (depth - 2) / 6; b++) {
            conv(m, in, out, 3, out != in ? 2 : 1, 1, 1, false);
            conv(m, out, out, 3, 1, 1, 1, false);
            in = out;
        }
    }
    linear(m, 64, 10);
}

static void add_face(const char *name, int blocks, int pairs, int64_t outputs) {
    struct model *m = add(name);
    int64_t in = 3;
    for (int b = 0; b < blocks; b++) {
        int64_t out = (int64_t)32 << b;
        for (int n = 0; n < pairs; n++) {
            int64_t stride = n == 0 ? 2 : 1, pad = n == 0 ? 0 : 1;
            if (b == 0 && n == 0) {
                conv(m, 3, out, 3, stride, pad, 1, true);
            } else {
                conv(m, in, in, 3, stride, pad, in, false);
                conv(m, in, out, 1, 1, 0, 1, true);
            }
            in = out;
        }
    }
    linear(m, in, outputs);
}

static void add_darknet(const char *where, const char *name) {
    char path[512];
    const struct culm_darknet_options options = {.structure = true};
    struct culm_vision_model *opened = NULL;
    struct culm_graph *graph = NULL;
    struct culm_error error = {0};
    snprintf(path, sizeof path, "%s/%s/%s.cfg", folder, where, name);
    if (culm_darknet_open(path, &options, &opened, &error) ||
        culm_vision_model_graph(opened, 1, CULM_VISION_INFER, &graph, &error) ||
        culm_vision_layers_of(graph, &add(name)->layers, &error)) {
        fail_msg("%s: %s", path, error.text);
    }
    culm_graph_free(graph);
    culm_vision_model_free(opened);
}

static int build(void **state) {
    (void)state;
    static const char *const house[] = {"alexnet",   "vgg11",    "vgg13",    "vgg16",
                                        "vgg19",     "resnet18", "resnet34", "resnet50",
                                        "resnet101", "resnet152"};
    static const char *const bare[] = {"yolov3-tiny", "yolov3", "yolov4-tiny", "yolov4"};
    static const char *const detectors[] = {
        "mobilenetv2-yolo-fastest-v0-voc", "mobilenetv2-yolo-fastest-v1-voc",
        "mobilenetv2-yolo-fastest-v2-voc", "mobilenetv2-yolov3-nano-coco",
        "mobilenetv2-yolov3-nano-voc",     "yolo-fastest-1.0-voc",
        "yolo-fastest-1.0-xl-voc",         "yolo-fastest-1.0-xl-voc-early",
        "yolo-fastest-1.1-body",           "yolo-fastest-1.1-coco",
        "yolo-fastest-1.1-xl-coco"};
    char path[512];
    json_error_t why;
    folder = getenv("CULM_EDGE");
    snprintf(path, sizeof path, "%s/golden/structure.json", folder ? folder : "");
    golden = folder && *folder ? json_load_file(path, 0, &why) : NULL;
    if (!golden) {
        return 0;
    }
    for (size_t i = 0; i < sizeof house / sizeof *house; i++) {
        add_house(house[i], house[i]);
    }
    add_faster_rcnn();
    add_mobilenet_v2();
    add_squeezenet();
    for (int depth = 20; depth <= 56; depth += 12) {
        add_cifar_resnet(depth);
    }
    add_face("face-expression", 4, 4, 7);
    add_face("face-landmark68", 4, 4, 136);
    add_face("face-landmark68-tiny", 3, 3, 136);
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++) {
        add_darknet("architectures", bare[i]);
    }
    for (size_t i = 0; i < sizeof detectors / sizeof *detectors; i++) {
        add_darknet("detectors", detectors[i]);
    }
    return 0;
}

static int drop(void **state) {
    (void)state;
    for (int i = 0; i < models; i++) {
        culm_vision_layers_release(&model[i].layers);
    }
    json_decref(golden);
    return 0;
}

static void need_golden(void) {
    if (!golden) {
        print_message("skipped: golden/structure.json is not there (CULM_EDGE)\n");
        skip();
    }
}

static const struct culm_vision_layers *layers_of(const char *name) {
    for (int i = 0; i < models; i++) {
        if (strcmp(model[i].name, name) == 0) {
            return &model[i].layers;
        }
    }
    fail_msg("no architecture '%s'", name);
    return NULL;
}

/* --- comparing --- */

static void want(const char *who, json_t *row, const char *key, int64_t found) {
    json_t *value = json_object_get(row, key);
    if (!json_is_integer(value) || json_integer_value(value) != found) {
        fail_msg("%s: %s is %lld, not %lld", who, key, (long long)found,
                 (long long)json_integer_value(value));
    }
}

static struct culm_match match(const struct culm_vision_layers *const *list, int32_t count,
                               enum culm_match_rule rule) {
    struct culm_match found;
    struct culm_error error = {0};
    assert_int_equal(culm_match_find(list, count, rule, &found, &error), CULM_OK);
    return found;
}

static void test_models(void **state) {
    (void)state;
    need_golden();
    json_t *rows = json_object_get(golden, "models"), *row;
    const char *name;
    assert_int_equal(json_object_size(rows), 35);
    assert_int_equal(models, 35);
    json_object_foreach(rows, name, row) {
        const struct culm_vision_layers *layers = layers_of(name);
        int64_t bytes = 0;
        for (int32_t i = 0; i < layers->count; i++) {
            bytes += layers->layer[i].bytes;
        }
        want(name, row, "layers", layers->count);
        want(name, row, "bytes", bytes);
    }
}

static void test_pairs(void **state) {
    (void)state;
    need_golden();
    json_t *rows = json_object_get(golden, "pairs"), *row;
    size_t index, sharing = 0;
    json_array_foreach(rows, index, row) {
        const char *a = json_string_value(json_object_get(row, "a"));
        const char *b = json_string_value(json_object_get(row, "b"));
        const struct culm_vision_layers *pair[] = {layers_of(a), layers_of(b)};
        struct culm_match equal = match(pair, 2, CULM_MATCH_EQUAL);
        struct culm_match fits = match(pair, 2, CULM_MATCH_FITS);
        int64_t prefix;
        char who[140];
        snprintf(who, sizeof who, "%s + %s", a, b);
        culm_match_prefix(pair, 2, &prefix);
        want(who, row, "instances", equal.count);
        want(who, row, "saved", equal.saved_bytes);
        want(who, row, "saved_loose", fits.saved_bytes);
        want(who, row, "saved_prefix", prefix);
        culm_match_release(&equal);
        culm_match_release(&fits);
    }
    /* No other pair has anything in common. */
    for (int a = 0; a < models; a++) {
        for (int b = a + 1; b < models; b++) {
            const struct culm_vision_layers *pair[] = {&model[a].layers, &model[b].layers};
            struct culm_match fits = match(pair, 2, CULM_MATCH_FITS);
            sharing += fits.count > 0;
            culm_match_release(&fits);
        }
    }
    assert_int_equal(sharing, json_array_size(rows));
}

static void test_eighteen(void **state) {
    (void)state;
    need_golden();
    json_t *row = json_object_get(golden, "eighteen"), *names = json_object_get(row, "models");
    int64_t pairs = 0, equal = 0, fits = 0;
    for (size_t a = 0; a < json_array_size(names); a++) {
        for (size_t b = a + 1; b < json_array_size(names); b++) {
            const struct culm_vision_layers *pair[] = {
                layers_of(json_string_value(json_array_get(names, a))),
                layers_of(json_string_value(json_array_get(names, b)))};
            struct culm_match e = match(pair, 2, CULM_MATCH_EQUAL);
            struct culm_match f = match(pair, 2, CULM_MATCH_FITS);
            pairs++;
            equal += e.count > 0;
            fits += f.count > 0;
            culm_match_release(&e);
            culm_match_release(&f);
        }
    }
    want("eighteen", row, "pairs", pairs);
    want("eighteen", row, "pairs_that_share", equal);
    want("eighteen", row, "pairs_that_share_loose", fits);
}

/* Groups hold each instance once and save what the match saves, the most first; the released code's lack
 * the smallest kind. */
static void check_groups(const char *name, const struct culm_match *found) {
    struct culm_match_groups all, released;
    struct culm_error error = {0};
    assert_int_equal(culm_match_find_groups(found, false, &all, &error), CULM_OK);
    assert_int_equal(culm_match_find_groups(found, true, &released, &error), CULM_OK);
    int64_t saved = 0, lost = 0, least = INT64_MAX;
    int32_t at = 0;
    for (int32_t g = 0; g < all.count; g++) {
        assert_int_equal(all.group[g].first, at);
        at += all.group[g].count;
        saved += all.group[g].saved_bytes;
    }
    for (int32_t g = 0; g < released.count; g++) {
        lost += released.group[g].saved_bytes;
    }
    for (int32_t i = 0; i < found->count; i++) {
        int32_t times = 0;
        for (int32_t k = 0; k < all.instances; k++) {
            times += all.order[k] == i;
        }
        assert_int_equal(times, 1);
        least = found->instance[i].bytes < least ? found->instance[i].bytes : least;
    }
    lost = saved - lost;
    if (saved != found->saved_bytes || at != found->count || lost < least) {
        fail_msg("%s: groups save %lld of %lld, the released ones %lld less", name,
                 (long long)saved, (long long)found->saved_bytes, (long long)lost);
    }
    culm_match_groups_release(&all);
    culm_match_groups_release(&released);
}

static void test_workloads(void **state) {
    (void)state;
    need_golden();
    json_t *rows = json_object_get(golden, "workloads"), *row;
    const char *name;
    assert_int_equal(json_object_size(rows), 10);
    json_object_foreach(rows, name, row) {
        const struct culm_vision_layers *list[MODELS_MAX];
        json_t *names = json_object_get(row, "models");
        int32_t count = (int32_t)json_array_size(names);
        for (int32_t i = 0; i < count; i++) {
            list[i] = layers_of(json_string_value(json_array_get(names, (size_t)i)));
        }
        struct culm_match equal = match(list, count, CULM_MATCH_EQUAL);
        struct culm_match fits = match(list, count, CULM_MATCH_FITS);
        struct culm_match inside = match(list, count, CULM_MATCH_INSIDE);
        want(name, row, "bytes", equal.total_bytes);
        want(name, row, "instances", equal.count);
        want(name, row, "saved", equal.saved_bytes);
        want(name, row, "saved_loose", fits.saved_bytes);
        want(name, row, "saved_loose_and_inside", inside.saved_bytes);
        check_groups(name, &equal);
        culm_match_release(&equal);
        culm_match_release(&fits);
        culm_match_release(&inside);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_eighteen),
        cmocka_unit_test(test_workloads),
    };
    return cmocka_run_group_tests_name("merge/structure", tests, build, drop);
}
