/*
 * The configuration and the plan of a run among machines where they are too large for a store of keys: they lie where its checkpoints
 * do, under their hashes (store/archive.h), and whoever reads them compares these. Pruning leaves them alone.
 *
 * Thread: the caller's.
 */
#ifndef CULM_RUN_CLUSTER_TEXTS_H
#define CULM_RUN_CLUSTER_TEXTS_H

#include "run/cluster.h"
#include "store/config.h"
#include "store/storage.h"

#include <jansson.h>

#define CULM_CLUSTER_TEXTS_MAX (CULM_KEYS_VALUE_MAX - 4096) /* in the store, both together */

/* Before the run is created: puts what is too large into `storage`, which is at `place`. Errors as of culm_archive_text_put. */
enum culm_status culm_cluster_texts_put(struct culm_storage *storage,
                                        const struct culm_checkpoint_config *place,
                                        struct culm_cluster_run *run, struct culm_error *error);
/* Fetches what lies apart. CULM_ERR_FORMAT: it is gone, or damaged; others as in run/archive.h and store/storage.h. */
enum culm_status culm_cluster_texts_get(struct culm_cluster_run *run, struct culm_error *error);

/* The place, and what lies there, as NAME/run says it; into `about`. False: out of memory. */
bool culm_cluster_texts_write(const struct culm_cluster_run *run, json_t *about);
/* CULM_ERR_FORMAT: it is not as that writes it. */
enum culm_status culm_cluster_texts_read(const json_t *about, struct culm_cluster_run *run,
                                         struct culm_error *error);

#endif
