/* One worker: plan, data, device, executor and node, in a process of the run. What it works on comes
 * with the leader's welcome. */
#include "run/worker.h"

#include "base/file.h"
#include "data/image.h"
#include "data/unicode.h"
#include "launch/depot.h"
#include "pipeline/node.h"
#include "run/fault.h"
#include "train/brief.h"
#include "train/numeric.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For which a node that saves or loads asks again for a launcher that is gone: whoever leads next calls it. It may end itself before. */
#define PATIENCE_MS 60000

struct worker {
    struct culm_participant *process;
    struct culm_depot *depot; /* of a newcomer, whose folder is its own; NULL: it is the run's */
    struct culm_brief brief;
    char signature[CULM_SIGNATURE_SIZE];
    struct culm_digest_news *news;
    struct culm_network *network; /* of the brief's configuration */
    struct culm_plan *plan;
    struct culm_source *source;
    struct culm_device *device;
    struct culm_blob_pool *pool;
    struct culm_exec *exec;
    struct culm_node *node;
};

void culm_signature(const struct culm_device *device, const struct culm_train_config *config,
                    char ret_text[CULM_SIGNATURE_SIZE]) {
    bool half = config->precision == CULM_PRECISION_BF16;
    char kernels[CULM_SIGNATURE_SIZE], more[160], images[96] = "";
    if (config->data.kind == CULM_SOURCE_IMAGES) {
        culm_image_libraries(images, sizeof images);
    }
    snprintf(kernels, sizeof kernels, "%s%s%s", device->ops->signature(device),
             half ? "/bf16-" : "", half ? device->ops->bf16_flavour(device) : "");
    snprintf(more, sizeof more, "%s%s%s%s", images[0] ? "/" : "", images,
             config->data.tokenizer_count ? "/utf8proc-" : "",
             config->data.tokenizer_count ? culm_unicode_version() : "");
    culm_signature_of(kernels, more, ret_text);
}

size_t culm_payload_max(const struct culm_plan *plan) {
    size_t most = 0;
    const struct culm_layout *layout = &plan->layout;
    for (int32_t s = 0; s < layout->stages; s++) {
        most = layout->stage[s].output_bytes > most ? layout->stage[s].output_bytes : most;
    }
    for (int32_t i = 0; i < layout->param_count; i++) {
        most = layout->param[i].state_bytes > most ? layout->param[i].state_bytes : most;
    }
    for (int32_t i = 0; i < layout->grad_count; i++) {
        most = layout->grad[i].size_bytes > most ? layout->grad[i].size_bytes : most;
    }
    return most;
}

static enum culm_status open_source(struct worker *w, struct culm_error *error) {
    struct culm_source_options options;
    culm_train_config_source(&w->brief.config, false, &options);
    enum culm_status status = culm_source_open(&options, &w->source, error);
    return status == CULM_OK
               ? culm_inputs_check_samples(&w->brief.inputs, culm_source_samples(w->source), error)
               : status;
}

static enum culm_status make_exec(struct worker *w, struct culm_error *error) {
    const struct culm_numeric_options numeric = {
        .config = &w->brief.config,
        .config_text = w->brief.config_text,
        .signature = w->signature,
        .run_dir = culm_participant_dir(w->process),
        .depot = w->depot,
        .network = w->network,
        .plan = w->plan,
        .pool = w->pool,
        .world = culm_participant_world(w->process),
        .device = w->device,
        .source = w->source,
    };
    return culm_numeric_new(&numeric, &w->exec, error);
}

