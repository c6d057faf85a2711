/*
 * What the commands that start runs have in common, whatever the run's job is.
 *
 * Thread: the main one; the handlers of signals may interrupt it.
 */
#ifndef CULM_CLI_LAUNCHING_H
#define CULM_CLI_LAUNCHING_H

#include "base/file.h"
#include "cli/options.h"
#include "report/summary.h"
#include "report/terminal.h"

/* A run as such a command sees it. */
struct culm_cli_job {
    const char *command; /* "train" */
    const char *dir;
    bool json; /* events alone are printed */
    const struct culm_option_list *faults;
    void *job;
    int (*go)(void *job, struct culm_error *ret_error); /* its exit code */
    void (*stop)(void *job);                            /* safe in a handler of signals */
    void (*abort)(void *job);                           /* the same, without waiting for anything */
    bool (*fired)(void *job, size_t fault);
    const struct culm_summary *(*summary)(void *job);
};

/* runs/<config name>: the file's name without its folder and its last extension. */
enum culm_status culm_cli_default_out(const char *config_path, char ret_path[CULM_PATH_MAX],
                                      struct culm_error *error);
/* Events on standard output, as JSON lines or, otherwise, for people. A run does not wait for whoever
 * reads them (report/relay.h). */
enum culm_status culm_cli_open_sink(bool json, const struct culm_terminal_options *otherwise,
                                    struct culm_sink **ret_sink, struct culm_error *error);
/* Runs it; signals stop it from here on (signals.h). Frees the sink that shows it, so that what that
 * shows in place is left as it is, and sets *sink to NULL; then prints errors, faults that never fired,
 * and the summary or, of a run that was stopped, how to go on. The exit code. */
int culm_cli_launch(const struct culm_cli_job *run, struct culm_sink **sink);

#endif
