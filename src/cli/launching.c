/* Running what a command has prepared, and saying how it ended. See launching.h. */
#include "cli/launching.h"

#include "cli/signals.h"
#include "report/relay.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct culm_cli_job *stopped; /* by the handler */

enum culm_status culm_cli_default_out(const char *config_path, char ret_path[CULM_PATH_MAX],
                                      struct culm_error *error) {
    const char *slash = strrchr(config_path, '/');
    const char *name = slash ? slash + 1 : config_path;
    const char *dot = strrchr(name, '.');
    size_t len = dot && dot != name ? (size_t)(dot - name) : strlen(name);
    return culm_path_format(ret_path, error, "runs/%.*s", (int)len, name);
}

enum culm_status culm_cli_launching_open(const struct culm_cli_launching *values,
                                         const char *config_path, char ret_dir[CULM_PATH_MAX],
                                         struct culm_config **ret_config,
                                         struct culm_error *error) {
    struct culm_config *config = NULL;
    enum culm_status status;
    if (values->time_scale > 0 && !values->trace) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--time-scale means nothing without --preempt-trace FILE");
    }
    status = values->out ? culm_path_format(ret_dir, error, "%s", values->out)
                         : culm_cli_default_out(config_path, ret_dir, error);
    if (status == CULM_OK) {
        status = culm_config_open(config_path, &config, error);
    }
    for (size_t i = 0; i < values->sets.count && status == CULM_OK; i++) {
        status = culm_config_add(config, values->sets.items[i], error);
    }
    if (status != CULM_OK) {
        culm_config_free(config);
        return status;
    }
    *ret_config = config;
    return CULM_OK;
}

struct culm_launch_extras culm_cli_launching_extras(const struct culm_cli_launching *values) {
    return (struct culm_launch_extras){
        .faults = values->faults.items,
        .fault_count = values->cluster ? 0 : values->faults.count,
        .trace_path = values->trace,
        .time_scale = values->time_scale,
        .dry = values->dry_run,
        .shared = values->cluster != NULL,
    };
}

enum culm_status culm_cli_open_sink(bool json, const struct culm_terminal_options *otherwise,
                                    struct culm_sink **ret_sink, struct culm_error *error) {
    *ret_sink = culm_sink_relay_new(json ? culm_sink_jsonl_fd(STDOUT_FILENO)
                                         : culm_sink_terminal_new(otherwise));
    return *ret_sink ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

static void on_signal(int number) {
    const struct culm_cli_job *run = stopped;
    const bool insists = culm_cli_insists(number);
    if (run && insists) {
        run->abort(run->job);
    } else if (run) {
        run->stop(run->job);
    }
}

static void hear_signals(const struct culm_cli_job *run) {
    stopped = run;
    culm_cli_on_stop_signal(on_signal);
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of the sink */
}

/* A fault that was asked for and never fired means that the test around it proved nothing. */
static int check_faults(const struct culm_cli_job *run, int code) {
    for (size_t i = 0; i < run->faults->count; i++) {
        if (!run->fired(run->job, i)) {
            fprintf(stderr, "culm %s: --fault '%s' never fired\n", run->command,
                    run->faults->items[i]);
            code = code ? code : 1;
        }
    }
    return code;
}

int culm_cli_launch(const struct culm_cli_job *run, struct culm_sink **sink) {
    struct culm_error error = {0};
    hear_signals(run);
    int code = run->go(run->job, &error);
    culm_sink_free(*sink);
    *sink = NULL;
    if (error.text[0]) {
        fprintf(stderr, "culm %s: %s\n", run->command, error.text);
    }
    code = check_faults(run, code);
    if (!run->json && code == 0) {
        culm_summary_print(run->summary(run->job), run->dir, NULL, stdout);
    } else if (!run->json && !error.text[0] && code == culm_status_exit_code(CULM_ERR_STOPPED)) {
        fprintf(stderr, "culm %s: stopped; continue with --resume\n", run->command);
    }
    stopped = NULL;
    return code;
}
