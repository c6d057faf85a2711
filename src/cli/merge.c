/*
 * `culm merge`: merges the models of a workload into a package, and shows what they share.
 */
#include "report/merge.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/launching.h"
#include "cli/signals.h"
#include "run/launches.h"
#include "run/merge_watch.h"
#include "run/references.h"

#include <culm/merge.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct values {
    struct culm_option_list sets;
    const char *out, *targets;
    bool resume, json, check, watch;
};

static const struct culm_option options[] = {
    CULM_OPTION("set", LIST, "key.sub=value", struct values, sets,
                "changes a key of the workload; repeatable"),
    CULM_OPTION("out", TEXT, "DIR", struct values, out,
                "the package to write (default: runs/<workload name>)"),
    CULM_OPTION("resume", FLAG, NULL, struct values, resume, "continues the package in DIR"),
    CULM_OPTION("targets", TEXT, "T,T,...", struct values, targets,
                "merges for each of these targets, too, into DIR/targets/T, and shows what each "
                "saves"),
    CULM_OPTION("watch", FLAG, NULL, struct values, watch,
                "merges on by itself, niced, whenever RUN, a folder of 'culm edge run', has other "
                "queries or tells of drift"),
    CULM_OPTION("check", FLAG, NULL, struct values, check,
                "show: reads every tensor of the package and verifies its digest"),
    CULM_OPTION("json", FLAG, NULL, struct values, json,
                "prints the events as JSON lines; show: one JSON object"),
};

const struct culm_usage culm_usage_merge = {
    .command = "merge",
    .arguments = "WORKLOAD.yaml | show WORKLOAD.yaml|DIR | --watch PACKAGE RUN",
    .min_arguments = 1,
    .max_arguments = 2,
    .summary = "Lets several vision models share layers, so that they fit into the memory of a few",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .config = culm_merge_reference,
    .details =
        "A workload names feeds and queries: which model answers for which feed, and how much of "
        "its\n"
        "accuracy must remain (docs/merge.md). The result is a package: every tensor once, which\n"
        "models use it, and events.jsonl beside it.\n\n"
        "show WORKLOAD prints what sharing every equal layer could save; it needs neither weights\n"
        "nor feeds. show DIR prints what the models of a package share, and how well they "
        "answer.\n\n"
        "--watch PACKAGE RUN goes on with the package until a signal ends it (exit code 0). Run it "
        "in\n"
        "the folder in which the package was made.\n",
};

static struct culm_merging *running; /* for the signal handler */
static struct culm_merge_watch *watching;

static void on_signal(int number) {
    (void)number;
    culm_merging_stop(running);
    culm_merge_watch_stop(watching);
}

static void hear_signals(void) {
    culm_cli_on_stop_signal(on_signal);
    signal(SIGPIPE, SIG_IGN);
}

static void on_warning(void *ctx, const char *text) {
    (void)ctx;
    fprintf(stderr, "culm merge: warning: %s\n", text);
}

/* The workload, with what was set. */
static enum culm_status open_workload(const char *path, const struct values *v,
                                      struct culm_config **ret_workload, struct culm_error *error) {
    struct culm_config *workload = NULL;
    enum culm_status status = culm_config_open(path, &workload, error);
    for (size_t i = 0; i < v->sets.count && status == CULM_OK; i++) {
        status = culm_config_add(workload, v->sets.items[i], error);
    }
    if (status != CULM_OK) {
        culm_config_free(workload);
        return status;
    }
    *ret_workload = workload;
    return CULM_OK;
}

