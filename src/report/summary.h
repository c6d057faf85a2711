/*
 * The summary of a run, from its events alone: live, as a sink, or from an events.jsonl.
 *
 * What events add to it, and which lines it has at the end, are tables of the job that ran
 * (training.h); what a job does not count stays 0. After a roll-back or a resume the later line of a
 * step wins, and the steps after it that were undone are forgotten. Counts (losses, pauses,
 * roll-backs) are over everything that happened. Thread: one at a time.
 */
#ifndef CULM_REPORT_SUMMARY_H
#define CULM_REPORT_SUMMARY_H

#include "report/sink.h"

#include <stdio.h>

struct culm_summary;

/* What one kind of event adds: whatever `add` makes of it, or one to a count. */
struct culm_summary_row {
    const char *event; /* NULL: past the last row */
    enum culm_status (*add)(struct culm_summary *summary, const json_t *event,
                            struct culm_error *error);
    size_t count; /* offset of an int64_t of the summary */
};

/* One of the closing lines. `value` writes what stands behind its name, unit included; false: the
 * line is left out. */
struct culm_summary_line {
    const char *name; /* at most 18 letters; NULL: past the last line */
    bool (*value)(const struct culm_summary *summary, char *ret_text, size_t size);
};

struct culm_page_look; /* page.h */

struct culm_summary_job {
    const char *step; /* what it calls a step */
    const struct culm_summary_row *rows;
    const struct culm_summary_line *lines;
    const char *name; /* as "job" in the event start of its runs; NULL: there is none */
    const struct culm_page_look *page;
};

struct culm_summary_step {
    int64_t step;
    double loss, rate, step_ms;
    char loss_bits[24]; /* as in the event; "" when it has none */
};

#define CULM_SUMMARY_OWN 10

struct culm_summary {
    const struct culm_summary_job *job;
    struct culm_summary_step *steps; /* the surviving history, rising */
    size_t step_count, step_capacity;
    double *pauses_ms; /* one per recovery */
    size_t pause_count, pause_capacity;
    int64_t losses, fenced, rollbacks, steps_redone, faults, checkpoints, views;
    int64_t samples_lost, samples_repeated; /* of the last `done`; -1: not done */
    bool done;                              /* the last start has its done */
    char redundancy[32];
    char rate_of[16];                          /* what the rate of a step counts, per second */
    char weights_sha256[72], state_sha256[72]; /* of the last `done`; "" otherwise */
    char last_error[256];
    /* What they mean is the job's own: its rows write them, its lines read them. */
    int64_t own_counts[CULM_SUMMARY_OWN];
    double own_figures[CULM_SUMMARY_OWN];
};

/* Every job that this build knows, ended by NULL [jobs.c]. */
extern const struct culm_summary_job *const culm_summary_jobs[];
/* Which of `jobs` the run in `dir` is of, by its first event start; the first of them when that says
 * nothing, or there is none yet. CULM_ERR_CONFIG: one that is not among them. */
enum culm_status culm_summary_job_of(const char *dir, const struct culm_summary_job *const *jobs,
                                     const struct culm_summary_job **ret_job,
                                     struct culm_error *error);

/* The tables are borrowed. */
void culm_summary_init(struct culm_summary *summary, const struct culm_summary_job *job);
void culm_summary_release(struct culm_summary *summary);
enum culm_status culm_summary_add(struct culm_summary *summary, const json_t *event,
                                  struct culm_error *error);
/* Adds every event of DIR/events.jsonl. */
enum culm_status culm_summary_read(struct culm_summary *summary, const char *dir,
                                   struct culm_error *error);
/* Feeds `summary`, which must outlive it. NULL: out of memory. */
struct culm_sink *culm_sink_summary_new(struct culm_summary *summary);

/* --- for the rows of jobs --- */

/* The next step, whose event this is: undoes those that are not before it. */
enum culm_status culm_summary_add_step(struct culm_summary *summary,
                                       const struct culm_summary_step *step, const json_t *event,
                                       struct culm_error *error);
/* Forgets the steps after `step`, which count as redone. */
void culm_summary_undo(struct culm_summary *summary, int64_t step);
enum culm_status culm_summary_add_pause(struct culm_summary *summary, double pause_ms,
                                        struct culm_error *error);
/* start: the run is not done, and has failed in nothing; done: with its hashes; error. */
enum culm_status culm_summary_add_start(struct culm_summary *summary, const json_t *event,
                                        struct culm_error *error);
enum culm_status culm_summary_add_done(struct culm_summary *summary, const json_t *event,
                                       struct culm_error *error);
/* One that was written. */
enum culm_status culm_summary_add_checkpoint(struct culm_summary *summary, const json_t *event,
                                             struct culm_error *error);
enum culm_status culm_summary_add_error(struct culm_summary *summary, const json_t *event,
                                        struct culm_error *error);

/* --- figures --- */

double culm_summary_pause_median_ms(const struct culm_summary *summary); /* 0: no pause */
double culm_summary_pause_max_ms(const struct culm_summary *summary);
double culm_summary_rate(const struct culm_summary *summary); /* median over steps */

/* Whether two finished runs ended with the same weights and optimizer state, over the same loss
 * bits at every step both have. When they did not, `ret_difference` says where. */
bool culm_summary_identical(const struct culm_summary *a, const struct culm_summary *b,
                            char *ret_difference, size_t size);

/* Prints the closing lines: the job's, then why it is not finished, whether it is identical, and where
 * it is. `against` may be NULL; then nothing is said of identity. */
void culm_summary_print(const struct culm_summary *summary, const char *dir,
                        const struct culm_summary *against, FILE *out);

#endif
