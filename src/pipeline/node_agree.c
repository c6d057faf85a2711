/*
 * The node: what it says of its state, so that copies that differ are noticed.
 *
 * The executor knows of every tensor what it made of it, and looks again after the state was used
 * and before it is changed, copied or saved. A node whose own memory is not what was put there says
 * DAMAGED and does no more: one copy is enough to know that. What it did make may still be wrong, by a
 * processor that errs; so every holder tells the digests of each version it comes to, as soon as it
 * has stepped to, loaded or received it, and the leader compares them.
 */
#include "pipeline/node_internal.h"

#include "base/mark.h"

#include <stdio.h>
#include <string.h>

void node_tell_digests(struct culm_node *node, const struct culm_stage_set *stages,
                       int64_t version) {
    const struct culm_layout *layout = node->o.layout;
    memset(node->digest, 0, (size_t)layout->param_count * sizeof *node->digest);
    for (int32_t s = culm_stage_set_next(stages, 0); s >= 0;
         s = culm_stage_set_next(stages, s + 1)) {
        const struct culm_stage_desc *desc = &layout->stage[s];
        for (int32_t i = 0; i < desc->param_count; i++) {
            uint64_t *digest = &node->digest[desc->params[i]], own = node->stage[s].digest[i];
            if (*digest && *digest != own) {
                CULM_MARK(pipeline_copies_of_a_tied_tensor_differ);
                own = ~own; /* two copies of a tied tensor here: neither is believed */
            }
            *digest = own;
        }
    }
    const struct culm_digests digests = {.view = node->view->number,
                                         .version = version,
                                         .stages = *stages,
                                         .params = layout->param_count,
                                         .of_stages = layout->stages,
                                         .digest = node->digest};
    culm_digests_encode(&digests, culm_self_meta(&node->self));
    culm_self_tell(&node->self, CULM_MSG_DIGESTS);
}

void node_damaged(struct culm_node *node, const struct culm_task *task) {
    if (node->self.left) {
        return;
    }
    CULM_MARK(pipeline_finds_itself_damaged);
    node->damaged = true;
    node->damage = (struct culm_damaged){.iteration = task->iteration, .stage = task->stage};
    snprintf(node->damage.why, sizeof node->damage.why, "%s", task->job.error.text);
    node_tell_damage(node);
    node->self.left = true; /* the leader ends this process once it has heard why */
}

void node_tell_damage(struct culm_node *node) {
    culm_damaged_encode(&node->damage, culm_self_meta(&node->self));
    culm_self_tell(&node->self, CULM_MSG_DAMAGED);
}
