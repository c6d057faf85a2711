/* The leader of training: pipelines of four stages, each with an owner and a shadow. See bench_leader_job.h. */
#include "run/bench_leader_job.h"

#include "pipeline/control.h"
#include "pipeline/leader.h"
#include "pipeline/message.h"

#include <math.h>
#include <stdlib.h>

#define STAGES 4
#define PARAMS 12 /* of a stage */
#define BYTES 4   /* of a gradient */
#define HOUR_MS 3600000

struct job {
    struct bench_world *world;
    struct culm_layout layout;
    struct culm_run_shape shape;
    struct culm_pipeline_leader *leader;
    struct culm_view views[2], *view, *next; /* the last one; room for another */
    int64_t step;                            /* in progress */
    double *norm;
    uint64_t *digest, *ids;
};

static int32_t nodes(int32_t workers) { return workers; }

static void close_job(void *of) {
    struct job *job = of;
    if (job) {
        culm_pipeline_leader_free(job->leader);
        culm_layout_release(&job->layout);
        culm_view_release(&job->views[0]);
        culm_view_release(&job->views[1]);
        free(job->norm);
        free(job->digest);
        free(job->ids);
        free(job);
    }
}

/* Each stage has as many tensors, and the last one the statistics. False: out of memory. */
static bool lay_out(struct culm_layout *layout, int32_t stages) {
    const int32_t params = stages * PARAMS;
    layout->stages = stages;
    layout->param_count = params;
    layout->grad_count = params + 1;
    layout->stage = calloc((size_t)stages, sizeof *layout->stage);
    layout->grad = calloc((size_t)layout->grad_count, sizeof *layout->grad);
    layout->param = calloc((size_t)params, sizeof *layout->param);
    for (int32_t s = 0; s < stages && layout->stage && layout->grad && layout->param; s++) {
        int32_t *own = calloc(PARAMS, sizeof *own);
        if (!own) {
            return false;
        }
        for (int32_t i = 0; i < PARAMS; i++) {
            own[i] = s * PARAMS + i;
            layout->param[own[i]] =
                (struct culm_param_desc){.stages = culm_stage_set_of(s), .state_bytes = BYTES};
            layout->grad[own[i]] = (struct culm_grad_desc){s, own[i], (size_t)i * BYTES, BYTES};
        }
        layout->stage[s] = (struct culm_stage_desc){.grad_bytes = (PARAMS + 1) * BYTES,
                                                    .first_grad = s * PARAMS,
                                                    .grad_count = PARAMS + (s == stages - 1),
                                                    .param_count = PARAMS,
                                                    .params = own};
    }
    if (!layout->stage || !layout->grad || !layout->param) {
        return false;
    }
    layout->grad[params] = (struct culm_grad_desc){stages - 1, -1, PARAMS * BYTES, BYTES};
    return true;
}

/* Whoever is left over stands by. */
static struct culm_run_shape shape_of(int32_t workers) {
    const int32_t stages = workers < STAGES ? workers : STAGES, pipelines = workers / stages;
    return (struct culm_run_shape){.pipelines = pipelines,
                                   .stages = stages,
                                   .lanes = pipelines,
                                   .micros = pipelines,
                                   .micros_per_lane = 1,
                                   .global_samples = pipelines,
                                   .micro_samples = 1,
                                   .steps = INT32_MAX,
                                   .redundancy = CULM_REDUNDANCY_EAGER};
}

