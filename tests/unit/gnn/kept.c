/*
 * What a stage forward leaves for backward: who finds it, that it is of the same epoch, weights and rows,
 * that it is read once and that there is no more of it than there may be. Whoever finds nothing makes the
 * same bits.
 */
#include "gnn/solo.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { K = 2 }; /* intervals */

struct run {
    struct culm_gnn_config config;
    struct culm_gnn_setup *setup, *without; /* `without` the graph */
    struct culm_blob_pool *pool;
    struct culm_device *device;
    struct culm_gnn_exec *owner, *worker, *anew; /* `anew` never has done anything forward */
    struct culm_blob *weights, *other_weights;
    int32_t first, middle; /* steps back through the first stage, and through one that reads rows */
    uint64_t dice;
};

/* What a task is given, all of its rows. */
struct given {
    int32_t interval;
    int64_t epoch;
    struct culm_blob *weights, *rows, *d_rows;
};

struct made {
    struct culm_blob *output, *gradient;
};

static struct culm_gnn_exec *exec_of(struct run *r, const struct culm_gnn_setup *setup,
                                     size_t kept_most) {
    const struct culm_gnn_numeric_options options = {.config = &r->config,
                                                     .config_text = "epochs: 3\n",
                                                     .signature = "test",
                                                     .model = setup->model,
                                                     .layout = &setup->layout,
                                                     .structure = setup->structure,
                                                     .graph = setup->graph,
                                                     .pool = r->pool,
                                                     .device = r->device,
                                                     .kept_most = kept_most};
    struct culm_gnn_exec *exec = NULL;
    assert_int_equal(culm_gnn_numeric_new(&options, &exec, NULL), CULM_OK);
    return exec;
}

static struct culm_gnn_task must(struct culm_gnn_exec *exec, struct culm_gnn_task task) {
    task.exec = exec;
    if (culm_gnn_task_execute(&task.job) != CULM_OK) {
        fail_msg("task %d: %s", task.kind, task.job.error.text);
    }
    return task;
}

static int64_t rows_of(const struct run *r, int32_t interval) {
    return culm_gnn_structure_rows(r->setup->structure, interval);
}

/* The same numbers in a blob of its own. */
static struct culm_blob *copy_of(struct run *r, const struct culm_blob *blob) {
    struct culm_blob *copy;
    assert_int_equal(culm_blob_pool_get(r->pool, blob->size_bytes, &copy), CULM_OK);
    memcpy(copy->data, blob->data, blob->size_bytes);
    return copy;
}

/* Some rows for a gather to have made. NULL: the step reads none. */
static struct culm_blob *some_rows(struct run *r, int32_t gather, int32_t interval) {
    if (gather < 0) {
        return NULL;
    }
    size_t bytes = (size_t)rows_of(r, interval) * r->setup->layout.gather[gather].row_bytes;
    struct culm_blob *rows;
    assert_int_equal(culm_blob_pool_get(r->pool, bytes, &rows), CULM_OK);
    for (size_t i = 0; i < bytes / sizeof(float); i++) {
        ((float *)rows->data)[i] = culm_rng_unit((uint32_t)culm_rng_next(&r->dice)) - 0.5f;
    }
    return rows;
}

/* The step forward through the stage of a step back. */
static int32_t forward_of(const struct run *r, int32_t back) {
    int32_t step = 0;
    while (r->setup->layout.step[step].kind != CULM_GNN_FORWARD ||
           r->setup->layout.step[step].stage != r->setup->layout.step[back].stage) {
        step++;
    }
    return step;
}

static void take(struct run *r, struct culm_gnn_exec *exec, int32_t interval) {
    struct culm_blob *packed =
        must(r->owner, (struct culm_gnn_task){.kind = CULM_GNN_TASK_PACK, .interval = interval})
            .output;
    must(exec,
         (struct culm_gnn_task){.kind = CULM_GNN_TASK_TAKE, .interval = interval, .input = packed});
    culm_blob_unref(packed);
}

