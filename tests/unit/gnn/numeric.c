/*
 * The tasks of a run as several processes share them: two servers, a worker that has only what was
 * packed for it, holders that are copies of each other. Whoever does what, in whatever order, the bits
 * are those of one process. And what is damaged on its way is found.
 */
#include "../folder.h"

#include "gnn/solo.h"

#include "data/graph_write.h"
#include "store/checkpoint.h"
#include "store/manifest.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { K = 5, EPOCHS = 3 };

struct run {
    struct culm_gnn_config config;
    struct culm_gnn_setup *setup, *without; /* `without` the graph */
    struct culm_blob_pool *pool;
    struct culm_device *device;
    struct culm_gnn_exec *server[2], *worker, *holder[3];
};

static struct culm_apart *apart; /* of those that are made next */

static int owner_of(int32_t interval) { return interval >= 2; }

static struct culm_gnn_exec *exec_in(struct run *r, const struct culm_gnn_setup *setup,
                                     const char *run_dir, struct culm_depot *depot) {
    const struct culm_gnn_numeric_options options = {
        .config = &r->config,
        .config_text = "epochs: 3\n",
        .signature = "test",
        .run_dir = run_dir,
        .depot = depot,
        .apart = apart,
        .model = setup->model,
        .layout = &setup->layout,
        .structure = setup->structure,
        .graph = setup->graph,
        .pool = r->pool,
        .device = r->device,
    };
    struct culm_gnn_exec *exec = NULL;
    assert_int_equal(culm_gnn_numeric_new(&options, &exec, NULL), CULM_OK);
    return exec;
}

static struct culm_gnn_exec *exec_of(struct run *r, const struct culm_gnn_setup *setup) {
    return exec_in(r, setup, folder, NULL);
}

static enum culm_status run_task(struct culm_gnn_exec *exec, struct culm_gnn_task *task) {
    task->exec = exec;
    return culm_gnn_task_execute(&task->job);
}

static struct culm_gnn_task must(struct culm_gnn_exec *exec, struct culm_gnn_task task) {
    if (run_task(exec, &task)) {
        fail_msg("task %d: %s", task.kind, task.job.error.text);
    }
    return task;
}

static void make_of(struct run *r, const char *place, const char *graph, const char *more) {
    char text[1024];
    struct culm_error error = {0};
    struct culm_gnn_plan plan;
    snprintf(text, sizeof text, "graph: {path: %s/%s}\nepochs: 3\nintervals: %d\n%s", place, graph,
             K, more);
    memset(r, 0, sizeof *r);
    if (culm_gnn_config_parse(text, strlen(text), "test", NULL, 0, &r->config, &error) ||
        culm_gnn_setup_open(&r->config, NULL, &r->setup, &error)) {
        fail_msg("%s", error.text);
    }
    json_t *json = culm_gnn_plan_json(&r->setup->model->plan);
    assert_int_equal(culm_gnn_plan_read(json, &plan, NULL), CULM_OK);
    json_decref(json);
    assert_int_equal(culm_gnn_setup_plan(&r->config, &plan, &r->without, NULL), CULM_OK);
    r->pool = culm_blob_pool_new(0);
    assert_int_equal(culm_device_new(1, &r->device, NULL), CULM_OK);
    for (int s = 0; s < 2; s++) {
        r->server[s] = exec_of(r, r->setup);
    }
    r->worker = exec_of(r, r->without);
    for (int h = 0; h < 3; h++) {
        r->holder[h] = exec_of(r, r->without);
    }
}

static void make(struct run *r, const char *graph, const char *more) {
    make_of(r, getenv("CULM_GOLDEN"), graph, more);
}

static void drop(struct run *r) {
    for (int s = 0; s < 2; s++) {
        culm_gnn_numeric_free(r->server[s]);
    }
    culm_gnn_numeric_free(r->worker);
    for (int h = 0; h < 3; h++) {
        culm_gnn_numeric_free(r->holder[h]);
    }
    struct culm_blob_pool_stats stats;
    culm_blob_pool_stats_of(r->pool, &stats);
    assert_int_equal(stats.used_bytes, 0); /* nobody kept anything */
    culm_device_free(r->device);
    culm_blob_pool_free(r->pool);
    culm_gnn_setup_close(r->setup);
    culm_gnn_setup_close(r->without);
    culm_gnn_config_release(&r->config);
}

/* --- an epoch, shared --- */

struct epoch {
    struct culm_blob *made[CULM_GNN_STEPS_MAX][K], *gathered[CULM_GNN_STEPS_MAX][K];
    struct culm_slice *slice[CULM_GNN_STAGES_MAX];
    double loss[K];
};

