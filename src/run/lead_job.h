/*
 * What a process that may lead (lead.h) has to know of the jobs of runs: their configuration, and their object of launches.h.
 *
 * Thread: the caller's.
 */
#ifndef CULM_RUN_LEAD_JOB_H
#define CULM_RUN_LEAD_JOB_H

#include "run/cluster.h"

struct culm_lead_options { /* all borrowed */
    const char *dir, *listen, *advertise, *token_file;
    bool insecure;
    void (*warn)(void *ctx, const char *text);
    void *ctx;
    const struct culm_reigning *reigning;
};

struct culm_lead_terms { /* as struct culm_candidate_options has them */
    int64_t lease_ms, most, end_ms;
};

struct culm_lead_job {
    enum culm_status (*terms)(const char *config_text, struct culm_lead_terms *ret_terms,
                              struct culm_error *error);
    /* The rest as of launches.h. One that resumes what is in `dir`, and starts no processes itself. */
    enum culm_status (*make)(const struct culm_config *config,
                             const struct culm_lead_options *options, void **ret_training,
                             struct culm_error *error);
    void (*watch)(void *training, struct culm_sink *log, struct culm_sink *screen);
    int (*go)(void *training, struct culm_error *ret_error);
    void (*resign)(void *training); /* signal handlers too */
    void (*free)(void *training);   /* NULL is fine */
};

extern const struct culm_lead_job culm_lead_jobs[CULM_CLUSTER_JOBS];

#endif
