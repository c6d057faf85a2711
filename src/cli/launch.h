/*
 * What `culm train` hands to the launcher once everything on the command line and in the
 * configuration is right.
 */
#ifndef CULM_CLI_LAUNCH_H
#define CULM_CLI_LAUNCH_H

#include "base/sha256.h"
#include "cli/fault.h"

#define CULM_RUN_ID_SIZE 17 /* 16 hexadecimal digits */
#define CULM_TOKEN_SIZE 33  /* 32 hexadecimal digits */

/* All borrowed for the length of the call. */
struct culm_launch_options {
    const struct culm_train_config *config;
    const char *config_text; /* with every default filled in: for config.yaml and for workers */
    char config_sha256[CULM_SHA256_HEX]; /* of config_text */
    const char *out_dir;                 /* checked, not yet claimed: culm_rundir_claim */
    bool resume, dry_run, json;
    const char *plan_path; /* NULL: none given */
    const struct culm_fault_spec *faults;
    const char *const *fault_texts; /* as given, for messages */
    size_t fault_count;
    const char *trace_path; /* NULL: none given */
    double time_scale;
    char run[CULM_RUN_ID_SIZE];  /* random */
    char token[CULM_TOKEN_SIZE]; /* random; every hello must carry it */
};

/* Fills in what a configuration leaves to the model's file: culm_network_complete. */
enum culm_status culm_train_complete(struct culm_train_config *config, struct culm_error *error);

/* Trains to the end. Prints its own error, if any; returns the exit code. Writes nothing before it
 * has checked the data, the plan and the trace and claimed out_dir; nothing at all with dry_run. */
int culm_train_launch(const struct culm_launch_options *options);

#endif
