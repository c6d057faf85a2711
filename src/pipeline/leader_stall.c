/*
 * The leader: nothing moves, and everyone has said what it has (WAITS). See crew/ask.c.
 *
 * From the view follows who should have sent what to whom; what one node has made and another lacks was swallowed
 * between them. One end of the link that this is true of most often is put out, the younger of two equals. Not
 * watched is a run that waits for workers, for room for the last checkpoint, or for room in memory; but whoever has been told to write a part of the last checkpoint is waited for no longer than others.
 */
#include "pipeline/leader_internal.h"

#include "base/grow.h"
#include "base/mark.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LISTED_MAX 64 /* in the event */

/* What one node sends another, as the event "stalled" names it. */
enum what { HAVE, STATE, ACTIVATION, GRADIENT, SUM, REDUCED };

static const char *const what_name[] = {
    [HAVE] = "have",         [STATE] = "state", [ACTIVATION] = "activation",
    [GRADIENT] = "gradient", [SUM] = "sum",     [REDUCED] = "reduced",
};

/* X should have got something from Y. */
struct want {
    int32_t node, from, stage, count;
    enum what what;
    bool made; /* and Y has it */
};

struct wants {
    struct want *want;
    int32_t count, capacity;
    bool failed; /* out of memory */
    struct {
        bool missing, undone; /* some lane of a gradient, at its reducer; at the owner */
    } * lanes;                /* [pipelines] scratch */
};

/* --- has anything moved? --- */

bool leader_watched(struct culm_crew *crew) {
    const struct culm_pipeline_leader *leader = (const struct culm_pipeline_leader *)crew;
    if (leader->phase == LOADING) {
        return !leader->io_busy;
    }
    if (leader->phase != RUNNING || leader->rollback_due || crew->cut_off) {
        return false;
    }
    if (leader_last_save(leader)) {
        return leader->saving.active && !leader->saving.publishing;
    }
    return leader->iteration <= leader->o.shape.steps &&
           (!leader_parked(leader) || leader->transfer_count > 0);
}

int64_t leader_progress(const struct culm_crew *crew) {
    const struct culm_pipeline_leader *leader = (const struct culm_pipeline_leader *)crew;
    int64_t sum = leader->iteration + (int64_t)leader->view->number + leader->transfer_count;
    for (int32_t i = 0; i < crew->mates.count; i++) {
        sum += worker_at(leader, i)->loaded;
    }
    return sum;
}

/* --- asking --- */

/* Those of the view: others have not been told what there is to have. */
bool leader_asked(const struct culm_crew *crew, const struct culm_mate *mate) {
    return culm_view_find(((const struct culm_pipeline_leader *)crew)->view, mate->id) != NULL;
}

void leader_forget_answer(struct culm_crew *crew, struct culm_mate *mate) {
    struct worker *worker = (struct worker *)mate;
    (void)crew;
    culm_waits_free(worker->waits);
    worker->waits = NULL;
}

void leader_waits(struct culm_pipeline_leader *leader, struct worker *worker,
                  const struct culm_message *message) {
    struct culm_waits *waits = culm_waits_new(leader->o.shape.stages, leader->o.shape.micros,
                                              leader->o.layout->grad_count, leader->o.shape.lanes);
    const enum culm_status status =
        waits ? culm_waits_decode(message->meta, message->meta_bytes, waits) : CULM_ERR_MEMORY;
    if (status == CULM_ERR_MEMORY) {
        culm_crew_fail(&leader->crew, CULM_ERR_MEMORY, "read what worker %d waits for",
                       worker->mate.id);
    }
    if (status == CULM_OK && waits->have.view == leader->view->number &&
        culm_crew_answers(&leader->crew, &worker->mate, waits->question)) {
        worker->waits = waits;
    } else {
        culm_waits_free(waits);
    }
}

/* --- who should have sent what to whom --- */

static const struct culm_waits *answer_of(const struct culm_pipeline_leader *leader, int32_t id) {
    const struct worker *worker = id < 0 ? NULL : leader_worker(leader, id);
    return worker ? worker->waits : NULL;
}

static void add(struct wants *wants, int32_t node, int32_t from, enum what what, int32_t stage,
                bool made) {
    if (node < 0 || from < 0 || node == from) {
        return;
    }
    for (int32_t i = 0; i < wants->count; i++) {
        struct want *at = &wants->want[i];
        if (at->node == node && at->from == from && at->what == what && at->stage == stage &&
            at->made == made) {
            at->count++;
            return;
        }
    }
    if (!CULM_GROW(wants->want, wants->capacity, wants->count + 1)) {
        wants->failed = true;
        return;
    }
    wants->want[wants->count++] = (struct want){node, from, stage, 1, what, made};
}

