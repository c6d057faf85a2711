/*
 * Merging the way GEMEL does (NSDI 2023), on real models: its search (gemel.h), joint training
 * towards answers (joint.h) and its schedule of checks (checks.h).
 *
 * An attempt starts from what was last kept of every model. Layers on trial take the weights of the
 * first model that has them. All models of the attempt are trained together on their frames,
 * towards labels or their originals' answers; a look checks a model's queries. Whenever more models
 * than before meet their targets, they are kept and shipped at once. Training is SGD with the
 * configured learning rate, momentum 0.9, weight decay 5e-4, two samples a step and at most ten
 * epochs an attempt.
 *
 * `fixed` (gemel.h) also keeps a set of equally many models if it saves more, and keeps nothing
 * that would push a model outside of the set below its target. After each attempt the state of the
 * search is kept (search.h); another process goes on with the next attempt.
 *
 * Thread: the device's.
 */
#ifndef CULM_MERGE_SEARCH_GEMEL_H
#define CULM_MERGE_SEARCH_GEMEL_H

#include "merge/search.h"

/* For the methods `gemel` and `gemel-fixed`. Models must be the originals, sharing nothing;
 * afterwards they are as shipped last. CULM_ERR_UNSUPPORTED: more than 64 models. */
enum culm_status culm_search_gemel(struct culm_search *search, struct culm_error *error);

#endif
