/* See lead_job.h. */
#include "run/lead_job.h"

#include "gnn/config.h"
#include "train/config.h"

#include <culm/gnn.h>
#include <string.h>

#define NAME "the run's configuration" /* in messages */

static struct culm_lead_terms terms_of(const struct culm_crew_config *crew) {
    return (struct culm_lead_terms){.lease_ms = crew->lease_ms,
                                    .most = crew->candidates,
                                    .end_ms = crew->store_ms + culm_crew_config_orphan_ms(crew)};
}

/* --- training --- */

static enum culm_status train_terms(const char *config_text, struct culm_lead_terms *ret_terms,
                                    struct culm_error *error) {
    struct culm_train_config config;
    const enum culm_status status =
        culm_train_config_parse(config_text, strlen(config_text), NAME, NULL, 0, &config, error);
    if (status == CULM_OK) {
        *ret_terms = terms_of(&config.cluster);
        culm_train_config_release(&config);
    }
    return status;
}

static enum culm_status train_make(const struct culm_config *config,
                                   const struct culm_lead_options *o, void **ret_training,
                                   struct culm_error *error) {
    const struct culm_training_options options = {.size = sizeof options,
                                                  .dir = o->dir,
                                                  .resume = true,
                                                  .program = "/proc/self/exe",
                                                  .warning = o->warn,
                                                  .context = o->ctx,
                                                  .listen = o->listen,
                                                  .advertise = o->advertise,
                                                  .token_file = o->token_file,
                                                  .insecure = o->insecure,
                                                  .limit_workers = 1};
    const struct culm_launch_extras extras = {.reigning = o->reigning};
    struct culm_training *training = NULL;
    const enum culm_status status = culm_training_make(config, &options, &extras, &training, error);
    *ret_training = training;
    return status;
}

static void train_watch(void *training, struct culm_sink *log, struct culm_sink *screen) {
    culm_training_watch(training, log, screen);
}

static int train_go(void *training, struct culm_error *ret_error) {
    return culm_training_go(training, ret_error);
}

static void train_resign(void *training) { culm_training_resign(training); }

static void train_free(void *training) { culm_training_free(training); }

/* --- training on graphs --- */

static enum culm_status gnn_terms(const char *config_text, struct culm_lead_terms *ret_terms,
                                  struct culm_error *error) {
    struct culm_gnn_config config;
    const enum culm_status status =
        culm_gnn_config_parse(config_text, strlen(config_text), NAME, NULL, 0, &config, error);
    if (status == CULM_OK) {
        *ret_terms = terms_of(&config.cluster);
        culm_gnn_config_release(&config);
    }
    return status;
}

static enum culm_status gnn_make(const struct culm_config *config,
                                 const struct culm_lead_options *o, void **ret_training,
                                 struct culm_error *error) {
    const struct culm_gnn_training_options options = {.size = sizeof options,
                                                      .dir = o->dir,
                                                      .resume = true,
                                                      .program = "/proc/self/exe",
                                                      .warning = o->warn,
                                                      .context = o->ctx,
                                                      .listen = o->listen,
                                                      .advertise = o->advertise,
                                                      .token_file = o->token_file,
                                                      .insecure = o->insecure,
                                                      .limit_workers = true};
    const struct culm_launch_extras extras = {.reigning = o->reigning};
    struct culm_gnn_training *training = NULL;
    const enum culm_status status =
        culm_gnn_training_make(config, &options, &extras, &training, error);
    *ret_training = training;
    return status;
}

static void gnn_watch(void *training, struct culm_sink *log, struct culm_sink *screen) {
    culm_gnn_training_watch(training, log, screen);
}

static int gnn_go(void *training, struct culm_error *ret_error) {
    return culm_gnn_training_go(training, ret_error);
}

static void gnn_resign(void *training) { culm_gnn_training_resign(training); }

static void gnn_free(void *training) { culm_gnn_training_free(training); }

const struct culm_lead_job culm_lead_jobs[CULM_CLUSTER_JOBS] = {
    [CULM_CLUSTER_TRAIN] = {train_terms, train_make, train_watch, train_go, train_resign,
                            train_free},
    [CULM_CLUSTER_GNN] = {gnn_terms, gnn_make, gnn_watch, gnn_go, gnn_resign, gnn_free},
};