static void make(struct run *r, const char *more) {
    char text[1024];
    struct culm_error error = {0};
    memset(r, 0, sizeof *r);
    r->dice = 5;
    snprintf(text, sizeof text,
             "graph: {path: %s/dense}\nepochs: 3\nintervals: %d\n"
             "model: {layers: 3, width: 6}\n%s",
             getenv("CULM_GOLDEN"), K, more);
    if (culm_gnn_config_parse(text, strlen(text), "test", NULL, 0, &r->config, &error) ||
        culm_gnn_setup_open(&r->config, NULL, &r->setup, &error) ||
        culm_gnn_setup_plan(&r->config, &r->setup->model->plan, &r->without, &error)) {
        fail_msg("%s", error.text);
    }
    struct culm_gnn_layout *const layouts[] = {&r->setup->layout, &r->without->layout};
    for (int l = 0; l < 2; l++) { /* else intervals as small as these have one block */
        layouts[l]->block_least = layouts[l]->block_unit = 16;
    }
    r->first = r->middle = -1;
    for (int32_t s = 0; s < r->setup->layout.steps; s++) {
        const struct culm_gnn_step *step = &r->setup->layout.step[s];
        bool keeps = r->config.order != CULM_GNN_ORDER_PUBLISHED;
        assert_int_equal(step->kept, keeps && step->kind == CULM_GNN_BACKWARD);
        if (step->kind == CULM_GNN_BACKWARD) {
            *(step->rows < 0 ? &r->first : &r->middle) = s;
        }
    }
    r->pool = culm_blob_pool_new(0);
    assert_int_equal(culm_device_new(1, &r->device, NULL), CULM_OK);
    r->owner = exec_of(r, r->setup, 0);
    r->worker = exec_of(r, r->without, 0);
    r->anew = exec_of(r, r->without, 0);
    for (int32_t i = 0; i < K; i++) {
        must(r->owner, (struct culm_gnn_task){.kind = CULM_GNN_TASK_OWN, .interval = i});
        take(r, r->worker, i);
        take(r, r->anew, i);
    }
    must(r->owner, (struct culm_gnn_task){.kind = CULM_GNN_TASK_LOAD, .source_path = ""});
    r->weights = must(r->owner, (struct culm_gnn_task){.kind = CULM_GNN_TASK_WEIGHTS}).output;
    r->other_weights = copy_of(r, r->weights);
    for (size_t i = 0; i < r->weights->size_bytes / sizeof(float); i++) {
        ((float *)r->other_weights->data)[i] *= 1.25f;
    }
}

/* Nobody keeps anything then. */
static void drop(struct run *r) {
    struct culm_gnn_exec *const execs[] = {r->owner, r->worker, r->anew};
    for (int e = 0; e < 3; e++) {
        for (int32_t i = 0; i < K; i++) {
            must(execs[e], (struct culm_gnn_task){.kind = CULM_GNN_TASK_DROP, .interval = i});
        }
        assert_int_equal(culm_gnn_numeric_kept(execs[e]).bytes, 0);
        culm_gnn_numeric_free(execs[e]);
    }
    culm_blob_unref(r->weights);
    culm_blob_unref(r->other_weights);
    struct culm_blob_pool_stats stats;
    culm_blob_pool_stats_of(r->pool, &stats);
    assert_int_equal(stats.used_bytes, 0);
    culm_device_free(r->device);
    culm_blob_pool_free(r->pool);
    culm_gnn_setup_close(r->setup);
    culm_gnn_setup_close(r->without);
    culm_gnn_config_release(&r->config);
}

static struct given some(struct run *r, int32_t back, int32_t interval, int64_t epoch) {
    const struct culm_gnn_step *step = &r->setup->layout.step[back];
    return (struct given){.interval = interval,
                          .epoch = epoch,
                          .weights = r->weights,
                          .rows = some_rows(r, step->rows, interval),
                          .d_rows = some_rows(r, step->d_rows, interval)};
}

static void forget(struct given *given) {
    culm_blob_clear(&given->rows);
    culm_blob_clear(&given->d_rows);
}

static int32_t blocks_of(const struct run *r, int32_t step, int32_t interval) {
    return culm_gnn_layout_blocks(&r->setup->layout, step, rows_of(r, interval));
}

/* A block as it comes to a worker: in a blob of its own. */
static struct culm_blob *part(struct run *r, const struct culm_blob *rows, int64_t n,
                              int32_t blocks, int32_t block) {
    if (!rows) {
        return NULL;
    }
    int64_t first, count = culm_gnn_layout_block(&r->setup->layout, n, blocks, block, &first);
    size_t row = rows->size_bytes / (size_t)n;
    struct culm_blob *some;
    assert_int_equal(culm_blob_pool_get(r->pool, (size_t)count * row, &some), CULM_OK);
    memcpy(some->data, (const char *)rows->data + (size_t)first * row, some->size_bytes);
    return some;
}

