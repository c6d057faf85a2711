/* A node of a run on a graph, and briefs. See gnn_node.h. */
#include "run/gnn_node.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "gnn/numeric.h"
#include "interval/parameter.h"
#include "interval/phase.h"
#include "interval/server.h"
#include "interval/worker.h"
#include "launch/depot.h"
#include "run/gnn_fault.h"
#include "store/inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a node makes from its brief, and computes with. */
struct culm_gnn_gear {
    char brief_sha256[CULM_SHA256_HEX]; /* of the brief that it was made from; "": not made yet */
    struct culm_gnn_brief brief;
    struct culm_inputs inputs;
    struct culm_lineage lineage;
    struct culm_gnn_config config;
    bool configured;
    char signature[CULM_SIGNATURE_SIZE];
    struct culm_gnn_setup *setup;
    struct culm_device *device;
    struct culm_blob_pool *pool;
    struct culm_gnn_exec *exec;
    struct culm_gnn_constants constants; /* of a worker: the constant inputs that `exec` has */
};

struct node {
    uint32_t role;
    struct culm_participant *process;
    struct culm_depot *depot;    /* of a newcomer that may hold weights, whose folder is its own */
    char own_dir[CULM_PATH_MAX]; /* which was made for it, and is removed; "": it was given one */
    struct culm_gnn_gear *gear;
    struct culm_gnn_stay *stay;    /* of a newcomer; NULL: until the run ends */
    struct culm_digest_news *news; /* digests of large inputs; NULL: not listened to */
    void *actor;
};

/* Longer than it takes the leader to decide which end of a broken link goes (leader_peers.c). */
#define GONE_MS 5000
/* For which a node that saves or loads asks again for a launcher that is gone, as in worker.c. */
#define PATIENCE_MS 60000

/* --- the brief --- */

#define CUT_BYTES 2 /* per vertex, since the numbers of intervals are below 2^16 */

/* The cut as bytes, CUT_BYTES per vertex. */
static void write_cut(const struct culm_gnn_brief *brief, struct culm_buf *out) {
    culm_buf_u8(out, brief->cut != NULL);
    for (int64_t v = 0; brief->cut && v < brief->plan.vertices; v++) {
        const uint8_t bytes[CUT_BYTES] = {(uint8_t)brief->cut[v], (uint8_t)(brief->cut[v] >> 8)};
        culm_buf_bytes(out, bytes, sizeof bytes);
    }
}

static enum culm_status malformed(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_FORMAT, "the launcher's brief is malformed");
}

static enum culm_status read_cut(struct culm_reader *in, size_t len, struct culm_gnn_brief *brief,
                                 struct culm_error *error) {
    size_t vertices = (size_t)brief->plan.vertices;
    uint8_t told = culm_read_u8(in);
    if (told > 1 || (told && vertices > len / CUT_BYTES)) {
        return malformed(error);
    }
    if (!told) {
        return CULM_OK;
    }
    brief->cut = malloc((vertices + 1) * sizeof *brief->cut);
    if (!brief->cut) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    for (size_t v = 0; v < vertices; v++) {
        uint8_t bytes[CUT_BYTES] = {0};
        culm_read_bytes(in, bytes, sizeof bytes);
        brief->cut[v] = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8;
    }
    return CULM_OK;
}

/* Reads the plan, and the cut, whose length follows from the plan. */
static enum culm_status read_rest(struct culm_reader *in, size_t len, const char *plan,
                                  struct culm_gnn_brief *brief, struct culm_error *error) {
    json_t *json = json_loads(plan, 0, NULL);
    enum culm_status status =
        json ? culm_gnn_plan_read(json, &brief->plan, error) : malformed(error);
    json_decref(json);
    if (status == CULM_OK) {
        status = read_cut(in, len, brief, error);
    }
    return status == CULM_OK && !culm_reader_done(in) ? malformed(error) : status;
}

