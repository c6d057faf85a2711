/*
 * The numeric executor: keeps a stage's activations from the forward step to the backward step.
 *
 * This is only a cache. The forward pass is a pure function of weights, rows and epoch, so if a
 * backward step finds nothing here, for instance because it runs in another process, it repeats the
 * forward computation and gets the same bits. Activations are used once, then dropped.
 *
 * A worker is sent the stage's rows again for the backward step, in new blobs. So the rows of the
 * forward step are kept too, and compared with the new ones. A stage on constant input has no rows
 * to compare.
 *
 * The size is limited by options.kept_most. When a step needs room, unused activations of earlier
 * epochs are dropped, oldest first; if that is not enough, its own are not kept.
 */
#include "gnn/numeric_internal.h"

#include <string.h>

#define PIECES_MOST 64 /* bits of `there` */

static void forget(struct culm_gnn_numeric *x, struct gnn_kept *kept) {
    culm_blob_clear(&kept->weights);
    culm_blob_clear(&kept->room);
    for (int32_t b = 0; b <= CULM_GNN_BLOCKS_MAX; b++) {
        culm_blob_clear(&kept->rows[b]);
    }
    x->kept.bytes -= kept->bytes;
    *kept = (struct gnn_kept){0};
}

static bool is_of(const struct gnn_kept *kept, const struct culm_gnn_task *task) {
    return kept->room && kept->weights == task->weights && kept->epoch == task->epoch;
}

/* The entry of the earliest epoch before `epoch`; NULL: there is none. */
static struct gnn_kept *oldest(struct culm_gnn_numeric *x, int64_t epoch) {
    struct gnn_kept *found = NULL;
    for (int32_t i = 0; i < x->o.layout->intervals; i++) {
        for (int32_t s = 0; s < x->o.layout->stages; s++) {
            struct gnn_kept *kept = &x->input[i].kept[s];
            if (kept->room && kept->epoch < (found ? found->epoch : epoch)) {
                found = kept;
            }
        }
    }
    return found;
}

void gnn_kept_old(struct culm_gnn_numeric *x, int64_t epoch) {
    const struct culm_gnn_config *config = x->o.config;
    int64_t first = epoch - (config->mode == CULM_GNN_ASYNC ? config->staleness : 0);
    struct gnn_kept *old;
    while (x->kept.bytes > 0 && (old = oldest(x, first))) {
        forget(x, old);
    }
}

/* Reserves bytes for an entry, dropping entries of earlier epochs if need be. False: no room. */
static bool count(struct culm_gnn_numeric *x, struct gnn_kept *kept, int64_t epoch, size_t bytes) {
    struct gnn_kept *old;
    while (bytes > x->o.kept_most - x->kept.bytes && (old = oldest(x, epoch))) {
        forget(x, old);
    }
    if (bytes > x->o.kept_most - x->kept.bytes) {
        return false;
    }
    x->kept.bytes += bytes;
    kept->bytes += bytes;
    return true;
}

/* Notes the rows that the entry belongs to. False: no room. */
static bool keep_rows(struct culm_gnn_numeric *x, struct gnn_kept *kept,
                      const struct culm_gnn_task *task) {
    struct culm_blob **rows = &kept->rows[task->block];
    /* On an owner the rows are in memory anyway, so they are not counted. */
    size_t bytes = task->rows && !x->o.structure ? task->rows->size_bytes : 0;
    if (*rows != task->rows) {
        if (!count(x, kept, task->epoch, bytes)) {
            return false;
        }
        *rows = culm_blob_ref(task->rows);
    }
    return true;
}

static bool begin(struct culm_gnn_numeric *x, struct gnn_kept *kept,
                  const struct culm_gnn_task *task, size_t bytes) {
    if (!count(x, kept, task->epoch, bytes)) {
        return false;
    }
    if (gnn_blob(x, bytes, &kept->room, NULL) != CULM_OK) {
        forget(x, kept);
        return false;
    }
    kept->weights = culm_blob_ref(task->weights);
    kept->epoch = task->epoch;
    kept->whole = task->block == 0;
    return true;
}

static char *place_of(const struct gnn_kept *kept, const struct culm_stage_info *info,
                      int32_t piece) {
    return (char *)kept->room->data + (size_t)piece * info->activation_bytes;
}

void *gnn_keep(struct culm_gnn_numeric *x, const struct culm_gnn_task *task,
               struct gnn_input *input, const struct culm_stage_info *info, int32_t piece,
               int32_t pieces) {
    struct gnn_kept *kept = &input->kept[info->index];
    size_t bytes = info->activation_bytes * (size_t)pieces;
    if (bytes == 0 || pieces > PIECES_MOST || !culm_gnn_plan_keeps(&x->o.model->plan)) {
        return NULL;
    }
    const struct culm_blob *rows = kept->rows[task->block];
    if (!is_of(kept, task) || kept->whole != (task->block == 0) || (rows && rows != task->rows)) {
        forget(x, kept);
        if (!begin(x, kept, task, bytes)) {
            return NULL;
        }
    }
    if (!keep_rows(x, kept, task)) {
        forget(x, kept);
        return NULL;
    }
    kept->there &= ~((uint64_t)1 << piece);
    return place_of(kept, info, piece);
}

void gnn_keep_made(struct gnn_input *input, int32_t stage, int32_t piece) {
    input->kept[stage].there |= (uint64_t)1 << piece;
}

void gnn_kept_meet(struct culm_gnn_task *task, struct gnn_input *input, int32_t stage) {
    struct gnn_kept *kept = &input->kept[stage];
    struct culm_blob **rows = &kept->rows[task->block];
    if (is_of(kept, task) && *rows && task->rows && *rows != task->rows &&
        (*rows)->size_bytes == task->rows->size_bytes &&
        memcmp((*rows)->data, task->rows->data, task->rows->size_bytes) == 0) {
        culm_blob_clear(rows);
        *rows = culm_blob_ref(task->rows);
    }
}

void *gnn_find_kept(struct culm_gnn_numeric *x, const struct culm_gnn_task *task,
                    struct gnn_input *input, const struct culm_stage_info *info, int32_t piece) {
    struct gnn_kept *kept = &input->kept[info->index];
    if (piece >= PIECES_MOST || !is_of(kept, task) || kept->rows[task->block] != task->rows ||
        !(kept->there >> piece & 1)) {
        return NULL;
    }
    x->kept.read++;
    return place_of(kept, info, piece);
}

void gnn_kept_read(struct culm_gnn_numeric *x, struct gnn_input *input, int32_t stage,
                   int32_t piece) {
    struct gnn_kept *kept = &input->kept[stage];
    kept->there &= ~((uint64_t)1 << piece);
    if (kept->there == 0) {
        forget(x, kept);
    }
}

void gnn_kept_drop(struct culm_gnn_numeric *x, struct gnn_input *input) {
    for (int32_t s = 0; s < CULM_GNN_STAGES_MAX; s++) {
        forget(x, &input->kept[s]);
    }
}

size_t culm_gnn_kept_most(const struct culm_gnn_config *config, bool works) {
    size_t eighth = (size_t)config->lambda.memory_mb << 17;
    bool function = works && config->engine == CULM_GNN_LAMBDA;
    return function && eighth > 0 && eighth < CULM_GNN_KEPT_MOST ? eighth : CULM_GNN_KEPT_MOST;
}

struct culm_gnn_kept_counts culm_gnn_numeric_kept(const struct culm_gnn_exec *exec) {
    return ((const struct culm_gnn_numeric *)exec)->kept;
}
