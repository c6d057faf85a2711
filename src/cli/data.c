/*
 * `culm data check CONFIG`: makes every sample as training would, and lists those that cannot be
 * used.
 *
 * --out writes them as a list that data.skip takes, behind those that it names already.
 */
#include "cli/command.h"

#include "base/json.h"
#include "run/samples.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct values {
    struct culm_option_list sets;
    const char *out;
    int64_t threads; /* 0: one a processor */
    bool json;
};

static const struct culm_option options[] = {
    CULM_OPTION("set", LIST, "key.sub=value", struct values, sets,
                "changes a key of the configuration; repeatable"),
    CULM_OPTION("out", TEXT, "FILE", struct values, out,
                "writes a list for data.skip: what it names now, and what was found"),
    CULM_OPTION("threads", INT, "N", struct values, threads, "threads (default: one per processor)",
                .most = CULM_OPTION_THREADS_MAX),
    CULM_OPTION("json", FLAG, NULL, struct values, json, "prints one JSON object"),
};

const struct culm_usage culm_usage_data = {
    .command = "data",
    .arguments = "check CONFIG",
    .min_arguments = 2,
    .max_arguments = 2,
    .summary = "Finds samples that training could not use",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .details =
        "check prepares every sample that a configuration names, held out or not, as training "
        "would:\n"
        "images are decoded, ids and labels must be below the model's vocabulary and classes, "
        "lines of\n"
        "pairs must be pairs, and text must be UTF-8 (training would put U+FFFD in its place). It "
        "prints\n"
        "what cannot be used: file, line or index, and the reason. The exit code is then 3.\n\n"
        "data.skip in the configuration leaves out what a list names; the remaining samples keep "
        "their\n"
        "order.\n",
};

struct checking {
    json_t *bad; /* NULL: they are printed */
    bool watched;
};

static void told(void *ctx, const struct culm_bad_sample *bad) {
    const struct checking *c = ctx;
    if (!c->bad) {
        printf("%s\n", bad->why);
        return;
    }
    json_t *entry = json_pack("{s:o}", "file", culm_json_text(bad->file));
    if (bad->line >= 0) {
        json_object_set_new(entry, "line", json_integer(bad->line));
    }
    if (bad->index >= 0) {
        json_object_set_new(entry, "index", json_integer(bad->index));
    }
    json_object_set_new(entry, "why", culm_json_text(bad->why));
    json_array_append_new(c->bad, entry);
}

static void progress(void *ctx, int64_t done, int64_t total) {
    const struct checking *c = ctx;
    if (c->watched) {
        fprintf(stderr, "\r%lld of %lld samples%s", (long long)done, (long long)total,
                done == total ? "\n" : "");
    }
}

static void print_json(const struct culm_data_check_result *result, json_t *bad) {
    culm_cli_print_json(json_pack("{s:I, s:I, s:O}", "samples", (json_int_t)result->samples,
                                  "left_out", (json_int_t)result->left_out, "bad", bad));
}

static void print_text(const struct culm_data_check_result *result) {
    printf("%lld samples", (long long)result->samples);
    if (result->left_out) {
        printf(", %lld left out by data.skip", (long long)result->left_out);
    }
    printf(result->bad ? "\n" : ": all can be used\n");
}

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    const struct values *v = values;
    struct checking checking = {.watched = isatty(STDERR_FILENO)};
    const struct culm_data_check_options how = {
        .sets = (const char *const *)v->sets.items,
        .set_count = v->sets.count,
        .out = v->out,
        .threads = (int)v->threads,
        .bad = told,
        .progress = progress,
        .ctx = &checking,
    };
    struct culm_data_check_result result;
    (void)ret_code;
    if (strcmp(arguments->items[0], "check") != 0) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "'%.60s' is not 'check'",
                              arguments->items[0]);
    }
    if (v->json && !(checking.bad = json_array())) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    enum culm_status status = culm_data_check(arguments->items[1], &how, &result, error);
    if (status == CULM_OK) {
        if (v->json) {
            print_json(&result, checking.bad);
        } else {
            print_text(&result);
        }
        if (result.bad && v->out) {
            status = culm_error_set(error, CULM_ERR_FORMAT,
                                    "%lld of what was looked at cannot be used; with 'data.skip: "
                                    "%.300s' it is left out",
                                    (long long)result.bad, v->out);
        } else if (result.bad) {
            status = culm_error_set(error, CULM_ERR_FORMAT,
                                    "%lld of what was looked at cannot be used; mend it, or leave "
                                    "it out: --out FILE writes a list that data.skip takes",
                                    (long long)result.bad);
        }
    }
    json_decref(checking.bad);
    return status;
}

int culm_cli_data(int argc, char **argv) {
    struct values values = {0};
    return culm_cli_run(&culm_usage_data, argc, argv, &values, run);
}