static enum culm_status make_node(struct worker *w, struct culm_error *error) {
    const struct culm_node_options options = {
        .id = culm_participant_node(w->process),
        .world = culm_participant_world(w->process),
        .exec = w->exec,
        .pool = w->pool,
        .layout = &w->plan->layout,
        .shape = w->plan->shape,
        .heartbeat_ms = w->brief.config.cluster.heartbeat_ms,
        .copy_bytes_per_ms = (uint64_t)w->brief.config.cluster.copy_mb_per_s * 1000,
        .stops = w->depot != NULL,
    };
    w->node = culm_node_new(&options);
    return w->node ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

/* As the launcher has it, from what it said. */
static enum culm_status prepare(struct worker *w, struct culm_error *error) {
    size_t len;
    const void *brief = culm_participant_brief(w->process, &len);
    enum culm_status status = culm_brief_read(brief, len, &w->brief, error);
    if (status != CULM_OK) {
        return status;
    }
    culm_inputs_ask_news(&w->brief.inputs, w->news);
    if ((status = culm_pins_look(w->brief.inputs.pins, error)) ||
        (status = culm_network_open(&w->brief.config, &w->network, error)) ||
        (status = culm_plan_new(w->network, &w->brief.choices, &w->plan, error)) ||
        (status = open_source(w, error)) ||
        (status = culm_device_new((int)w->brief.config.threads, &w->device, error))) {
        return status;
    }
    culm_plan_hold(w->plan, culm_source_resident_bytes(w->source),
                   culm_source_opening_bytes(w->source));
    culm_signature(w->device, &w->brief.config, w->signature);
    w->pool = culm_blob_pool_new(w->plan->limit_bytes);
    if (!w->pool) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    return make_exec(w, error);
}

/* One that replaces another or stands by gets its weights from others: a model's file must not lie in memory that no
 * plan counts. */
static void let_go_if_late(const struct worker *w) {
    if (culm_participant_node(w->process) >= w->brief.config.pipelines * w->brief.config.stages) {
        culm_network_let_go(w->network);
    }
}

static enum culm_status say_ready(struct worker *w, struct culm_error *error) {
    const struct culm_crew_config *cluster = &w->brief.config.cluster;
    const struct culm_worker_ready ready = {
        .signature = w->signature,
        .pool = w->pool,
        .payload_max = culm_payload_max(w->plan),
        .dial_limit_ms = culm_crew_config_dial_ms(cluster),
        .orphan_ms = culm_crew_config_orphan_ms(cluster),
        .stranded_ms = cluster->store_ms,
        .outlives = w->depot != NULL, /* others end with the launcher's machine */
    };
    let_go_if_late(w);
    enum culm_status status = culm_participant_ready(w->process, &ready, error);
    if (status == CULM_OK) { /* a newcomer has its id only now */
        let_go_if_late(w);
        status = make_node(w, error);
    }
    return status;
}

static enum culm_status read_fault(const char *text, struct culm_worker_fault *ret_fault,
                                   struct culm_error *error) {
    struct culm_fault_spec spec;
    enum culm_status status = culm_fault_parse(text, &spec, error);
    if (status == CULM_OK) {
        *ret_fault = (struct culm_worker_fault){
            .point = spec.point, .at_send = spec.point.phase == CULM_PHASE_SEND, .how = spec.how};
    }
    return status;
}

static void flip(void *context, const struct culm_fault_point *point) {
    const struct worker *w = context;
    culm_numeric_flip(w->exec, point->phase == CULM_PHASE_REDUCE       ? CULM_NUMERIC_FLIP_GRADIENT
                               : point->phase == CULM_PHASE_COMMIT     ? CULM_NUMERIC_FLIP_APPLIED
                               : point->phase == CULM_PHASE_CHECKPOINT ? CULM_NUMERIC_FLIP_SAVED
                                                                       : CULM_NUMERIC_FLIP_STATE);
}

/* A digest that was found since; one that is not heard is as one that was not found. */
static void hear_news(void *context, const void *news, size_t len) {
    const struct worker *w = context;
    if (!news) {
        culm_digest_news_end_waits(w->news);
    } else if (w->news) {
        (void)culm_digest_news_hear(w->news, news, len);
    }
}

/* Checkpoints are with whoever leads. */
static void follow(void *context, const char *address) {
    const struct worker *w = context;
    culm_depot_far_move(w->depot, address);
}

static enum culm_status begin(struct worker *w, struct culm_error *error) {
    enum culm_status status = prepare(w, error);
    culm_digest_news_end_waits(w->news); /* tasks do not wait, which would count as stuck */
    if (status != CULM_OK) {
        culm_participant_decline(w->process, error);
        return status;
    }
    return say_ready(w, error);
}

static void release(struct worker *w) {
    culm_node_free(w->node);
    culm_participant_leave(w->process);
    culm_numeric_free(w->exec);
    culm_device_free(w->device);
    culm_source_free(w->source);
    culm_plan_free(w->plan);
    culm_network_close(w->network);
    culm_blob_pool_free(w->pool);
    culm_brief_release(&w->brief);
    culm_digest_news_free(w->news);
    culm_depot_far_free(w->depot);
}

/* The exit code. joined: CULM_OK, or why it could not join. */
static int work(struct worker *w, enum culm_status joined,
                struct culm_participant_memory *ret_memory, struct culm_error *ret_error) {
    enum culm_status status = joined == CULM_OK ? begin(w, ret_error) : joined;
    int code = culm_status_exit_code(status);
    if (status == CULM_OK) {
        code = culm_participant_run(w->process, &culm_node_actor, w->node, ret_error);
        culm_participant_measure(w->pool, ret_memory);
    }
    return code;
}

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

int culm_run_worker(int argc, char **argv, struct culm_participant_memory *ret_memory,
                    struct culm_error *ret_error) {
    struct worker w = {.news = culm_digest_news_new()};
    const struct culm_participant_role role = {
        .words = 1, .fault = read_fault, .flip = flip, .news = hear_news, .ctx = &w};
    enum culm_status joined = w.news
                                  ? culm_participant_join(argc, argv, &role, &w.process, ret_error)
                                  : no_memory(ret_error);
    int code = work(&w, joined, ret_memory, ret_error);
    release(&w);
    return code;
}

int culm_run_worker_newcomer(const struct culm_participant_call *call,
                             struct culm_participant_memory *ret_memory,
                             struct culm_error *ret_error) {
    struct worker w = {.news = culm_digest_news_new(),
                       .depot = culm_depot_far_new(call->address, call->token, PATIENCE_MS)};
    const struct culm_participant_role role = {.news = hear_news, .led = follow, .ctx = &w};
    enum culm_status joined = w.news && w.depot
                                  ? culm_participant_come(call, &role, &w.process, ret_error)
                                  : no_memory(ret_error);
    const bool unanswered = joined == CULM_ERR_CLOSED || joined == CULM_ERR_TIMEOUT;
    const bool refused = unanswered && ret_error->status == CULM_ERR_CONFIG;
    int code = work(&w, unanswered && !refused ? CULM_ERR_IO : joined, ret_memory, ret_error);
    code = refused ? CULM_WORKER_REFUSED : code;
    if (!w.node && ret_error->status == CULM_ERR_CHANGED) { /* its copies here are no copies */
        culm_pins_advise(ret_error, "copy it from the launcher's machine, or name with --data-dir "
                                    "where relative paths begin");
        code = culm_status_exit_code(CULM_ERR_CONFIG);
    }
    release(&w);
    return code;
}
