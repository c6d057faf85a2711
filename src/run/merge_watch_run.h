/*
 * What a run at the edge leaves in its folder for whoever merges again, as far as it has been read:
 * private to merge_watch.c. Thread: one.
 */
#ifndef CULM_RUN_MERGE_WATCH_RUN_H
#define CULM_RUN_MERGE_WATCH_RUN_H

#include "base/file.h"

#include <sys/stat.h>

/* A query that drift has taken back to its own weights. */
struct merge_drifted {
    char query[65];
    char frames[CULM_PATH_MAX]; /* a file, which grows */
    uint64_t since_ns;
};

struct merge_watched {
    char dir[CULM_PATH_MAX];
    struct merge_drifted *drifted; /* of the run that is there now */
    size_t drifted_count, drifted_capacity;
    int64_t round; /* that it uses; -1: not known */
    /* internal */
    int log; /* events.jsonl; -1: not open */
    struct stat log_is, workload_is;
    char *line; /* what has been read of one that has no end yet */
    size_t line_len, line_capacity;
    bool long_line; /* the rest of it is passed over */
};

enum culm_status merge_watched_open(const char *dir, struct merge_watched *ret_run,
                                    struct culm_error *error);
void merge_watched_release(struct merge_watched *run);
/* Reads what has come since. *ret_changed: whether its workload is another one than before. */
enum culm_status merge_watched_look(struct merge_watched *run, bool *ret_changed,
                                    struct culm_error *error);
void merge_watched_forget(struct merge_watched *run, const char *query);

#endif