static void gather(struct run *r, struct epoch *e, int64_t epoch, int32_t g, int32_t i) {
    const struct culm_gnn_layout *layout = &r->setup->layout;
    bool transposed = layout->gather[g].transposed;
    struct culm_gnn_source source[K];
    struct culm_set readers[K];
    struct culm_blob *slice[K] = {NULL};
    int32_t count = 0;
    memset(readers, 0, sizeof readers);
    for (int32_t j = 0; j < K; j++) {
        if (!culm_set_has(&layout->reads[transposed][i], j)) {
            continue;
        }
        source[count] = (struct culm_gnn_source){.interval = j, .blob = e->made[g][j]};
        if (owner_of(i) != owner_of(j)) {
            for (int32_t k = 0; k < K; k++) {
                if (owner_of(k) == owner_of(i) &&
                    culm_set_has(&layout->read_by[transposed][j], k)) {
                    assert_true(culm_set_add(&readers[j], k));
                }
            }
            slice[j] =
                must(r->server[owner_of(j)], (struct culm_gnn_task){.kind = CULM_GNN_TASK_SLICE,
                                                                    .interval = j,
                                                                    .gather = g,
                                                                    .input = e->made[g][j],
                                                                    .readers = readers[j]})
                    .output;
            source[count].blob = slice[j];
            source[count].readers = &readers[j];
        }
        count++;
    }
    struct culm_blob *made[CULM_GNN_STEPS_MAX], *gathered[CULM_GNN_STEPS_MAX];
    for (int32_t k = 0; k < layout->gathers; k++) {
        made[k] = e->made[k][i];
        gathered[k] = e->gathered[k][i];
    }
    struct culm_gnn_task task = {.kind = CULM_GNN_TASK_GATHER,
                                 .interval = i,
                                 .gather = g,
                                 .epoch = epoch,
                                 .made = made,
                                 .gathered = gathered,
                                 .source = source,
                                 .source_count = count};
    e->gathered[g][i] = must(r->server[owner_of(i)], task).output;
    if (count > 1) { /* not with a part of what it reads */
        task.source_count--;
        assert_int_equal(run_task(r->server[owner_of(i)], &task), CULM_ERR_INTERNAL);
        assert_non_null(strstr(task.job.error.text, "rows and was given"));
    }
    for (int32_t j = 0; j < K; j++) {
        culm_blob_unref(slice[j]);
    }
}

/* `astray`: the gradients of intervals have each other's places in the tree, and losses are added up from the
 * last on. */
static struct culm_gnn_totals train(struct run *r, const struct culm_fold_tree *tree,
                                    struct culm_gnn_exec *holder, int64_t epoch, bool astray) {
    const struct culm_gnn_layout *layout = &r->setup->layout;
    struct epoch e = {0};
    struct culm_gnn_totals totals = {0};
    struct culm_blob *weights =
        must(holder, (struct culm_gnn_task){.kind = CULM_GNN_TASK_WEIGHTS}).output;
    for (int32_t s = 0; s < layout->stages; s++) {
        e.slice[s] = calloc((size_t)tree->count, sizeof *e.slice[s]);
    }
    for (int32_t t = 0; t < layout->steps; t++) {
        const struct culm_gnn_step *step = &layout->step[t];
        for (int32_t i = K - 1; i >= 0; i--) { /* in another order, by anyone */
            struct culm_gnn_exec *who = (t + i) % 2 ? r->worker : r->server[owner_of(i)];
            struct culm_gnn_task task =
                must(who, (struct culm_gnn_task){
                              .kind = CULM_GNN_TASK_APPLY,
                              .interval = i,
                              .step = t,
                              .epoch = epoch,
                              .weights = weights,
                              .rows = step->rows >= 0 ? e.gathered[step->rows][i] : NULL,
                              .d_rows = step->d_rows >= 0 ? e.gathered[step->d_rows][i] : NULL});
            assert_int_equal(task.output != NULL, step->makes >= 0);
            assert_int_equal(task.gradient != NULL, step->gradient);
            if (step->makes >= 0) {
                e.made[step->makes][i] = task.output;
            }
            if (task.gradient) {
                culm_fold_add(tree, e.slice[step->stage], tree->leaf[astray ? (i + 2) % K : i],
                              task.gradient, 0);
                culm_blob_unref(task.gradient);
            }
            e.loss[i] += task.totals.loss;
            for (int p = 0; p < CULM_GNN_SPLITS; p++) {
                totals.correct[p] += task.totals.correct[p];
            }
        }
        for (int32_t i = K - 1; i >= 0 && step->makes >= 0; i--) {
            gather(r, &e, epoch, step->makes, i);
        }
    }
    struct culm_blob *whole[CULM_GNN_STAGES_MAX] = {NULL};
    for (int32_t s = 0; s < layout->stages; s++) {
        /* the left half first, by one; the rest by another */
        int32_t left = tree->node[0].left;
        for (int half = 0; half < 2 && layout->gradient_bytes[s]; half++) {
            struct culm_gnn_task fold = must(half ? r->worker : r->server[0],
                                             (struct culm_gnn_task){.kind = CULM_GNN_TASK_FOLD,
                                                                    .stage = s,
                                                                    .tree = tree,
                                                                    .slice = e.slice[s],
                                                                    .root = half ? 0 : left});
            if (half == 0) {
                culm_fold_add(tree, e.slice[s], left, fold.output, 0);
                culm_blob_unref(fold.output);
            } else {
                whole[s] = fold.output;
            }
        }
    }
    must(holder,
         (struct culm_gnn_task){.kind = CULM_GNN_TASK_STEP, .epoch = epoch, .whole = whole});
    for (int32_t i = 0; i < K; i++) {
        totals.loss += e.loss[astray ? K - 1 - i : i];
    }
    for (int32_t s = 0; s < layout->stages; s++) {
        culm_blob_unref(whole[s]);
        culm_fold_clear(tree, e.slice[s]);
        free(e.slice[s]);
    }
    for (int32_t g = 0; g < layout->gathers; g++) {
        for (int32_t i = 0; i < K; i++) {
            culm_blob_unref(e.made[g][i]);
            culm_blob_unref(e.gathered[g][i]);
        }
    }
    culm_blob_unref(weights);
    return totals;
}