/* Events of merging on standard output. */
static enum culm_status open_sink(const struct values *v, struct culm_sink **ret_sink,
                                  struct culm_error *error) {
    const struct culm_terminal_options terminal =
        culm_terminal_options_of(STDOUT_FILENO, culm_terminal_merge, 0);
    *ret_sink = v->json ? culm_sink_jsonl_fd(STDOUT_FILENO) : culm_sink_terminal_new(&terminal);
    return *ret_sink ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

/* Merges a workload into `dir`. `goes_on`: only if what is there is not the outcome already. */
static enum culm_status merge_into(const struct culm_config *workload, const char *dir, bool resume,
                                   bool goes_on, struct culm_sink *sink, struct culm_error *error) {
    const struct culm_merging_options how = {
        .size = sizeof how, .dir = dir, .resume = resume, .warning = on_warning};
    enum culm_status status = culm_merging_new(workload, &how, &running, error);
    if (status == CULM_OK && !(goes_on && culm_merging_is_settled(running))) {
        culm_merging_watch(running, sink);
        hear_signals();
        status = culm_merging_run(running, error);
    }
    struct culm_merging *ended = running;
    running = NULL;
    culm_merging_free(ended);
    return status;
}

/* The workload, with what was set, and the folder for it. */
static enum culm_status open_merge(const char *path, const struct values *v, char *ret_dir,
                                   struct culm_config **ret_workload, struct culm_error *error) {
    enum culm_status status = v->out ? culm_path_format(ret_dir, error, "%s", v->out)
                                     : culm_cli_default_out(path, ret_dir, error);
    return status ? status : open_workload(path, v, ret_workload, error);
}

static enum culm_status merge(const char *path, const struct values *v, struct culm_error *error) {
    char dir[CULM_PATH_MAX];
    struct culm_sink *sink = NULL;
    struct culm_config *workload = NULL;
    enum culm_status status = open_merge(path, v, dir, &workload, error);
    status = status ? status : open_sink(v, &sink, error);
    status = status ? status : merge_into(workload, dir, v->resume, false, sink, error);
    culm_config_free(workload);
    culm_sink_free(sink);
    return status;
}

/* --- several targets --- */

#define TARGETS_MAX 32

struct targets {
    double value[TARGETS_MAX];
    char name[TARGETS_MAX][16]; /* as given */
    size_t count;
};

static enum culm_status read_targets(const char *text, struct targets *targets,
                                     struct culm_error *error) {
    targets->count = 0;
    for (const char *at = text;; at++) {
        const size_t len = strcspn(at, ",");
        char *end;
        const double value = strtod(at, &end);
        if (targets->count == TARGETS_MAX || len == 0 || len >= sizeof *targets->name ||
            strspn(at, "0123456789.") < len || end != at + len || !(value > 0 && value <= 1)) {
            return culm_error_set(
                error, CULM_ERR_ARGUMENT,
                "--targets: '%.60s' is no list of up to %d numbers above 0 and up "
                "to 1; write 0.9,0.95",
                text, TARGETS_MAX);
        }
        snprintf(targets->name[targets->count], sizeof *targets->name, "%.*s", (int)len, at);
        targets->value[targets->count++] = value;
        at += len;
        if (!*at) {
            return CULM_OK;
        }
    }
}

static void print_row(const json_t *row) {
    json_t *target = json_object_get(row, "target"), *item;
    size_t index;
    if (json_is_number(target)) {
        printf("%6.4g", json_number_value(target));
    } else {
        printf("%6s", "own");
    }
    printf(" %7.1f %% %10.2f MB ", 100 * json_number_value(json_object_get(row, "saved")),
           json_number_value(json_object_get(row, "saved_bytes")) / 1e6);
    json_array_foreach(json_object_get(row, "queries"), index, item) {
        const double was = json_number_value(json_object_get(item, "original"));
        const double is = json_number_value(json_object_get(item, "merged"));
        printf("  %s %.4f (%.2f MB)", json_string_value(json_object_get(item, "query")),
               was > 0 ? is / was : 0,
               json_number_value(json_object_get(item, "shared_bytes")) / 1e6);
    }
    printf("\n");
}

/* Merges for one of the targets; *ret_dir: where that is. */
static enum culm_status merge_target(const struct culm_config *workload, const char *dir,
                                     const struct targets *targets, size_t number,
                                     struct culm_sink *sink, char *ret_dir,
                                     struct culm_error *error) {
    struct culm_config *own = NULL;
    char config[CULM_PATH_MAX];
    enum culm_status status = culm_merge_for_target(workload, targets->value[number], &own, error);
    if (status == CULM_OK && !own) { /* it is the workload's, and has been merged */
        return culm_path_format(ret_dir, error, "%s", dir);
    }
    status = status ? status
                    : culm_path_format(ret_dir, error, "%s/targets/%s", dir, targets->name[number]);
    status = status ? status : culm_path_format(config, error, "%s/config.yaml", ret_dir);
    const bool there = status == CULM_OK && culm_file_exists(config);
    status = status ? status : merge_into(own, ret_dir, there, true, sink, error);
    culm_config_free(own);
    return status;
}

/* All targets, after the workload's own, whose package is the one that is left in `dir`. */
static enum culm_status merge_targets(const char *path, const struct values *v,
                                      struct culm_error *error) {
    char dir[CULM_PATH_MAX], of[CULM_PATH_MAX];
    struct targets targets;
    struct culm_sink *sink = NULL;
    struct culm_config *workload = NULL;
    json_t *row = NULL, *rows = json_array();
    enum culm_status status = read_targets(v->targets, &targets, error);
    status = status ? status : open_merge(path, v, dir, &workload, error);
    status = status ? status : open_sink(v, &sink, error);
    status = status ? status : merge_into(workload, dir, v->resume, true, sink, error);
    if (status == CULM_OK && !(status = culm_merge_curve(dir, 0, &row, error))) {
        json_array_append_new(rows, row);
    }
    for (size_t t = 0; t < targets.count && status == CULM_OK; t++) {
        status = merge_target(workload, dir, &targets, t, sink, of, error);
        status = status ? status : culm_merge_curve(of, targets.value[t], &row, error);
        if (status == CULM_OK) {
            json_array_append_new(rows, row);
        }
    }
    culm_config_free(workload);
    culm_sink_free(sink);
    size_t index;
    json_array_foreach(rows, index, row) {
        if (v->json) {
            culm_cli_print_json(json_incref(row));
        } else {
            printf("%s", index ? ""
                               : "target      saved              kept of each query's accuracy "
                                 "(bytes that it shares)\n");
            print_row(row);
        }
    }
    json_decref(rows);
    return status;
}

/* --- watch --- */

#define NICE 19 /* whatever is to be answered in time goes first */

static enum culm_status watch(const char *package, const char *run, const struct values *v,
                              struct culm_error *error) {
    struct culm_sink *sink = NULL;
    (void)setpriority(PRIO_PROCESS, 0, NICE);
    enum culm_status status =
        culm_merge_watch_new(package, run, on_warning, NULL, &watching, error);
    status = status ? status : open_sink(v, &sink, error);
    if (status == CULM_OK) {
        hear_signals();
        status = culm_merge_watch_run(watching, sink, error);
    }
    struct culm_merge_watch *ended = watching;
    watching = NULL;
    culm_merge_watch_free(ended);
    culm_sink_free(sink);
    return status;
}

/* --- show --- */

static long long number(const json_t *object, const char *key) {
    return (long long)json_integer_value(json_object_get(object, key));
}

static void print_instance(const json_t *instance) {
    json_t *queries = json_object_get(instance, "queries");
    json_t *layers = json_object_get(instance, "layers");
    printf("  %10lld bytes ", number(instance, "bytes"));
    for (size_t i = 0; i < json_array_size(queries); i++) {
        printf("%s%s:%s", i ? " = " : " ", json_string_value(json_array_get(queries, i)),
               json_string_value(json_array_get(layers, i)));
    }
    printf("\n");
}

static void print_query(const json_t *query) {
    json_t *original = json_object_get(query, "original");
    json_t *merged = json_object_get(query, "merged");
    printf("query %s: %lld bytes shared", json_string_value(json_object_get(query, "query")),
           number(query, "shared_bytes"));
    if (json_is_number(original) && json_is_number(merged)) {
        printf(", accuracy %.4f of %.4f, target %.4g of that", json_number_value(merged),
               json_number_value(original), json_number_value(json_object_get(query, "target")));
    }
    if (json_is_number(json_object_get(query, "overlap"))) {
        printf(", its boxes overlap the original's by %.3f",
               json_number_value(json_object_get(query, "overlap")));
    }
    printf("\n");
}

static void print_shown(const json_t *shown) {
    json_t *instances = json_object_get(shown, "instances"), *item;
    size_t index;
    long long total = number(shown, "total_bytes"), saved = number(shown, "saved_bytes");
    json_array_foreach(instances, index, item) { print_instance(item); }
    json_array_foreach(json_object_get(shown, "queries"), index, item) { print_query(item); }
    printf("%zu layers shared: %lld bytes instead of %lld, %.1f %% less\n",
           json_array_size(instances), number(shown, "distinct_bytes"), total,
           total > 0 ? 100.0 * (double)saved / (double)total : 0.0);
}

static enum culm_status show_json(const char *what, const struct values *v, char **ret_json,
                                  struct culm_error *error) {
    const bool package = culm_file_is_directory(what);
    struct culm_config *workload = NULL;
    if (package && v->sets.count) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--set changes a workload, but '%s' is a package", what);
    }
    if (!package && v->check) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--check reads a package, but '%s' is not one", what);
    }
    if (package) {
        return culm_merge_show_package(what, v->check, ret_json, error);
    }
    enum culm_status status = open_workload(what, v, &workload, error);
    if (status == CULM_OK) {
        status = culm_merge_show_workload(workload, ret_json, error);
    }
    culm_config_free(workload);
    return status;
}

