/*
 * Where a resumed run goes on: at its newest whole checkpoint, else at its beginning, which the seed
 * makes again. For jobs of the launcher that keep checkpoints (store/checkpoint.h). What of the
 * configuration must have stayed the job compares. Thread: the caller's.
 */
#ifndef CULM_RUN_RESUME_H
#define CULM_RUN_RESUME_H

#include "run/launcher.h"
#include "store/checkpoint.h"

struct culm_resume {
    int64_t step;
    char path[CULM_PATH_MAX]; /* "": at the beginning */
};

/* After culm_launcher_claim. Warns of checkpoints that are broken. CULM_ERR_CONFIG: it is past `steps`,
 * which the configuration calls `key`, and one of them `unit`; or a weight is not finite. */
enum culm_status culm_resume_find(struct culm_launcher *launcher, const char *dir, int64_t steps,
                                  const char *unit, const char *key, struct culm_resume *ret_resume,
                                  struct culm_error *error);
/* Warns if the checkpoint is of another build or machine. */
void culm_resume_compare_signature(struct culm_launcher *launcher, const struct culm_resume *resume,
                                   const struct culm_checkpoint *checkpoint, const char *signature);
/* After culm_launcher_begin, also of a run that is not resumed: removes what a crash left of
 * checkpoints, and puts right what one is called. */
enum culm_status culm_resume_settle(const char *dir, struct culm_resume *resume,
                                    struct culm_error *error);

#endif