static void want_boundaries(const struct culm_pipeline_leader *leader, struct wants *wants,
                            int32_t p, int32_t s) {
    const struct culm_role *role = leader->view->role[p];
    const struct culm_waits *self = answer_of(leader, role[s].owner);
    int32_t last = leader->o.shape.stages - 1;
    const struct culm_waits *before = s > 0 ? answer_of(leader, role[s - 1].owner) : NULL;
    const struct culm_waits *after = s < last ? answer_of(leader, role[s + 1].owner) : NULL;
    for (int32_t m = 0; m < leader->o.shape.micros && self; m++) {
        int32_t i = s * leader->o.shape.micros + m;
        if (leader->view->lane_pipeline[m / leader->o.shape.micros_per_lane] != p) {
            continue;
        }
        if (before && !self->have.activation[i]) {
            add(wants, role[s].owner, role[s - 1].owner, ACTIVATION, s, before->have.activation[i]);
        }
        if (after && !self->have.gradient[i]) {
            add(wants, role[s].owner, role[s + 1].owner, GRADIENT, s, after->have.gradient[i]);
        }
    }
}

static bool holds_grad(const struct culm_pipeline_leader *leader, const struct culm_view_node *node,
                       int32_t grad) {
    int32_t param = leader->o.layout->grad[grad].param;
    return param < 0 ? culm_stage_set_has(&node->holds, leader->o.layout->grad[grad].stage)
                     : culm_stage_set_meets(&node->holds, &leader->o.layout->param[param].stages);
}

/* Of a gradient of the stage the reducer has the sums of these lanes. */
static void want_sums(const struct culm_pipeline_leader *leader, struct wants *wants,
                      const uint64_t *lanes, int32_t reducer, int32_t stage) {
    const struct culm_view *view = leader->view;
    memset(wants->lanes, 0, (size_t)view->pipelines * sizeof *wants->lanes);
    for (int32_t l = 0; l < view->lanes; l++) {
        const int32_t p = view->lane_pipeline[l];
        const struct culm_waits *owner =
            p >= 0 ? answer_of(leader, view->role[p][stage].owner) : NULL;
        if (owner) {
            wants->lanes[p].missing |= !culm_bits_has(lanes, l);
            wants->lanes[p].undone |= !culm_bits_has(culm_waits_lanes(owner, stage), l);
        }
    }
    for (int32_t p = 0; p < view->pipelines; p++) {
        if (wants->lanes[p].missing) {
            add(wants, reducer, view->role[p][stage].owner, SUM, stage, !wants->lanes[p].undone);
        }
    }
}

static void want_grad(const struct culm_pipeline_leader *leader, struct wants *wants,
                      int32_t grad) {
    int32_t stage = leader->o.layout->grad[grad].stage;
    int32_t reducer = culm_view_reducer(leader->view, leader->o.layout, grad);
    const struct culm_waits *at = answer_of(leader, reducer);
    if (!at) {
        return;
    }
    for (int32_t i = 0; i < leader->view->node_count; i++) {
        const struct culm_view_node *node = &leader->view->node[i];
        const struct culm_waits *waits = answer_of(leader, node->id);
        if (waits && !waits->have.reduced[grad] && holds_grad(leader, node, grad)) {
            add(wants, node->id, reducer, REDUCED, stage, at->have.reduced[grad]);
        }
    }
    if (!at->have.reduced[grad]) {
        want_sums(leader, wants, culm_have_lanes(&at->have, grad), reducer, stage);
    }
}

static void find_wants(const struct culm_pipeline_leader *leader, struct wants *wants) {
    for (int32_t i = 0; i < leader->view->node_count; i++) {
        const struct culm_waits *waits = answer_of(leader, leader->view->node[i].id);
        for (int32_t d = 0; waits && d < waits->deaf_count; d++) {
            if (answer_of(leader, waits->deaf[d])) { /* which has said it: it is in this view */
                add(wants, leader->view->node[i].id, waits->deaf[d], HAVE, -1, true);
            }
        }
    }
    for (int32_t t = 0; t < leader->transfer_count && leader_parked(leader); t++) {
        add(wants, leader->transfer[t].destination, leader->transfer[t].source, STATE,
            leader->transfer[t].stage, true);
    }
    for (int32_t p = 0; p < leader->view->pipelines && leader->view->phase == CULM_VIEW_RUN; p++) {
        for (int32_t s = 0; s < leader->view->stages; s++) {
            want_boundaries(leader, wants, p, s);
        }
    }
    for (int32_t g = 0; g < leader->o.layout->grad_count && leader->view->phase == CULM_VIEW_RUN;
         g++) {
        want_grad(leader, wants, g);
    }
}

