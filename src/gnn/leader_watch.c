/*
 * The leader: finds nodes that are silent or stuck, and links that swallow frames. See leader.h.
 *
 * A node that is alive but does not finish a task is removed (ledger/patience.h). If no task runs
 * anywhere and no messages arrive anywhere (ledger/stall.h), all nodes are asked how many messages
 * they have sent to each other node and received from it. Messages that were sent but not received
 * by then have been swallowed by the link. A node that does not answer is removed; otherwise the
 * node at the end of most such links is. If no node can be blamed, a new view makes all nodes
 * report again what they have.
 */
#include "gnn/leader_internal.h"

#include <stdio.h>
#include <stdlib.h>

#define MS 1000000ull
#define LISTED_MAX 64 /* links listed in an event */

/* --- tasks that hang --- */

/* Describes a task in words, such as "gather 1". */
static void name_task(int32_t kind, int32_t part, char *ret_text, size_t size) {
    static const char *const what[CULM_GNN_TASK_FINISH] = {
        [CULM_GNN_TASK_OWN] = "getting ready for an interval",
        [CULM_GNN_TASK_GATHER] = "gather",
        [CULM_GNN_TASK_SLICE] = "the slice of gather",
        [CULM_GNN_TASK_FOLD] = "the sum of stage",
        [CULM_GNN_TASK_PACK] = "packing an interval",
        [CULM_GNN_TASK_APPLY] = "step",
        [CULM_GNN_TASK_TAKE] = "unpacking an interval",
        [CULM_GNN_TASK_DROP] = "the release of an interval",
        [CULM_GNN_TASK_LOAD] = "loading the weights",
        [CULM_GNN_TASK_STEP] = "the update of the weights",
        [CULM_GNN_TASK_WEIGHTS] = "copying the weights",
        [CULM_GNN_TASK_EXPORT] = "sending the state",
        [CULM_GNN_TASK_IMPORT] = "receiving the state",
        [CULM_GNN_TASK_SAVE] = "writing a checkpoint",
    };
    if (kind < 0 || kind >= CULM_GNN_TASK_FINISH || !what[kind]) {
        snprintf(ret_text, size, "a task");
    } else if (kind == CULM_GNN_TASK_GATHER || kind == CULM_GNN_TASK_SLICE ||
               kind == CULM_GNN_TASK_APPLY || kind == CULM_GNN_TASK_FOLD) {
        snprintf(ret_text, size, "%s %d", what[kind], part);
    } else {
        snprintf(ret_text, size, "%s", what[kind]);
    }
}

void culm_gnn_leader_beat(struct culm_gnn_leader *leader, struct gnn_node *node,
                          const struct culm_message *message) {
    struct culm_heartbeat beat;
    if (culm_heartbeat_decode(message->meta, message->meta_bytes, &beat) != CULM_OK) {
        return;
    }
    uint64_t now = culm_gnn_leader_now(leader);
    uint64_t ran = beat.task_ms > 0 ? (uint64_t)beat.task_ms : 0;
    node->beat = beat;
    node->task_began_ns = ran < now / MS ? now - ran * MS : 0;
}

void culm_gnn_leader_took(struct culm_gnn_leader *leader, const struct culm_message *message) {
    struct culm_took took;
    if (culm_took_decode(message->meta, message->meta_bytes, &took) == CULM_OK) {
        culm_patience_took(&leader->patience, took.kind, took.part, took.task_ms);
    }
}

/* Removes the node if its task has taken too long. Ends the run if no node finishes such tasks. */
static void check_task(struct culm_gnn_leader *leader, struct gnn_node *node) {
    const struct culm_heartbeat beat = node->beat;
    uint64_t began = node->task_began_ns;
    if (beat.kind < 0) {
        return;
    }
    int64_t limit = culm_patience_limit_ms(&leader->patience, beat.kind, beat.part, began);
    if (beat.task_ms <= limit) {
        return;
    }
    char task[64], why[160];
    name_task(beat.kind, beat.part, task, sizeof task);
    snprintf(why, sizeof why, "%s has taken %lld ms; the limit was %lld ms", task,
             (long long)beat.task_ms, (long long)limit);
    const struct culm_patience_row *row = culm_patience_lost(
        &leader->patience, beat.kind, beat.part, beat.task_ms, began, culm_gnn_leader_now(leader));
    culm_gnn_leader_lose(leader, node, "stuck", why);
    if (row && row->tries >= CULM_PATIENCE_TRIES) {
        culm_gnn_leader_fail(
            leader, CULM_ERR_TIMEOUT,
            "no node finishes %s: %d limits from %lld ms to %lld ms were too short; if it needs "
            "longer, raise cluster.stuck_ms, or use more intervals",
            task, row->tries, (long long)row->first_ms, (long long)limit);
    }
}

