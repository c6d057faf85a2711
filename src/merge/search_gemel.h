/*
 * Merging as GEMEL does it (NSDI 2023), on real models: its search (gemel.h), joint training towards
 * answers (joint.h), and its looks (pace.h).
 *
 * Each attempt begins with what every model was last kept as. Layers that are tried take the weights of
 * the first model that has them. All models of the attempt are trained together, on their frames, with
 * labels or with what their originals answer; a look checks a model's queries. Whenever more models are
 * there than before, they are kept and shipped at once. SGD with the learning rate of the
 * configuration, momentum 0.9, weight decay 5e-4, two samples a step, at most ten epochs an attempt.
 *
 * `fixed` (gemel.h) also takes a set of as many models that saves more, and keeps nothing that would
 * put a model that is not in the set below its target. After each attempt what the search needs to go on
 * is kept (search.h); another process begins with the attempt after it. Thread: the device's.
 */
#ifndef CULM_MERGE_SEARCH_GEMEL_H
#define CULM_MERGE_SEARCH_GEMEL_H

#include "merge/search.h"

/* For the methods `gemel` and `gemel-fixed`. Models and share are the originals and nothing at first; at
 * the end what shipped last. */
enum culm_status culm_search_gemel(struct culm_search *search, struct culm_error *error);

#endif
