/*
 * The summary of a run, from its events alone: live, as a sink, or from an events.jsonl.
 *
 * After a roll-back or a resume the later line of a step wins, and the steps after it that were
 * undone are forgotten. Counts (losses, pauses, roll-backs) are over everything that happened.
 * Thread: one at a time.
 */
#ifndef CULM_REPORT_SUMMARY_H
#define CULM_REPORT_SUMMARY_H

#include "report/sink.h"

#include <stdio.h>

struct culm_summary_step {
    int64_t step;
    double loss, tokens_per_s, step_ms;
    char loss_bits[24]; /* as in the event; "" when it has none */
};

struct culm_summary {
    struct culm_summary_step *steps; /* the surviving history, rising */
    size_t step_count, step_capacity;
    double *pauses_ms; /* one per recovery */
    size_t pause_count, pause_capacity;
    int64_t losses, fenced, rollbacks, steps_redone, faults, checkpoints, views;
    int64_t samples_lost, samples_repeated; /* of the last `done`; -1: not done */
    bool done;                              /* the last start has its done */
    char redundancy[32];
    bool rate_of_samples; /* tokens_per_s counts samples: the model reads no tokens */
    char weights_sha256[72], state_sha256[72]; /* of the last `done`; "" otherwise */
    char last_error[256];
};

void culm_summary_init(struct culm_summary *summary);
void culm_summary_release(struct culm_summary *summary);
enum culm_status culm_summary_add(struct culm_summary *summary, const json_t *event,
                                  struct culm_error *error);
/* Adds every event of DIR/events.jsonl. */
enum culm_status culm_summary_read(struct culm_summary *summary, const char *dir,
                                   struct culm_error *error);
/* Feeds `summary`, which must outlive it. NULL: out of memory. */
struct culm_sink *culm_sink_summary_new(struct culm_summary *summary);

double culm_summary_pause_median_ms(const struct culm_summary *summary); /* 0: no pause */
double culm_summary_pause_max_ms(const struct culm_summary *summary);
double culm_summary_tokens_per_s(const struct culm_summary *summary); /* median over steps */

/* Whether two finished runs ended with the same weights and optimizer state, over the same loss
 * bits at every step both have. When they did not, `ret_difference` says where. */
bool culm_summary_identical(const struct culm_summary *a, const struct culm_summary *b,
                            char *ret_difference, size_t size);

/* Prints the closing lines. `against` may be NULL; then nothing is said of identity. */
void culm_summary_print(const struct culm_summary *summary, const char *dir,
                        const struct culm_summary *against, FILE *out);

#endif
