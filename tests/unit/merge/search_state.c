/*
 * States to go back to: of all models, or of those of a group; and searches that run out of memory.
 * The program's malloc and calloc fail when told to (see meson.build).
 */
#define MODELS 3
#define WORLD_LAST                                                                                 \
    { 5, 5, 6 }
#include "world.h"

#include "merge/search_parts.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);

static int fails_at; /* the call from now on that fails, from 1; 0: none */
static int calls;

void *__wrap_malloc(size_t size) { return ++calls == fails_at ? NULL : __real_malloc(size); }

void *__wrap_calloc(size_t count, size_t size) {
    return ++calls == fails_at ? NULL : __real_calloc(count, size);
}

static void fail_at(int call) {
    fails_at = call;
    calls = 0;
}

/* A group's state holds the numbers of its models and no others. */
static void test_of_a_group(void **state) {
    (void)state;
    struct world w;
    const bool own[MODELS] = {true, false, true};
    struct search_state of_group = {.own = own};
    world_init(&w, CULM_MERGE_CULM, 0.95, 1);
    culm_share_set(&w.share, 0, true);
    assert_int_equal(search_save(&w.search, &of_group, NULL), CULM_OK);
    culm_share_set(&w.share, 0, false);
    for (int32_t k = 0; k < MODELS; k++) {
        assert_int_equal(of_group.saved[k] != NULL, own[k]);
        w.model[k].value[0][0] += 1;
    }
    search_restore(&w.search, &of_group);
    for (int32_t k = 0; k < MODELS; k++) {
        const bool as_before = w.model[k].value[0][0] == w.model[k].original[0][0];
        assert_int_equal(as_before, own[k]);
    }
    assert_true(culm_share_count(&w.share, 0) > 1);
    search_state_release(&of_group, MODELS);
    world_release(&w);
}

/* Whichever call fails: there is no state, and nothing has been forgotten that is not of it. */
static void test_no_memory_for_a_state(void **state) {
    (void)state;
    struct world w;
    const bool own[MODELS] = {true, true, true};
    enum culm_status status = CULM_ERR_MEMORY;
    int failed = 0;
    world_init(&w, CULM_MERGE_CULM, 0.95, 1);
    for (int call = 1; status != CULM_OK; call++) {
        struct search_state saved = {.own = own};
        assert_int_equal(search_save(&w.search, &saved, NULL), CULM_OK);
        fail_at(call);
        status = search_save(&w.search, &saved, NULL);
        fail_at(0);
        if (status != CULM_OK) {
            assert_int_equal(status, CULM_ERR_MEMORY);
            assert_true(!saved.saved && !saved.share && !saved.now && saved.own == own);
            failed++;
        }
        search_state_release(&saved, MODELS);
    }
    assert_int_equal(failed,
                     3 + MODELS); /* lists of numbers and of accuracies, the share, the numbers */
    world_release(&w);
}

static enum culm_status graph_of(struct culm_vision_model *model, int64_t batch,
                                 struct culm_graph **ret_graph, struct culm_error *error) {
    fail_at(0);
    return net_graph(model, batch, ret_graph, error);
}

/* Before it runs the first model, a search divides what is shared among groups: whichever call fails, it
 * says so, and gives models and share back as they were. */
static void test_no_memory_for_groups(void **state) {
    (void)state;
    struct culm_vision_model_ops no_failures = net_ops;
    enum culm_status status = CULM_ERR_MEMORY;
    int failed = 0;
    no_failures.graph = graph_of;
    for (int call = 1; status != CULM_OK; call++) {
        struct world w;
        world_init(&w, CULM_MERGE_CULM, 0.95, 1);
        w.config.steps = 0;
        for (int32_t k = 0; k < MODELS; k++) {
            w.net[k].model.ops = &no_failures;
        }
        fail_at(call);
        status = culm_search_run(&w.search, NULL);
        fail_at(0);
        if (status != CULM_OK) {
            assert_int_equal(status, CULM_ERR_MEMORY);
            assert_int_equal(culm_share_saved(&w.share), 0);
            failed++;
        }
        world_release(&w);
    }
    assert_true(failed > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_a_group),
        cmocka_unit_test(test_no_memory_for_a_state),
        cmocka_unit_test(test_no_memory_for_groups),
    };
    return cmocka_run_group_tests_name("merge/search_state", tests, NULL, NULL);
}
