/*
 * What `culm merge` needs from src/run. As with commands.h, nothing here prints.
 */
#ifndef CULM_RUN_MERGE_COMMANDS_H
#define CULM_RUN_MERGE_COMMANDS_H

#include "report/sink.h"

/* --- merge --- */

struct culm_merging;

struct culm_merging_options { /* borrowed until culm_merging_free */
    const char *workload;
    const char *const *sets; /* "key.sub=value" */
    size_t set_count;
    const char *dir; /* the package's folder */
    bool resume;
    void (*warning)(void *ctx, const char *text);
    void *ctx;
};

/* Checks everything that can be wrong before anything is written, except for what only shows when a
 * feed is read. */
enum culm_status culm_merging_new(const struct culm_merging_options *options,
                                  struct culm_merging **ret_merging, struct culm_error *error);
void culm_merging_free(struct culm_merging *merging); /* NULL is fine */
/* Sends events to `sink` as well as to DIR/events.jsonl. Borrowed until culm_merging_free; NULL:
 * none. */
void culm_merging_watch(struct culm_merging *merging, struct culm_sink *sink);
/* Runs the merge; to be called once. CULM_ERR_STOPPED: it was stopped, and can be resumed. */
enum culm_status culm_merging_go(struct culm_merging *merging, struct culm_error *error);
/* Stops it soon. May be called from a signal handler. */
void culm_merging_stop(struct culm_merging *merging);

/* --- merge show --- */

/* A reference of all keys of a workload: culm_workload_reference. */
char *culm_merge_reference(bool markdown);

/* Of a workload: what sharing every equal layer could save, found without weights and feeds. Of a
 * package: what is shared. *ret_json is the caller's. `check`: read and verify every tensor of the
 * package. */
enum culm_status culm_merge_show(const char *what, const char *const *sets, size_t set_count,
                                 bool check, json_t **ret_json, struct culm_error *error);

#endif