/* A step of all rows at once, as servers do it, or of each block by itself, as workers do. */
static struct made apply(struct run *r, struct culm_gnn_exec *exec, int32_t step,
                         const struct given *given, bool each) {
    int32_t blocks = each ? blocks_of(r, step, given->interval) : 1;
    const struct culm_gnn_step *what = &r->setup->layout.step[step];
    struct culm_gnn_task task = {.kind = CULM_GNN_TASK_APPLY,
                                 .interval = given->interval,
                                 .step = step,
                                 .epoch = given->epoch,
                                 .weights = given->weights};
    for (int32_t b = 0; b < blocks; b++) {
        int64_t n = rows_of(r, given->interval);
        struct culm_blob *rows = what->rows >= 0 ? given->rows : NULL;
        struct culm_blob *d_rows = what->d_rows >= 0 ? given->d_rows : NULL;
        task.block = blocks > 1 ? b + 1 : 0;
        task.rows = each ? part(r, rows, n, blocks, b) : culm_blob_ref(rows);
        task.d_rows = each ? part(r, d_rows, n, blocks, b) : culm_blob_ref(d_rows);
        task = must(exec, task);
        culm_blob_unref(task.rows);
        culm_blob_unref(task.d_rows);
    }
    return (struct made){task.output, task.gradient};
}

static void assert_same(const struct culm_blob *a, const struct culm_blob *b) {
    assert_int_equal(a != NULL, b != NULL);
    if (a) {
        assert_int_equal(a->size_bytes, b->size_bytes);
        assert_memory_equal(a->data, b->data, a->size_bytes);
    }
}

static void forward(struct run *r, struct culm_gnn_exec *exec, int32_t back,
                    const struct given *given, bool each) {
    struct made made = apply(r, exec, forward_of(r, back), given, each);
    culm_blob_unref(made.output);
}

/* Goes back and finds so many pieces; the bits are those of somebody who has found none. */
static void assert_found(struct run *r, struct culm_gnn_exec *exec, int32_t back,
                         const struct given *given, bool each, int64_t found) {
    int64_t before = culm_gnn_numeric_kept(exec).read;
    struct made have = apply(r, exec, back, given, each);
    assert_int_equal(culm_gnn_numeric_kept(exec).read - before, found);
    struct made want = apply(r, r->anew, back, given, each);
    assert_int_equal(culm_gnn_numeric_kept(r->anew).read, 0);
    assert_non_null(have.gradient);
    assert_same(have.gradient, want.gradient);
    assert_same(have.output, want.output);
    culm_blob_unref(have.gradient);
    culm_blob_unref(have.output);
    culm_blob_unref(want.gradient);
    culm_blob_unref(want.output);
}

/* --- who finds it --- */

/* An owner is given the same blobs for both; a piece of each block is found, and once. */
static void test_owner(void **state) {
    (void)state;
    struct run r;
    make(&r, "");
    const int32_t steps[] = {r.first, r.middle};
    for (int s = 0; s < 2; s++) {
        struct given given = some(&r, steps[s], 1, 1);
        int32_t blocks = blocks_of(&r, steps[s], 1);
        assert_true(blocks > 1);
        forward(&r, r.owner, steps[s], &given, false);
        assert_true(culm_gnn_numeric_kept(r.owner).bytes > 0);
        assert_found(&r, r.owner, steps[s], &given, false, blocks);
        assert_int_equal(culm_gnn_numeric_kept(r.owner).bytes, 0);
        assert_found(&r, r.owner, steps[s], &given, false, 0);
        forget(&given);
    }
    drop(&r);
}

/* A worker has nothing to wait for forward through the first stage, and goes back block by block. Of
 * another stage it is sent the rows once more. */
static void test_worker(void **state) {
    (void)state;
    struct run r;
    make(&r, "");
    const int32_t steps[] = {r.first, r.middle};
    for (int s = 0; s < 2; s++) {
        struct given given = some(&r, steps[s], 0, 1);
        int32_t blocks = blocks_of(&r, steps[s], 0);
        assert_true(blocks > 1);
        forward(&r, r.worker, steps[s], &given, s > 0);
        assert_found(&r, r.worker, steps[s], &given, true, blocks);
        assert_int_equal(culm_gnn_numeric_kept(r.worker).bytes, 0);
        assert_found(&r, r.worker, steps[s], &given, true, 0);
        forget(&given);
    }
    drop(&r);
}

