/*
 * The plan of a run: the model cut into compiled stages, what each holds, and how much memory each
 * node is promised.
 *
 * The same configuration and the same choices give the same plan in every process, so the launcher
 * and its workers each make their own; the choices travel in plan.json. `--plan FILE` takes those
 * of another run; a plan of another model or batch is refused.
 *
 * Thread: constant after culm_plan_new.
 */
#ifndef CULM_TRAIN_PLAN_H
#define CULM_TRAIN_PLAN_H

#include "graph/stage.h"
#include "pipeline/layout.h"
#include "pipeline/memory.h"
#include "train/choices.h"
#include "train/network.h"

#include <jansson.h>

struct culm_plan {
    struct culm_run_shape shape;
    struct culm_layout layout;
    struct culm_graph *graph;
    struct culm_stage **stage;   /* [shape.stages] */
    int64_t param_count;         /* elements of the whole model, a tied tensor once */
    int32_t state_parts;         /* vectors of a stage's state: 3 with AdamW, 2 with SGD */
    size_t slice_bytes;          /* in which a copy of a stage is sent, at most */
    bool recompute;              /* what `recompute: auto` came to */
    int64_t rows_per_sample;     /* tokens of a sample; 1 for images */
    struct culm_choices choices; /* cuts always */
    size_t *memory_bytes; /* [stages] of a worker that owns the stage, with its shadow's part, when
                             nothing is lost */
    struct culm_memory memory; /* what any part takes, and what is promised */
    size_t limit_bytes;        /* of each worker's pool: its promise without the program */
};

/* Of the network's configuration. `choices` (copied; NULL: none) as far as they fit: cuts for another
 * number of stages do not count. */
enum culm_status culm_plan_new(struct culm_network *network, const struct culm_choices *choices,
                               struct culm_plan **ret_plan, struct culm_error *error);
void culm_plan_free(struct culm_plan *plan); /* NULL is fine */

/* What a checkpoint takes on a disk, a little more rather than less; the weights alone. */
uint64_t culm_plan_checkpoint_bytes(const struct culm_plan *plan, const char *config_text,
                                    bool weights_only);

/* What the protocol is told of `cluster` and `checkpoint`. */
struct culm_pipeline_settings culm_plan_settings(const struct culm_train_config *config);

/* Cuts the graph into `stages` by cost (block_cost NULL: by FLOPs), within `memory_mb` if it can be
 * done. ret_first_block: [stages]. */
enum culm_status culm_plan_cut(const struct culm_train_config *config,
                               const struct culm_graph *graph, const double *block_cost,
                               int32_t *ret_first_block, struct culm_error *error);
/* Counts in what every worker keeps of the data that it opens, and what opening it takes at most. */
void culm_plan_hold(struct culm_plan *plan, size_t resident_bytes, size_t opening_bytes);
/* CULM_ERR_MEMORY when the workers, with nothing lost, take more than `memory_mb` or the machine
 * allows. */
enum culm_status culm_plan_check_memory(const struct culm_plan *plan, struct culm_error *error);

/* {"format":1,"model":...,"stages":[{"first","last","params","memory_bytes"}],"choices":...}. NULL:
 * out of memory. */
json_t *culm_plan_json(const struct culm_plan *plan);
/* CULM_ERR_CONFIG when the file is a plan of another run. */
enum culm_status culm_plan_check(const struct culm_plan *plan, const char *path,
                                 struct culm_error *error);

/* The statistics at the end of the gradients of the last stage, and of each that reads samples,
 * summed like them. Of other stages than the last only the ids count. */
enum {
    CULM_STATISTIC_LOSS, /* share of the global batch's mean, over all rows */
    CULM_STATISTIC_SAMPLES,
    CULM_STATISTIC_ROWS,        /* in two floats: 4096 times the first and the second */
    CULM_STATISTIC_COUNTED = 4, /* likewise: rows without a negative target */
    CULM_STATISTIC_IDS = 6,     /* CULM_IDS_PARTS of them: which samples were read */
    CULM_STATISTICS_FLOATS = 16
};

#endif
