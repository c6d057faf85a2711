/*
 * `culm ckpt`: lists checkpoints, looks at them, compares them bit for bit, makes one file of one, removes old ones, and has a
 * run save elsewhere what finds no room.
 *
 * All but prune, and rescue, which has a run save elsewhere, change nothing that is there. A checkpoint's hashes are verified before it is
 * believed.
 */
#include "cli/ckpt.h"

#include "cli/command.h"

#include "base/json.h"
#include "base/words.h"
#include "run/ckpt.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

struct values {
    bool json;
    const char *out, *to, *endpoint, *region;
    int64_t step, keep;
};

static const struct culm_option options[] = {
    CULM_OPTION("json", FLAG, NULL, struct values, json,
                "with show and list: prints one JSON object"),
    CULM_OPTION("step", INT, "N", struct values, step,
                "with show and export: the checkpoint of that step; default: the newest"),
    CULM_OPTION("keep", INT, "N", struct values, keep,
                "with prune: how many of the newest checkpoints to keep"),
    CULM_OPTION("endpoint", TEXT, "URL", struct values, endpoint,
                "the server of s3://BUCKET; default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or "
                "Amazon's"),
    CULM_OPTION("region", TEXT, "NAME", struct values, region,
                "the region of s3://BUCKET; default: AWS_REGION, AWS_DEFAULT_REGION, or us-east-1"),
    CULM_OPTION("out", TEXT, "FILE", struct values, out,
                "with export: the safetensors file to write"),
    CULM_OPTION("to", TEXT, "PATH", struct values, to,
                "with rescue: the empty or new folder to save to"),
};

const struct culm_usage culm_usage_ckpt = {
    .command = "ckpt",
    .arguments =
        "list PATH | show PATH | diff A B | export PATH --out FILE | prune PATH --keep N | "
        "rescue DIR --to PATH",
    .min_arguments = 1,
    .max_arguments = 3,
    .summary = "Lists, shows, compares, exports and removes checkpoints, or saves one elsewhere",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .details =
        "A path is a checkpoint directory, a run directory (which stands for its newest whole\n"
        "checkpoint), a place of checkpoint.to (a folder or s3://BUCKET/PREFIX, which stands for\n"
        "its newest whole one, and is fetched into $TMPDIR), or a .safetensors file.\n\n"
        "list prints the step and the size of each checkpoint of a run directory or of such a\n"
        "place, and whether it is whole.\n\n"
        "show prints step, hashes and tensors. diff compares weights bit for bit, and optimizer\n"
        "state and step if both have them: the exit code is 0 if all are equal; otherwise it is "
        "1,\n"
        "and the first difference is printed. export writes the weights, without the state of the\n"
        "optimizer, as one F32 file; of a run that has ended, its final weights. It also takes a\n"
        "folder of shards, or their index.\n\n"
        "prune removes all but the newest N. A run at work does so itself (checkpoint.keep).\n\n"
        "rescue is for a run that waits because there is no room for its work in its folder, DIR:\n"
        "it then saves its work in the folder PATH, and a link in DIR leads there, which --resume\n"
        "follows.\n\n"
        "The exit code is 2 for wrong usage, 3 for input that cannot be read.\n",
};

/* ---- show ---------------------------------------------------------------------------------- */

struct summary {
    char weights[65], state[65]; /* hashes; "" where there is none */
    struct culm_tensors_about about;
};

static json_t *pieces_json(const struct culm_tensors *tensors, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct culm_tensors_piece piece = culm_tensors_piece_of(tensors, i);
        json_array_append_new(list, json_pack("{s:s, s:I, s:s, s:I}", "file", piece.file, "bytes",
                                              (json_int_t)piece.bytes, "sha256", piece.sha256,
                                              "tensors", (json_int_t)piece.tensors));
    }
    return list;
}

static json_t *tensors_json(const struct culm_tensors *tensors) {
    json_t *list = json_array();
    for (size_t i = 0; i < culm_tensors_count(tensors); i++) {
        struct culm_array_info info = {.size = sizeof info};
        json_t *shape = json_array();
        (void)culm_tensors_info(tensors, i, &info, NULL);
        for (int32_t d = 0; d < info.rank; d++) {
            json_array_append_new(shape, json_integer(info.shape[d]));
        }
        json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "name", info.name, "dtype",
                                              culm_tensors_dtype(tensors, i), "shape", shape));
    }
    return list;
}

