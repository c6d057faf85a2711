/*
 * What the events of a run tell of what it has done and saved: to compare with what is there, before
 * a run goes on. Thread: any.
 */
#ifndef CULM_LAUNCH_TOLD_H
#define CULM_LAUNCH_TOLD_H

#include "base/file.h"

struct culm_told {
    int64_t done;  /* the newest step that counts; 0: none */
    int64_t saved; /* of the newest checkpoint that was written, and counts; 0: none */
    bool anew;     /* it was begun anew from its first step, and has not saved anything since */
    size_t bad;    /* the first line that is no event, since it was begun anew; 0: all are */
};

/* Of DIR/events.jsonl of a job that calls one of its steps `unit`. Rounds of a merge are saved by the
 * event "merged". What was undone by a roll-back or
 * by an earlier --resume does not count. Lines that are no events are passed over. CULM_ERR_NOT_FOUND and
 * others, as culm_events_skim. */
enum culm_status culm_told_read(const char *dir, const char *unit, struct culm_told *ret_told,
                                struct culm_error *error);

#endif
