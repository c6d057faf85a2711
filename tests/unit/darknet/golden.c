/*
 * The eleven detectors: the maps that enter the [yolo] sections of three of them on two frames, against
 * those of an independent program. CULM_EDGE: the folder of models and expected outputs; without it
 * there is nothing to do.
 */
#include "darknet/darknet.h"

#include "base/file.h"
#include "data/image.h"
#include "store/safetensors.h"
#include "vision/runner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *edge(void) {
    const char *folder = getenv("CULM_EDGE");
    if (!folder || !*folder) {
        print_message("no models: set CULM_EDGE to their folder\n");
        skip();
    }
    return folder;
}

static void ok(enum culm_status status, const struct culm_error *error) {
    if (status != CULM_OK) {
        fail_msg("%s", error->text);
    }
}

static void read_picture(const char *path, struct culm_image *image) {
    struct culm_error error = {0};
    char *data;
    size_t len;
    ok(culm_file_read(NULL, path, 1u << 26, &data, &len, &error), &error);
    ok(culm_image_decode(data, len, path, 3, image, &error), &error);
    free(data);
}

static double heads(const char *folder, const char *name, const char *frame,
                    const struct culm_safetensors *golden) {
    char path[CULM_PATH_MAX], key[256];
    struct culm_error error = {0};
    struct culm_vision_model *model = NULL;
    struct culm_vision_runner runner = {0};
    struct culm_device *device = NULL;
    struct culm_image image = {0};
    double worst = 0;
    snprintf(path, sizeof path, "%s/detectors/%s.cfg", folder, name);
    ok(culm_darknet_open(path, NULL, &model, &error), &error);
    ok(culm_device_new(1, &device, &error), &error);
    ok(culm_vision_runner_init(&runner, model, 1, 0, device, &error), &error);
    snprintf(path, sizeof path, "%s/golden/frames/%s-320.png", folder, frame);
    read_picture(path, &image);
    assert_int_equal(image.height, model->input.height);
    assert_int_equal(image.width, model->input.width);
    for (int64_t i = 0; i < 320 * 320 * 3; i++) {
        runner.image[i] = (float)image.data[i] / 255;
    }
    culm_vision_runner_run(&runner);
    for (int32_t h = 0; h < model->head_count; h++) {
        struct culm_shape shape;
        const float *have = culm_vision_runner_output(&runner, h, 0, &shape);
        int64_t rows = shape.dim[0] * shape.dim[1], c = shape.dim[2];
        const int64_t dims[] = {1, c, shape.dim[0], shape.dim[1]};
        float *want = malloc((size_t)(rows * c) * sizeof *want);
        snprintf(key, sizeof key, "%s/%s/head%d", name, frame, (int)h);
        ok(culm_safetensors_read(golden, key, 4, dims, want, &error), &error);
        for (int64_t i = 0; i < rows * c; i++) {
            double off = have[i] - want[i % c * rows + i / c];
            off = off < 0 ? -off : off;
            worst = off <= worst ? worst : off; /* a NaN counts */
        }
        free(want);
    }
    culm_image_release(&image);
    culm_vision_runner_release(&runner);
    culm_device_free(device);
    culm_vision_model_free(model);
    return worst;
}

static void test_heads(void **state) {
    (void)state;
    static const char *const names[] = {"yolo-fastest-1.1-coco", "yolo-fastest-1.1-body",
                                        "mobilenetv2-yolov3-nano-voc"};
    static const char *const frames[] = {"one-by-one-person-detection-0700", "classroom-0020"};
    const char *folder = edge();
    char path[CULM_PATH_MAX];
    struct culm_error error = {0};
    struct culm_safetensors *golden = NULL;
    snprintf(path, sizeof path, "%s/golden/heads.safetensors", folder);
    ok(culm_safetensors_open(path, &golden, &error), &error);
    for (int n = 0; n < 3; n++) {
        for (int f = 0; f < 2; f++) {
            double worst = heads(folder, names[n], frames[f], golden);
            printf("# %s on %s: %.2g\n", names[n], frames[f], worst);
            assert_true(worst < 1e-3);
        }
    }
    culm_safetensors_close(golden);
}

/* Every file has the size that its configuration asks for, every number can be read, and the layers
 * have the bytes that structure.json says. */
static void test_all_open(void **state) {
    (void)state;
    const char *folder = edge();
    struct culm_names names = {0};
    char path[CULM_PATH_MAX];
    struct culm_error error = {0};
    int opened = 0;
    snprintf(path, sizeof path, "%s/detectors", folder);
    ok(culm_dir_list(path, &names, &error), &error);
    for (size_t i = 0; i < names.count; i++) {
        if (!strstr(names.name[i], ".cfg")) {
            continue;
        }
        struct culm_vision_model *model = NULL;
        struct culm_graph *graph = NULL;
        snprintf(path, sizeof path, "%s/detectors/%s", folder, names.name[i]);
        ok(culm_darknet_open(path, NULL, &model, &error), &error);
        assert_non_null(model->class_name); /* all have names beside them */
        ok(culm_vision_model_graph(model, 1, CULM_VISION_INFER, &graph, &error), &error);
        for (int32_t p = 0; p < graph->param_count; p++) {
            float *data = malloc((size_t)culm_elements(&graph->param[p].shape) * sizeof *data);
            ok(culm_vision_model_weights(model, &graph->param[p], data, &error), &error);
            free(data);
        }
        culm_graph_free(graph);
        culm_vision_model_free(model);
        opened++;
    }
    culm_names_release(&names);
    assert_int_equal(opened, 11);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_open),
        cmocka_unit_test(test_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