static enum culm_status show(const char *what, const struct values *v, struct culm_error *error) {
    char *text = NULL;
    enum culm_status status = show_json(what, v, &text, error);
    if (status == CULM_OK && v->json) {
        culm_cli_print_line(text);
    } else if (status == CULM_OK) {
        json_t *shown = json_loads(text, 0, NULL);
        print_shown(shown);
        json_decref(shown);
        culm_text_free(text);
    }
    return status;
}

static enum culm_status body(const struct culm_arguments *arguments, void *values, int *ret_code,
                             struct culm_error *error) {
    const struct values *v = values;
    bool shows = strcmp(arguments->items[0], "show") == 0;
    (void)ret_code;
    if (arguments->count != (shows || v->watch ? 2U : 1U)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "write 'culm merge WORKLOAD.yaml', 'culm merge show "
                              "WORKLOAD.yaml|DIR' or 'culm merge --watch PACKAGE RUN'");
    }
    enum culm_status status;
    if (v->watch) {
        const char *of = "culm merge WORKLOAD.yaml";
        if ((status = culm_cli_only(v->resume, "resume", of, error)) ||
            (status = culm_cli_only(v->out, "out", of, error)) ||
            (status = culm_cli_only(v->sets.count, "set", of, error)) ||
            (status = culm_cli_only(v->targets, "targets", of, error)) ||
            (status = culm_cli_only(v->check, "check", "culm merge show", error))) {
            return status;
        }
        return watch(arguments->items[0], arguments->items[1], v, error);
    }
    if ((status = culm_cli_only(v->check && !shows, "check", "culm merge show", error)) ||
        (status = culm_cli_only(v->resume && shows, "resume", "culm merge WORKLOAD.yaml", error)) ||
        (status = culm_cli_only(v->out && shows, "out", "culm merge WORKLOAD.yaml", error))) {
        return status;
    }
    status = culm_cli_only(v->targets && shows, "targets", "culm merge WORKLOAD.yaml", error);
    return status       ? status
           : shows      ? show(arguments->items[1], v, error)
           : v->targets ? merge_targets(arguments->items[0], v, error)
                        : merge(arguments->items[0], v, error);
}

int culm_cli_merge(int argc, char **argv) {
    struct values values = {0};
    return culm_cli_run(&culm_usage_merge, argc, argv, &values, body);
}