/* --- links that swallow --- */

/* Messages that `from` has sent and `to` has not received. */
struct gap {
    int32_t from, to;
    int64_t count;
};

struct gaps {
    struct gap gap[LISTED_MAX];
    int32_t count;
    int32_t named[CULM_GNN_NODES_MAX]; /* [node_count] number of gaps at the node, unlisted too */
};

static const struct culm_gnn_traffic *with(const struct culm_gnn_answer *answer, int32_t node) {
    for (int32_t i = 0; i < answer->count; i++) {
        if (answer->with[i].node == node) {
            return &answer->with[i];
        }
    }
    return NULL;
}

static void find_gaps(const struct culm_gnn_leader *leader, struct gaps *gaps) {
    *gaps = (struct gaps){0};
    for (int32_t a = 0; a < leader->node_count; a++) {
        const struct gnn_node *from = &leader->node[a];
        for (int32_t b = 0; b < leader->node_count && from->answer; b++) {
            const struct gnn_node *to = &leader->node[b];
            const struct culm_gnn_traffic *said = with(from->answer, to->id);
            if (a == b || !to->answer || !said) {
                continue;
            }
            const struct culm_gnn_traffic *heard = with(to->answer, from->id);
            int64_t missing = said->sent - (heard ? heard->got : 0);
            if (missing <= 0) {
                continue;
            }
            gaps->named[a]++;
            gaps->named[b]++;
            if (gaps->count < LISTED_MAX) {
                gaps->gap[gaps->count++] = (struct gap){from->id, to->id, missing};
            }
        }
    }
}

bool culm_gnn_leader_rather(const struct gnn_node *a, const struct gnn_node *b) {
    bool a_works = a->role == CULM_GNN_WORKER, b_works = b->role == CULM_GNN_WORKER;
    return a_works == b_works ? a->id > b->id : a_works;
}

/* The node to be removed; NULL: none can be blamed. */
static struct gnn_node *culprit(struct culm_gnn_leader *leader, const struct gaps *gaps) {
    struct gnn_node *out = NULL;
    int32_t most = 0;
    for (int32_t n = 0; n < leader->node_count; n++) {
        struct gnn_node *node = &leader->node[n];
        if (node->alive && !node->answer && (!out || culm_gnn_leader_rather(node, out))) {
            out = node; /* it has not answered */
        }
    }
    for (int32_t n = 0; n < leader->node_count && !(out && !out->answer); n++) {
        struct gnn_node *node = &leader->node[n];
        if (node->alive && gaps->named[n] > 0 &&
            (gaps->named[n] > most ||
             (gaps->named[n] == most && culm_gnn_leader_rather(node, out)))) {
            most = gaps->named[n];
            out = node;
        }
    }
    return out;
}

static void tell(struct culm_gnn_leader *leader, const struct gaps *gaps, int64_t silent_ms,
                 const struct gnn_node *out) {
    json_t *links = json_array();
    for (int32_t i = 0; i < gaps->count; i++) {
        const struct gap *gap = &gaps->gap[i];
        json_array_append_new(links, json_pack("{s:i, s:i, s:I}", "from", (int)gap->from, "to",
                                               (int)gap->to, "count", (json_int_t)gap->count));
    }
    culm_gnn_leader_publish(
        leader, json_pack("{s:s, s:I, s:I, s:o, s:o}", "event", "stalled", "epoch",
                          (json_int_t)leader->view.course.epoch, "for_ms", (json_int_t)silent_ms,
                          "links", links, "put_out", out ? json_integer(out->id) : json_null()));
}

static void judge(struct culm_gnn_leader *leader, uint64_t now) {
    struct gaps gaps;
    int64_t silent_ms = culm_stall_silent_ms(&leader->stall, now);
    find_gaps(leader, &gaps);
    struct gnn_node *out = culprit(leader, &gaps);
    bool heard = out && out->answer;
    tell(leader, &gaps, silent_ms, out);
    culm_gnn_leader_forget_answers(leader);
    culm_stall_judged(&leader->stall, now, out != NULL);
    char why[160];
    if (leader->stall.vain > CULM_STALL_VAIN_MAX) {
        culm_gnn_leader_fail(leader, CULM_ERR_TIMEOUT,
                             "nothing has moved in epoch %lld for %lld ms, and no node can be "
                             "blamed; please report this, with events.jsonl",
                             (long long)leader->view.course.epoch, (long long)silent_ms);
    } else if (out) {
        snprintf(
            why, sizeof why,
            heard ? "nothing moved for %lld ms, and messages between it and others did not arrive"
                  : "nothing moved for %lld ms, and it did not answer",
            (long long)silent_ms);
        culm_gnn_leader_lose(leader, out, "stalled", why);
    } else {
        culm_gnn_leader_tell_again(leader);
    }
}