bool culm_gnn_brief_write(const struct culm_gnn_brief *brief, struct culm_buf *out) {
    json_t *plan = culm_gnn_plan_json(&brief->plan);
    char *text = plan ? json_dumps(plan, JSON_COMPACT) : NULL;
    if (text) {
        culm_buf_string(out, brief->config_text);
        culm_buf_string(out, text);
        culm_buf_string(out, brief->inputs);
        culm_buf_string(out, brief->cut_sha256);
        culm_buf_u64(out, brief->payload_max);
        write_cut(brief, out);
    }
    bool written = text && !out->failed;
    free(text);
    json_decref(plan);
    return written;
}

enum culm_status culm_gnn_brief_read(const void *data, size_t len, struct culm_gnn_brief *ret_brief,
                                     struct culm_error *error) {
    struct culm_reader in = culm_reader_of(data, len);
    char *config = calloc(1, len + 1), *plan = calloc(1, len + 1), *inputs = calloc(1, len + 1);
    enum culm_status status = CULM_OK;
    *ret_brief = (struct culm_gnn_brief){0};
    if (!config || !plan || !inputs) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    } else {
        culm_read_string(&in, config, len + 1);
        culm_read_string(&in, plan, len + 1);
        culm_read_string(&in, inputs, len + 1);
        culm_read_string(&in, ret_brief->cut_sha256, sizeof ret_brief->cut_sha256);
        ret_brief->payload_max = culm_read_u64(&in);
        status = read_rest(&in, len, plan, ret_brief, error);
    }
    free(plan);
    if (status == CULM_OK) {
        ret_brief->config_text = config;
        ret_brief->inputs = inputs;
    } else {
        free(config);
        free(inputs);
        free(ret_brief->cut);
        ret_brief->cut = NULL;
    }
    return status;
}

void culm_gnn_brief_release(struct culm_gnn_brief *brief) {
    free(brief->config_text);
    free(brief->inputs);
    free(brief->cut);
    brief->config_text = brief->inputs = NULL;
    brief->cut = NULL;
}

enum culm_status culm_gnn_cut_path(const char *dir, char path[CULM_PATH_MAX], const char **ret_path,
                                   struct culm_error *error) {
    enum culm_status status = culm_path_format(path, error, "%s/cut.npy", dir);
    if (status == CULM_OK) {
        *ret_path = access(path, F_OK) == 0 ? path : NULL;
    }
    return status;
}

enum culm_status culm_gnn_cut_sha256(const struct culm_gnn_setup *setup, char ret_text[65]) {
    return culm_sha256_of(setup->interval_of,
                          (size_t)setup->structure->vertices * sizeof *setup->interval_of,
                          ret_text);
}

enum culm_status culm_gnn_cut_recorded(const json_t *record, const char *dir, const char *sha256,
                                       struct culm_error *error) {
    const char *before = json_string_value(json_object_get(record, "cut_sha256"));
    return before && strcmp(before, sha256) != 0
               ? culm_error_set(error, CULM_ERR_CONFIG,
                                "the run was begun with another cut of the graph, which "
                                "%.200s/cut.npy should have; restore that file, or start a new run",
                                dir)
               : CULM_OK;
}

enum culm_status culm_gnn_cut_compare(const char *dir, const char *sha256,
                                      struct culm_error *error) {
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(path, error, "%s/plan.json", dir);
    if (status != CULM_OK) {
        return status;
    }
    json_t *plan = culm_json_load(path, NULL);
    status = culm_gnn_cut_recorded(plan, dir, sha256, error);
    json_decref(plan);
    return status == CULM_OK ? CULM_OK : culm_error_prefix(error, "'%s'", path);
}

void culm_gnn_signature(const struct culm_device *device, char ret_text[CULM_SIGNATURE_SIZE]) {
    culm_signature_of(device->ops->signature(device), "", ret_text);
}

