/*
 * What `culm merge` needs of src/run. As commands.h: nothing here prints.
 */
#ifndef CULM_RUN_MERGE_COMMANDS_H
#define CULM_RUN_MERGE_COMMANDS_H

#include "report/sink.h"

/* --- merge -------------------------------------------------------------------------------------- */

struct culm_merging;

struct culm_merging_options { /* borrowed until _free */
    const char *workload;
    const char *const *sets; /* "key.sub=value" */
    size_t set_count;
    const char *dir; /* the package */
    bool resume;
    void (*warning)(void *ctx, const char *text);
    void *ctx;
};

/* Finds everything that can be wrong before anything is written, but for what a feed says when it is
 * read. */
enum culm_status culm_merging_new(const struct culm_merging_options *options,
                                  struct culm_merging **ret_merging, struct culm_error *error);
void culm_merging_free(struct culm_merging *merging); /* NULL is fine */
/* Where events go besides DIR/events.jsonl; borrowed until _free; NULL: nowhere. */
void culm_merging_watch(struct culm_merging *merging, struct culm_sink *sink);
/* CULM_ERR_STOPPED when it was stopped and can be resumed. Once. */
enum culm_status culm_merging_go(struct culm_merging *merging, struct culm_error *error);
/* From a signal's handler too. */
void culm_merging_stop(struct culm_merging *merging);

/* --- merge show --------------------------------------------------------------------------------- */

/* Every key of a workload: culm_workload_reference. */
char *culm_merge_reference(bool markdown);

/* Of a workload what sharing every equal layer could save, without weights and feeds; of a package what
 * is shared. *ret_json is the caller's. `check`: every tensor of the package is read. */
enum culm_status culm_merge_show(const char *what, const char *const *sets, size_t set_count,
                                 bool check, json_t **ret_json, struct culm_error *error);

#endif
