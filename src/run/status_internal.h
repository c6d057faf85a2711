/* Shared by the files of status; nobody else includes it. See status.h. */
#ifndef CULM_RUN_STATUS_INTERNAL_H
#define CULM_RUN_STATUS_INTERNAL_H

#include "run/status.h"

/* What the events of the last launch have told. */
struct status_told {
    const char *unit;            /* what the job calls a step */
    json_t *start, *plan, *view; /* the newest; NULL: none */
    json_t *nodes;               /* "joined" by node, of those that are not lost */
    json_t *leaving;             /* those of them that have asked to leave; NULL: none */
    json_t *newest;              /* the last step */
    int64_t launches, stored;    /* stored -1: nothing */
    bool waits, done;
};

void status_release(struct status_told *told); /* fine on a zeroed one */
/* How many there are to be, as a configuration says, of a run on a graph or of training; 0: not known. */
int64_t status_steps(const char *config_text, size_t len, bool graph);
/* For culm_events_skim. */
enum culm_status status_hear(void *told, const json_t *event, struct culm_error *error);
/* `pid`: of whoever leads, 0: nobody; `steps` 0: not known. NULL: out of memory. */
json_t *status_make(const struct status_told *told, const char *job, int64_t pid, int64_t steps);

#endif
