/* Channels that changed places are found again, through a residual sum and behind a pool. */
#include "merge/align.h"

#include "net.h"

#define LAST 6

static float *of(struct net *net, const char *name) {
    for (int32_t i = 0; i < net->params; i++) {
        if (strcmp(net->name[i], name) == 0) {
            return net->original[i];
        }
    }
    fail_msg("no parameter '%s'", name);
    return NULL;
}

/* New place i of the second dimension of [outer, columns, inner] is old place order[i]. */
static void shuffle(float *data, int64_t outer, int64_t columns, int64_t inner,
                    const int32_t *order) {
    float old[1024];
    assert_true(columns * inner <= 1024);
    for (int64_t o = 0; o < outer; o++, data += columns * inner) {
        memcpy(old, data, (size_t)(columns * inner) * sizeof *old);
        for (int64_t c = 0; c < columns; c++) {
            memcpy(data + c * inner, old + order[c] * inner, (size_t)inner * sizeof *old);
        }
    }
}

/* The same network, with the channels of the residual stream and those of the last convolution in other
 * places. */
static void disguise(struct net *net) {
    static const int32_t stream[] = {2, 0, 3, 1}, last[] = {5, 3, 0, 1, 4, 2};
    static const char *const vector[] = {"n0.0", "n0.1", "n0.2", "n0.3",
                                         "n1.0", "n1.1", "n1.2", "n1.3"};
    shuffle(of(net, "c0"), 1, 4, 27, stream);
    shuffle(of(net, "c1"), 1, 4, 36, stream);
    shuffle(of(net, "c1"), 4, 4, 9, stream);
    shuffle(of(net, "c2"), LAST, 4, 9, stream);
    for (size_t i = 0; i < sizeof vector / sizeof *vector; i++) {
        shuffle(of(net, vector[i]), 1, 4, 1, stream);
    }
    shuffle(of(net, "c2"), 1, LAST, 36, last);
    shuffle(of(net, "head"), CLASSES, LAST, 1, last);
}

static void check(bool same_frames) {
    struct net net[2];
    struct culm_merge_model model[2], *models[2] = {&model[0], &model[1]};
    const struct culm_vision_layers *layers[2];
    struct culm_fit_frames frames[2];
    struct culm_match match;
    struct culm_share share;
    struct culm_device *device = NULL;
    struct culm_error error = {0};
    int64_t moved = -1;
    for (int i = 0; i < 2; i++) {
        net_init(&net[i], 5, LAST);
        if (i == 1) {
            disguise(&net[i]);
        }
        assert_int_equal(culm_merge_model_init(&model[i], &net[i].model, &error), CULM_OK);
        layers[i] = &model[i].layers;
        frames[i] = (struct culm_fit_frames){net[same_frames ? 0 : i].image, SAMPLES};
    }
    assert_int_equal(culm_device_new(1, &device, &error), CULM_OK);
    assert_int_equal(culm_match_find(layers, 2, CULM_MATCH_EQUAL, &match, &error), CULM_OK);
    assert_int_equal(culm_share_init(&share, &match, models, 2, &error), CULM_OK);
    if (culm_align(models, 2, &share, frames, device, &moved, &error)) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(moved, same_frames ? 4 + 5 : 0);
    for (int32_t p = 0; p < model[0].param_count; p++) {
        size_t bytes = 4 * (size_t)culm_merge_param_elements(&model[0], p);
        bool as_first = memcmp(model[1].aligned[p], model[0].original[p], bytes) == 0;
        bool as_it_was = memcmp(model[1].aligned[p], model[1].original[p], bytes) == 0;
        if (same_frames ? !as_first : !as_it_was) {
            fail_msg("'%s' is not where it should be", net[0].name[p]);
        }
        assert_memory_equal(model[0].aligned[p], model[0].original[p], bytes);
    }
    culm_share_release(&share);
    culm_device_free(device);
    for (int i = 0; i < 2; i++) {
        culm_merge_model_release(&model[i]);
        net_release(&net[i]);
    }
}

static void test_found_again(void **state) {
    (void)state;
    check(true);
}

/* What was not seen by both cannot be compared. */
static void test_other_frames(void **state) {
    (void)state;
    check(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found_again),
        cmocka_unit_test(test_other_frames),
    };
    return cmocka_run_group_tests_name("merge/align", tests, NULL, NULL);
}