static json_t *hash_json(const char *hash) { return hash[0] ? json_string(hash) : json_null(); }

static void show_json(const struct culm_tensors *tensors, const struct summary *summary) {
    const struct culm_tensors_about *about = &summary->about;
    json_t *root = json_pack("{s:o, s:s}", "path", culm_json_text(about->path), "kind",
                             about->checkpoint ? "checkpoint" : "safetensors");
    if (about->checkpoint) {
        char seed[24];
        snprintf(seed, sizeof seed, "%" PRIu64, about->seed);
        json_t *more = json_pack(
            "{s:I, s:I, s:s, s:s, s:s, s:o}", "step", (json_int_t)culm_tensors_step(tensors),
            "samples", (json_int_t)about->samples, "seed", seed, "signature", about->signature,
            "config", about->config, "pieces", pieces_json(tensors, about->pieces));
        json_object_update(root, more);
        if (about->choices) {
            json_object_set(root, "choices", about->choices);
        }
        json_decref(more);
    }
    json_object_set_new(root, "weights_sha256", hash_json(summary->weights));
    json_object_set_new(root, "state_sha256", hash_json(summary->state));
    json_object_set_new(root, "parameters", json_integer(about->parameters));
    json_object_set_new(root, "tensors", tensors_json(tensors));
    culm_cli_print_json(root);
}

static void show_text(const struct culm_tensors *tensors, const struct summary *summary) {
    const struct culm_tensors_about *about = &summary->about;
    printf("%s %s\n", about->checkpoint ? "checkpoint" : "safetensors", about->path);
    if (about->checkpoint) {
        printf("step           %" PRId64 "\n", culm_tensors_step(tensors));
        printf("samples        %" PRIu64 "\n", about->samples);
        printf("seed           %" PRIu64 "\n", about->seed);
        printf("signature      %s\n", about->signature);
        printf("pieces         %zu\n", about->pieces);
    }
    printf("weights_sha256 %s\n", summary->weights[0] ? summary->weights : "- (not all F32)");
    if (about->checkpoint) {
        printf("state_sha256   %s\n", summary->state[0] ? summary->state : "- (not all F32)");
    }
    printf("parameters     %" PRId64 " in %zu tensors; %zu tensors of optimizer state\n",
           about->parameters, about->parameter_tensors, about->state_tensors);
    for (size_t i = 0; i < culm_tensors_count(tensors); i++) {
        struct culm_array_info info = {.size = sizeof info};
        (void)culm_tensors_info(tensors, i, &info, NULL);
        printf("  %-48s %s [", info.name, culm_tensors_dtype(tensors, i));
        for (int32_t d = 0; d < info.rank; d++) {
            printf("%s%" PRId64, d ? ", " : "", info.shape[d]);
        }
        printf("]\n");
    }
}

static struct culm_ckpt_place place_of(const struct values *values, const char *path) {
    return (struct culm_ckpt_place){
        .path = path, .endpoint = values->endpoint, .region = values->region};
}

static void warn(const char *text) {
    if (text[0]) {
        fprintf(stderr, "culm ckpt: warning: %s; skipped\n", text);
    }
}

/* False after it has filled *error. */
static bool fetch(const struct values *values, const char *path, int64_t step,
                  struct culm_ckpt_files *ret_files, struct culm_error *error) {
    const struct culm_ckpt_place place = place_of(values, path);
    if (culm_ckpt_fetch(&place, step, ret_files, error) != CULM_OK) {
        return false;
    }
    warn(ret_files->warning);
    return true;
}

/* NULL after it has filled *error. */
static struct culm_tensors *open_path(const char *path, struct culm_error *error) {
    struct culm_tensors *tensors = NULL;
    if (culm_tensors_open(path, true, &tensors, error) == CULM_OK) {
        warn(culm_tensors_describe(tensors).warning);
    }
    return tensors;
}

static int show(const struct values *values, const char *path, struct culm_error *error) {
    struct culm_ckpt_files files = {0};
    struct culm_tensors *tensors =
        fetch(values, path, values->step, &files, error) ? open_path(files.path, error) : NULL;
    if (tensors) {
        struct summary summary = {.about = culm_tensors_describe(tensors)};
        culm_tensors_hashes(tensors, summary.weights, summary.state);
        summary.about.path = files.folder[0] ? path : summary.about.path;
        (values->json ? show_json : show_text)(tensors, &summary);
    }
    culm_tensors_free(tensors);
    culm_ckpt_files_release(&files);
    return tensors ? 0 : culm_status_exit_code(error->status);
}

