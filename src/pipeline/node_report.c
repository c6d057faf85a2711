/*
 * The node: another one leads, and is told what there is here (report.h).
 *
 * A node goes on with its work meanwhile, and keeps what it has until the new leader says otherwise: the COMMIT that it
 * lacks, if others have it, then a view. What it has said to the old leader in the view before counts for nothing, so
 * it says it again in the new one.
 */
#include "base/mark.h"
#include "pipeline/node_internal.h"

void node_committed(struct culm_node *node, const struct culm_content *commit) {
    if (commit->iteration > node->last_commit.iteration) {
        node->last_commit = *commit;
        culm_curve_add(node->curve, commit->iteration, commit->loss, commit->norm);
    }
}

void node_forget_commits(struct culm_node *node, int64_t version) {
    node->last_commit = (struct culm_content){0};
    culm_curve_cut(node->curve, 0, version);
}

void node_report(struct culm_node *node) {
    const bool runs = node->view->phase == CULM_VIEW_RUN; /* else what is not loaded is not here */
    struct culm_report report = {.view = node->view->number,
                                 .iteration = node->view->number > 0 ? node->iteration : 0,
                                 .commit = node->last_commit,
                                 .curve_first = node->curve->count > 0 ? node->curve->first : 0,
                                 .totals = node->totals};
    for (int32_t s = 0; s < node->o.layout->stages && node->view->number > 0; s++) {
        const struct stage_state *stage = &node->stage[s];
        const bool whole = stage->incoming.id && stage->version == node->iteration - 1;
        if (stage->held && (runs || stage->version == node->iteration - 1)) {
            culm_stage_set_add(&report.holds, s);
        } else if (whole && !stage->held) {
            culm_stage_set_add(&report.whole, s);
        }
    }
    CULM_MARK(pipeline_reports_to_a_new_leader);
    culm_report_encode(&report, culm_self_meta(&node->self));
    culm_self_tell(&node->self, CULM_MSG_REPORT);
}

void node_hear_curve(struct culm_node *node, const struct culm_message *message) {
    if (culm_curve_decode(message->meta, message->meta_bytes, node->curve) == CULM_OK) {
        CULM_MARK(pipeline_hears_of_steps_before_it_came);
    }
}

void node_show(struct culm_node *node) {
    if (node->view->number == 0) {
        return;
    }
    culm_view_encode(node->view, NULL, &node->o.shape, culm_self_meta(&node->self));
    culm_self_tell(&node->self, CULM_MSG_VIEW);
    culm_curve_encode(node->curve, culm_self_meta(&node->self));
    culm_self_tell(&node->self, CULM_MSG_CURVE);
}

void node_say_again(struct culm_node *node) {
    struct culm_stage_set stages = {{0}};
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        if (node->stage[s].held && node->stage[s].version == node->iteration - 1) {
            culm_stage_set_add(&stages, s); /* of others it tells when the step is done */
        }
    }
    if (!culm_stage_set_empty(&stages)) {
        node_tell_digests(node, &stages, node->iteration - 1);
    }
}
