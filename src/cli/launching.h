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
#include "run/launches.h"

#define CULM_CLI_WORKERS_FREE INT64_MIN

/* Values of the options that they share; the rows of the commands are made of those below. */
struct culm_cli_launching {
    struct culm_option_list sets, faults;
    const char *out, *trace, *listen, *advertise, *token_file, *cluster, *name;
    double time_scale;
    int64_t workers; /* CULM_CLI_WORKERS_FREE: not given */
    bool resume, accept_inputs, from_start, dry_run, json, insecure, detach;
};

/* Rows for `type`, the struct of a command's values, whose member `m` is the one above. */
#define CULM_CLI_OPTIONS_OF_RUN(type, m)                                                           \
    CULM_OPTION("set", LIST, "key.sub=value", type, m.sets,                                        \
                "changes a key of the configuration; repeatable"),                                 \
        CULM_OPTION("out", TEXT, "DIR", type, m.out,                                               \
                    "run directory (default: runs/<config name>)"),                                \
        CULM_OPTION("resume", FLAG, NULL, type, m.resume, "continues the run in DIR"),             \
        CULM_OPTION("from-start", FLAG, NULL, type, m.from_start,                                  \
                    "with --resume: begins anew if all checkpoints are gone"),                     \
        CULM_OPTION("dry-run", FLAG, NULL, type, m.dry_run,                                        \
                    "prints the plan and ends; writes nothing"),                                   \
        CULM_OPTION("json", FLAG, NULL, type, m.json,                                              \
                    "prints the events as JSON lines, and nothing else")
#define CULM_CLI_OPTIONS_OF_OTHERS(type, m)                                                        \
    CULM_OPTION("advertise", TEXT, "ADDR:PORT", type, m.advertise,                                 \
                "the address that they connect to, if it is another one"),                         \
        CULM_OPTION("token-file", TEXT, "FILE", type, m.token_file,                                \
                    "the token that they have, of 'culm keys new' (default: one is drawn into "    \
                    "DIR/token)"),                                                                 \
        CULM_OPTION("cluster", TEXT, "etcd://HOST:PORT", type, m.cluster,                          \
                    "creates a run that no machine has to stay for, at this store of keys "        \
                    "(etcd://H1:P,H2:P,...), and follows it; 'culm node' joins it"),               \
        CULM_OPTION("name", TEXT, "RUN", type, m.name,                                             \
                    "with --cluster: the run's name (default: the last part of DIR)"),             \
        CULM_OPTION("detach", FLAG, NULL, type, m.detach,                                          \
                    "with --cluster: ends once somebody leads the run; what goes on here prints "  \
                    "to DIR/agent.log"),                                                           \
        CULM_OPTION("insecure", FLAG, NULL, type, m.insecure,                                      \
                    "encrypts nothing between machines, for a network that is private")
#define CULM_CLI_OPTIONS_OF_TRACE(type, m)                                                         \
    CULM_OPTION("preempt-trace", TEXT, "FILE", type, m.trace,                                      \
                "starts and kills workers as the trace says"),                                     \
        CULM_OPTION("time-scale", REAL, "X", type, m.time_scale,                                   \
                    "plays the trace X times as fast")

/* The configuration with all that was set, and the run directory. */
enum culm_status culm_cli_launching_open(const struct culm_cli_launching *values,
                                         const char *config_path, char ret_dir[CULM_PATH_MAX],
                                         struct culm_config **ret_config, struct culm_error *error);

/* What of them is the program's alone. */
struct culm_launch_extras culm_cli_launching_extras(const struct culm_cli_launching *values);

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
