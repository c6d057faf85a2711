/* One worker: plan, data, device, executor, node, and the real world around them. What it works on
 * comes with the coordinator's welcome. */
#include "run/worker.h"

#include "base/file.h"
#include "cluster/worker.h"
#include "data/image.h"
#include "data/unicode.h"
#include "net/socket.h"
#include "pipeline/node.h"
#include "run/fault.h"
#include "run/version.h"
#include "train/brief.h"
#include "train/numeric.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOKEN_SIZE 128
#define ARGUMENTS 6 /* worker DIR NODE ADDRESS NAME FAULT_FD */

struct worker {
    struct culm_brief brief;
    char signature[CULM_SIGNATURE_SIZE], token[TOKEN_SIZE], plan_path[CULM_PATH_MAX];
    struct culm_network *network; /* of the brief's configuration */
    struct culm_plan *plan;
    struct culm_source *source;
    struct culm_device *device;
    struct culm_blob_pool *pool;
    struct culm_worker_fault *faults;
    size_t fault_count;
    struct culm_worker *world;
    struct culm_exec *exec;
    struct culm_node *node;
};

void culm_signature(const struct culm_device *device, const struct culm_train_config *config,
                    char ret_text[CULM_SIGNATURE_SIZE]) {
    bool half = config->precision == CULM_PRECISION_BF16;
    char images[96] = "";
    if (config->data.kind == CULM_SOURCE_IMAGES) {
        culm_image_libraries(images, sizeof images);
    }
    snprintf(ret_text, CULM_SIGNATURE_SIZE, "culm-%s+%s/%s%s%s/glibc-%s/gcc-%s%s%s%s%s",
             CULM_VERSION, CULM_GIT, device->ops->signature(device), half ? "/bf16-" : "",
             half ? device->ops->bf16_flavour(device) : "", gnu_get_libc_version(), __VERSION__,
             images[0] ? "/" : "", images, config->data.tokenizer_count ? "/utf8proc-" : "",
             config->data.tokenizer_count ? culm_unicode_version() : "");
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

static enum culm_status read_faults(struct worker *w, int argc, char **argv,
                                    struct culm_error *error) {
    w->faults = calloc((size_t)argc, sizeof *w->faults);
    if (!w->faults) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    for (int i = ARGUMENTS; i + 1 < argc; i += 2) {
        struct culm_fault_spec spec;
        enum culm_status status = culm_fault_parse(argv[i + 1], &spec, error);
        if (status != CULM_OK) {
            return status;
        }
        w->faults[w->fault_count++] =
            (struct culm_worker_fault){.index = atoi(argv[i]),
                                       .point = spec.point,
                                       .at_send = spec.point.phase == CULM_PHASE_SEND,
                                       .how = spec.how};
    }
    return CULM_OK;
}

static enum culm_status open_source(struct worker *w, struct culm_error *error) {
    struct culm_source_options options;
    culm_train_config_source(&w->brief.config, false, &options);
    enum culm_status status = culm_source_open(&options, &w->source, error);
    return status == CULM_OK
               ? culm_inputs_check_samples(&w->brief.inputs, culm_source_samples(w->source), error)
               : status;
}

static enum culm_status make_exec(struct worker *w, const char *dir, struct culm_error *error) {
    const struct culm_numeric_options numeric = {
        .config = &w->brief.config,
        .config_text = w->brief.config_text,
        .signature = w->signature,
        .run_dir = dir,
        .network = w->network,
        .plan = w->plan,
        .pool = w->pool,
        .world = culm_worker_world(w->world),
        .device = w->device,
        .source = w->source,
    };
    return culm_numeric_new(&numeric, &w->exec, error);
}

/* As the launcher has it, from what it said. */
static enum culm_status prepare(struct worker *w, const char *dir, struct culm_error *error) {
    size_t len;
    const void *brief = culm_worker_brief(w->world, &len);
    enum culm_status status = culm_brief_read(brief, len, &w->brief, error);
    if (status != CULM_OK) {
        return status;
    }
    culm_inputs_ask_plan(&w->brief.inputs, w->plan_path);
    if ((status = culm_path_format(w->plan_path, error, "%s/plan.json", dir)) ||
        (status = culm_pins_look(w->brief.inputs.pins, error)) ||
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
    return w->pool ? make_exec(w, dir, error)
                   : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

/* All of standard input, which nobody else can read again. */
static enum culm_status read_token(struct worker *w, struct culm_error *error) {
    ssize_t got;
    size_t len = 0;
    while (len < sizeof w->token - 1 &&
           (got = read(STDIN_FILENO, w->token + len, sizeof w->token - 1 - len)) != 0) {
        if (got < 0 && errno != EINTR) {
            return culm_error_errno(error, errno, "read the token from standard input");
        }
        len += got > 0 ? (size_t)got : 0;
    }
    return len ? CULM_OK
               : culm_error_set(error, CULM_ERR_ARGUMENT,
                                "no token on standard input; this command is for the launcher");
}

static void flip(void *context, const struct culm_fault_point *point) {
    const struct worker *w = context;
    culm_numeric_flip(w->exec, point->phase == CULM_PHASE_REDUCE   ? CULM_NUMERIC_FLIP_GRADIENT
                               : point->phase == CULM_PHASE_COMMIT ? CULM_NUMERIC_FLIP_APPLIED
                                                                   : CULM_NUMERIC_FLIP_STATE);
}

static enum culm_status join(struct worker *w, char **argv, struct culm_error *error) {
    const struct culm_worker_options options = {
        .address = argv[3],
        .token = w->token,
        .node = atoi(argv[2]),
        .name = argv[4],
        .fault_fd = atoi(argv[5]),
        .faults = w->faults,
        .fault_count = w->fault_count,
        .flip = flip,
        .flip_ctx = w,
    };
    enum culm_status status = culm_worker_new(&options, &w->world, error);
    if (status != CULM_OK) {
        return status;
    }
    status = prepare(w, argv[1], error);
    if (status != CULM_OK) {
        culm_worker_decline(w->world, error);
        return status;
    }
    if (options.node >= w->brief.config.pipelines * w->brief.config.stages) {
        /* It replaces another one or stands by, and gets its weights from others: a model's file must
         * not lie in memory that no plan counts. */
        culm_network_let_go(w->network);
    }
    const struct culm_cluster_config *cluster = &w->brief.config.cluster;
    const struct culm_worker_ready ready = {
        .signature = w->signature,
        .pool = w->pool,
        .payload_max = culm_payload_max(w->plan),
        .dial_limit_ms = 2 * cluster->suspect_ms, /* the coordinator sees a frozen one before */
        .orphan_ms =
            cluster->orphan_ms > cluster->suspect_ms ? cluster->orphan_ms : cluster->suspect_ms,
    };
    const struct culm_node_options node = {
        .id = options.node,
        .world = culm_worker_world(w->world),
        .exec = w->exec,
        .pool = w->pool,
        .layout = &w->plan->layout,
        .shape = w->plan->shape,
        .heartbeat_ms = w->brief.config.cluster.heartbeat_ms,
    };
    w->node = culm_node_new(&node);
    return w->node ? culm_worker_ready(w->world, &ready, error)
                   : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

/* VmHWM of this process, for the log. */
static long peak_kb(void) {
    long kb = 0;
    char line[128];
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "VmHWM: %ld", &kb) == 1) {
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return kb;
}

static void note_memory(const struct worker *w, struct culm_worker_memory *ret_memory) {
    struct culm_blob_pool_stats stats;
    culm_blob_pool_stats(w->pool, &stats);
    *ret_memory = (struct culm_worker_memory){.blobs_bytes = stats.peak_bytes,
                                              .process_bytes = (size_t)peak_kb() * 1024,
                                              .allocations = stats.allocations};
}

int culm_run_worker(int argc, char **argv, struct culm_worker_memory *ret_memory,
                    struct culm_error *ret_error) {
    struct worker w = {0};
    enum culm_status status;
    int code;
    if (argc < ARGUMENTS) {
        culm_error_set(ret_error, CULM_ERR_ARGUMENT, "this command is for the launcher");
        return culm_status_exit_code(CULM_ERR_ARGUMENT);
    }
    culm_socket_raise_limit();
    if ((status = read_token(&w, ret_error)) || (status = read_faults(&w, argc, argv, ret_error)) ||
        (status = join(&w, argv, ret_error))) {
        code = culm_status_exit_code(status);
    } else {
        code = culm_worker_run(w.world, &culm_node_actor, w.node, ret_error);
        note_memory(&w, ret_memory);
    }
    culm_node_free(w.node);
    culm_worker_free(w.world);
    culm_numeric_free(w.exec);
    culm_device_free(w.device);
    culm_source_free(w.source);
    culm_plan_free(w.plan);
    culm_network_close(w.network);
    culm_blob_pool_free(w.pool);
    free(w.faults);
    culm_brief_release(&w.brief);
    return code;
}
