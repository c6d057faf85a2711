/*
 * What a run has gone on with when it was resumed: with which configuration after which step, and what
 * it was that makes it another run than an undisturbed one would be.
 *
 *     {"settings": [{"after": 0, "config": "YAML"}, {"after": 20, "config": "YAML"}],
 *      "inexact": [{"after": 20, "why": "inputs"}]}
 *
 * It stands in checkpoints ("progress": {"lineage": ...}), in plan.json and in briefs, so that a step
 * that is done again, by whomever, is done as it was. A run without changes has none. Steps are
 * whatever the job counts. Thread: constant after reading; any.
 */
#ifndef CULM_STORE_LINEAGE_H
#define CULM_STORE_LINEAGE_H

#include "base/status.h"

#include <jansson.h>

#define CULM_PLAN_FORMAT 1 /* of plan.json, what it says of itself */

struct culm_lineage_part {
    int64_t after; /* of the first one 0; ascending */
    char *config;  /* with all defaults filled in; owned */
};

#define CULM_LINEAGE_WHY_SIZE 24
struct culm_lineage_note {
    int64_t after;
    char why[CULM_LINEAGE_WHY_SIZE]; /* "inputs", "build" */
};

struct culm_lineage { /* zeroed: no change */
    struct culm_lineage_part *part;
    size_t part_count, part_capacity; /* not 1 */
    struct culm_lineage_note *note;
    size_t note_count, note_capacity;
};

void culm_lineage_release(struct culm_lineage *lineage); /* fine on a zeroed one */
/* NULL with CULM_OK: there was no change. The caller's, to json_decref. CULM_ERR_MEMORY. */
enum culm_status culm_lineage_json(const struct culm_lineage *lineage, json_t **ret_json,
                                   struct culm_error *error);
/* NULL: no change. CULM_ERR_FORMAT. */
enum culm_status culm_lineage_read(const json_t *json, struct culm_lineage *ret_lineage,
                                   struct culm_error *error);

/* Puts it into what else a checkpoint says of its run ("progress"), which is made where there is none
 * and something to say. The caller's. */
enum culm_status culm_lineage_progress(const struct culm_lineage *lineage, json_t **progress,
                                       struct culm_error *error);

/* What becomes of a configuration of the run, when something is set: a copy, for the caller to free. */
struct culm_lineage_change {
    enum culm_status (*apply)(void *ctx, const char *config, char **ret_config,
                              struct culm_error *error);
    void *ctx;
};
/* The run, which had `was` so far if it has no parts, is given something after step `after`. It changes
 * what is in force there and all that comes later, which stays as it is otherwise: steps that are done
 * again differ in nothing else. CULM_ERR_MEMORY, and what `apply` returns. */
enum culm_status culm_lineage_go_on(struct culm_lineage *lineage, int64_t after, const char *was,
                                    const struct culm_lineage_change *change,
                                    struct culm_error *error);
/* Whether it says all that `done` says of the steps up to `step`. */
bool culm_lineage_covers(const struct culm_lineage *lineage, const struct culm_lineage *done,
                         int64_t step);
/* Forgets notes of steps after `after`, which are done again. */
void culm_lineage_back_to(struct culm_lineage *lineage, int64_t after);
bool culm_lineage_noted(const struct culm_lineage *lineage, int64_t after, const char *why);
/* Of that step alone, which has not been done. */
void culm_lineage_forget(struct culm_lineage *lineage, int64_t after, const char *why);
/* Once for each `why` and step. CULM_ERR_MEMORY. */
enum culm_status culm_lineage_add_note(struct culm_lineage *lineage, int64_t after, const char *why,
                                       struct culm_error *error);

#endif
