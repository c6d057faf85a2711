/*
 * Faults inside a worker: which fault point hurts it, and how.
 *
 * Each spec fires at most once in the life of a process. Before the blow a record line
 * "INDEX PHASE STEP\n" goes into a pipe that the launcher reads: it alone counts what has fired,
 * since the worker may not live to tell. PHASE_SEND does not fire at its point, but arms: the next
 * send with a payload is cut in half (worker.c). Thread: any; flags are atomic.
 */
#ifndef CULM_CLUSTER_FAULT_H
#define CULM_CLUSTER_FAULT_H

#include "net/world.h"

/* FLIP: a bit of its memory, by whoever knows what lies there (culm_worker_options.flip). */
enum culm_hurt { CULM_HURT_KILL, CULM_HURT_STOP, CULM_HURT_EXIT, CULM_HURT_FLIP };
#define CULM_HURT_COUNT 4

struct culm_worker_fault {
    int32_t index;                 /* the launcher's number of it */
    struct culm_fault_point point; /* micro -1: any */
    enum culm_hurt how;
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
/* Writes the record, then hurts this process. Returns only when it was frozen and thawed,
 * or is to flip a bit. */
void culm_faults_fire(const struct culm_faults *faults, const struct culm_worker_fault *fault);

struct culm_fault_record {
    int32_t index;
    enum culm_phase phase;
    int64_t step;
};
/* Of one line without its end; false: not a record. */
bool culm_fault_record_parse(const char *line, struct culm_fault_record *ret_record);
/* As users write and read them; NULL at the end of the enumeration and beyond. */
const char *culm_fault_phase_text(size_t phase); /* "load", ... */
const char *culm_fault_hurt_text(size_t hurt);   /* "kill", ... */

#endif
