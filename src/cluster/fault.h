/*
 * Faults inside a worker: at which fault point a fault fires, and what it does.
 *
 * A fault fires at most once in the life of a process. Before it takes effect, a record
 * "INDEX STEP\n" is written to a pipe that the launcher reads. Only the launcher counts faults,
 * since the worker may not survive its own. A fault with `at_send` does not fire at its point but
 * is armed there; it fires in the middle of the next send with a payload (worker.c).
 *
 * Thread: any; flags are atomic.
 */
#ifndef CULM_CLUSTER_FAULT_H
#define CULM_CLUSTER_FAULT_H

#include "net/world.h"

enum culm_fault_how {
    CULM_HOW_KILL, /* SIGKILL */
    CULM_HOW_STOP, /* SIGSTOP */
    CULM_HOW_EXIT,
    CULM_HOW_STUCK, /* the worker stays alive, but its tasks never end (worker.c) */
    CULM_HOW_FLIP,  /* a bit in memory flips; culm_worker_options.flip does it */
};
#define CULM_HOW_COUNT (CULM_HOW_FLIP + 1)

struct culm_worker_fault {
    int32_t index;                 /* the launcher's number of the fault */
    struct culm_fault_point point; /* part -1: any */
    bool at_send;
    enum culm_fault_how how;
};

struct culm_faults {
    const struct culm_worker_fault *fault; /* borrowed */
    int *state;                            /* atomic; enum culm_fault_state */
    size_t count;
    int record_fd; /* -1: records are not written */
};

enum culm_status culm_faults_init(struct culm_faults *faults,
                                  const struct culm_worker_fault *borrow_fault, size_t count,
                                  int record_fd, struct culm_error *error);
void culm_faults_release(struct culm_faults *faults);
/* The fault that is to fire at `point`. It is returned only once, and the caller must fire it.
 * NULL: none. */
const struct culm_worker_fault *culm_faults_claim(struct culm_faults *faults,
                                                  const struct culm_fault_point *point);
/* The same for a fault that is armed, at a send with a payload. */
const struct culm_worker_fault *culm_faults_claim_send(struct culm_faults *faults);
/* Writes the record, then kills, stops or exits this process. Returns if the process was stopped
 * and continued, or if the rest is up to the caller (CULM_HOW_STUCK, CULM_HOW_FLIP). */
void culm_faults_fire(const struct culm_faults *faults, const struct culm_worker_fault *fault);

struct culm_fault_record {
    int32_t index;
    int64_t step;
};
/* Parses a line without its end; false: it is not a record. */
bool culm_fault_record_parse(const char *line, struct culm_fault_record *ret_record);
/* The name of an enum culm_fault_how as users write it, such as "kill"; NULL after the last. */
const char *culm_fault_how_name(size_t how);

#endif
