/* The leader of a run on a graph: as many servers as intervals, and a parameter server. See bench_leader_job.h. */
#include "run/bench_leader_job.h"

#include "interval/leader.h"
#include "interval/message.h"

#include <stdlib.h>

#define ROWS 2 /* of an interval */
#define HOUR_MS 3600000

struct job {
    struct bench_world *world;
    struct culm_gnn_layout layout;
    struct culm_gnn_leader *leader;
    struct culm_gnn_view view; /* the last one */
    int64_t epoch;             /* in progress */
    int32_t *home;
};

static int32_t nodes(int32_t workers) { return workers + 1; }

static void close_job(void *of) {
    struct job *job = of;
    if (job) {
        culm_gnn_leader_free(job->leader);
        culm_gnn_layout_release(&job->layout);
        culm_gnn_view_release(&job->view);
        free(job->home);
        free(job);
    }
}

static void *open_job(struct bench_world *world, int32_t workers) {
    static const size_t bytes[] = {8, 8};
    struct job *job = calloc(1, sizeof *job);
    if (!job) {
        return NULL;
    }
    job->world = world;
    job->home = calloc((size_t)workers, sizeof *job->home);
    if (!job->home || culm_gnn_layout_init(&job->layout, workers, NULL) != CULM_OK ||
        !culm_gnn_view_init(&job->view, workers)) {
        close_job(job);
        return NULL;
    }
    for (int32_t i = 0; i < workers; i++) {
        job->home[i] = i;
        job->layout.first[i + 1] = job->layout.first[i] + ROWS;
        world->role[i] = CULM_GNN_SERVER;
    }
    world->role[workers] = CULM_GNN_PARAMETER;
    culm_gnn_layout_steps(&job->layout, 2, bytes, bytes, bytes);
    const struct culm_gnn_leader_options options = {
        .world = &world->world,
        .agent = &world->agent,
        .layout = &job->layout,
        .settings = {.count = {workers, 1, 0},
                     .pace = {.epochs = INT64_MAX},
                     .crew = {.heartbeat_ms = HOUR_MS,
                              .suspect_ms = HOUR_MS,
                              .stuck_ms = HOUR_MS,
                              .kill_suspect_ms = HOUR_MS,
                              .replace_ms = HOUR_MS,
                              .max_nodes = INT64_MAX}},
        .home = job->home,
        .rows = {1, 1, 1},
        .start_path = "",
    };
    job->leader = culm_gnn_leader_new(&options);
    if (!job->leader) {
        close_job(job);
        return NULL;
    }
    world->actor = &culm_gnn_leader_actor;
    world->leader = job->leader;
    return job;
}

static void holds(struct job *job, int32_t holder, int64_t version) {
    const struct culm_gnn_held held = {.attempt = job->view.attempt,
                                       .version = version,
                                       .digest = (uint64_t)version,
                                       .view = job->view.number};
    culm_gnn_held_encode(&held, &job->world->said);
    bench_world_say(job->world, job->view.holder[holder].node, CULM_GNN_MSG_HOLDS);
}

static void settle(void *of) {
    struct job *job = of;
    const bool first = job->view.number == 0;
    size_t len;
    const uint8_t *meta = bench_world_last(job->world, CULM_GNN_MSG_VIEW, &len);
    if (meta && first) {
        (void)culm_gnn_view_decode(meta, len, &job->layout, &job->view); /* the leader's own */
    }
    job->epoch = first ? job->view.course.epoch : job->epoch + 1;
    for (int32_t h = 0; h < job->view.holder_count && first; h++) {
        holds(job, h, job->epoch - 1);
    }
}

static int32_t messages(void *of) {
    const struct job *job = of;
    return job->layout.intervals + job->view.holder_count;
}

static void say(void *of, int32_t message) {
    struct job *job = of;
    if (message >= job->layout.intervals) {
        holds(job, message - job->layout.intervals, job->epoch);
        return;
    }
    const struct culm_gnn_done done = {
        .attempt = job->view.attempt, .epoch = job->epoch, .interval = message, .trained = true};
    culm_gnn_done_encode(&done, &job->world->said);
    bench_world_say(job->world, job->view.owner[message], CULM_GNN_MSG_DONE);
}

const struct bench_job bench_gnn = {
    .least = 1,
    .most = CULM_GNN_INTERVALS_MAX,
    .view = CULM_GNN_MSG_VIEW,
    .commit = CULM_GNN_MSG_COMMIT,
    .meta_max = CULM_GNN_META_MAX,
    .nodes = nodes,
    .open = open_job,
    .close = close_job,
    .settle = settle,
    .messages = messages,
    .say = say,
};
