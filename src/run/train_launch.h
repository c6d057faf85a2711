/*
 * Training as a job of the launcher (launcher.h): everything of `culm train` that is left once the
 * command line and the configuration are right. It checks the data, the plan and the weights, finds
 * the checkpoint that a resumed run starts from, says what workers are told, and makes the
 * leader.
 *
 * It prints nothing: events go to the caller's sinks, warnings to its function as well, and an error
 * is returned. Thread: the caller's.
 */
#ifndef CULM_RUN_TRAIN_LAUNCH_H
#define CULM_RUN_TRAIN_LAUNCH_H

#include "base/sha256.h"
#include "launch/launcher.h"
#include "run/doors.h"
#include "run/fault.h"
#include "run/leader_fault.h"
#include "run/signature.h"

/* All borrowed for the length of the call. */
struct culm_train_launch_options {
    struct culm_launcher_options run;
    struct culm_doors doors;
    int32_t here_most; /* with open doors: workers on this machine, at most */
    const struct culm_train_config *config;
    struct culm_network
        *network;            /* of the configuration; its files are let go once all is checked */
    const char *config_text; /* with every default filled in: for config.yaml and for workers */
    char config_sha256[CULM_SHA256_HEX];          /* of config_text */
    const char *plan_path;                        /* NULL: none given */
    const struct culm_fault_spec *faults;         /* [run.fault_count] */
    const struct culm_leader_fault *leader_fault; /* of this process, while it leads; NULL: none */
};

/* What a run would do, as its `plan` event; writes nothing. *ret_plan is the caller's, and is set
 * also when the plan is right but takes more memory than there is (CULM_ERR_MEMORY); else NULL
 * after a failure. */
enum culm_status culm_train_launch_plan(const struct culm_train_launch_options *options,
                                        json_t **ret_plan, struct culm_error *error);

/* What plan.json will have, which is the caller's, and the signature, for others to lead the run. Writes nothing. */
enum culm_status culm_train_launch_text(const struct culm_train_launch_options *options,
                                        char **ret_plan, char ret_signature[CULM_SIGNATURE_SIZE],
                                        struct culm_error *error);

/* Trains to the end; returns the exit code of `culm train`. *ret_error has a text when something is
 * to be said, also of a run that was stopped. Writes nothing before it has checked the data, the
 * plan and the trace and claimed the directory. The result is to be released in any case. */
int culm_train_launch_run(const struct culm_train_launch_options *options,
                          struct culm_launcher_result *ret_result, struct culm_error *ret_error);

#endif
