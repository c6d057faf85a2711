/*
 * What the events of a run tell of what it has done and saved: to compare with what is there, before
 * a run goes on. Thread: any.
 */
#ifndef CULM_RUN_TOLD_H
#define CULM_RUN_TOLD_H

#include "base/file.h"

struct culm_told {
    int64_t done;             /* the newest step that counts; 0: none */
    int64_t saved;            /* of the newest checkpoint that was written, and counts; 0: none */
    char path[CULM_PATH_MAX]; /* of that, as it was told; "": none */
};

/* Of DIR/events.jsonl of a job that calls one of its steps `unit`. Rounds of a merge are saved by the
 * event "merged". What was undone by a roll-back or
 * by an earlier --resume does not count. CULM_ERR_NOT_FOUND, CULM_ERR_FORMAT and others, as
 * culm_events_read. */
enum culm_status culm_told_read(const char *dir, const char *unit, struct culm_told *ret_told,
                                struct culm_error *error);

#endif
