/*
 * `culm ckpt`: looks at checkpoints, compares them bit for bit, makes one file of one, and has a run
 * save elsewhere what finds no room.
 *
 * All but rescue, which has a run save elsewhere, change nothing that is there. A checkpoint's hashes are verified before it is
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

struct values {
    bool json;
    const char *out, *to;
};

static const struct culm_option options[] = {
    CULM_OPTION("json", FLAG, NULL, struct values, json, "with show: prints one JSON object"),
    CULM_OPTION("out", TEXT, "FILE", struct values, out,
                "with export: the safetensors file to write"),
    CULM_OPTION("to", TEXT, "PATH", struct values, to,
                "with rescue: the empty or new folder to save to"),
};

const struct culm_usage culm_usage_ckpt = {
    .command = "ckpt",
    .arguments = "show PATH | diff A B | export PATH --out FILE | rescue DIR --to PATH",
    .min_arguments = 1,
    .max_arguments = 3,
    .summary = "Shows a checkpoint, compares two, makes one file of one, or saves one elsewhere",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .details =
        "A path is a checkpoint directory, a run directory (which stands for its newest whole\n"
        "checkpoint), or a .safetensors file.\n\n"
        "show prints step, hashes and tensors. diff compares weights bit for bit, and optimizer\n"
        "state and step if both have them: the exit code is 0 if all are equal; otherwise it is "
        "1,\n"
        "and the first difference is printed. export writes the weights, without the state of the\n"
        "optimizer, as one F32 file; of a run that has ended, its final weights. It also takes a\n"
        "folder of shards, or their index.\n\n"
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

/* NULL after it has filled *error. */
static struct culm_tensors *open_path(const char *path, struct culm_error *error) {
    struct culm_tensors *tensors = NULL;
    if (culm_tensors_open(path, true, &tensors, error) == CULM_OK) {
        const char *warning = culm_tensors_describe(tensors).warning;
        if (warning[0]) {
            fprintf(stderr, "culm ckpt: warning: %s; skipped\n", warning);
        }
    }
    return tensors;
}

static int show(const char *path, bool as_json, struct culm_error *error) {
    struct culm_tensors *tensors = open_path(path, error);
    if (!tensors) {
        return culm_status_exit_code(error->status);
    }
    struct summary summary = {.about = culm_tensors_describe(tensors)};
    culm_tensors_hashes(tensors, summary.weights, summary.state);
    (as_json ? show_json : show_text)(tensors, &summary);
    culm_tensors_free(tensors);
    return 0;
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

static int diff(const char *path_a, const char *path_b, struct culm_error *error) {
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

/* ---- export -------------------------------------------------------------------------------- */

static int export_weights(const char *path, const char *out, struct culm_error *error) {
    struct culm_weights_exported exported;
    enum culm_status status = culm_weights_to_file(path, out, &exported, error);
    if (status != CULM_OK) {
        return culm_status_exit_code(status);
    }
    if (exported.warning[0]) {
        fprintf(stderr, "culm ckpt: warning: %s; skipped\n", exported.warning);
    }
    printf("%s: %zu tensors, %" PRId64 " parameters of %s\n", out, exported.tensors,
           exported.parameters, exported.path);
    return 0;
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

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    enum { SHOW, DIFF, EXPORT, RESCUE };
    static const char *const actions[] = {"show", "diff", "export", "rescue", NULL};
    bool json = ((const struct values *)values)->json;
    const char *out = ((const struct values *)values)->out;
    const char *to = ((const struct values *)values)->to;
    const char *const *words = arguments->items;
    struct culm_error problem = {0};
    int action = culm_word_find(actions, words[0]);
    enum culm_status slip =
        culm_cli_only(out && action != EXPORT, "out", "culm ckpt export", error);
    slip = slip ? slip : culm_cli_only(to && action != RESCUE, "to", "culm ckpt rescue", error);
    if (slip != CULM_OK) {
        return slip;
    }
    switch (action) {
    case SHOW:
        if (arguments->count != 2) {
            return culm_error_set(error, CULM_ERR_ARGUMENT,
                                  "show takes one path; see 'culm ckpt --help'");
        }
        *ret_code = show(words[1], json, &problem);
        break;
    case DIFF:
        if (arguments->count != 3 || json) {
            return culm_error_set(error, CULM_ERR_ARGUMENT,
                                  "diff takes two paths and no option; see 'culm ckpt --help'");
        }
        *ret_code = diff(words[1], words[2], &problem);
        break;
    case EXPORT:
        if (arguments->count != 2 || json || !out) {
            return culm_error_set(error, CULM_ERR_ARGUMENT,
                                  "export takes one path and --out FILE; see 'culm ckpt --help'");
        }
        *ret_code = export_weights(words[1], out, &problem);
        break;
    case RESCUE:
        if (arguments->count != 2 || json || !to) {
            return culm_error_set(error, CULM_ERR_ARGUMENT,
                                  "rescue takes one run and --to PATH; see 'culm ckpt --help'");
        }
        *ret_code = rescue(words[1], to, &problem);
        break;
    default:
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "no such command: '%.60s'; see 'culm ckpt --help'", words[0]);
    }
    if (problem.text[0]) {
        fprintf(stderr, "culm ckpt %s: %s\n", words[0], problem.text);
    }
    return CULM_OK;
}

int culm_cli_ckpt(int argc, char **argv) {
    struct values values = {0};
    return culm_cli_run(&culm_usage_ckpt, argc, argv, &values, run);
}
