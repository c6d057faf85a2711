/*
 * What a stage forward leaves for backward, kept from the one task to the other instead of computed
 * again; of servers, which have the rows. It is a cache: of the same weights, rows and epoch forward makes the same, so whoever finds nothing
 * here, or has been given the task in another process, computes forward anew and gets the same bits. It
 * is read once. There is as much of it as has room in KEPT_MOST; what comes later is not kept.
 */
#include "gnn/numeric_internal.h"

#define KEPT_MOST ((size_t)64 << 20)
#define PIECES_MOST 64 /* bits of `there` */

static bool is_of(const struct gnn_kept *kept, const struct culm_gnn_task *task) {
    return kept->weights && kept->weights == task->weights && kept->rows == task->rows &&
           kept->epoch == task->epoch;
}

static void forget(struct gnn_kept *kept) {
    culm_blob_clear(&kept->weights);
    culm_blob_clear(&kept->rows);
    kept->there = 0;
}

static char *place_of(const struct gnn_kept *kept, const struct culm_stage_info *info,
                      int32_t piece) {
    return (char *)kept->room.data + (size_t)piece * info->activation_bytes;
}

void *gnn_keep(struct culm_gnn_numeric *x, const struct culm_gnn_task *task,
               struct gnn_input *input, const struct culm_stage_info *info, int32_t piece,
               int32_t pieces) {
    struct gnn_kept *kept = &input->kept[info->index];
    size_t bytes = info->activation_bytes * (size_t)pieces;
    if (bytes == 0 || pieces > PIECES_MOST || task->block > 0) {
        return NULL; /* a block of rows is not what backward will be given */
    }
    if (!x->o.structure) {
        return NULL; /* a worker is sent the rows anew for backward, or other ones */
    }
    if (!kept->room.data) {
        if (bytes > KEPT_MOST - x->kept_bytes || gnn_room(x, &kept->room, bytes, NULL) != CULM_OK) {
            return NULL;
        }
        x->kept_bytes += bytes;
    }
    if (!is_of(kept, task)) {
        forget(kept);
        kept->weights = culm_blob_ref(task->weights);
        kept->rows = culm_blob_ref(task->rows);
        kept->epoch = task->epoch;
    }
    kept->there &= ~((uint64_t)1 << piece);
    return place_of(kept, info, piece);
}

void gnn_keep_made(struct gnn_input *input, int32_t stage, int32_t piece) {
    input->kept[stage].there |= (uint64_t)1 << piece;
}

void *gnn_kept(const struct culm_gnn_task *task, struct gnn_input *input,
               const struct culm_stage_info *info, int32_t piece) {
    struct gnn_kept *kept = &input->kept[info->index];
    if (task->block > 0 || piece >= PIECES_MOST || !is_of(kept, task) ||
        !(kept->there >> piece & 1)) {
        return NULL;
    }
    return place_of(kept, info, piece);
}

void gnn_kept_read(struct gnn_input *input, int32_t stage, int32_t piece) {
    struct gnn_kept *kept = &input->kept[stage];
    kept->there &= ~((uint64_t)1 << piece);
    if (kept->there == 0) {
        forget(kept);
    }
}

void gnn_kept_drop(struct culm_gnn_numeric *x, struct gnn_input *input) {
    for (int32_t s = 0; s < CULM_GNN_STAGES_MAX; s++) {
        forget(&input->kept[s]);
        x->kept_bytes -= input->kept[s].room.data ? input->kept[s].room.size_bytes : 0;
        gnn_room_drop(x, &input->kept[s].room);
    }
}