static void *open_job(struct bench_world *world, int32_t workers) {
    struct job *job = calloc(1, sizeof *job);
    if (!job) {
        return NULL;
    }
    job->world = world;
    job->shape = shape_of(workers);
    job->view = &job->views[0];
    job->next = &job->views[1];
    const bool views =
        culm_view_init(job->view, &job->shape) && culm_view_init(job->next, &job->shape);
    job->norm = calloc((size_t)job->shape.stages * PARAMS, sizeof *job->norm);
    job->digest = calloc((size_t)job->shape.stages * PARAMS, sizeof *job->digest);
    job->ids = calloc((size_t)job->shape.stages, sizeof *job->ids);
    if (!views || !job->norm || !job->digest || !job->ids ||
        !lay_out(&job->layout, job->shape.stages)) {
        close_job(job);
        return NULL;
    }
    const struct culm_pipeline_leader_options options = {
        .world = &world->world,
        .agent = &world->agent,
        .layout = &job->layout,
        .shape = job->shape,
        .settings = {.crew = {.heartbeat_ms = HOUR_MS,
                              .suspect_ms = HOUR_MS,
                              .kill_suspect_ms = HOUR_MS,
                              .stuck_ms = HOUR_MS,
                              .join_ms = HOUR_MS,
                              .replace_ms = HOUR_MS,
                              .max_nodes = workers}},
        .tokens_per_sample = 1,
        .start_source = "",
    };
    job->leader = culm_pipeline_leader_new(&options);
    if (!job->leader) {
        close_job(job);
        return NULL;
    }
    world->actor = &culm_pipeline_leader_actor;
    world->leader = job->leader;
    return job;
}

static void take_view(struct job *job) {
    size_t len;
    const uint8_t *meta = bench_world_last(job->world, CULM_MSG_VIEW, &len);
    if (meta && culm_view_decode(meta, len, job->view, &job->shape, job->next) == CULM_OK) {
        struct culm_view *before = job->view;
        job->view = job->next;
        job->next = before;
    }
}

static void settle(void *of) {
    struct job *job = of;
    take_view(job);
    for (int32_t n = 0; n < job->view->node_count && job->step == 0; n++) {
        const struct culm_loaded loaded = {.view = job->view->number};
        culm_loaded_encode(&loaded, &job->world->said);
        bench_world_say(job->world, job->view->node[n].id, CULM_MSG_LOADED);
    }
    take_view(job);
    job->step++;
}

/* DIGESTS and PREPARED of all who hold something. */
static int32_t messages(void *of) {
    const struct job *job = of;
    return 2 * job->shape.pipelines * job->shape.stages;
}

/* What it tells of: its own tensors. */
static void tell_of(struct job *job, const struct culm_stage_set *stages) {
    for (int32_t p = 0; p < job->layout.param_count; p++) {
        const bool own = culm_stage_set_meets(&job->layout.param[p].stages, stages);
        job->norm[p] = own ? 1 : (double)NAN;
        job->digest[p] = own;
    }
}

static void say(void *of, int32_t message) {
    struct job *job = of;
    const int32_t params = job->layout.param_count;
    const struct culm_view_node *node = &job->view->node[message / 2];
    tell_of(job, &node->holds);
    if (message % 2 == 0) {
        const struct culm_digests digests = {.view = job->view->number,
                                             .version = job->step - 1,
                                             .stages = node->holds,
                                             .params = params,
                                             .digest = job->digest};
        culm_digests_encode(&digests, &job->world->said);
        bench_world_say(job->world, node->id, CULM_MSG_DIGESTS);
        return;
    }
    const struct culm_prepared prepared = {.view = job->view->number,
                                           .iteration = job->step,
                                           .stages = node->holds,
                                           .loss = 1,
                                           .samples = job->shape.global_samples,
                                           .weight = 1,
                                           .params = params,
                                           .of_stages = job->shape.stages,
                                           .norm = job->norm,
                                           .ids = job->ids};
    culm_prepared_encode(&prepared, &job->world->said);
    bench_world_say(job->world, node->id, CULM_MSG_PREPARED);
}

const struct bench_job bench_train = {
    .least = 2, /* somebody is left */
    .most = CULM_MAX_NODES,
    .view = CULM_MSG_VIEW,
    .commit = CULM_MSG_COMMIT,
    .meta_max = CULM_META_MAX,
    .nodes = nodes,
    .open = open_job,
    .close = close_job,
    .settle = settle,
    .messages = messages,
    .say = say,
};
