/*
 * The coordinator: nothing moves, though everyone is alive and nobody works.
 *
 * A link may swallow frames in one direction while both its ends talk on to us. So when no task
 * runs, none has ended and no frame has come anywhere for some time, every node is asked what it
 * has (WAITS). From the view follows who should have sent what to whom; what one node has made and
 * another lacks was swallowed between them. One end of the link that this is true of most often is
 * put out, the younger of two equals; so is a node that does not answer. If nobody can be blamed a
 * new view makes everyone say anew what it has.
 *
 * When it is time for that: ledger/stall.h. Not watched is a run that waits
 * for workers, for the last checkpoint, or for copies that a step can do without (join_ms).
 */
#include "pipeline/coordinator_internal.h"

#include "base/grow.h"

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
};

/* --- has anything moved? --- */

static bool watched(const struct culm_coordinator *c) {
    if (c->phase == LOADING) {
        return !c->io_busy;
    }
    bool parked = culm_coordinator_parked(c);
    return c->phase == RUNNING && c->iteration <= c->o.shape.steps && !c->rollback_due &&
           !culm_coordinator_last_save(c) && parked == (c->transfer_count > 0);
}

static bool someone_works(const struct culm_coordinator *c) {
    for (int32_t i = 0; i < c->worker_count; i++) {
        if (c->worker[i].alive && c->worker[i].task_kind >= 0) {
            return true;
        }
    }
    return false;
}

/* Changes whenever anything gets on. */
static int64_t progress(const struct culm_coordinator *c) {
    int64_t sum = c->iteration + (int64_t)c->view->number + c->transfer_count;
    for (int32_t i = 0; i < c->worker_count; i++) {
        sum += c->worker[i].progress + c->worker[i].loaded;
    }
    return sum;
}

static void forget_answers(struct culm_coordinator *c) {
    for (int32_t i = 0; i < c->worker_count; i++) {
        culm_waits_free(c->worker[i].waits);
        c->worker[i].waits = NULL;
    }
}

void culm_coordinator_watch_release(struct culm_coordinator *c) { forget_answers(c); }

/* --- asking --- */

static void ask(struct culm_coordinator *c) {
    forget_answers(c);
    const struct culm_ask ask = {.question = c->watch.question};
    culm_ask_encode(&ask, culm_coordinator_meta(c));
    for (int32_t i = 0; i < c->view->node_count; i++) {
        culm_coordinator_send(c, c->view->node[i].id, CULM_MSG_ASK);
    }
}

void culm_coordinator_waits(struct culm_coordinator *c, struct worker *worker,
                            const struct culm_message *message) {
    if (!c->watch.asked_ns || worker->waits) {
        return;
    }
    struct culm_waits *waits =
        culm_waits_new(c->o.shape.stages, c->o.shape.micros, c->o.layout->grad_count);
    if (!waits) {
        culm_coordinator_fail(c, CULM_ERR_MEMORY, "read what worker %d waits for", worker->id);
        return;
    }
    if (culm_waits_decode(message->meta, message->meta_bytes, waits) == CULM_OK &&
        waits->question == c->watch.question && waits->have.view == c->view->number) {
        worker->waits = waits;
    } else {
        culm_waits_free(waits);
    }
}

/* --- who should have sent what to whom --- */