/* Hash, losses and what was right, of one process. */
static void alone(struct run *r, struct culm_gnn_solo_epoch made[EPOCHS], char hex[65]) {
    struct culm_gnn_solo *solo = NULL;
    assert_int_equal(culm_gnn_solo_new(r->setup, 2, NULL, &solo, NULL), CULM_OK);
    for (int64_t epoch = 1; epoch <= EPOCHS; epoch++) {
        assert_int_equal(culm_gnn_solo_train(solo, epoch, true, &made[epoch - 1], NULL), CULM_OK);
    }
    assert_int_equal(culm_gnn_solo_hash(solo, hex, NULL), CULM_OK);
    culm_gnn_solo_free(solo);
}

/* Servers own their intervals, and the worker has them all. */
static void take_intervals(struct run *r) {
    for (int32_t i = 0; i < K; i++) {
        must(r->server[owner_of(i)],
             (struct culm_gnn_task){.kind = CULM_GNN_TASK_OWN, .interval = i});
        struct culm_blob *packed =
            must(r->server[owner_of(i)],
                 (struct culm_gnn_task){.kind = CULM_GNN_TASK_PACK, .interval = i})
                .output;
        assert_true(packed->size_bytes <= r->setup->layout.payload_max);
        must(r->worker,
             (struct culm_gnn_task){.kind = CULM_GNN_TASK_TAKE, .interval = i, .input = packed});
        culm_blob_unref(packed);
    }
}

/* The negative control: whoever adds up intervals in another order gets near, with other bits. */
static void test_another_order_shows(void **state) {
    (void)state;
    struct run r;
    struct culm_fold_tree tree;
    struct culm_gnn_solo_epoch made[EPOCHS];
    char want[65], have[65];
    bool losses_differ = false;
    make(&r, "dense", "");
    alone(&r, made, want);
    assert_true(culm_fold_tree_init(&tree, K));
    take_intervals(&r);
    must(r.holder[0], (struct culm_gnn_task){.kind = CULM_GNN_TASK_LOAD, .source_path = ""});
    for (int64_t epoch = 1; epoch <= EPOCHS; epoch++) {
        double loss =
            train(&r, &tree, r.holder[0], epoch, true).loss / (double)r.setup->model->plan.train;
        losses_differ |= loss != made[epoch - 1].loss;
        assert_true(fabs(loss - made[epoch - 1].loss) < 1e-4 * fabs(loss));
    }
    assert_int_equal(culm_gnn_numeric_hash(r.holder[0], have, NULL), CULM_OK);
    assert_string_not_equal(want, have);
    assert_true(losses_differ);
    culm_fold_tree_release(&tree);
    drop(&r);
}

