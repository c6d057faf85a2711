/* A holder: the weights that it keeps, and requests for them. See holder.h. */
#include "interval/holder_internal.h"

#include "base/grow.h"
#include "base/mark.h"

#include <string.h>

/* Requests that wait: every node may have one for each version that it keeps. */
#define ASKED_MAX (CULM_GNN_NODES_MAX * (CULM_GNN_STALENESS_MAX + 3))

struct culm_blob *culm_gnn_holder_weights(const struct culm_gnn_holder *holder, int64_t version) {
    int64_t at = version % holder->window;
    bool here = version >= 0 && holder->attempt == holder->self->view.attempt &&
                holder->weights_version[at] == version && holder->weights[at];
    return here ? culm_blob_ref(holder->weights[at]) : NULL;
}

void gnn_holder_keep_weights(struct culm_gnn_holder *holder, int64_t version,
                             struct culm_blob *blob) {
    int64_t at = version % holder->window;
    culm_blob_clear(&holder->weights[at]);
    holder->weights[at] = culm_blob_ref(blob);
    holder->weights_version[at] = version;
}

void gnn_holder_send_weights(struct culm_gnn_holder *holder, int32_t to, int64_t version,
                             struct culm_blob *blob_or_null) {
    const struct culm_gnn_version key = {holder->attempt, version, version};
    culm_gnn_version_encode(&key, culm_self_meta(&holder->self->node));
    culm_gnn_send(holder->self, to, CULM_GNN_MSG_WEIGHTS, blob_or_null);
}

/* Sends the newest weights that satisfy the request. False: there are none. */
static bool give(struct culm_gnn_holder *holder, const struct asked *asked) {
    int64_t newest = -1;
    for (int32_t w = 0; w < holder->window; w++) {
        int64_t version = holder->weights_version[w];
        bool wanted = version >= asked->what.oldest && version <= asked->what.version;
        newest = wanted && version > newest ? version : newest;
    }
    struct culm_blob *blob =
        asked->what.attempt == holder->attempt ? culm_gnn_holder_weights(holder, newest) : NULL;
    if (!blob) {
        return false;
    }
    gnn_holder_send_weights(holder, asked->node, newest, blob);
    culm_blob_unref(blob);
    return true;
}

/* Whether a request can never be answered: it is of an earlier attempt, or of a version whose place
 * a later one has taken. */
static bool is_past(const struct culm_gnn_holder *holder, const struct culm_gnn_version *what) {
    uint32_t attempt = holder->self->view.attempt;
    return what->attempt < attempt || (what->attempt == attempt && holder->attempt == attempt &&
                                       what->version + holder->window <= holder->version);
}

/* Answers the request if it can be answered. One that never can be is answered without weights: who
 * asked must not take this for a link that swallows. False: it waits. */
static bool answers(struct culm_gnn_holder *holder, const struct asked *asked) {
    if (give(holder, asked)) {
        return true;
    }
    if (is_past(holder, &asked->what)) {
        CULM_MARK(interval_weights_are_asked_for_too_late);
        gnn_holder_send_weights(holder, asked->node, asked->what.version, NULL);
        return true;
    }
    return false;
}

void gnn_holder_answer(struct culm_gnn_holder *holder) {
    int32_t left = 0;
    for (int32_t i = 0; i < holder->asked_count; i++) {
        struct asked *asked = &holder->asked[i];
        if (!answers(holder, asked)) {
            holder->asked[left++] = *asked;
        }
    }
    holder->asked_count = left;
}

static int compare_asked(const struct asked *a, const struct asked *b) {
    return a->node != b->node ? (a->node > b->node) - (a->node < b->node)
           : a->what.attempt != b->what.attempt
               ? (a->what.attempt > b->what.attempt) - (a->what.attempt < b->what.attempt)
               : (a->what.version > b->what.version) - (a->what.version < b->what.version);
}

/* Where the request is among those that wait, or would be. */
static int32_t place_of(const struct culm_gnn_holder *holder, const struct asked *asked) {
    int32_t low = 0, high = holder->asked_count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (compare_asked(&holder->asked[middle], asked) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void gnn_holder_hear_get(struct culm_gnn_holder *holder, int32_t from,
                         const struct culm_message *message) {
    struct asked asked = {.node = from};
    if (culm_gnn_version_decode(message->meta, message->meta_bytes, &asked.what) != CULM_OK) {
        return;
    }
    if (answers(holder, &asked)) {
        return;
    }
    const int32_t at = place_of(holder, &asked);
    if (at < holder->asked_count && compare_asked(&holder->asked[at], &asked) == 0) {
        CULM_MARK(interval_weights_are_asked_for_again);
        return; /* it has asked for them before */
    }
    if (holder->asked_count >= ASKED_MAX) {
        return; /* no honest nodes ask for so much */
    }
    if (!CULM_GROW(holder->asked, holder->asked_capacity, holder->asked_count + 1)) {
        culm_self_fail(&holder->self->node, CULM_ERR_MEMORY, "out of memory");
        return;
    }
    memmove(holder->asked + at + 1, holder->asked + at,
            (size_t)(holder->asked_count++ - at) * sizeof *holder->asked);
    holder->asked[at] = asked;
}