static void ask(struct culm_gnn_leader *leader) {
    const struct culm_gnn_ask ask = {.question = leader->stall.question};
    culm_gnn_leader_forget_answers(leader);
    culm_gnn_ask_encode(&ask, culm_gnn_leader_meta(leader));
    culm_gnn_leader_send_all(leader, CULM_GNN_MSG_ASK);
}

void culm_gnn_leader_answer(struct culm_gnn_leader *leader, struct gnn_node *node,
                            const struct culm_message *message) {
    if (!leader->stall.asked_ns || node->answer) {
        return;
    }
    struct culm_gnn_answer *answer = malloc(sizeof *answer);
    if (!answer) {
        culm_gnn_leader_fail(leader, CULM_ERR_MEMORY, "out of memory");
    } else if (culm_gnn_answer_decode(message->meta, message->meta_bytes, answer) == CULM_OK &&
               answer->question == leader->stall.question) {
        node->answer = answer;
        return;
    }
    free(answer);
}

void culm_gnn_leader_forget_answers(struct culm_gnn_leader *leader) {
    for (int32_t n = 0; n < leader->node_count; n++) {
        free(leader->node[n].answer);
        leader->node[n].answer = NULL;
    }
}

/* A run that waits for nodes to join, or for its end, is not watched for stalls. */
static bool watched(struct culm_gnn_leader *leader) {
    const struct culm_gnn_view *view = &leader->view;
    bool waits = view->number == 0 || view->holder_count == 0 || leader->finishing;
    for (int32_t i = 0; i < leader->o.layout->intervals && !waits; i++) {
        waits = view->owner[i] < 0;
    }
    bool saves = culm_gnn_leader_is_over(leader) && leader->evaluated;
    return !waits && !leader->hold.active && !(saves && culm_gnn_leader_saver(leader) < 0);
}

static void watch_stall(struct culm_gnn_leader *leader, uint64_t now, bool slept) {
    const struct culm_gnn_settings *settings = &leader->o.settings;
    int64_t progress = leader->version + (int64_t)leader->view.number + leader->seen_count;
    bool moves = slept || !watched(leader), answered = true;
    for (int32_t n = 0; n < leader->node_count; n++) {
        const struct gnn_node *node = &leader->node[n];
        if (node->alive) {
            moves = moves || node->beat.kind >= 0;
            progress += node->beat.progress;
            answered = answered && node->answer;
        }
    }
    switch (culm_stall_tick(&leader->stall, now, moves, progress, answered, settings->stuck_ms,
                            settings->suspect_ms)) {
    case CULM_STALL_MOVES: culm_gnn_leader_forget_answers(leader); break;
    case CULM_STALL_ASK: ask(leader); break;
    case CULM_STALL_JUDGE: judge(leader, now); break;
    case CULM_STALL_WAIT: break;
    }
}

/* --- at every tick --- */

void culm_gnn_leader_watch(struct culm_gnn_leader *leader) {
    uint64_t every = (uint64_t)leader->o.settings.suspect_ms * MS / 4;
    leader->watched_ns = culm_gnn_leader_now(leader);
    leader->o.world->ops->timer(leader->o.world, CULM_GNN_LEADER_WATCH, every > MS ? every : MS);
}

void culm_gnn_leader_tick(struct culm_gnn_leader *leader) {
    if (leader->ended) {
        return;
    }
    uint64_t now = culm_gnn_leader_now(leader);
    uint64_t limit = (uint64_t)leader->o.settings.suspect_ms * MS;
    /* If this process was itself frozen for a while, it has heard nobody, so all nodes get a full
     * limit again. Half a limit is not enough to miss a node. */
    bool slept = now - leader->watched_ns > limit / 2;
    for (int32_t i = 0; i < leader->node_count && !leader->ended; i++) {
        struct gnn_node *node = &leader->node[i];
        if (slept) {
            node->heard_ns = now;
        } else if (node->alive && now - node->heard_ns > limit) {
            culm_gnn_leader_lose(leader, node, "heartbeat", NULL);
        } else if (node->alive) {
            check_task(leader, node);
        }
    }
    culm_gnn_leader_check_links(leader, slept);
    culm_gnn_leader_fill_up(leader); /* a pause of starts may be over */
    culm_gnn_leader_wait(leader);
    if (!leader->ended) {
        watch_stall(leader, now, slept);
        culm_gnn_leader_hold_tick(leader);
    }
    culm_gnn_leader_watch(leader);
}
