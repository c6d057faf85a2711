/*
 * Models that begin alike: where they are cut, and that one which goes on from what the other has made
 * comes to the same, to the last bit.
 */
#include "../merge/net.h"

#include "live/prefix.h"

#define ALIKE 10 /* parameters of the first two convolutions and their batch norms */
#define BATCH 3
#define BEHIND_SUM 3 /* operators: two convolutions, each with its batch norm, and a sum of both */

static struct culm_stage *stage_of(struct net *net, int64_t batch) {
    const struct culm_stage_options how = {.forward_only = true};
    struct culm_graph *plain, *fused;
    struct culm_stage *stage;
    assert_int_equal(culm_vision_model_graph(&net->model, batch, CULM_VISION_INFER, &plain, NULL),
                     CULM_OK);
    assert_int_equal(culm_graph_fuse(plain, &fused, NULL), CULM_OK);
    assert_int_equal(culm_stages_compile(fused, 1, &how, &stage, NULL), CULM_OK);
    culm_graph_free(plain);
    culm_graph_free(fused);
    return stage;
}

/* Two networks whose last layers differ, on one feed; the first parameters are the same. */
struct pair {
    struct net net[2];
    struct culm_stage *stage[2];
    int32_t source[2][PARAMS];
    struct culm_live_beginning of[2];
    struct culm_live_trunk trunk[2];
};

static void pair_init(struct pair *p) {
    *p = (struct pair){0};
    for (int q = 0; q < 2; q++) {
        net_init(&p->net[q], (uint64_t)q + 1, 5 + q);
        p->stage[q] = stage_of(&p->net[q], 1);
        assert_in_range(p->net[q].params, ALIKE + 1, PARAMS);
        for (int32_t i = 0; i < p->net[q].params; i++) {
            bool alike = strchr("cn", p->net[q].name[i][0]) && p->net[q].name[i][1] < '2';
            p->source[q][i] = alike ? i : 100 * (q + 1) + i;
        }
        p->of[q] = (struct culm_live_beginning){
            .stage = p->stage[q], .source = p->source[q], .input = &p->net[q].model.input};
    }
}

static void pair_release(struct pair *p) {
    for (int q = 0; q < 2; q++) {
        culm_stage_free(p->stage[q]);
        net_release(&p->net[q]);
    }
}

/* Where the second one is cut; 0: nowhere. Both say the same. */
static int32_t cut_of(struct pair *p) {
    assert_int_equal(culm_live_trunks(p->of, 2, p->trunk, NULL), CULM_OK);
    assert_int_equal(p->trunk[0].cuts, p->trunk[1].cuts);
    assert_in_range(p->trunk[0].cuts, 0, 1);
    assert_true(p->trunk[0].cut[0].id == p->trunk[1].cut[0].id);
    assert_int_equal(p->trunk[0].cut[0].operators, p->trunk[1].cut[0].operators);
    return p->trunk[1].cuts ? p->trunk[1].cut[0].operators : 0;
}

static int32_t param_of(const struct net *net, const char *name) {
    int32_t i = 0;
    while (strcmp(net->name[i], name) != 0) {
        assert_in_range(++i, 0, net->params - 1);
    }
    return i;
}

static void test_cut_is_behind_what_is_alike(void **state) {
    (void)state;
    struct pair p;
    pair_init(&p);
    assert_int_equal(cut_of(&p), BEHIND_SUM);
    assert_int_equal(p.trunk[1].cut[0].values, 1);
    assert_true(p.trunk[1].cut[0].work > 0.3 && p.trunk[1].cut[0].work < 1);
    /* Any number of the second one that differs: what crosses is what its sum reads as well, once. */
    for (int32_t i = 0; i < p.net[1].params; i++) {
        int32_t was = p.source[1][i];
        p.source[1][i] = 77;
        int32_t expected = was >= 100 ? BEHIND_SUM : p.net[1].name[i][1] == '1' ? 1 : 0;
        assert_int_equal(cut_of(&p), expected);
        p.source[1][i] = was;
    }
    p.net[1].model.input.mean[1] = 0.5F;
    assert_int_equal(cut_of(&p), 0);
    p.net[1].model.input.mean[1] = 0;
    p.of[1].feed = 1;
    assert_int_equal(cut_of(&p), 0);
    p.of[1].feed = 0;
    p.of[0].twin = p.of[1].twin = 1; /* then one of them has answered already */
    assert_int_equal(cut_of(&p), 0);
    pair_release(&p);
}

/* Whoever has no room for what is kept runs as if it were alone, and so does the other one. */
static void test_no_room_no_cut(void **state) {
    (void)state;
    struct pair p;
    int32_t cuts[2];
    for (size_t less = 0; less < 2; less++) {
        struct culm_live_times times = {.sizes = 1, .batch = {1}, .run_ms = {1}};
        struct culm_edge_query query[2] = {0};
        size_t frame = 0, tensor = 1000;
        int32_t list[] = {0};
        struct culm_edge_feed feed = {.period_ns = 1, .frame_bytes = frame};
        pair_init(&p);
        for (int q = 0; q < 2; q++) {
            query[q] = (struct culm_edge_query){.batches = 1,
                                                .batch = {1},
                                                .run_ns = {1000},
                                                .activation_bytes = {4096},
                                                .tensor = list,
                                                .tensor_count = 1};
            p.of[q].times = &times;
        }
        struct culm_edge_layout layout = {.query_count = 2,
                                          .feed_count = 1,
                                          .tensor_count = 1,
                                          .query = query,
                                          .feed = &feed,
                                          .tensor_bytes = &tensor,
                                          .limit_bytes = 1000 + 4096 + 4096 - less};
        assert_int_equal(culm_live_prefixes_lay(p.of, &layout, query, p.trunk, NULL), CULM_OK);
        cuts[less] = p.trunk[0].cuts + p.trunk[1].cuts;
        assert_int_equal(query[0].prefixes + query[1].prefixes, cuts[less]);
        assert_int_equal(query[0].activation_bytes[0], cuts[less] ? 8192 : 4096);
        pair_release(&p);
    }
    assert_int_equal(cuts[0], 2);
    assert_int_equal(cuts[1], 0);
}