struct culm_gnn_pace culm_gnn_pace_of(const struct culm_gnn_config *config) {
    bool async = config->mode == CULM_GNN_ASYNC;
    return (struct culm_gnn_pace){
        .staleness = async ? (int32_t)config->staleness : 0,
        .ahead = async,
        .in_step = config->mode == CULM_GNN_NOPIPE,
        .epochs = config->epochs,
        .tail = config->epochs / 20 + 1,
        .eval_every = config->eval.every,
    };
}

/* --- a node --- */

void culm_gnn_gear_free(struct culm_gnn_gear *gear) {
    if (!gear) {
        return;
    }
    culm_gnn_numeric_free(gear->exec);
    culm_device_free(gear->device);
    culm_gnn_setup_close(gear->setup);
    culm_blob_pool_free(gear->pool);
    culm_set_release(&gear->constants.intervals);
    if (gear->configured) {
        culm_gnn_config_release(&gear->config);
    }
    culm_gnn_brief_release(&gear->brief);
    culm_inputs_release(&gear->inputs);
    culm_lineage_release(&gear->lineage);
    free(gear);
}

/* Builds the setup. Servers read the graph; they get its cut from the run directory or from the
 * brief, or else cut the graph as the launcher did. Holders read initial weights later, checked by
 * the same pins. Workers read no files. */
static enum culm_status open_setup(struct node *n, struct culm_error *error) {
    if (n->role == CULM_GNN_WORKER) {
        return culm_gnn_setup_plan(&n->gear->config, &n->gear->brief.plan, &n->gear->setup, error);
    }
    char cut[65];
    json_t *inputs = json_loads(n->gear->brief.inputs, 0, NULL);
    enum culm_status status = culm_inputs_read(inputs, &n->gear->inputs, error);
    if (status == CULM_OK) {
        status = culm_lineage_read(json_object_get(inputs, "lineage"), &n->gear->lineage, error);
    }
    json_decref(inputs);
    if (status == CULM_OK && n->news) {
        culm_inputs_ask_news(&n->gear->inputs, n->news);
    }
    if (status == CULM_OK && n->role == CULM_GNN_PARAMETER) {
        return culm_gnn_setup_plan(&n->gear->config, &n->gear->brief.plan, &n->gear->setup, error);
    }
    char path[CULM_PATH_MAX];
    const char *dir = culm_participant_dir(n->process);
    struct culm_gnn_cut made = {0};
    if (status == CULM_OK && dir[0] && !n->depot) { /* else the folder is not the run's */
        status = culm_gnn_cut_path(dir, path, &made.path, error);
    }
    made.interval_of = made.path ? NULL : n->gear->brief.cut;
    made.vertices = n->gear->brief.plan.vertices;
    if (status == CULM_OK) {
        status = culm_gnn_setup_open_cut(&n->gear->config, n->gear->inputs.pins, &made,
                                         &n->gear->setup, error);
    }
    free(n->gear->brief.cut);
    n->gear->brief.cut = NULL;
    if (status == CULM_OK) {
        status = culm_gnn_cut_sha256(n->gear->setup, cut);
    }
    if (status == CULM_OK && made.path && strcmp(cut, n->gear->brief.cut_sha256) != 0) {
        return culm_error_set(error, CULM_ERR_CHANGED,
                              "'%s' is not the cut of the graph that the run was begun with; "
                              "restore that file, or start a new run",
                              made.path);
    }
    if (status == CULM_OK && strcmp(cut, n->gear->brief.cut_sha256) != 0) {
        return culm_error_set(error, CULM_ERR_CHANGED,
                              "graph.path: '%s' is cut differently here than where the run was "
                              "started; it has changed, or METIS differs",
                              n->gear->config.graph.path);
    }
    return status;
}

/* At least 1, since 0 would mean no limit. */
static int64_t left_ms(uint64_t until_ns) {
    uint64_t now = culm_clock_ns();
    return until_ns > now + 1000000 ? (int64_t)((until_ns - now) / 1000000) : 1;
}

