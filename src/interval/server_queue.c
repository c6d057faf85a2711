/*
 * A server: samples how many tasks wait for it and for workers, from which the number of workers is
 * tuned (tune.h). A sample costs about as much as finding one task, so only a few are taken.
 */
#include "interval/server_internal.h"

#define LOOKS_AN_EPOCH 16 /* samples per epoch and gather, about */
#define LOOKED_AT 32      /* intervals looked at in a sample, at most */

static bool can_gather(struct culm_gnn_server *server, const struct turn *turn, int32_t index,
                       int32_t gather) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    const struct culm_set *reads = &layout->reads[layout->gather[gather].transposed][index];
    for (int32_t j = culm_set_next(reads, 0); j >= 0; j = culm_set_next(reads, j + 1)) {
        if (!gnn_server_newest(server, turn, gather, j, index).blob) {
            return false;
        }
    }
    return true;
}

void gnn_server_look(struct culm_gnn_server *server, int32_t interval, struct turn *turn) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    int32_t stride = (layout->intervals + LOOKED_AT - 1) / LOOKED_AT;
    if (!gnn_server_someone_works(server) ||
        ++server->gathers_begun * LOOKS_AN_EPOCH < layout->intervals) {
        return;
    }
    int64_t applies = 0, room = server->room;
    server->gathers_begun = 0;
    turn->work.looks++;
    for (int32_t i = interval % stride; i < layout->intervals; i += stride) {
        int64_t behind;
        if (i == interval || !server->interval[i].mine ||
            !gnn_server_is_ready(server, i, &behind)) {
            continue;
        }
        const struct turn *other = gnn_front(server, i);
        const struct culm_gnn_step *step = &layout->step[other->step];
        int32_t gather = gnn_missing(server, other);
        if (gather >= 0) {
            turn->work.gathers_waiting += stride * can_gather(server, other, i, gather);
        } else {
            applies += stride * step->remote;
        }
    }
    /* If some worker has room, a step does not wait for lack of workers, but for its keeper. */
    turn->work.applies_waiting += applies > room ? applies - room : 0;
}