/* In Dorylus's own order everything is computed again. */
static void test_published(void **state) {
    (void)state;
    struct run r;
    make(&r, "order: published\n");
    struct given given = some(&r, r.middle, 0, 1);
    struct culm_gnn_exec *const exec[] = {r.owner, r.worker};
    for (int e = 0; e < 2; e++) {
        forward(&r, exec[e], r.middle, &given, e > 0);
        assert_int_equal(culm_gnn_numeric_kept(exec[e]).bytes, 0);
    }
    forget(&given);
    drop(&r);
}

/* --- what is not found --- */

/* What nobody has read of an epoch that is over holds no memory, nor that epoch's weights. */
static void test_old(void **state) {
    (void)state;
    struct run r;
    make(&r, "");
    size_t first = 0;
    for (int64_t epoch = 1; epoch <= 4; epoch++) {
        int32_t interval = (int32_t)(epoch % K);
        struct given given = some(&r, r.middle, interval, 1);
        given.epoch = epoch;
        forward(&r, r.worker, r.middle, &given, true);
        forget(&given);
        size_t bytes = culm_gnn_numeric_kept(r.worker).bytes;
        first = epoch == 1 ? bytes : first;
        assert_true(bytes > first / 2 && bytes < first + first / 2);
    }
    drop(&r);
}

static void test_of_others(void **state) {
    (void)state;
    struct run r;
    make(&r, "");
    const int32_t steps[] = {r.first, r.middle};
    for (int s = 0; s < 2; s++) {
        int32_t blocks = blocks_of(&r, steps[s], 0);
        for (int owns = 0; owns < 2; owns++) {
            struct culm_gnn_exec *exec = owns ? r.owner : r.worker;
            struct given given = some(&r, steps[s], 0, 1);
            given.epoch = 2;
            struct given other = given;
            forward(&r, exec, steps[s], &given, !owns && s > 0);
            other.epoch = 1;
            assert_found(&r, exec, steps[s], &other, !owns, 0);
            other = given;
            other.weights = r.other_weights;
            assert_found(&r, exec, steps[s], &other, !owns, 0);
            other = given;
            other.interval = 1; /* which has as many rows, or one more */
            other.rows = some_rows(&r, r.setup->layout.step[steps[s]].rows, 1);
            other.d_rows = some_rows(&r, r.setup->layout.step[steps[s]].d_rows, 1);
            assert_found(&r, exec, steps[s], &other, !owns, 0);
            forget(&other);
            assert_found(&r, exec, steps[s], &given, !owns, blocks);
            forget(&given);
        }
    }
    drop(&r);
}

/* Other rows, of the last block alone: an owner finds nothing, a worker all other blocks. */
static void test_other_rows(void **state) {
    (void)state;
    struct run r;
    make(&r, "");
    int32_t blocks = blocks_of(&r, r.middle, 0);
    for (int owns = 0; owns < 2; owns++) {
        struct culm_gnn_exec *exec = owns ? r.owner : r.worker;
        struct given given = some(&r, r.middle, 0, 1);
        struct given other = given;
        forward(&r, exec, r.middle, &given, !owns);
        other.rows = copy_of(&r, given.rows);
        ((float *)other.rows->data)[other.rows->size_bytes / sizeof(float) - 1] += 1;
        assert_found(&r, exec, r.middle, &other, !owns, owns ? 0 : blocks - 1);
        /* What was found is gone; what was not is still there, for whoever has the rows that it is of. */
        assert_found(&r, exec, r.middle, &given, !owns, owns ? blocks : 1);
        culm_blob_unref(other.rows);
        forget(&given);
    }
    drop(&r);
}

/* Forward is done once more, with other rows: what it left before is of no use. */
static void test_forward_again(void **state) {
    (void)state;
    struct run r;
    make(&r, "");
    struct given given = some(&r, r.middle, 0, 1), other = some(&r, r.middle, 0, 1);
    forward(&r, r.worker, r.middle, &given, true);
    forward(&r, r.worker, r.middle, &other, true);
    assert_found(&r, r.worker, r.middle, &given, true, 0);
    assert_found(&r, r.worker, r.middle, &other, true, blocks_of(&r, r.middle, 0));
    /* of all rows at once: not what blocks are given, nor what blocks left before */
    forward(&r, r.worker, r.middle, &given, true);
    forward(&r, r.worker, r.middle, &other, false);
    assert_found(&r, r.worker, r.middle, &given, true, 0);
    assert_found(&r, r.worker, r.middle, &other, true, 0);
    forget(&given);
    forget(&other);
    drop(&r);
}

