/*
 * Signs of life of a process that does tasks: what runs, for how long, and what tasks have taken.
 *
 * Whoever lives and does not finish a task is put out by the one who leads; the limit follows what
 * tasks of that kind take elsewhere (patience.h). So a heartbeat names the kind of the running task,
 * and TOOK says how long one took when that is news. Time in which this whole process did not run
 * (a frozen machine) is no task's time.
 *
 * Tasks run on *lines*: line 0 computes, one task at a time; the others write files. A write may
 * take CULM_PULSE_WRITE_FACTOR times as long as a task, since disks are slow and may also hang; so
 * its times are told divided by that.
 *
 * Pure; no memory of its own beyond the struct. Thread: its owner's.
 */
#ifndef CULM_CREW_PULSE_H
#define CULM_CREW_PULSE_H

#include "base/buf.h"
#include "base/status.h"
#include "crew/patience.h"

#include <stdbool.h>

#define CULM_PULSE_LINES (1 + CULM_PATIENCE_PARTS)
#define CULM_PULSE_WRITE_FACTOR 10

/* Message: it is alive, and has been at the running task for so long. */
struct culm_heartbeat {
    int64_t progress; /* changes with whatever shows that it gets on */
    int32_t kind;     /* of the running task; -1: none runs */
    int32_t part;     /* of the running task */
    int64_t task_ms;  /* since it began, or last showed a sign of progress */
};

/* Message: a task of this kind has ended well after so long; told only when that is news. */
struct culm_took {
    int32_t kind, part;
    int64_t task_ms;
};

struct culm_pulse_line {
    bool runs;
    uint64_t since_ns; /* or since its last sign of progress */
    int32_t kind, part;
};

struct culm_pulse {
    int64_t every_ms; /* between two heartbeats */
    uint64_t beat_ns; /* the last one */
    struct culm_pulse_line line[CULM_PULSE_LINES];
    int64_t told_ms[CULM_PATIENCE_KINDS][CULM_PATIENCE_PARTS]; /* the longest TOOK that was said */
};

/* Kinds below CULM_PATIENCE_KINDS, parts below CULM_PATIENCE_PARTS. */
void culm_pulse_init(struct culm_pulse *pulse, int64_t every_ms);
void culm_pulse_begin(struct culm_pulse *pulse, int32_t line, int32_t kind, int32_t part,
                      uint64_t now_ns);
/* The running task of that line has shown that it gets on. */
void culm_pulse_moved(struct culm_pulse *pulse, int32_t line, uint64_t now_ns);
/* The task of that line has ended. True: it ended well, and how long it took is news. */
bool culm_pulse_end(struct culm_pulse *pulse, int32_t line, bool well, uint64_t now_ns,
                    struct culm_took *ret_took);
/* What a heartbeat says now: of all that runs, what has been at it longest. */
void culm_pulse_beat(struct culm_pulse *pulse, int64_t progress, uint64_t now_ns,
                     struct culm_heartbeat *ret_heartbeat);

void culm_heartbeat_encode(const struct culm_heartbeat *heartbeat, struct culm_buf *buf);
enum culm_status culm_heartbeat_decode(const uint8_t *meta, size_t len,
                                       struct culm_heartbeat *ret_heartbeat);
void culm_took_encode(const struct culm_took *took, struct culm_buf *buf);
enum culm_status culm_took_decode(const uint8_t *meta, size_t len, struct culm_took *ret_took);

#endif
