/*
 * Faults inside a worker: which fault point fires one, and what it does.
 *
 * Each fires at most once in the life of a process. Before it takes effect a record line
 * "INDEX STEP\n" goes into a pipe that the launcher reads: it alone counts what has fired, since
 * the worker may not live to tell. One that is `at_send` does not fire at its point, but is armed
 * there: the next send with a payload is cut in half (worker.c). Thread: any; flags are atomic.
 */
#ifndef CULM_CLUSTER_FAULT_H
#define CULM_CLUSTER_FAULT_H

#include "net/world.h"

enum culm_fault_how {
    CULM_HOW_KILL, /* SIGKILL */
    CULM_HOW_STOP, /* SIGSTOP */
    CULM_HOW_EXIT,
    CULM_HOW_STUCK, /* it lives on, and no task of it ever ends (worker.c) */
    CULM_HOW_FLIP,  /* a bit of its memory, by whoever knows what lies there
                      (culm_worker_options.flip) */
};
#define CULM_HOW_COUNT (CULM_HOW_FLIP + 1)

struct culm_worker_fault {
    int32_t index;                 /* the launcher's number of it */
    struct culm_fault_point point; /* part -1: any */
    bool at_send;
    enum culm_fault_how how;
};

struct culm_faults {
    const struct culm_worker_fault *fault; /* borrowed */
    int *state;                            /* atomic; enum culm_fault_state */
    size_t count;
    int record_fd; /* -1: records go nowhere */
};

enum culm_status culm_faults_init(struct culm_faults *faults,
                                  const struct culm_worker_fault *borrow_fault, size_t count,
                                  int record_fd, struct culm_error *error);
void culm_faults_release(struct culm_faults *faults);
/* Which is to fire at `point` now: it is the caller's, who must fire it. NULL: none. */
const struct culm_worker_fault *culm_faults_claim(struct culm_faults *faults,
                                                  const struct culm_fault_point *point);
/* The same for one that was armed, at a send with a payload. */
const struct culm_worker_fault *culm_faults_claim_send(struct culm_faults *faults);
/* Writes the record, then does it to this process. Returns only when it was frozen and thawed, or
 * what is left to do is the caller's: a task that hangs, a bit to be flipped. */
void culm_faults_fire(const struct culm_faults *faults, const struct culm_worker_fault *fault);

struct culm_fault_record {
    int32_t index;
    int64_t step;
};
/* Of one line without its end; false: not a record. */
bool culm_fault_record_parse(const char *line, struct culm_fault_record *ret_record);
/* As users write it: "kill", ...; NULL after the last. */
const char *culm_fault_how_name(size_t how);

#endif
