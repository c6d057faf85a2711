/*
 * `culm ckpt`: looks at checkpoints and compares them bit for bit.
 *
 * What it does not do: change anything. A checkpoint's hashes are verified before it is believed.
 */
#include "cli/ckpt.h"

#include "cli/command.h"

#include "base/json.h"
#include "base/words.h"
#include "run/tensors.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct values {
    bool json;
};

static const struct culm_option options[] = {
    CULM_OPTION("json", FLAG, NULL, struct values, json, "show: prints one JSON object"),
};

static const struct culm_usage usage = {
    .command = "ckpt",
    .arguments = "show PATH | diff A B",
    .min_arguments = 1,
    .max_arguments = 3,
    .summary = "Shows a checkpoint or compares two bit for bit",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .details =
        "A path is a checkpoint directory, a run directory (its newest whole checkpoint),\n"
        "or a .safetensors file.\n"
        "\n"
        "show prints step, hashes and tensors. diff compares weights bit for bit, and\n"
        "optimizer state and step where both have them: exit 0 when all is equal, 1 and the\n"
        "first difference otherwise. Exit 2: usage; 3: input that cannot be read.\n",
};

/* ---- show ---------------------------------------------------------------------------------- */

struct summary {
    char weights[CULM_SHA256_HEX], state[CULM_SHA256_HEX]; /* "" where there is none */
    int64_t parameters;
    size_t parameter_tensors, state_tensors;
};

static struct summary summarise(const struct culm_tensors *source) {
    struct summary summary = {0};
    for (size_t i = 0; i < source->count; i++) {
        if (culm_checkpoint_is_state(source->entry[i]->name)) {
            summary.state_tensors++;
        } else {
            summary.parameter_tensors++;
            summary.parameters += source->entry[i]->elements;
        }
    }
    /* Hashes are defined over F32; a file with other dtypes has none. */
    culm_tensors_hash(source->entry, source->count, false, 0, summary.weights, NULL);
    if (source->checkpoint) {
        culm_tensors_hash(source->entry, source->count, true,
                          culm_checkpoint_info(source->checkpoint)->step, summary.state, NULL);
    }
    return summary;
}

static json_t *pieces_json(const struct culm_checkpoint *checkpoint) {
    json_t *list = json_array();
    for (size_t i = 0; i < culm_checkpoint_piece_count(checkpoint); i++) {
        const struct culm_piece *piece = culm_checkpoint_piece(checkpoint, i);
        json_array_append_new(list, json_pack("{s:s, s:I, s:s, s:I}", "file", piece->file, "bytes",
                                              (json_int_t)piece->bytes, "sha256", piece->sha256,
                                              "tensors", (json_int_t)piece->tensors));
    }
    return list;
}

static void show_json(const struct culm_tensors *source, const struct summary *summary) {
    json_t *tensors = json_array();
    for (size_t i = 0; i < source->count; i++) {
        const struct culm_safetensors_entry *entry = source->entry[i];
        json_t *shape = json_array();
        for (int d = 0; d < entry->rank; d++) {
            json_array_append_new(shape, json_integer(entry->shape[d]));
        }
        json_array_append_new(tensors, json_pack("{s:s, s:s, s:o}", "name", entry->name, "dtype",
                                                 entry->dtype, "shape", shape));
    }
    json_t *root = json_pack("{s:o, s:s}", "path", culm_json_text(source->path), "kind",
                             source->checkpoint ? "checkpoint" : "safetensors");
    if (source->checkpoint) {
        const struct culm_checkpoint_info *info = culm_checkpoint_info(source->checkpoint);
        char seed[24];
        snprintf(seed, sizeof seed, "%" PRIu64, info->seed);
        json_t *more =
            json_pack("{s:I, s:I, s:s, s:s, s:s, s:o}", "step", (json_int_t)info->step, "samples",
                      (json_int_t)info->samples, "seed", seed, "signature", info->signature,
                      "config", info->config, "pieces", pieces_json(source->checkpoint));
        json_object_update(root, more);
        if (info->choices) {
            json_object_set(root, "choices", info->choices);
        }
        json_decref(more);
    }
    json_object_set_new(root, "weights_sha256",
                        summary->weights[0] ? json_string(summary->weights) : json_null());
    json_object_set_new(root, "state_sha256",
                        summary->state[0] ? json_string(summary->state) : json_null());
    json_object_set_new(root, "parameters", json_integer(summary->parameters));
    json_object_set_new(root, "tensors", tensors);
    culm_cli_print_json(root);
}

static void show_text(const struct culm_tensors *source, const struct summary *summary) {
    printf("%s %s\n", source->checkpoint ? "checkpoint" : "safetensors", source->path);
    if (source->checkpoint) {
        const struct culm_checkpoint_info *info = culm_checkpoint_info(source->checkpoint);
        printf("step           %" PRId64 "\n", info->step);
        printf("samples        %" PRIu64 "\n", info->samples);
        printf("seed           %" PRIu64 "\n", info->seed);
        printf("signature      %s\n", info->signature);
        printf("pieces         %zu\n", culm_checkpoint_piece_count(source->checkpoint));
    }
    printf("weights_sha256 %s\n", summary->weights[0] ? summary->weights : "- (not all F32)");
    if (source->checkpoint) {
        printf("state_sha256   %s\n", summary->state[0] ? summary->state : "- (not all F32)");
    }
    printf("parameters     %" PRId64 " in %zu tensors; %zu tensors of optimizer state\n",
           summary->parameters, summary->parameter_tensors, summary->state_tensors);
    for (size_t i = 0; i < source->count; i++) {
        char shape[CULM_SHAPE_TEXT_MAX];
        culm_shape_text(source->entry[i]->rank, source->entry[i]->shape, shape);
        printf("  %-48s %s %s\n", source->entry[i]->name, source->entry[i]->dtype, shape);
    }
}

/* NULL after it has filled *error. */
static struct culm_tensors *open_path(const char *path, struct culm_error *error) {
    struct culm_tensors *tensors = NULL;
    if (culm_tensors_open(path, true, &tensors, error) == CULM_OK && tensors->warning[0]) {
        fprintf(stderr, "culm ckpt: warning: %s; skipped\n", tensors->warning);
    }
    return tensors;
}

static int show(const char *path, bool as_json, struct culm_error *error) {
    struct culm_tensors *tensors = open_path(path, error);
    if (!tensors) {
        return culm_status_exit_code(error->status);
    }
    struct summary summary = summarise(tensors);
    (as_json ? show_json : show_text)(tensors, &summary);
    culm_tensors_free(tensors);
    return 0;
}

/* ---- diff ---------------------------------------------------------------------------------- */

static bool steps_differ(const struct culm_tensors *a, const struct culm_tensors *b) {
    if (!a->checkpoint || !b->checkpoint) {
        return false;
    }
    int64_t x = culm_checkpoint_info(a->checkpoint)->step;
    int64_t y = culm_checkpoint_info(b->checkpoint)->step;
    if (x != y) {
        printf("step is %" PRId64 " and %" PRId64 "\n", x, y);
    }
    return x != y;
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
    bool both_state = a->has_state && b->has_state;
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

/* ---- the command --------------------------------------------------------------------------- */

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    enum { SHOW, DIFF };
    static const char *const actions[] = {"show", "diff", NULL};
    bool json = ((const struct values *)values)->json;
    const char *const *words = arguments->items;
    struct culm_error problem = {0};
    switch (culm_word_find(actions, words[0])) {
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
    return culm_cli_run(&usage, argc, argv, &values, run);
}