/* --- whose fault --- */

static int32_t names_link(const struct wants *wants, int32_t one, int32_t other) {
    int32_t count = 0;
    for (int32_t i = 0; i < wants->count; i++) {
        const struct want *at = &wants->want[i];
        bool same =
            (at->node == one && at->from == other) || (at->node == other && at->from == one);
        count += at->made && same ? at->count : 0;
    }
    return count;
}

static int32_t names_node(const struct wants *wants, int32_t id) {
    int32_t count = 0;
    for (int32_t i = 0; i < wants->count; i++) {
        const struct want *at = &wants->want[i];
        count += at->made && (at->node == id || at->from == id) ? at->count : 0;
    }
    return count;
}

/* -1: nobody. */
static int32_t culprit(const struct culm_pipeline_leader *leader, const struct wants *wants) {
    int32_t most = 0, out = -1;
    for (int32_t i = 0; i < wants->count; i++) {
        const struct want *at = &wants->want[i];
        int32_t named = at->made ? names_link(wants, at->node, at->from) : 0;
        if (named > most) {
            int32_t one = names_node(wants, at->node), other = names_node(wants, at->from);
            int32_t younger = at->node > at->from ? at->node : at->from;
            CULM_MARK(pipeline_stalled_by_a_link);
            most = named;
            out = one == other ? younger : one > other ? at->node : at->from;
        }
    }
    for (int32_t i = leader->view->node_count - 1; i >= 0 && out < 0 && leader->phase == LOADING;
         i--) {
        const struct culm_view_node *node = &leader->view->node[i];
        if (!culm_stage_set_empty(&node->holds) && !leader_worker(leader, node->id)->loaded) {
            CULM_MARK(pipeline_stalled_while_loading);
            out = node->id; /* it has nothing to do and has not loaded */
        }
    }
    return out;
}

static void tell(struct culm_pipeline_leader *leader, const struct wants *wants, int64_t silent_ms,
                 int32_t out) {
    json_t *list = json_array();
    bool any = false;
    for (int32_t i = 0; i < wants->count; i++) {
        any |= wants->want[i].made;
    }
    for (int32_t i = 0; i < wants->count && json_array_size(list) < LISTED_MAX; i++) {
        const struct want *at = &wants->want[i];
        if (at->made == any) {
            json_array_append_new(list, json_pack("{s:i, s:i, s:s, s:i, s:i}", "node", at->node,
                                                  "from", at->from, "what", what_name[at->what],
                                                  "stage", at->stage, "count", at->count));
        }
    }
    culm_crew_event(&leader->crew,
                    json_pack("{s:s, s:I, s:I, s:o, s:o}", "event", "stalled", "step",
                              (json_int_t)leader->iteration, "for_ms", (json_int_t)silent_ms,
                              "waits", list, "put_out", out < 0 ? json_null() : json_integer(out)));
}

struct culm_mate *leader_judge(struct culm_crew *crew, struct culm_mate *silent_or_null,
                               int64_t silent_ms) {
    struct culm_pipeline_leader *leader = (struct culm_pipeline_leader *)crew;
    struct wants wants = {.lanes = calloc((size_t)leader->o.shape.pipelines, sizeof *wants.lanes)};
    wants.failed = !wants.lanes;
    if (wants.lanes) {
        find_wants(leader, &wants);
    }
    int32_t out = silent_or_null ? silent_or_null->id : wants.failed ? -1 : culprit(leader, &wants);
    tell(leader, &wants, silent_ms, out);
    leader->tell_whole = true;
    free(wants.want);
    free(wants.lanes);
    return out < 0 ? NULL : culm_crew_find(crew, out);
}

void leader_nobody(struct culm_crew *crew, const char *why) {
    struct culm_pipeline_leader *leader = (struct culm_pipeline_leader *)crew;
    if (leader->phase == RUNNING) {
        leader_publish(leader, false, why);
    }
}
