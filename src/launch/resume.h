/*
 * Where a resumed run goes on, and with what: at its newest whole checkpoint, else at its beginning,
 * which the seed makes again. For jobs of the launcher that keep checkpoints (store/checkpoint.h).
 *
 * What is there is compared with what the run's events say was written (told.h): that a checkpoint is
 * gone is said, and with all of them gone nothing begins anew unless it is asked for.
 *
 * What of the configuration must have stayed the job compares. Of its settings (CULM_CONFIG_SETTING),
 * and of what names its inputs (CULM_CONFIG_INPUT), those go on that the run was given last
 * (store/lineage.h), until somebody sets others. Steps that are done again are done as they were, apart
 * from what is set anew.
 * Thread: the caller's.
 */
#ifndef CULM_LAUNCH_RESUME_H
#define CULM_LAUNCH_RESUME_H

#include "base/config.h"
#include "launch/launcher.h"
#include "launch/told.h"
#include "store/checkpoint.h"
#include "store/lineage.h"

struct culm_resume {
    int64_t step, steps;      /* where it goes on, and how many there are in all */
    char path[CULM_PATH_MAX]; /* "": at the beginning */
    struct culm_told told;
    struct culm_lineage lineage; /* owned: culm_resume_release */
    json_t *settings;            /* what was set anew, [{key, was, now}]; owned; NULL: nothing */
    json_t *inputs;              /* paths of inputs that have changed; owned; NULL: none */
};

struct culm_resume_options {
    const char *dir;
    int64_t steps;
    const char *unit, *key; /* what the job calls one of its steps, and their number */
    bool from_start;        /* to begin anew where there is no whole checkpoint */
};

void culm_resume_release(struct culm_resume *resume); /* fine on a zeroed one */

/* After culm_launcher_claim. Warns of checkpoints that are broken or gone, and of what is done again
 * for that. CULM_ERR_CONFIG: there is none though the run has done something, as far as
 * its events and its folder tell, or none is whole, and `from_start` is not given, unless it was before;
 * or it is and there is a whole one; it is past `steps`; or a weight is not
 * finite. */
enum culm_status culm_resume_find(struct culm_launcher *launcher,
                                  const struct culm_resume_options *options,
                                  struct culm_resume *ret_resume, struct culm_error *error);
/* Warns if the checkpoint is of another build or machine, and notes it. */
enum culm_status culm_resume_compare_signature(struct culm_launcher *launcher,
                                               struct culm_resume *resume,
                                               const struct culm_checkpoint *checkpoint,
                                               const char *signature, struct culm_error *error);
/* After culm_launcher_begin, also of a run that is not resumed: removes what a crash left of
 * checkpoints, and puts right what one is called. */
enum culm_status culm_resume_settle(const char *dir, struct culm_resume *resume,
                                    struct culm_error *error);

/* --- settings --- */

/* What the run in `dir` has been given so far: as plan.json says, which is written whenever the run
 * goes on, unless that is gone, or does not know what the checkpoint says of the steps that it has done;
 * then as the checkpoint says. `checkpoint` NULL: the newest; "": there is none. CULM_ERR_FORMAT:
 * plan.json is of another format, or a checkpoint is damaged. */
enum culm_status culm_resume_lineage(const char *dir, const char *checkpoint,
                                     struct culm_lineage *ret_lineage, struct culm_error *error);
/* As culm_config_resumable: of a run that was begun with `before`, settings may differ, and with
 * `accept_inputs` also what names inputs; without, that must be what the run was given last. */
enum culm_status culm_resume_compare(const struct culm_config_table *table,
                                     const struct culm_lineage *lineage, const void *before,
                                     const void *now, bool accept_inputs, struct culm_error *error);

#define CULM_RESUME_SETS 32
/* "key=value", to be set beside what is given. */
struct culm_resume_sets {
    char *set[CULM_RESUME_SETS];
    size_t count;
};
void culm_resume_sets_release(struct culm_resume_sets *sets); /* fine on a zeroed one */

/* Where `now`, which is read from a configuration and `given` sets, has what the run was given once,
 * and has been given something else since, that goes on. `before` is what it was begun with, for a
 * lineage without settings; `steps_key` is the number of steps. CULM_ERR_CONFIG: another difference of a
 * setting that is not set but stands in the configuration. */
enum culm_status culm_resume_settings(const struct culm_config_table *table,
                                      const struct culm_lineage *lineage, const void *before,
                                      const void *now, const char *const *given, size_t given_count,
                                      const char *steps_key, struct culm_resume_sets *ret_sets,
                                      struct culm_error *error);
/* Adds to a refusal by culm_config_resumable, which is of another key, how another run can begin with
 * what this one has come to; not where the model itself differs. Returns the status. */
enum culm_status culm_resume_way_out(const struct culm_config_table *table, const void *before,
                                     const void *now, const char *dir, struct culm_error *error);
/* One line of what was kept so: "lr=1, steps=30". */
void culm_resume_sets_list(const struct culm_resume_sets *sets, char *ret_text, size_t size);
/* The warning that says so. */
void culm_resume_sets_warning(const struct culm_resume_sets *sets, const char *dir,
                              const char *config, char ret_text[CULM_ERROR_MAX]);

/* After culm_resume_find: fills in resume->settings, and takes what `now_text` has other than the last
 * configuration of the lineage, or `before_text`, into that. CULM_ERR_CONFIG: it does not go with what
 * steps were done with that are done again. */
enum culm_status culm_resume_go_on(const struct culm_config_table *table,
                                   struct culm_resume *resume, const char *before_text,
                                   const char *now_text, struct culm_error *error);

/* --- events --- */

/* resumed{step, path, done, again}, settings{step, changed} and inputs{step, changed}; `unit` in place
 * of "step". Of a run that is not resumed, nothing. Also what makes the end inexact, of steps that are done. */
void culm_resume_tell(struct culm_launcher *launcher, const struct culm_resume *resume,
                      const char *unit);

#endif