static void shared(const char *graph, const char *more) {
    struct run r;
    struct culm_fold_tree tree;
    struct culm_gnn_solo_epoch made[EPOCHS];
    char want[65], have[65];
    make(&r, graph, more);
    alone(&r, made, want);
    assert_true(culm_fold_tree_init(&tree, K));
    take_intervals(&r);
    uint64_t first =
        must(r.holder[0], (struct culm_gnn_task){.kind = CULM_GNN_TASK_LOAD, .source_path = ""})
            .digest;
    assert_int_equal(first, must(r.holder[1], (struct culm_gnn_task){.kind = CULM_GNN_TASK_LOAD,
                                                                     .source_path = ""})
                                .digest);
    for (int64_t epoch = 1; epoch <= EPOCHS; epoch++) {
        struct culm_gnn_totals totals = train(&r, &tree, r.holder[(epoch - 1) % 2], epoch, false);
        assert_true(totals.loss / (double)r.setup->model->plan.train == made[epoch - 1].loss);
        if (epoch > 1) { /* it evaluates the weights of the epoch before */
            assert_memory_equal(totals.correct, made[epoch - 2].correct, sizeof totals.correct);
        }
        struct culm_gnn_task out =
            must(r.holder[(epoch - 1) % 2], (struct culm_gnn_task){.kind = CULM_GNN_TASK_EXPORT});
        must(r.holder[epoch % 2], (struct culm_gnn_task){.kind = CULM_GNN_TASK_IMPORT,
                                                         .version = epoch,
                                                         .input = out.output,
                                                         .digest = out.digest});
        const struct culm_gnn_task piece =
            must(r.server[0],
                 (struct culm_gnn_task){
                     .kind = CULM_GNN_TASK_SAVE, .version = epoch, .node = 7, .input = out.output});
        assert_non_null(strstr(piece.text, "weights-0.node-7.safetensors"));
        const struct culm_gnn_task saved = must(
            r.worker, (struct culm_gnn_task){
                          .kind = CULM_GNN_TASK_PUBLISH, .version = epoch, .piece = piece.text});
        struct culm_gnn_task load = {
            .kind = CULM_GNN_TASK_LOAD, .version = epoch, .source_path = saved.text};
        assert_int_equal(must(r.holder[2], load).digest, out.digest);
        load.version++; /* where a version is follows from its number, whatever path is said */
        assert_int_equal(run_task(r.holder[2], &load), CULM_ERR_NOT_FOUND);
        struct culm_gnn_task finish = {.kind = CULM_GNN_TASK_FINISH, .version = epoch};
        memcpy(finish.text, saved.text, sizeof finish.text);
        finish = must(r.worker, finish);
        assert_int_equal(culm_gnn_numeric_hash(r.holder[epoch % 2], have, NULL), CULM_OK);
        assert_string_equal(finish.weights_sha256, have);
        culm_blob_unref(out.output);
    }
    assert_string_equal(want, have);
    culm_fold_tree_release(&tree);
    drop(&r);
}

static void test_sparse(void **state) {
    (void)state;
    shared("sparse", "");
}

static void test_dense_and_deep(void **state) {
    (void)state;
    shared("dense", "model: {layers: 4, width: 6, activation: elu}\n");
}

static void test_directed(void **state) {
    (void)state;
    shared("directed", "model: {layers: 3, width: 3}\noptimizer: {name: sgd, momentum: 0.9}\n");
}

static void test_attention(void **state) {
    (void)state;
    shared("sparse", "model: {arch: gat, heads: 3, width: 4, activation: elu, out_heads: 2}\n");
    shared("dense", "model: {arch: gat, heads: 64, width: 1, out_heads: 64}\n");
    shared("directed", "model: {arch: gat, heads: 8, width: 8, layers: 3}\n");
}

static void test_means(void **state) {
    (void)state;
    shared("sparse", "model: {arch: sage}\n");
    shared("dense",
           "model: {arch: sage, layers: 3, width: 3}\n"); /* the last layer gathers first */
    shared("dense", "model: {arch: sage, width: 16}\n");  /* the first one, once */
    shared("directed", "model: {arch: sage, layers: 3}\n");
}

/* Rows of 16 bits: of a worker's, a slice's and one's own alike. */
static void test_bf16(void **state) {
    (void)state;
    shared("sparse", "precision: bf16\n");
    shared("dense", "precision: bf16\nmodel: {layers: 4, width: 6, activation: elu}\n");
    shared("directed", "precision: bf16\nmodel: {arch: gat, heads: 8, width: 8, layers: 3}\n");
    shared("sparse", "precision: bf16\nmodel: {arch: gat, heads: 3, width: 5, out_heads: 2}\n");
    shared("directed", "precision: bf16\nmodel: {arch: sage, layers: 3}\n");
    shared("dense", "precision: bf16\nmodel: {arch: sage, layers: 3, width: 3}\n");
    shared("dense", "precision: bf16\nmodel: {arch: sage, width: 16}\n");
}

