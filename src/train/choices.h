/*
 * Choices that a plan makes once and everybody keeps: where the model is cut, and which algorithm
 * each convolution uses.
 *
 * Algorithms differ in bits; cuts do not. Both come from rules that depend on nothing but the
 * configuration, unless it asks for trials; then one process measures before step 1, and what it
 * found travels in the plan: to the workers, to resumed runs, and to others by `--plan FILE`.
 *
 *     "choices": {"cuts": [0, 4, 9], "algorithms": [[operator, forward, data, weight], ...]}
 *
 * Thread: the caller's.
 */
#ifndef CULM_TRAIN_CHOICES_H
#define CULM_TRAIN_CHOICES_H

#include "graph/stage.h"
#include "train/config.h"

#include <jansson.h>

struct culm_algorithms {
    int32_t operator_id;
    int32_t algorithm[3]; /* enum culm_conv_algorithm, by pass */
};

struct culm_choices {
    int32_t stages; /* 0: no cuts were chosen */
    int32_t first_block[64];
    struct culm_algorithms *convolution; /* owned */
    int32_t convolutions;
};

void culm_choices_release(struct culm_choices *choices);

/* NULL: out of memory. */
json_t *culm_choices_json(const struct culm_choices *choices);
bool culm_choices_same_algorithms(const struct culm_choices *a, const struct culm_choices *b);
/* From a plan. A plan without choices gives none. CULM_ERR_FORMAT. */
enum culm_status culm_choices_read(const json_t *plan, struct culm_choices *ret_choices,
                                   struct culm_error *error);
/* The same from a file; `path` stands in the message. */
enum culm_status culm_choices_load(const char *path, struct culm_choices *ret_choices,
                                   struct culm_error *error);

/* Sets the algorithms of the graph's convolutions. CULM_ERR_CONFIG when one is not of this graph,
 * or cannot do it. */
enum culm_status culm_choices_apply(const struct culm_choices *choices, struct culm_graph *graph,
                                    struct culm_error *error);

struct culm_network;
/* Measures what the network's configuration asks to be measured (`kernels: trial`, `cuts: measured`)
 * on random samples, on the device's threads; memory for one micro-batch on the whole model is taken
 * and given back. Asked for nothing, it gives none. */
enum culm_status culm_choices_measure(struct culm_network *network,
                                      struct culm_choices *ret_choices, struct culm_error *error);

#endif
