/*
 * The leader: links that swallow frames. See leader.h, crew/ask.c.
 *
 * Each node says how many messages it has sent to each other node and received from it. Messages that were sent but
 * not received by then have been swallowed by the link, and the node at the end of most such links is removed. A run
 * that waits for nodes to join, or for its end, is not watched.
 */
#include "interval/leader_internal.h"

#include "base/mark.h"

#include <stdio.h>
#include <stdlib.h>

#define LISTED_MAX 64 /* links listed in an event */

/* --- tasks that hang --- */

/* Describes a task in words, such as "gather 1". */
void gnn_leader_name_task(int32_t kind, int32_t part, char *ret_text, size_t size) {
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

/* --- links that swallow --- */

/* Messages that `from` has sent and `to` has not received. */
struct gap {
    int32_t from, to;
    int64_t count;
};

struct gaps {
    struct gap gap[LISTED_MAX];
    int32_t count;
};

static int by_node(const void *a, const void *b) {
    const struct culm_gnn_traffic *x = a, *y = b;
    return (x->node > y->node) - (x->node < y->node);
}

/* Puts the latest nodes, which come first, last. */
static void sort(struct culm_gnn_answer *answer) {
    bool sorted = true;
    for (int32_t i = 0, j = answer->count - 1; i < j; i++, j--) {
        const struct culm_gnn_traffic other = answer->with[i];
        answer->with[i] = answer->with[j];
        answer->with[j] = other;
    }
    for (int32_t i = 1; i < answer->count; i++) {
        sorted = sorted && answer->with[i - 1].node < answer->with[i].node;
    }
    if (!sorted) {
        qsort(answer->with, (size_t)answer->count, sizeof *answer->with, by_node);
    }
}

/* What it says of that node, if it has not been asked of a later one before; NULL: nothing. */
static const struct culm_gnn_traffic *next_with(struct gnn_node *node, int32_t other) {
    const struct culm_gnn_answer *answer = node->answer;
    while (node->place < answer->count && answer->with[node->place].node < other) {
        node->place++;
    }
    const bool found = node->place < answer->count && answer->with[node->place].node == other;
    return found ? &answer->with[node->place] : NULL;
}

/* What `from` has sent to `to`, as it `said`, and has not been received there. */
static void find_gap(struct gnn_node *from, const struct culm_gnn_traffic *said,
                     struct gnn_node *to, struct gaps *gaps) {
    const struct culm_gnn_traffic *heard = next_with(to, from->mate.id);
    const int64_t missing = said->sent - (heard ? heard->got : 0);
    if (missing <= 0) {
        return;
    }
    from->gaps++;
    to->gaps++;
    if (gaps->count < LISTED_MAX) {
        gaps->gap[gaps->count++] = (struct gap){from->mate.id, to->mate.id, missing};
    }
}

/* Goes once through all that was said: of whoever has sent, and of each that it has sent to, in order. */
static void find_gaps(const struct culm_gnn_leader *leader, struct gaps *gaps) {
    const int32_t count = leader->crew.mates.count;
    *gaps = (struct gaps){0};
    for (int32_t n = 0; n < count; n++) {
        gnn_node_at(leader, n)->gaps = gnn_node_at(leader, n)->place = 0;
    }
    for (int32_t n = 0; n < count; n++) {
        struct gnn_node *from = gnn_node_at(leader, n);
        for (int32_t i = 0, t = 0; from->answer && i < from->answer->count; i++) {
            const struct culm_gnn_traffic *said = &from->answer->with[i];
            while (t < count && gnn_node_at(leader, t)->mate.id < said->node) {
                t++;
            }
            struct gnn_node *to = t < count ? gnn_node_at(leader, t) : from;
            if (to != from && to->mate.id == said->node && to->answer) {
                find_gap(from, said, to, gaps);
            }
        }
    }
}

bool gnn_leader_rather(const struct culm_mate *a, const struct culm_mate *b) {
    bool a_works = a->role == CULM_GNN_WORKER, b_works = b->role == CULM_GNN_WORKER;
    return a_works == b_works ? a->id > b->id : a_works;
}

/* The node to be removed; NULL: none can be blamed. */
static struct gnn_node *culprit(const struct culm_gnn_leader *leader) {
    struct gnn_node *out = NULL;
    for (int32_t n = 0; n < leader->crew.mates.count; n++) {
        struct gnn_node *node = gnn_node_at(leader, n);
        if (node->mate.alive && node->gaps > 0 &&
            (!out || node->gaps > out->gaps ||
             (node->gaps == out->gaps && gnn_leader_rather(&node->mate, &out->mate)))) {
            CULM_MARK(interval_stalled_by_a_link);
            out = node;
        }
    }
    return out;
}

static void tell(struct culm_gnn_leader *leader, const struct gaps *gaps, int64_t silent_ms,
                 const struct culm_mate *out) {
    json_t *links = json_array();
    for (int32_t i = 0; i < gaps->count; i++) {
        const struct gap *gap = &gaps->gap[i];
        json_array_append_new(links, json_pack("{s:i, s:i, s:I}", "from", (int)gap->from, "to",
                                               (int)gap->to, "count", (json_int_t)gap->count));
    }
    culm_crew_event(&leader->crew, json_pack("{s:s, s:I, s:I, s:o, s:o}", "event", "stalled",
                                             "epoch", (json_int_t)leader->view.course.epoch,
                                             "for_ms", (json_int_t)silent_ms, "links", links,
                                             "put_out", out ? json_integer(out->id) : json_null()));
}

struct culm_mate *gnn_leader_judge(struct culm_crew *crew, struct culm_mate *silent_or_null,
                                   int64_t silent_ms) {
    struct culm_gnn_leader *leader = (struct culm_gnn_leader *)crew;
    struct gaps gaps;
    find_gaps(leader, &gaps);
    struct gnn_node *node = silent_or_null ? NULL : culprit(leader);
    struct culm_mate *out = node ? &node->mate : silent_or_null;
    tell(leader, &gaps, silent_ms, out);
    return out;
}

void gnn_leader_answer(struct culm_gnn_leader *leader, struct gnn_node *node,
                       const struct culm_message *message) {
    struct culm_gnn_answer *answer = NULL;
    const enum culm_status status =
        culm_gnn_answer_decode(message->meta, message->meta_bytes, &answer);
    if (status == CULM_ERR_MEMORY) {
        culm_crew_fail(&leader->crew, CULM_ERR_MEMORY, "out of memory");
    } else if (status == CULM_OK &&
               culm_crew_answers(&leader->crew, &node->mate, answer->question)) {
        sort(answer);
        node->answer = answer;
        return;
    }
    free(answer);
}

void gnn_leader_forget_answer(struct culm_crew *crew, struct culm_mate *mate) {
    struct gnn_node *node = (struct gnn_node *)mate;
    (void)crew;
    free(node->answer);
    node->answer = NULL;
}

/* A run that waits for nodes to join (leader_wait.c says so, and for how long), for room, or for its
 * end, is not watched for stalls; but whoever was told to save is waited for no longer than others. One
 * that is over is watched until it is saved: who is to save may have to be sent the state first. */
bool gnn_leader_watched(struct culm_crew *crew) {
    struct culm_gnn_leader *leader = (struct culm_gnn_leader *)crew;
    const struct culm_gnn_view *view = &leader->view;
    bool waits = view->number == 0 || view->holder_count == 0 || leader->io_busy ||
                 leader->back_due || crew->cut_off || leader->committing.epoch > 0;
    for (int32_t i = 0; i < leader->o.layout->intervals && !waits; i++) {
        waits = view->owner[i] < 0;
    }
    for (uint32_t r = 0; r <= CULM_GNN_PARAMETER && !waits; r++) {
        waits = crew->role[r].waits;
    }
    bool ordered = leader->saving.active && !leader->saving.written;
    return !waits && (!leader->hold.active || ordered) && !leader->finishing;
}

int64_t gnn_leader_progress(const struct culm_crew *crew) {
    const struct culm_gnn_leader *leader = (const struct culm_gnn_leader *)crew;
    return leader->version + (int64_t)leader->view.number;
}