static const struct culm_waits *answer_of(const struct culm_coordinator *c, int32_t id) {
    const struct worker *worker = id < 0 ? NULL : culm_coordinator_worker(c, id);
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

static void want_boundaries(const struct culm_coordinator *c, struct wants *wants, int32_t p,
                            int32_t s) {
    const struct culm_role *role = c->view->role[p];
    const struct culm_waits *self = answer_of(c, role[s].owner);
    int32_t last = c->o.shape.stages - 1;
    const struct culm_waits *before = s > 0 ? answer_of(c, role[s - 1].owner) : NULL;
    const struct culm_waits *after = s < last ? answer_of(c, role[s + 1].owner) : NULL;
    for (int32_t m = 0; m < c->o.shape.micros && self; m++) {
        int32_t i = s * c->o.shape.micros + m;
        if (c->view->lane_pipeline[m / c->o.shape.micros_per_lane] != p) {
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

static bool holds_grad(const struct culm_coordinator *c, const struct culm_view_node *node,
                       int32_t grad) {
    int32_t param = c->o.layout->grad[grad].param;
    uint64_t stages =
        param < 0 ? 1ull << c->o.layout->grad[grad].stage : c->o.layout->param[param].stages;
    return (stages & node->holds) != 0;
}

static void want_grad(const struct culm_coordinator *c, struct wants *wants, int32_t grad) {
    int32_t stage = c->o.layout->grad[grad].stage;
    int32_t reducer =
        culm_view_reducer(c->view, stage, grad - c->o.layout->stage[stage].first_grad);
    const struct culm_waits *at = answer_of(c, reducer);
    if (!at) {
        return;
    }
    for (int32_t i = 0; i < c->view->node_count; i++) {
        const struct culm_view_node *node = &c->view->node[i];
        const struct culm_waits *waits = answer_of(c, node->id);
        if (waits && !waits->have.reduced[grad] && holds_grad(c, node, grad)) {
            add(wants, node->id, reducer, REDUCED, stage, at->have.reduced[grad]);
        }
    }
    for (int32_t p = 0; p < c->view->pipelines && !at->have.reduced[grad]; p++) {
        uint64_t lanes = 0;
        for (int32_t l = 0; l < c->view->lanes; l++) {
            lanes |= c->view->lane_pipeline[l] == p ? 1ull << l : 0;
        }
        const struct culm_waits *owner = answer_of(c, c->view->role[p][stage].owner);
        if (owner && (lanes & ~at->have.lanes[grad])) {
            add(wants, reducer, c->view->role[p][stage].owner, SUM, stage,
                (lanes & ~owner->lanes_done[stage]) == 0);
        }
    }
}

static void find_wants(const struct culm_coordinator *c, struct wants *wants) {
    for (int32_t i = 0; i < c->view->node_count; i++) {
        const struct culm_waits *waits = answer_of(c, c->view->node[i].id);
        for (int32_t d = 0; waits && d < waits->deaf_count; d++) {
            if (answer_of(c, waits->deaf[d])) { /* which has said it: it is in this view */
                add(wants, c->view->node[i].id, waits->deaf[d], HAVE, -1, true);
            }
        }
    }
    for (int32_t t = 0; t < c->transfer_count; t++) {
        add(wants, c->transfer[t].destination, c->transfer[t].source, STATE, c->transfer[t].stage,
            true);
    }
    for (int32_t p = 0; p < c->view->pipelines && c->view->phase == CULM_VIEW_RUN; p++) {
        for (int32_t s = 0; s < c->view->stages; s++) {
            want_boundaries(c, wants, p, s);
        }
    }
    for (int32_t g = 0; g < c->o.layout->grad_count && c->view->phase == CULM_VIEW_RUN; g++) {
        want_grad(c, wants, g);
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
static int32_t culprit(const struct culm_coordinator *c, const struct wants *wants) {
    for (int32_t i = c->view->node_count - 1; i >= 0; i--) {
        if (!answer_of(c, c->view->node[i].id)) {
            return c->view->node[i].id; /* it does not hear us */
        }
    }
    int32_t most = 0, out = -1;
    for (int32_t i = 0; i < wants->count; i++) {
        const struct want *at = &wants->want[i];
        int32_t named = at->made ? names_link(wants, at->node, at->from) : 0;
        if (named > most) {
            int32_t one = names_node(wants, at->node), other = names_node(wants, at->from);
            int32_t younger = at->node > at->from ? at->node : at->from;
            most = named;
            out = one == other ? younger : one > other ? at->node : at->from;
        }
    }
    for (int32_t i = c->view->node_count - 1; i >= 0 && out < 0 && c->phase == LOADING; i--) {
        const struct culm_view_node *node = &c->view->node[i];
        if (node->holds && !culm_coordinator_worker(c, node->id)->loaded) {
            out = node->id; /* it has nothing to do and has not loaded */
        }
    }
    return out;
}

static void tell(struct culm_coordinator *c, const struct wants *wants, int64_t silent_ms,
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
    culm_coordinator_event(c, json_pack("{s:s, s:I, s:I, s:o, s:o}", "event", "stalled", "step",
                                        (json_int_t)c->iteration, "for_ms", (json_int_t)silent_ms,
                                        "waits", list, "put_out",
                                        out < 0 ? json_null() : json_integer(out)));
}

static void judge(struct culm_coordinator *c, uint64_t now) {
    struct wants wants = {0};
    int64_t silent_ms = culm_stall_silent_ms(&c->watch, now);
    find_wants(c, &wants);
    int32_t out = wants.failed ? -1 : culprit(c, &wants);
    bool heard = out >= 0 && answer_of(c, out);
    tell(c, &wants, silent_ms, out);
    free(wants.want);
    forget_answers(c);
    char why[160];
    culm_stall_judged(&c->watch, now, out >= 0);
    if (c->watch.vain > CULM_STALL_VAIN_MAX) {
        culm_coordinator_fail(c, CULM_ERR_TIMEOUT,
                              "nothing has moved in step %lld for %lld ms, and no worker can be "
                              "blamed; events.jsonl says who waits for what",
                              (long long)c->iteration, (long long)silent_ms);
    } else if (out >= 0) {
        snprintf(why, sizeof why,
                 heard ? "nothing moved for %lld ms, and what others sent to it, or it to others, "
                         "did not arrive"
                       : "nothing moved for %lld ms, and it did not answer",
                 (long long)silent_ms);
        culm_coordinator_lose(c, culm_coordinator_worker(c, out), CULM_CAUSE_STALLED, why);
    } else if (c->phase == RUNNING) {
        snprintf(why, sizeof why, "nothing moved for %lld ms", (long long)silent_ms);
        culm_coordinator_publish(c, false, why);
    }
}

static bool all_answered(const struct culm_coordinator *c) {
    for (int32_t i = 0; i < c->view->node_count; i++) {
        if (!answer_of(c, c->view->node[i].id)) {
            return false;
        }
    }
    return true;
}

void culm_coordinator_watch(struct culm_coordinator *c, uint64_t now, bool slept) {
    bool moves = slept || !watched(c) || someone_works(c);
    switch (culm_stall_tick(&c->watch, now, moves, progress(c), all_answered(c),
                            c->o.settings.stuck_ms, c->o.settings.suspect_ms)) {
    case CULM_STALL_MOVES: forget_answers(c); break;
    case CULM_STALL_ASK: ask(c); break;
    case CULM_STALL_JUDGE: judge(c, now); break;
    case CULM_STALL_WAIT: break;
    }
}
