/*
 * Goodput: where the time of a run went, from its events alone.
 *
 * Each moment between the `start` of a launcher and the last event before the next one is of exactly
 * one kind, so the kinds add up to the wall time. docs/formats.md defines them. Time in a step is not
 * of any kind until the step is committed; what is undone later moves from useful to redone, and
 * stays with the launch in which it was spent.
 *
 * How events move this is said by rows that jobs share (goodput_events.c); nothing here knows a job.
 * Thread: one at a time.
 */
#ifndef CULM_REPORT_GOODPUT_H
#define CULM_REPORT_GOODPUT_H

#include "base/status.h"

#include <jansson.h>

enum culm_goodput_kind {
    CULM_GOODPUT_USEFUL,  /* in steps that were committed and not undone since */
    CULM_GOODPUT_REDONE,  /* in steps that were undone, or never committed */
    CULM_GOODPUT_PAUSED,  /* from a loss until its work goes on */
    CULM_GOODPUT_WAITING, /* for nodes, for the start, for an evaluation */
    CULM_GOODPUT_SAVING,  /* standing still for a checkpoint or the result */
    CULM_GOODPUT_KINDS
};

extern const char *const culm_goodput_names[CULM_GOODPUT_KINDS];

/* Whole microseconds, so that moving time from one kind to another leaves no rest. */
struct culm_goodput_launch {
    double us[CULM_GOODPUT_KINDS];
};

struct culm_goodput_times {
    double ms[CULM_GOODPUT_KINDS];
};

struct culm_goodput {
    struct culm_goodput_launch *launch; /* one for each `start` */
    size_t launches, capacity;
    double t_us;    /* of the last event of this launch */
    double open_us; /* in steps since the last commit */
    double held_us; /* saved since the last commit; of rounds: open until an attempt's last event */
    int64_t *paused; /* nodes whose loss is not recovered from */
    size_t paused_count, paused_capacity;
    bool began;   /* the launch has come to its first step */
    bool lacks;   /* it waits for nodes */
    bool loads;   /* everyone goes back to a checkpoint */
    bool settles; /* no step follows: it saves */
    bool trying;  /* an attempt has begun that has not shipped */
};

struct culm_summary;

/* What an event does, after the time until it was counted. */
struct culm_goodput_row {
    const char *event; /* NULL: past the last row */
    enum culm_status (*move)(struct culm_summary *summary, const json_t *event,
                             struct culm_error *error);
};

extern const struct culm_goodput_row culm_goodput_steps[];  /* of jobs that commit steps */
extern const struct culm_goodput_row culm_goodput_rounds[]; /* of jobs that try and ship */

void culm_goodput_release(struct culm_goodput *goodput);
/* A member of an event that is in milliseconds, as whole microseconds; 0: there is
 * none, or it is out of all reason. */
double culm_goodput_us(const json_t *event, const char *member);
/* Adds the time until an event to what the run did meanwhile. */
void culm_goodput_advance(struct culm_goodput *goodput, const json_t *event);
/* A new launcher: what the one before it had not committed is lost. */
enum culm_status culm_goodput_start(struct culm_goodput *goodput, struct culm_error *error);
/* What is open becomes `kind`; returns how much that was. */
double culm_goodput_close(struct culm_goodput *goodput, enum culm_goodput_kind kind);
/* Moves time from one kind to another, within the launch of that index. */
void culm_goodput_move(struct culm_goodput *goodput, size_t launch, double us,
                       enum culm_goodput_kind from, enum culm_goodput_kind to);

/* Of all launches (`launch` is SIZE_MAX) or one of them. What is open counts as redone. */
struct culm_goodput_times culm_goodput_times_of(const struct culm_goodput *goodput, size_t launch);
double culm_goodput_wall_ms(const struct culm_goodput_times *times);
double culm_goodput_share(const struct culm_goodput_times *times); /* 1 if there was no time */

/* The lines of a summary: the first is of the run; with several launches one for each of the last
 * ones follows. 0: events without times. */
size_t culm_goodput_lines(const struct culm_goodput *goodput);
void culm_goodput_line(const struct culm_goodput *goodput, size_t line, char ret_name[20],
                       char *ret_text, size_t size);
/* {"share","wall_ms","useful_ms",...,"launches":[the same of each]}; NULL: out of memory. */
json_t *culm_goodput_json(const struct culm_goodput *goodput);

#endif