/* --- how much there is of it --- */

/* A worker has the rows for itself alone; an owner has them anyway. */
static void test_rows_count(void **state) {
    (void)state;
    struct run r;
    make(&r, "");
    struct given given = some(&r, r.middle, 0, 1);
    forward(&r, r.owner, r.middle, &given, false);
    forward(&r, r.worker, r.middle, &given, true);
    assert_int_equal(culm_gnn_numeric_kept(r.worker).bytes,
                     culm_gnn_numeric_kept(r.owner).bytes + given.rows->size_bytes);
    forget(&given);
    drop(&r);
}

static void test_bound(void **state) {
    (void)state;
    struct run r;
    make(&r, "");
    const int32_t steps[] = {r.first, r.middle};
    for (int s = 0; s < 2; s++) {
        struct given given[] = {some(&r, steps[s], 0, 1), some(&r, steps[s], 1, 1)};
        int32_t blocks = blocks_of(&r, steps[s], 1);
        size_t most = 0;
        for (int i = 0; i < K; i++) { /* as much as one of the intervals takes */
            forward(&r, r.worker, steps[s], &given[i], s > 0);
            size_t bytes = culm_gnn_numeric_kept(r.worker).bytes;
            most = bytes > most ? bytes : most;
            assert_found(&r, r.worker, steps[s], &given[i], true,
                         blocks_of(&r, steps[s], given[i].interval));
        }
        struct culm_gnn_exec *little = exec_of(&r, r.without, most);
        for (int i = 0; i < K; i++) {
            take(&r, little, i);
        }
        for (int i = 0; i < K; i++) {
            forward(&r, little, steps[s], &given[i], s > 0);
            assert_in_range(culm_gnn_numeric_kept(little).bytes, 1, most);
        }
        assert_found(&r, little, steps[s], &given[1], true, 0);
        /* That of the first is not read; it makes room in the next epoch, as now in this one not. */
        given[1].epoch = 2;
        forward(&r, little, steps[s], &given[1], s > 0);
        assert_in_range(culm_gnn_numeric_kept(little).bytes, 1, most);
        assert_found(&r, little, steps[s], &given[0], true, 0);
        assert_found(&r, little, steps[s], &given[1], true, blocks);
        culm_gnn_numeric_free(little);
        struct culm_gnn_exec *none = exec_of(&r, r.without, 1);
        take(&r, none, 1);
        forward(&r, none, steps[s], &given[1], s > 0);
        assert_int_equal(culm_gnn_numeric_kept(none).bytes, 0);
        assert_found(&r, none, steps[s], &given[1], true, 0);
        culm_gnn_numeric_free(none);
        forget(&given[0]);
        forget(&given[1]);
    }
    drop(&r);
}

/* A function of 128 MB has 64 for constant input, and 16 for this. */
static void test_in_functions(void **state) {
    (void)state;
    static const struct {
        enum culm_gnn_engine engine;
        int64_t memory_mb;
        bool works;
        size_t most_mb;
    } cases[] = {
        {CULM_GNN_LAMBDA, 128, true, 16},  {CULM_GNN_LAMBDA, 504, true, 63},
        {CULM_GNN_LAMBDA, 512, true, 64},  {CULM_GNN_LAMBDA, 10240, true, 64},
        {CULM_GNN_LAMBDA, 0, true, 64},    {CULM_GNN_LAMBDA, 128, false, 64},
        {CULM_GNN_GEARMAN, 128, true, 64},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct culm_gnn_config config = {.engine = cases[i].engine,
                                               .lambda = {.memory_mb = cases[i].memory_mb}};
        assert_int_equal(culm_gnn_kept_most(&config, cases[i].works), cases[i].most_mb << 20);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_owner),         cmocka_unit_test(test_worker),
        cmocka_unit_test(test_published),     cmocka_unit_test(test_old),
        cmocka_unit_test(test_of_others),     cmocka_unit_test(test_other_rows),
        cmocka_unit_test(test_forward_again), cmocka_unit_test(test_bound),
        cmocka_unit_test(test_rows_count),    cmocka_unit_test(test_in_functions),
    };
    return cmocka_run_group_tests_name("gnn/kept", tests, NULL, NULL);
}