/* ---- diff ---------------------------------------------------------------------------------- */

static bool steps_differ(const struct culm_tensors *a, const struct culm_tensors *b) {
    int64_t x = culm_tensors_step(a), y = culm_tensors_step(b);
    if (x < 0 || y < 0 || x == y) {
        return false;
    }
    printf("step is %" PRId64 " and %" PRId64 "\n", x, y);
    return true;
}

static int compare(const char *path_a, const char *path_b, struct culm_error *error) {
    struct culm_tensors *a = open_path(path_a, error);
    struct culm_tensors *b = a ? open_path(path_b, error) : NULL;
    struct culm_tensors_difference difference = {0};
    if (!b) {
        culm_tensors_free(a);
        return culm_status_exit_code(error->status);
    }
    bool other_step = steps_differ(a, b); /* and the first tensor too: that is what is looked for */
    enum culm_status status = culm_tensors_differ(a, b, &difference, error);
    bool both_state = culm_tensors_describe(a).has_state && culm_tensors_describe(b).has_state;
    if (difference.differ) {
        puts(difference.text);
    } else if (status == CULM_OK && !other_step && both_state) {
        printf("bit-equal: %zu weight tensors, %zu tensors of optimizer state\n",
               difference.weights, difference.state);
    } else if (status == CULM_OK && !other_step) {
        printf("bit-equal: %zu weight tensors; optimizer state is not in both\n",
               difference.weights);
    }
    culm_tensors_free(a);
    culm_tensors_free(b);
    return status != CULM_OK ? culm_status_exit_code(status) : other_step || difference.differ;
}

static int diff(const struct values *values, const char *const *path, struct culm_error *error) {
    struct culm_ckpt_files a = {0}, b = {0};
    int code = fetch(values, path[0], -1, &a, error) && fetch(values, path[1], -1, &b, error)
                   ? compare(a.path, b.path, error)
                   : culm_status_exit_code(error->status);
    culm_ckpt_files_release(&a);
    culm_ckpt_files_release(&b);
    return code;
}

/* ---- export -------------------------------------------------------------------------------- */

static int export_weights(const struct values *values, const char *path, struct culm_error *error) {
    struct culm_ckpt_files files = {0};
    struct culm_weights_exported exported;
    if (!fetch(values, path, values->step, &files, error)) {
        return culm_status_exit_code(error->status);
    }
    enum culm_status status = culm_weights_to_file(files.path, values->out, &exported, error);
    if (status == CULM_OK) {
        warn(exported.warning);
        printf("%s: %zu tensors, %" PRId64 " parameters of %s\n", values->out, exported.tensors,
               exported.parameters, files.folder[0] ? path : exported.path);
    }
    culm_ckpt_files_release(&files);
    return culm_status_exit_code(status);
}

/* ---- list and prune ------------------------------------------------------------------------ */

static void list_json(const char *path, const struct culm_ckpt_listed *listed, size_t count) {
    json_t *all = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *one = json_pack("{s:I, s:I, s:b}", "step", (json_int_t)listed[i].step, "bytes",
                                (json_int_t)listed[i].bytes, "whole", listed[i].whole);
        if (!listed[i].whole) {
            json_object_set_new(one, "message", culm_json_text(listed[i].why));
        }
        json_array_append_new(all, one);
    }
    culm_cli_print_json(json_pack("{s:o, s:o}", "path", culm_json_text(path), "checkpoints", all));
}

static int list(const struct values *values, const char *path, struct culm_error *error) {
    const struct culm_ckpt_place place = place_of(values, path);
    struct culm_ckpt_listed *listed;
    size_t count;
    enum culm_status status = culm_ckpt_list(&place, &listed, &count, error);
    if (status != CULM_OK) {
        return culm_status_exit_code(status);
    }
    if (values->json) {
        list_json(path, listed, count);
    }
    for (size_t i = 0; i < count && !values->json; i++) {
        printf("%10" PRId64 "  %12" PRIu64 " bytes%s%s\n", listed[i].step, listed[i].bytes,
               listed[i].whole ? "" : "  not whole: ", listed[i].why);
    }
    free(listed);
    return 0;
}