/* --- memory --- */

/* A ring whose vertices have a quarter of all features: kept as bits of all elements if a vertex has
 * one value. */
static void write_many(const char *name, bool even) {
    enum { V = 1580, COLUMNS = 1000, EACH = COLUMNS / 4 };
    char path[256];
    struct culm_graph_data g = {.vertices = V,
                                .edges = V,
                                .edges_listed = -1,
                                .classes = 2,
                                .columns = COLUMNS,
                                .splits = 1,
                                .feature_kind = CULM_GRAPH_SPARSE,
                                .ones = even,
                                .entries = V * EACH};
    g.edge = calloc(2 * V, sizeof *g.edge);
    g.label = calloc(V, sizeof *g.label);
    g.split = calloc(V, sizeof *g.split);
    g.start = calloc(V + 1, sizeof *g.start);
    g.column = calloc(g.entries, sizeof *g.column);
    g.value = even ? NULL : calloc(g.entries, sizeof *g.value);
    assert_true(g.edge && g.label && g.split && g.start && g.column && (even || g.value));
    g.edge[1] = 1;
    g.edge[3] = V - 1;
    for (uint32_t v = 0; v < V; v++) {
        if (v > 1) {
            g.edge[2 * v] = v - 1;
            g.edge[2 * v + 1] = v;
        }
        g.label[v] = (int32_t)v % 2;
        g.split[v] = (uint8_t)(CULM_GRAPH_TRAIN + v % 3);
        g.start[v + 1] = (uint64_t)(v + 1) * EACH;
        for (uint32_t c = 0; c < EACH; c++) {
            g.column[v * EACH + c] = c * 4 + v % 4;
            if (g.value) {
                g.value[v * EACH + c] = (float)(1 + c % 3);
            }
        }
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    struct culm_error error = {0};
    if (culm_graph_data_write(NULL, &g, path, &error)) {
        fail_msg("%s", error.text);
    }
    free(g.edge);
    free(g.label);
    free(g.split);
    free(g.start);
    free(g.column);
    free(g.value);
}

/* The least graph.memory_mb that is said to do holds what a server has of all intervals, and of rows
 * with one value each it is the least that does. */
static void check_fits(const char *name, bool even) {
    struct run r;
    struct culm_blob_pool_stats stats;
    write_many(name, even);
    make_of(&r, folder, name, "");
    for (int32_t i = 0; i < K; i++) {
        must(r.server[0], (struct culm_gnn_task){.kind = CULM_GNN_TASK_OWN, .interval = i});
    }
    culm_blob_pool_stats_of(r.pool, &stats);
    int64_t mb = 1;
    for (;; mb++) {
        struct culm_error error = {0};
        r.config.graph.memory_mb = mb;
        if (culm_gnn_numeric_fits(&r.config, r.setup->model, r.setup->structure, r.setup->graph,
                                  &error) == CULM_OK) {
            break;
        }
        assert_non_null(strstr(error.text, "graph.memory_mb: sparse features stay in memory"));
        assert_true(mb < 100);
    }
    assert_true(stats.used_bytes <= (size_t)mb << 20);
    assert_true(!even || stats.used_bytes > (size_t)(mb - 1) << 20);
    drop(&r);
}

static void test_fits(void **state) {
    (void)state;
    check_fits("even", true);
    check_fits("uneven", false);
}

/* --- damage --- */

static void test_damaged_input(void **state) {
    (void)state;
    struct run r;
    make(&r, "sparse", "");
    must(r.server[0], (struct culm_gnn_task){.kind = CULM_GNN_TASK_OWN, .interval = 1});
    struct culm_blob *packed =
        must(r.server[0], (struct culm_gnn_task){.kind = CULM_GNN_TASK_PACK, .interval = 1}).output;
    struct culm_blob *copy;
    for (size_t len = 0; len <= packed->size_bytes; len += 4) {
        struct culm_gnn_task take = {.kind = CULM_GNN_TASK_TAKE, .interval = 1};
        assert_int_equal(culm_blob_pool_get(r.pool, len ? len : 1, &copy), CULM_OK);
        memcpy(copy->data, packed->data, len);
        take.input = copy;
        assert_int_equal(run_task(r.worker, &take),
                         len == packed->size_bytes ? CULM_OK : CULM_ERR_FORMAT);
        culm_blob_unref(copy);
    }
    /* Bits may be flipped that nobody can tell from others: but none lets it read what is not there. */
    for (size_t bit = 0; bit < 8 * packed->size_bytes; bit += 3) {
        struct culm_gnn_task take = {.kind = CULM_GNN_TASK_TAKE, .interval = 1};
        assert_int_equal(culm_blob_pool_get(r.pool, packed->size_bytes, &copy), CULM_OK);
        memcpy(copy->data, packed->data, packed->size_bytes);
        ((uint8_t *)copy->data)[bit / 8] ^= (uint8_t)(1 << bit % 8);
        take.input = copy;
        enum culm_status status = run_task(r.worker, &take);
        assert_true(status == CULM_OK || status == CULM_ERR_FORMAT);
        assert_true(bit >= 8 * 40 || status == CULM_ERR_FORMAT); /* the head */
        culm_blob_unref(copy);
    }
    culm_blob_unref(packed);
    drop(&r);
}

static void test_damaged_state(void **state) {
    (void)state;
    struct run r;
    make(&r, "dense", "");
    must(r.holder[0], (struct culm_gnn_task){.kind = CULM_GNN_TASK_LOAD, .source_path = ""});
    struct culm_gnn_task out =
        must(r.holder[0], (struct culm_gnn_task){.kind = CULM_GNN_TASK_EXPORT});
    struct culm_gnn_task in = {
        .kind = CULM_GNN_TASK_IMPORT, .version = 0, .input = out.output, .digest = out.digest};
    ((uint8_t *)out.output->data)[out.output->size_bytes - 1] ^= 1;
    assert_int_equal(run_task(r.holder[1], &in), CULM_ERR_FORMAT);
    ((uint8_t *)out.output->data)[out.output->size_bytes - 1] ^= 1;
    in.version = 1;
    assert_int_equal(run_task(r.holder[1], &in), CULM_ERR_FORMAT);
    in.version = 0;
    assert_int_equal(run_task(r.holder[1], &in), CULM_OK);
    /* a step from a version that is not here */
    struct culm_gnn_task step = {.kind = CULM_GNN_TASK_STEP, .epoch = 2};
    assert_int_equal(run_task(r.holder[1], &step), CULM_ERR_INTERNAL);
    culm_blob_unref(out.output);
    drop(&r);
}

/* What is asked of an interval that is not here. */
static void test_not_here(void **state) {
    (void)state;
    struct run r;
    make(&r, "dense", "");
    struct culm_gnn_task pack = {.kind = CULM_GNN_TASK_PACK, .interval = 3};
    assert_int_equal(run_task(r.server[0], &pack), CULM_ERR_INTERNAL);
    assert_string_equal(pack.job.error.text, "interval 3 was requested, but is not here");
    must(r.server[0], (struct culm_gnn_task){.kind = CULM_GNN_TASK_OWN, .interval = 3});
    must(r.server[0], (struct culm_gnn_task){.kind = CULM_GNN_TASK_DROP, .interval = 3});
    assert_int_equal(run_task(r.server[0], &pack), CULM_ERR_INTERNAL);
    drop(&r);
}

/* --- a node that does not see the run directory --- */

/* The run's is `folder`, into which and out of which it copies. */
struct near_depot {
    struct culm_depot depot; /* first */
    enum culm_status fails;  /* CULM_OK: it does not */
    char to[64];             /* as it was told last */
    int puts, gets;
};

static void copy_file(const char *from_dir, const char *to_dir, const char *name) {
    char path[CULM_PATH_MAX], *data;
    size_t len;
    assert_int_equal(culm_dir_make(NULL, to_dir, NULL), CULM_OK);
    assert_int_equal(culm_path_format(path, NULL, "%s/%s", from_dir, name), CULM_OK);
    assert_int_equal(culm_file_read(NULL, path, 1 << 20, &data, &len, NULL), CULM_OK);
    assert_int_equal(culm_path_format(path, NULL, "%s/%s", to_dir, name), CULM_OK);
    assert_int_equal(culm_file_replace(NULL, path, data, len, NULL), CULM_OK);
    free(data);
}

static enum culm_status near_put(struct culm_depot *depot, const char *run_dir, int64_t step,
                                 const struct culm_piece *piece, const char *to,
                                 const struct culm_read_hook *hook, struct culm_error *error) {
    struct near_depot *near = (struct near_depot *)depot;
    char from[CULM_PATH_MAX], at[CULM_PATH_MAX];
    (void)hook;
    near->puts++;
    snprintf(near->to, sizeof near->to, "%s", to);
    assert_int_equal(culm_checkpoint_name(run_dir, CULM_CHECKPOINT_TMP, step, from, NULL), CULM_OK);
    assert_int_equal(culm_checkpoint_name(folder, CULM_CHECKPOINT_TMP, step, at, NULL), CULM_OK);
    if (near->fails) {
        return culm_error_set(error, near->fails, "no room");
    }
    copy_file(from, at, piece->file);
    return CULM_OK;
}

static enum culm_status near_get(struct culm_depot *depot, const char *run_dir, int64_t step,
                                 char ret_path[CULM_PATH_MAX], const struct culm_read_hook *hook,
                                 struct culm_error *error) {
    struct near_depot *near = (struct near_depot *)depot;
    char from[CULM_PATH_MAX];
    struct culm_names names;
    (void)hook;
    near->gets++;
    assert_int_equal(culm_checkpoint_path(folder, step, from, NULL), CULM_OK);
    assert_int_equal(culm_checkpoint_path(run_dir, step, ret_path, NULL), CULM_OK);
    if (near->fails || culm_dir_list(from, &names, NULL) != CULM_OK) {
        return culm_error_set(error, near->fails ? near->fails : CULM_ERR_NOT_FOUND, "not there");
    }
    for (size_t i = 0; i < names.count; i++) {
        copy_file(from, ret_path, names.name[i]);
    }
    culm_names_release(&names);
    return CULM_OK;
}

static size_t files_in(const char *dir) {
    char path[CULM_PATH_MAX];
    struct culm_names names = {0};
    assert_int_equal(culm_path_format(path, NULL, "%s/checkpoints", dir), CULM_OK);
    (void)culm_dir_list(path, &names, NULL);
    const size_t count = names.count;
    culm_names_release(&names);
    return count;
}

/* It writes in a folder of its own, hands over, and leaves nothing there; what it loads it fetches, whatever path is said. */
static void test_a_depot(void **state) {
    (void)state;
    static const struct culm_depot_ops ops = {.size = sizeof ops, .put = near_put, .get = near_get};
    struct near_depot near = {.depot.ops = &ops};
    struct run r;
    char own[CULM_PATH_MAX];
    make(&r, "dense", "");
    assert_int_equal(culm_path_format(own, NULL, "%s/own", folder), CULM_OK);
    struct culm_gnn_exec *far = exec_in(&r, r.without, own, &near.depot);
    must(far, (struct culm_gnn_task){.kind = CULM_GNN_TASK_LOAD, .source_path = ""});
    assert_int_equal(near.gets, 0); /* the first weights are made here */
    struct culm_gnn_task out = must(far, (struct culm_gnn_task){.kind = CULM_GNN_TASK_EXPORT});
    const struct culm_gnn_task save = {
        .kind = CULM_GNN_TASK_SAVE, .version = 40, .node = 7, .input = out.output};
    const struct culm_gnn_task piece = must(far, save);
    assert_int_equal(near.puts, 1);
    assert_string_equal(near.to, "");
    assert_int_equal(files_in(own), 0);
    const struct culm_gnn_task saved = must(
        r.worker,
        (struct culm_gnn_task){.kind = CULM_GNN_TASK_PUBLISH, .version = 40, .piece = piece.text});

    struct culm_gnn_task again = save; /* of a version that is held, for a folder that was named */
    snprintf(again.text, sizeof again.text, "/named");
    again.weights_only = true;
    must(far, again);
    assert_string_equal(near.to, "/named");
    near.fails = CULM_ERR_IO;
    again = save;
    assert_int_equal(run_task(far, &again), CULM_ERR_IO);
    assert_string_equal(again.job.error.text, "no room");
    assert_int_equal(files_in(own), 0);

    struct culm_gnn_task load = {
        .kind = CULM_GNN_TASK_LOAD, .version = 40, .source_path = "/the/launcher/has/it"};
    assert_int_equal(run_task(far, &load), CULM_ERR_IO);
    near.fails = CULM_OK;
    const uint64_t digest = must(r.holder[0], (struct culm_gnn_task){.kind = CULM_GNN_TASK_LOAD,
                                                                     .version = 40,
                                                                     .source_path = saved.text})
                                .digest;
    near.gets = 0;
    assert_int_equal(must(far, load).digest, digest);
    assert_int_equal(near.gets, 1);
    assert_int_equal(files_in(own), 0); /* the copy takes no room */
    load.version = 41;
    assert_int_equal(run_task(far, &load), CULM_ERR_NOT_FOUND);
    culm_blob_unref(out.output);
    culm_gnn_numeric_free(far);
    drop(&r);
}

/* Where rows may be stale, a checkpoint of a branch that was left before its version is passed over. */
static void test_what_is_found_is_of_what_was_committed(void **state) {
    (void)state;
    struct run r;
    make(&r, "dense", "");
    must(r.holder[0], (struct culm_gnn_task){.kind = CULM_GNN_TASK_LOAD, .source_path = ""});
    struct culm_gnn_task out =
        must(r.holder[0], (struct culm_gnn_task){.kind = CULM_GNN_TASK_EXPORT});
    for (int64_t version = 10; version <= 20; version += 10) {
        const struct culm_gnn_task piece = must(
            r.server[0],
            (struct culm_gnn_task){
                .kind = CULM_GNN_TASK_SAVE, .version = version, .node = 7, .input = out.output});
        must(r.worker, (struct culm_gnn_task){.kind = CULM_GNN_TASK_PUBLISH,
                                              .version = version,
                                              .branch = 1,
                                              .piece = piece.text});
    }
    struct culm_gnn_task find = {.kind = CULM_GNN_TASK_FIND, .version = INT64_MAX - 1};
    assert_int_equal(must(r.worker, find).version, 20);
    culm_gnn_past_add(&find.past, 1, 0);
    assert_int_equal(must(r.worker, find).version, 20);
    culm_gnn_past_add(&find.past, 9,
                      15); /* all have gone back to a version that is not there any more */
    assert_int_equal(must(r.worker, find).version, 10);
    culm_gnn_past_add(&find.past, 12, 0);
    const struct culm_gnn_task none = must(r.worker, find);
    assert_int_equal(none.version, 0);
    assert_string_equal(none.text, "");
    culm_blob_unref(out.output);
    drop(&r);
}

/* A place apart, with one checkpoint, of step 20, once it was kept. */
static int kept, forgotten;

static enum culm_status one_keep(struct culm_apart *of, int64_t step, const char *path,
                                 struct culm_error *error) {
    (void)of, (void)step, (void)path;
    return kept++ == forgotten ? CULM_OK : culm_error_set(error, CULM_ERR_IO, "another is there");
}

static enum culm_status one_find(struct culm_apart *of, int64_t most, int64_t *ret_step,
                                 struct culm_error *error) {
    (void)of, (void)most;
    *ret_step = 20;
    return kept > forgotten ? CULM_OK : culm_error_set(error, CULM_ERR_NOT_FOUND, "there is none");
}

static enum culm_status one_fetch(struct culm_apart *of, const char *dir, int64_t step,
                                  struct culm_error *error) {
    (void)of, (void)dir, (void)step, (void)error;
    return CULM_OK; /* it is in the folder already */
}

static enum culm_status one_forget(struct culm_apart *of, int64_t step, struct culm_error *error) {
    (void)of, (void)error;
    forgotten += step == 20;
    return CULM_OK;
}

/* Apart, where what is there stays, one of a branch that was left makes way for what was committed in its place. */
static void test_what_was_left_makes_way(void **state) {
    (void)state;
    static const struct culm_apart_ops ops = {.size = sizeof ops,
                                              .keep = one_keep,
                                              .find = one_find,
                                              .fetch = one_fetch,
                                              .forget = one_forget};
    struct culm_apart one = {&ops};
    struct run r;
    apart = &one;
    make(&r, "dense", "");
    apart = NULL;
    must(r.holder[0], (struct culm_gnn_task){.kind = CULM_GNN_TASK_LOAD, .source_path = ""});
    const struct culm_gnn_task export = {.kind = CULM_GNN_TASK_EXPORT};
    struct culm_gnn_task out = must(r.holder[0], export);
    struct culm_gnn_task publish = {.kind = CULM_GNN_TASK_PUBLISH, .version = 20};
    for (int32_t left = 0; left < 2; left++) { /* and go back to a version before */
        const struct culm_gnn_task save = {
            .kind = CULM_GNN_TASK_SAVE, .version = 20, .node = 7, .input = out.output};
        const struct culm_gnn_task piece = must(r.server[0], save);
        publish.piece = piece.text;
        publish.branch = left ? 9 : 1;
        culm_gnn_past_add(&publish.past, publish.branch, left ? 15 : 0);
        must(r.worker, publish);
        assert_true(kept == left + 1 && forgotten == left);
    }
    culm_blob_unref(out.output);
    drop(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_order_shows),
        cmocka_unit_test(test_what_was_left_makes_way),
        cmocka_unit_test(test_sparse),
        cmocka_unit_test(test_dense_and_deep),
        cmocka_unit_test(test_directed),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_means),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_damaged_input),
        cmocka_unit_test(test_damaged_state),
        cmocka_unit_test(test_not_here),
        cmocka_unit_test(test_a_depot),
        cmocka_unit_test(test_what_is_found_is_of_what_was_committed),
        cmocka_unit_test(test_fits),
    };
    return cmocka_run_group_tests_name("gnn/numeric", tests, make_folder, drop_folder);
}
