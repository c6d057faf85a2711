/*
 * The summary of a run, made from its events alone: live, as a sink, or from an events.jsonl.
 *
 * Tables of the job that ran (training.h) say what each event adds and which lines the summary ends
 * with; whatever a job does not count stays 0. After a roll-back or a resume, the later record of a
 * step replaces the earlier one, and steps that were undone are forgotten. Counts (losses, pauses,
 * roll-backs) cover everything that happened, undone steps included.
 *
 * Thread: one at a time.
 */
#ifndef CULM_REPORT_SUMMARY_H
#define CULM_REPORT_SUMMARY_H

#include "report/goodput.h"
#include "report/sink.h"

#include <stdio.h>

struct culm_summary;

/* What one kind of event adds: whatever `add` does with it or, if that is NULL, one to a count. */
struct culm_summary_row {
    const char *event; /* NULL: past the last row */
    enum culm_status (*add)(struct culm_summary *summary, const json_t *event,
                            struct culm_error *error);
    size_t count; /* the offset of an int64_t in the summary */
};

/* One of the closing lines. `value` writes the text after the name, with its unit; false: the line
 * is left out. */
struct culm_summary_line {
    const char *name; /* at most 18 characters; NULL: past the last line */
    bool (*value)(const struct culm_summary *summary, char *ret_text, size_t size);
};

struct culm_page_look; /* page.h */

struct culm_summary_job {
    const char *step; /* what the job calls a step */
    const struct culm_summary_row *rows;
    const struct culm_summary_line *lines;
    const char *name; /* "job" in the event `start` of its runs; NULL: they have no such member */
    const struct culm_page_look *page;
    const struct culm_goodput_row *goodput; /* NULL: its summary has no such line */
    const char *places; /* the list in `view` of who fills each place; a number below 0: nobody */
    const char *pauses; /* in `lost`: true, or a list that is not empty, if work lies still */
};

struct culm_summary_step {
    int64_t step;
    double loss, rate, step_ms;
    char loss_bits[24]; /* as in the event; "" when it has none */
    double useful_us;   /* what it took, in the launch of that index (goodput.h) */
    size_t launch;
};

#define CULM_SUMMARY_OWN 16

struct culm_summary {
    const struct culm_summary_job *job;
    struct culm_summary_step *steps; /* those that were not undone, ascending */
    size_t step_count, step_capacity;
    double *pauses_ms; /* one per recovery */
    size_t pause_count, pause_capacity;
    int64_t losses, fenced, rollbacks, steps_redone, faults, checkpoints, views;
    int64_t samples_lost, samples_repeated; /* from the last `done`; -1: there was none */
    bool done;                              /* the last `start` was followed by a `done` */
    char redundancy[32];
    char rate_of[16];                          /* what the rate of a step counts, per second */
    char weights_sha256[72], state_sha256[72]; /* from the last `done`; "": there was none */
    char last_error[256];
    bool says_exact;   /* the last `done` says whether it is exact */
    char inexact[160]; /* from the last `done`: why it is not exact, in words; "": it is */
    struct culm_goodput goodput;
    /* Each job decides what these mean: its rows write them and its lines read them. */
    int64_t own_counts[CULM_SUMMARY_OWN];
    double own_figures[CULM_SUMMARY_OWN];
};

/* All jobs that this build knows, ended by NULL [jobs.c]. */
extern const struct culm_summary_job *const culm_summary_jobs[];
#define CULM_SUMMARY_JOB_NAME 64
/* The job that the first `start` of the run in `dir` names; "" if it names none or there is no such
 * event yet. Errors as of culm_events_read; if there is no such file, they say that `dir` is not a run. */
enum culm_status culm_summary_job_name(const char *dir, char ret_name[CULM_SUMMARY_JOB_NAME],
                                       struct culm_error *error);
/* Which of `jobs` that is: the first of them if no job is named. CULM_ERR_CONFIG: one that is not in
 * the list. Errors also as of culm_summary_job_name. */
enum culm_status culm_summary_job_of(const char *dir, const struct culm_summary_job *const *jobs,
                                     const struct culm_summary_job **ret_job,
                                     struct culm_error *error);

/* Borrows the tables of the job. */
void culm_summary_init(struct culm_summary *summary, const struct culm_summary_job *job);
void culm_summary_release(struct culm_summary *summary);
enum culm_status culm_summary_add(struct culm_summary *summary, const json_t *event,
                                  struct culm_error *error);
/* Adds every event of DIR/events.jsonl. */
enum culm_status culm_summary_read(struct culm_summary *summary, const char *dir,
                                   struct culm_error *error);
/* A sink that adds events to `summary`, which must outlive it. NULL: out of memory. */
struct culm_sink *culm_sink_summary_new(struct culm_summary *summary);

/* --- for the rows of jobs --- */

/* Adds the step that `event` reports, after undoing it and all later steps that are there. */
enum culm_status culm_summary_add_step(struct culm_summary *summary,
                                       const struct culm_summary_step *step, const json_t *event,
                                       struct culm_error *error);
/* Forgets the steps after `step`, and counts them as redone. */
void culm_summary_undo(struct culm_summary *summary, int64_t step);
enum culm_status culm_summary_add_pause(struct culm_summary *summary, double pause_ms,
                                        struct culm_error *error);
/* What `start`, `done` and `error` mean for every job: the run is under way, without an error so
 * far; it is done, with these hashes; its last error. */
enum culm_status culm_summary_add_start(struct culm_summary *summary, const json_t *event,
                                        struct culm_error *error);
enum culm_status culm_summary_add_done(struct culm_summary *summary, const json_t *event,
                                       struct culm_error *error);
/* Counts a checkpoint if it was written. */
enum culm_status culm_summary_add_checkpoint(struct culm_summary *summary, const json_t *event,
                                             struct culm_error *error);
enum culm_status culm_summary_add_error(struct culm_summary *summary, const json_t *event,
                                        struct culm_error *error);

/* --- figures --- */

double culm_summary_pause_median_ms(const struct culm_summary *summary); /* 0: there was none */
double culm_summary_pause_max_ms(const struct culm_summary *summary);
double culm_summary_rate(const struct culm_summary *summary); /* median over steps */

/* Whether two runs finished with the same weights and optimizer state, and with the same bits of
 * the loss at every step that both have. If not, `ret_difference` says what differs. */
bool culm_summary_identical(const struct culm_summary *a, const struct culm_summary *b,
                            char *ret_difference, size_t size);

/* Prints the closing lines: those of the job, then why the run is not finished if it is not,
 * whether it is identical to `against` if that is not NULL, and where its files are. */
void culm_summary_print(const struct culm_summary *summary, const char *dir,
                        const struct culm_summary *against, FILE *out);
/* The same as one object, with all figures and, if `against` is not NULL, "identical" and
 * "difference". NULL: out of memory. */
json_t *culm_summary_json(const struct culm_summary *summary, const char *dir,
                          const struct culm_summary *against);

#endif