static int prune(const struct values *values, const char *path, struct culm_error *error) {
    const struct culm_ckpt_place place = place_of(values, path);
    size_t removed;
    enum culm_status status = culm_ckpt_prune(&place, values->keep, &removed, error);
    if (status == CULM_OK) {
        printf("%zu removed\n", removed);
    }
    return culm_status_exit_code(status);
}

/* ---- rescue -------------------------------------------------------------------------------- */

static int rescue(const char *dir, const char *to, struct culm_error *error) {
    struct culm_rescued rescued;
    enum culm_status status = culm_rescue(dir, to, &rescued, error);
    if (status != CULM_OK) {
        return status == CULM_ERR_NOT_FOUND ? 1 : culm_status_exit_code(status);
    }
    printf("%s\n", rescued.path);
    return 0;
}

/* ---- the command --------------------------------------------------------------------------- */

enum action { LIST, SHOW, DIFF, EXPORT, PRUNE, RESCUE, ACTIONS };
static const char *const actions[] = {"list", "show", "diff", "export", "prune", "rescue", NULL};

/* Options that belong to other commands. */
static enum culm_status check_options(const struct values *values, int action,
                                      struct culm_error *error) {
    const struct {
        bool given;
        const char *name, *command;
        bool fits;
    } options_of[] = {
        {values->out, "out", "culm ckpt export", action == EXPORT},
        {values->to, "to", "culm ckpt rescue", action == RESCUE},
        {values->json, "json", "culm ckpt show or list", action == SHOW || action == LIST},
        {values->step >= 0, "step", "culm ckpt show or export", action == SHOW || action == EXPORT},
        {values->keep > 0, "keep", "culm ckpt prune", action == PRUNE},
    };
    enum culm_status status = CULM_OK;
    for (size_t i = 0; i < sizeof options_of / sizeof *options_of && status == CULM_OK; i++) {
        status = culm_cli_only(options_of[i].given && !options_of[i].fits, options_of[i].name,
                               options_of[i].command, error);
    }
    return status;
}

static enum culm_status check_arguments(const struct values *values, int action, size_t count,
                                        struct culm_error *error) {
    static const struct {
        size_t count;
        const char *takes;
    } forms[ACTIONS] = {
        [LIST] = {2, "list takes one path"},
        [SHOW] = {2, "show takes one path"},
        [DIFF] = {3, "diff takes two paths and no option"},
        [EXPORT] = {2, "export takes one path and --out FILE"},
        [PRUNE] = {2, "prune takes one path and --keep N, of 1 or more"},
        [RESCUE] = {2, "rescue takes one run and --to PATH"},
    };
    bool good = count == forms[action].count && (action != EXPORT || values->out) &&
                (action != RESCUE || values->to) && (action != PRUNE || values->keep > 0);
    return good ? CULM_OK
                : culm_error_set(error, CULM_ERR_ARGUMENT, "%s; see 'culm ckpt --help'",
                                 forms[action].takes);
}

static int act(const struct values *values, int action, const char *const *path,
               struct culm_error *error) {
    switch (action) {
    case LIST: return list(values, path[0], error);
    case SHOW: return show(values, path[0], error);
    case DIFF: return diff(values, path, error);
    case EXPORT: return export_weights(values, path[0], error);
    case PRUNE: return prune(values, path[0], error);
    default: return rescue(path[0], values->to, error);
    }
}

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    const char *const *words = arguments->items;
    struct culm_error problem = {0};
    int action = culm_word_find(actions, words[0]);
    if (action < 0) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "no such command: '%.60s'; see 'culm ckpt --help'", words[0]);
    }
    enum culm_status status = check_options(values, action, error);
    if (status == CULM_OK) {
        status = check_arguments(values, action, arguments->count, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    *ret_code = act(values, action, words + 1, &problem);
    if (problem.text[0]) {
        fprintf(stderr, "culm ckpt %s: %s\n", words[0], problem.text);
    }
    return CULM_OK;
}

int culm_cli_ckpt(int argc, char **argv) {
    struct values values = {.step = -1};
    return culm_cli_run(&culm_usage_ckpt, argc, argv, &values, run);
}
