/*
 * The launcher: everything of `culm train` that is left once the command line and the configuration
 * are right. It claims the run directory, starts the workers, and runs the coordinator to the end.
 *
 * It prints nothing: events go to the caller's sinks, warnings to its function as well, and an error
 * is returned. It leaves signals alone. Thread: the caller's.
 */
#ifndef CULM_RUN_LAUNCH_H
#define CULM_RUN_LAUNCH_H

#include "base/sha256.h"
#include "report/summary.h"
#include "run/fault.h"

#define CULM_RUN_ID_SIZE 17 /* 16 hexadecimal digits */
#define CULM_TOKEN_SIZE 33  /* 32 hexadecimal digits */

/* All borrowed for the length of the call. */
struct culm_launch_options {
    const struct culm_train_config *config;
    struct culm_network
        *network;            /* of the configuration; its files are let go once all is checked */
    const char *config_text; /* with every default filled in: for config.yaml and for workers */
    char config_sha256[CULM_SHA256_HEX]; /* of config_text */
    const char *out_dir;                 /* checked, not yet claimed: culm_rundir_claim */
    bool resume;
    const char *program; /* workers are processes `program [arguments] worker ...` */
    const char *const *program_arguments; /* up to a NULL; NULL: none */
    const char *plan_path;                /* NULL: none given */
    const struct culm_fault_spec *faults;
    const char *const *fault_texts; /* as given, for messages */
    size_t fault_count;
    const char *trace_path; /* NULL: none given */
    double time_scale;
    char run[CULM_RUN_ID_SIZE];  /* random */
    char token[CULM_TOKEN_SIZE]; /* random; every hello must carry it */

    /* Its first count asks for a checkpoint and the end, its second for the end at once: an eventfd,
     * EFD_SEMAPHORE and EFD_NONBLOCK; 0: nobody asks. */
    int stop_fd;
    struct culm_sink *log;    /* is handed every event, as events.jsonl is; NULL: none */
    struct culm_sink *screen; /* the same without those warnings that `warn` was told; NULL: none */
    /* One line without an end, as soon as it is known. */
    void (*warn)(void *ctx, const char *text);
    void *ctx;
};

struct culm_launch_result {
    struct culm_summary summary;
    bool *fired; /* [fault_count]; NULL: nothing was started */
};

/* What a run would do, as its `plan` event; writes nothing. *ret_plan is the caller's, and is set
 * also when the plan is right but takes more memory than there is (CULM_ERR_MEMORY); else NULL
 * after a failure. */
enum culm_status culm_launch_plan(const struct culm_launch_options *options, json_t **ret_plan,
                                  struct culm_error *error);

/* Trains to the end; returns the exit code of `culm train`. *ret_error has a text when something is
 * to be said, also of a run that was stopped. Writes nothing before it has checked the data, the
 * plan and the trace and claimed out_dir. The result is to be released in any case. */
int culm_launch_run(const struct culm_launch_options *options,
                    struct culm_launch_result *ret_result, struct culm_error *ret_error);
void culm_launch_result_release(struct culm_launch_result *result);

#endif
