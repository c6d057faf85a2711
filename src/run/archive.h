/*
 * Where a run keeps its checkpoints apart from its directory (`checkpoint.to`), for all jobs. Thread: the caller's.
 */
#ifndef CULM_RUN_ARCHIVE_H
#define CULM_RUN_ARCHIVE_H

#include "launch/launcher.h"
#include "store/config.h"
#include "store/storage.h"

/* A folder, or "s3://BUCKET/PREFIX". `endpoint`, `region`: as in cloud/s3.h. */
enum culm_status culm_archive_open(const char *to, const char *endpoint, const char *region,
                                   struct culm_storage **ret_storage, struct culm_error *error);

/* Opens what the configuration names and gives it to the launcher, with its options: of a run that begins, it
 * must be free; of one that is resumed, its newest checkpoint is brought to `run->dir`, if it is newer. Nothing where none is
 * named. What `run->storage` is then, culm_storage_free frees after the run. Warnings go to run->warn. Errors as of
 * launch/bring.h and store/storage.h. */
enum culm_status culm_archive_begin(const struct culm_checkpoint_config *config,
                                    struct culm_launcher_options *run, struct culm_error *error);

#endif
