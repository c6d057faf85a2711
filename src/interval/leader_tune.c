/* The leader: adjusts the number of workers, with `workers: auto`. See leader.h and tune.h. */
#include "interval/leader_internal.h"

static bool works(const struct gnn_node *node) {
    return node->mate.alive && node->mate.role == CULM_GNN_WORKER && !node->mate.leaving;
}

static int32_t count_workers(const struct culm_gnn_leader *leader) {
    int32_t count = 0;
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        count += works(gnn_node_at(leader, i));
    }
    return count;
}

static void set_workers(struct culm_gnn_leader *leader, int64_t epoch) {
    const struct culm_gnn_tuner *tuner = &leader->tuner;
    leader->o.settings.count[CULM_GNN_WORKER] = tuner->workers;
    culm_crew_want(&leader->crew, CULM_GNN_WORKER, tuner->workers);
    culm_crew_event(&leader->crew,
                    json_pack("{s:s, s:i, s:s, s:I}", "event", "tune", "workers",
                              (int)tuner->workers, "why", tuner->why, "epoch", (json_int_t)epoch));
}

void gnn_leader_tune_begin(struct culm_gnn_leader *leader) {
    if (leader->o.settings.tunes) {
        culm_gnn_tune_init(&leader->tuner, &leader->o.settings.tune);
        set_workers(leader, leader->o.start_version);
    }
}

/* The worker that joined last; NULL: there is none. */
static struct gnn_node *youngest(struct culm_gnn_leader *leader) {
    struct gnn_node *youngest = NULL;
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        struct gnn_node *node = gnn_node_at(leader, i);
        if (works(node) && (!youngest || node->mate.id > youngest->mate.id)) {
            youngest = node;
        }
    }
    return youngest;
}

/* Tells surplus workers to leave; they finish their tasks first. A worker that was asked for
 * earlier, and is not needed any more when it joins, is told at the next commit. */
static void release(struct culm_gnn_leader *leader) {
    int32_t many = count_workers(leader) - leader->o.settings.count[CULM_GNN_WORKER];
    for (struct gnn_node *node; many > 0 && (node = youngest(leader)); many--) {
        gnn_leader_let_go(leader, node);
        culm_crew_meta(&leader->crew);
        culm_crew_send(&leader->crew, node->mate.id, CULM_GNN_MSG_LEAVING);
    }
}

void gnn_leader_tune(struct culm_gnn_leader *leader) {
    const struct culm_gnn_settings *settings = &leader->o.settings;
    const struct culm_gnn_course *course = &leader->view.course;
    const struct culm_gnn_work *work = &gnn_leader_done(leader)->work;
    /* Epochs with an evaluation take longer. They are left out, unless all epochs have one. */
    if (!settings->tunes || !course->train || (course->evaluate && settings->pace.eval_every > 1)) {
        return;
    }
    double looks = work->looks > 0 ? (double)work->looks : 1;
    const struct culm_gnn_tune_epoch epoch = {
        .seconds = (double)(culm_crew_now(&leader->crew) - leader->epoch_ns) / 1e9,
        .workers = count_workers(leader),
        .gathers = (double)work->gathers_waiting / looks,
        .applies = (double)work->applies_waiting / looks,
        .left = settings->pace.epochs - course->epoch};
    if (culm_gnn_tune_add(&leader->tuner, &epoch)) {
        set_workers(leader, course->epoch);
    }
    release(leader);
}
