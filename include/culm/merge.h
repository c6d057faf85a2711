/*
 * Merging models of pictures with Culm: several models share layers, in the memory of few.
 *
 *     struct culm_error error;
 *     struct culm_config *workload = NULL;
 *     struct culm_merging *merging = NULL;
 *     if (culm_config_open("workload.yaml", &workload, &error) ||
 *         culm_merging_new(workload, &(struct culm_merging_options){
 *             .size = sizeof(struct culm_merging_options), .dir = "runs/merged"}, &merging, &error) ||
 *         culm_merging_run(merging, &error)) {
 *         fprintf(stderr, "%s\n", error.text);
 *     }
 *     culm_merging_free(merging);
 *     culm_config_free(workload);
 *
 * A workload names feeds, and queries: which model answers for which feed, and which share of its
 * accuracy must remain (docs/merge.md; `culm help config merge` lists its keys). What is written is a
 * package, a folder that has every tensor once, and says which query uses which; events.jsonl beside
 * it. Whoever uses a package sees one whole round of it, also while a later one is written.
 *
 * examples/embed/merge.c is a whole program. What <culm.h> says of errors, ownership, threads and
 * versions holds here.
 */
#ifndef CULM_MERGE_H
#define CULM_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <culm/config.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- workloads ---------------------------------------------------------------------------------- */

/* Checks a configuration as a workload, and returns it as YAML with every default filled in, which the
 * caller frees with culm_text_free. ret_text may be NULL. Neither models nor feeds are read. */
CULM_API enum culm_status culm_merge_config_text(const struct culm_config *workload,
                                                 char **ret_text, struct culm_error *error);
/* Finds what sharing every equal layer of the models could save, and returns it as the JSON object
 * that `culm merge show --json` prints, which the caller frees with culm_text_free. Needs neither
 * weights nor feeds. */
CULM_API enum culm_status culm_merge_show_workload(const struct culm_config *workload,
                                                   char **ret_json, struct culm_error *error);

/* --- merging ------------------------------------------------------------------------------------ */

struct culm_merging;

struct culm_merging_options {
    size_t size;     /* sizeof(struct culm_merging_options) */
    const char *dir; /* the package to write, a folder; one that holds a package needs `resume` */
    bool resume;     /* goes on with the package in `dir` */
    /* As in every structure of options (culm.h). Either may call culm_merging_stop. */
    void (*event)(void *context, const char *json);
    void (*warning)(void *context, const char *text);
    void *context;
};

/* Opens the models, and checks all that can be wrong before anything is written, but for what only
 * shows when a feed is read. The workload is not needed afterwards. CULM_ERR_EXISTS: a package is in
 * `dir`. CULM_ERR_CONFIG: a key or a value is wrong, or the package to go on with is of other models
 * or by another method. The minutes that a workload allows count from here on. */
CULM_API enum culm_status culm_merging_new(const struct culm_config *workload,
                                           const struct culm_merging_options *options,
                                           struct culm_merging **ret_merging,
                                           struct culm_error *error);
/* Merges to the end, in the calling thread and the `threads` of the workload. May be called once per
 * object. Processor minutes that a workload allows are those of the whole process. CULM_ERR_STOPPED:
 * culm_merging_stop was called; the package has what was shared so far, and `resume` goes on. */
CULM_API enum culm_status culm_merging_run(struct culm_merging *merging, struct culm_error *error);
/* Asks it to end soon. May be called by any thread, from a signal handler, and before or after
 * culm_merging_run. */
CULM_API void culm_merging_stop(struct culm_merging *merging);
CULM_API void culm_merging_free(struct culm_merging *merging);

/* --- packages ----------------------------------------------------------------------------------- */

/* What the package in the folder `dir` shares, and how well its models answer, as the JSON object that
 * `culm merge show --json` prints, which the caller frees with culm_text_free. With `check`, every
 * tensor is read and its hash compared. CULM_ERR_NOT_FOUND: there is no such folder, or no finished
 * round in it. CULM_ERR_FORMAT: it is damaged. */
CULM_API enum culm_status culm_merge_show_package(const char *dir, bool check, char **ret_json,
                                                  struct culm_error *error);

#ifdef __cplusplus
}
#endif

#endif