static enum culm_status make_actor(struct node *n, struct culm_error *error) {
    const struct culm_gnn_node_options options = {
        .world = culm_participant_world(n->process),
        .exec = n->gear->exec,
        .layout = &n->gear->setup->layout,
        .pool = n->gear->pool,
        .id = culm_participant_node(n->process),
        .beat_ms = n->gear->config.cluster.heartbeat_ms,
        .gone_ms = GONE_MS + culm_crew_config_dial_ms(&n->gear->config.cluster),
        .pace = culm_gnn_pace_of(&n->gear->config),
        .stops = n->stay && n->stay->stops,
    };
    if (n->role == CULM_GNN_SERVER) {
        const struct culm_gnn_server_options server = {.node = options,
                                                       .workers = n->gear->config.worker_count > 0,
                                                       .lean = n->gear->config.graph.memory_mb > 0};
        n->actor = culm_gnn_server_new(&server);
    } else if (n->role == CULM_GNN_PARAMETER) {
        n->actor = culm_gnn_parameter_new(&options);
    } else {
        const struct culm_gnn_config *config = &n->gear->config;
        bool lambda = config->engine == CULM_GNN_LAMBDA && config->lambda.memory_mb > 0;
        int64_t keep_mb = lambda ? config->lambda.memory_mb / 2 : config->graph.memory_mb;
        const struct culm_gnn_worker_options worker = {
            .node = options,
            .constants = &n->gear->constants,
            .keep_bytes = (size_t)keep_mb << 20,
            .stay_ms = n->stay && n->stay->until_ns ? left_ms(n->stay->until_ns) : 0,
            .part_ms = n->stay ? n->stay->part_ms : 0,
        };
        n->actor = culm_gnn_worker_new(&worker);
    }
    return n->actor ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

static enum culm_status open_gear(struct node *n, const void *data, size_t len,
                                  struct culm_error *error) {
    enum culm_status status = culm_gnn_brief_read(data, len, &n->gear->brief, error);
    if (status != CULM_OK) {
        return status;
    }
    const char *text = n->gear->brief.config_text;
    status = culm_gnn_config_parse(text, strlen(text), "its configuration", NULL, 0,
                                   &n->gear->config, error);
    n->gear->configured = status == CULM_OK;
    if (status != CULM_OK || (status = open_setup(n, error)) ||
        (status = culm_device_new((int)n->gear->config.threads, &n->gear->device, error))) {
        return status;
    }
    culm_gnn_signature(n->gear->device, n->gear->signature);
    n->gear->pool = culm_blob_pool_new(0);
    if (!n->gear->pool) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    const char *dir = culm_participant_dir(n->process);
    const struct culm_gnn_numeric_options numeric = {
        .config = &n->gear->config,
        .config_text = n->gear->brief.config_text,
        .signature = n->gear->signature,
        .run_dir = dir[0] ? dir : NULL, /* workers from elsewhere have none */
        .depot = n->depot,
        .model = n->gear->setup->model,
        .layout = &n->gear->setup->layout,
        .structure = n->gear->setup->structure,
        .graph = n->gear->setup->graph,
        .pool = n->gear->pool,
        .device = n->gear->device,
        .lineage = &n->gear->lineage,
        .pins = n->gear->inputs.pins,
        .kept_most = culm_gnn_kept_most(&n->gear->config, n->role == CULM_GNN_WORKER),
    };
    return culm_gnn_numeric_new(&numeric, &n->gear->exec, error);
}

/* Takes over the gear left by the previous node if the brief is the same; otherwise makes a new
 * one. */
static enum culm_status prepare(struct node *n, struct culm_error *error) {
    size_t len;
    char sha256[CULM_SHA256_HEX];
    const void *data = culm_participant_brief(n->process, &len);
    enum culm_status status = culm_sha256_of(data, len, sha256);
    if (status != CULM_OK) {
        return culm_error_set(error, status, "out of memory");
    }
    if (!n->gear || strcmp(n->gear->brief_sha256, sha256) != 0) {
        culm_gnn_gear_free(n->gear);
        n->gear = calloc(1, sizeof *n->gear);
        status = n->gear ? open_gear(n, data, len, error)
                         : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
        if (status == CULM_OK) {
            memcpy(n->gear->brief_sha256, sha256, sizeof sha256);
        }
    }
    return status;
}

static enum culm_status say_ready(struct node *n, struct culm_error *error) {
    const struct culm_crew_config *cluster = &n->gear->config.cluster;
    const struct culm_worker_ready ready = {
        .signature = n->gear->signature,
        .pool = n->gear->pool,
        .payload_max = (size_t)n->gear->brief.payload_max,
        .dial_limit_ms = culm_crew_config_dial_ms(cluster),
        .orphan_ms = culm_crew_config_orphan_ms(cluster),
        .stranded_ms = cluster->store_ms,
        .outlives = n->depot != NULL, /* what it holds, another launcher can go on with */
    };
    return culm_participant_ready(n->process, &ready, error);
}

static enum culm_status read_fault(const char *text, struct culm_worker_fault *ret_fault,
                                   struct culm_error *error) {
    struct culm_gnn_fault_spec spec;
    enum culm_status status = culm_gnn_fault_parse(text, &spec, error);
    if (status == CULM_OK) {
        *ret_fault = (struct culm_worker_fault){.point = spec.point, .how = spec.how};
    }
    return status;
}

/* A digest that has become known since the brief. Losing one does no harm. */
static void hear_news(void *context, const void *news, size_t len) {
    const struct node *n = context;
    if (!news) {
        culm_digest_news_end_waits(n->news);
    } else if (n->news) {
        (void)culm_digest_news_hear(n->news, news, len);
    }
}

/* Checkpoints are with whoever leads. */
static void follow(void *context, const char *address) {
    const struct node *n = context;
    culm_depot_far_move(n->depot, address);
}

static enum culm_status begin(struct node *n, struct culm_error *error) {
    /* Its files may be copies, whose times are others: it waits for digests. */
    enum culm_status status = prepare(n, error);
    culm_digest_news_end_waits(n->news); /* tasks do not wait, which would count as stuck */
    if (status != CULM_OK) {
        culm_participant_decline(n->process, error);
        return status;
    }
    status = say_ready(n, error);
    return status == CULM_OK ? make_actor(n, error) : status; /* a newcomer has an id only now */
}

static const struct culm_actor_ops *const actors[CULM_GNN_ROLES] = {
    [CULM_GNN_SERVER] = &culm_gnn_server_actor,
    [CULM_GNN_PARAMETER] = &culm_gnn_parameter_actor,
    [CULM_GNN_WORKER] = &culm_gnn_worker_actor,
};

static void free_actor(const struct node *n) {
    switch (n->role) {
    case CULM_GNN_SERVER: culm_gnn_server_free(n->actor); break;
    case CULM_GNN_PARAMETER: culm_gnn_parameter_free(n->actor); break;
    default: culm_gnn_worker_free(n->actor); break;
    }
}

/* The exit code of a node that could not join: it was refused, or nobody was there. */
static int code_of(enum culm_status joined, const struct culm_error *why) {
    return culm_status_exit_code(joined != CULM_ERR_CLOSED && joined != CULM_ERR_TIMEOUT ? joined
                                 : why && why->status == CULM_ERR_CONFIG ? CULM_ERR_CONFIG
                                                                         : CULM_ERR_IO);
}

/* Runs a node until it ends, and cleans up. joined: CULM_OK, or why it could not join. */
static int work(struct node *n, enum culm_status joined, struct culm_participant_memory *ret_memory,
                struct culm_error *ret_error) {
    enum culm_status status = joined == CULM_OK ? begin(n, ret_error) : joined;
    int code = joined == CULM_OK ? culm_status_exit_code(status) : code_of(joined, ret_error);
    /* Whether the gear can be kept for the next node: if this one could not join, ended as it
     * should, or lost its launcher. After other errors its state is uncertain. */
    bool whole = joined != CULM_OK;
    if (n->stay && status == CULM_OK) {
        n->stay->node = culm_participant_node(n->process);
    }
    if (status == CULM_OK) {
        code = culm_participant_run(n->process, actors[n->role], n->actor, ret_error);
        whole = code == 0 || ret_error->status == CULM_ERR_CLOSED;
        culm_participant_measure(n->gear->pool, ret_memory);
    }
    free_actor(n);
    culm_participant_leave(n->process);
    if (n->stay && whole && n->role == CULM_GNN_WORKER) {
        n->stay->gear = n->gear;
    } else {
        culm_gnn_gear_free(n->gear);
    }
    culm_digest_news_free(n->news);
    culm_depot_far_free(n->depot);
    if (n->own_dir[0]) {
        (void)culm_tree_remove(NULL, n->own_dir, NULL);
    }
    return code;
}

/* What it takes to load checkpoints and to save them, for one that may hold weights. */
static enum culm_status take_depot(struct node *n, struct culm_participant_call *call,
                                   struct culm_error *error) {
    if (n->role == CULM_GNN_WORKER) {
        return CULM_OK;
    }
    n->depot = culm_depot_far_new(call->address, call->token, PATIENCE_MS);
    if (!n->depot) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    enum culm_status status =
        call->dir ? CULM_OK : culm_dir_make_temporary("culm-node", n->own_dir, error);
    call->dir = call->dir ? call->dir : n->own_dir;
    return status;
}

int culm_run_gnn_newcomer(const struct culm_participant_call *call, struct culm_gnn_stay *stay,
                          struct culm_error *ret_error) {
    struct node n = {.role = call->role, .stay = stay, .news = culm_digest_news_new()};
    struct culm_participant_call with_dir = *call;
    struct culm_participant_memory memory;
    enum culm_status joined = take_depot(&n, &with_dir, ret_error);
    const struct culm_participant_role role = {.calls_only = n.role == CULM_GNN_WORKER,
                                               .news = hear_news,
                                               .led = n.depot ? follow : NULL,
                                               .ctx = &n};
    if (joined == CULM_OK) {
        joined = culm_participant_come(&with_dir, &role, &n.process, ret_error);
    }
    if (stay) {
        n.gear = stay->gear;
        stay->gear = NULL;
        stay->came = joined == CULM_OK;
        stay->refused = joined == CULM_ERR_CLOSED;
        stay->node = -1;
    }
    return work(&n, joined, &memory, ret_error);
}

int culm_run_gnn_node(int argc, char **argv, struct culm_participant_memory *ret_memory,
                      struct culm_error *ret_error) {
    struct node n = {.role = CULM_GNN_ROLES};
    for (uint32_t r = 0; argc > 1 && r < CULM_GNN_ROLES; r++) {
        n.role = strcmp(argv[1], culm_gnn_role_name(r)) == 0 ? r : n.role;
    }
    if (n.role == CULM_GNN_ROLES) {
        culm_error_set(ret_error, CULM_ERR_ARGUMENT, "no such role");
        return culm_status_exit_code(CULM_ERR_ARGUMENT);
    }
    n.news = culm_digest_news_new();
    const struct culm_participant_role role = {.words = 2,
                                               .calls_only = n.role == CULM_GNN_WORKER,
                                               .fault = read_fault,
                                               .news = hear_news,
                                               .ctx = &n};
    enum culm_status joined = culm_participant_join(argc, argv, &role, &n.process, ret_error);
    return work(&n, joined, ret_memory, ret_error);
}