/* A run of a batch; from the cut on if there is something kept. The output is the caller's. */
static float *run(struct net *net, struct culm_stage *stage, struct culm_device *device,
                  float *const *value, const float *image, const struct culm_live_cut *cut,
                  char *keep, bool from) {
    const struct culm_stage_info *info = culm_stage_info_of(stage);
    const float *param[PARAMS];
    float *turned[PARAMS];
    const void *fields[] = {image};
    int32_t crossing[CULM_LIVE_CROSSING_MAX];
    int32_t count = culm_live_crossing(stage, cut->operators, crossing);
    assert_int_equal(count, cut->values);
    for (int32_t i = 0; i < info->param_count; i++) {
        const struct culm_param *of =
            &culm_stage_program(stage)->param[info->params[i].global_index];
        int32_t at = param_of(net, of->name);
        turned[i] = aligned_alloc(64, ((size_t)culm_elements(&of->shape) * 4 + 63) & ~(size_t)63);
        culm_graph_turn(of, value[at], turned[i]);
        param[i] = turned[i];
    }
    struct culm_stage_run how = {.param = param,
                                 .fields = fields,
                                 .output = aligned_alloc(64, info->output_bytes + 64),
                                 .loss_scale = 1,
                                 .activations = aligned_alloc(64, info->activation_bytes + 64),
                                 .scratch = aligned_alloc(64, (info->scratch_bytes + 127) & ~63ull),
                                 .first = true};
    memset(how.scratch, 0xff, info->scratch_bytes); /* not a number */
    if (from) {
        how.cursor = cut->operators;
        culm_live_crossing_take(stage, &how, crossing, count, keep);
    }
    while (how.cursor < cut->operators) {
        culm_stage_execute(stage, device, &how, how.cursor++);
    }
    if (!from) {
        culm_live_crossing_keep(stage, &how, crossing, count, keep);
    }
    assert_int_equal(culm_stage_forward(stage, device, &how), CULM_OK);
    free(how.activations);
    free(how.scratch);
    for (int32_t i = 0; i < info->param_count; i++) {
        free(turned[i]);
    }
    return how.output;
}

static void test_same_bits(void **state) {
    (void)state;
    struct pair p;
    pair_init(&p);
    assert_int_equal(cut_of(&p), BEHIND_SUM);
    float *value[PARAMS];
    for (int32_t i = 0; i < p.net[1].params; i++) {
        value[i] = p.net[p.source[1][i] < 100 ? 0 : 1].original[i];
    }
    for (int64_t batch = 1; batch <= BATCH; batch += BATCH - 1) {
        struct culm_stage *stage[] = {stage_of(&p.net[0], batch), stage_of(&p.net[1], batch)};
        size_t bytes = culm_live_kept_bytes(&p.trunk[0], 1, (int32_t)batch);
        char *keep = aligned_alloc(4096, bytes), *other = aligned_alloc(4096, bytes);
        float *whole[2] = {0};
        for (int threads = 1; threads <= 2; threads++) {
            struct culm_device *device;
            const struct culm_live_cut *cut = &p.trunk[0].cut[0];
            assert_int_equal(culm_device_new(threads, &device, NULL), CULM_OK);
            float *first = run(&p.net[0], stage[0], device, p.net[0].original, p.net[0].image, cut,
                               keep, false);
            whole[threads - 1] =
                run(&p.net[1], stage[1], device, value, p.net[0].image, cut, other, false);
            float *rest = run(&p.net[1], stage[1], device, value, NULL, cut, keep, true);
            size_t output = culm_stage_info_of(stage[1])->output_bytes;
            assert_true(output >= (size_t)batch * CLASSES * sizeof(float));
            assert_memory_equal(rest, whole[threads - 1], (size_t)batch * CLASSES * sizeof(float));
            assert_memory_equal(rest, whole[0], (size_t)batch * CLASSES * sizeof(float));
            assert_true(memcmp(rest, first, (size_t)batch * CLASSES * sizeof(float)) != 0);
            free(first);
            free(rest);
            culm_device_free(device);
        }
        free(whole[0]);
        free(whole[1]);
        free(keep);
        free(other);
        culm_stage_free(stage[0]);
        culm_stage_free(stage[1]);
    }
    pair_release(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_is_behind_what_is_alike),
        cmocka_unit_test(test_no_room_no_cut),
        cmocka_unit_test(test_same_bits),
    };
    return cmocka_run_group_tests_name("live/prefix", tests, NULL, NULL);
}
