/*
 * `culm ckpt`: looks at checkpoints and compares them bit for bit.
 *
 * What it does not do: change anything. A checkpoint's hashes are verified before it is believed.
 */
#include "cli/ckpt.h"

#include "cli/command.h"

#include "base/json.h"
#include "base/words.h"
#include "store/checkpoint.h"

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

/* Whatever a path leads to, seen as tensors sorted by name. */
struct source {
    char path[CULM_PATH_MAX];           /* of the checkpoint or the file itself */
    struct culm_checkpoint *checkpoint; /* or NULL */
    struct culm_safetensors *file;      /* or NULL */
    const struct culm_safetensors_entry **entry;
    size_t count;
    bool has_state;
};

static void source_release(struct source *source) {
    culm_checkpoint_close(source->checkpoint);
    culm_safetensors_close(source->file);
    free(source->entry);
    *source = (struct source){0};
}

static enum culm_status open_directory(struct source *source, const char *path,
                                       struct culm_error *error) {
    char inside[CULM_PATH_MAX], warning[CULM_ERROR_MAX] = "";
    int64_t step;
    enum culm_status status = culm_path_format(inside, error, "%s/manifest.json", path);
    if (status != CULM_OK) {
        return status;
    }
    if (culm_file_is_regular(inside)) {
        status = culm_path_format(source->path, error, "%s", path);
    } else {
        status = culm_path_format(inside, error, "%s/checkpoints", path);
        if (status == CULM_OK && !culm_file_is_directory(inside)) {
            status = culm_error_set(error, CULM_ERR_FORMAT,
                                    "'%s': is no checkpoint (no manifest.json) and no run (no "
                                    "checkpoints/)",
                                    path);
        }
        if (status == CULM_OK) {
            status = culm_checkpoint_latest(path, true, &step, source->path, warning, error);
        }
        if (status == CULM_OK && warning[0]) {
            fprintf(stderr, "culm ckpt: warning: %s; skipped\n", warning);
        }
    }
    return status == CULM_OK ? culm_checkpoint_open(source->path, true, &source->checkpoint, error)
                             : status;
}

static enum culm_status source_open(const char *path, struct source *ret_source,
                                    struct culm_error *error) {
    struct source source = {0};
    enum culm_status status;
    if (culm_file_is_directory(path)) {
        status = open_directory(&source, path, error);
    } else {
        status = culm_path_format(source.path, error, "%s", path);
        if (status == CULM_OK) {
            status = culm_safetensors_open(path, &source.file, error);
        }
    }
    if (status != CULM_OK) {
        goto fail;
    }
    source.count = source.checkpoint ? culm_checkpoint_count(source.checkpoint)
                                     : culm_safetensors_count(source.file);
    source.entry = calloc(source.count + 1, sizeof *source.entry);
    if (!source.entry) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", path);
        goto fail;
    }
    for (size_t i = 0; i < source.count; i++) {
        source.entry[i] = source.checkpoint ? culm_checkpoint_at(source.checkpoint, i)
                                            : culm_safetensors_at(source.file, i);
        source.has_state = source.has_state || culm_checkpoint_is_state(source.entry[i]->name);
    }
    *ret_source = source;
    return CULM_OK;
fail:
    source_release(&source);
    return status;
}

/* ---- show ---------------------------------------------------------------------------------- */

struct summary {
    char weights[CULM_SHA256_HEX], state[CULM_SHA256_HEX]; /* "" where there is none */
    int64_t parameters;
    size_t parameter_tensors, state_tensors;
};

static struct summary summarise(const struct source *source) {
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

static void show_json(const struct source *source, const struct summary *summary) {
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

static void show_text(const struct source *source, const struct summary *summary) {
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

static int show(const char *path, bool as_json, struct culm_error *error) {
    struct source source;
    enum culm_status status = source_open(path, &source, error);
    if (status != CULM_OK) {
        return culm_status_exit_code(status);
    }
    struct summary summary = summarise(&source);
    if (as_json) {
        show_json(&source, &summary);
    } else {
        show_text(&source, &summary);
    }
    source_release(&source);
    return culm_status_exit_code(status);
}

/* ---- diff ---------------------------------------------------------------------------------- */

/* "[3, 17]" of a flat index. */
static void index_text(const struct culm_safetensors_entry *entry, int64_t flat,
                       char ret_text[CULM_SHAPE_TEXT_MAX]) {
    int64_t index[CULM_SAFETENSORS_RANK_MAX] = {0};
    for (int d = entry->rank - 1; d >= 0; d--) {
        index[d] = flat % entry->shape[d];
        flat /= entry->shape[d];
    }
    culm_shape_text(entry->rank, index, ret_text);
}

/* Both have one dtype and shape, and differ somewhere. */
static void print_element(const struct culm_safetensors_entry *a, const uint8_t *x,
                          const uint8_t *y) {
    size_t size = (size_t)(a->bytes / (uint64_t)a->elements), at = 0, different = 0;
    int64_t first = -1;
    for (int64_t i = 0; i < a->elements; i++, at += size) {
        if (memcmp(x + at, y + at, size) != 0) {
            first = first < 0 ? i : first;
            different++;
        }
    }
    char where[CULM_SHAPE_TEXT_MAX];
    index_text(a, first, where);
    x += (size_t)first * size;
    y += (size_t)first * size;
    printf("tensor '%s' differs at %s (element %" PRId64 "): ", a->name, where, first);
    if (culm_safetensors_is_f32(a)) {
        float values[2];
        uint32_t bits[2];
        memcpy(&values[0], x, 4);
        memcpy(&values[1], y, 4);
        memcpy(&bits[0], x, 4);
        memcpy(&bits[1], y, 4);
        printf("%.9g (0x%08" PRIx32 ") and %.9g (0x%08" PRIx32 ")", (double)values[0], bits[0],
               (double)values[1], bits[1]);
    } else {
        uint64_t bits[2] = {0, 0};
        memcpy(&bits[0], x, size);
        memcpy(&bits[1], y, size);
        printf("%s 0x%0*" PRIx64 " and 0x%0*" PRIx64, a->dtype, (int)(2 * size), bits[0],
               (int)(2 * size), bits[1]);
    }
    printf("; %zu of %" PRId64 " elements differ\n", different, a->elements);
}

/* NULL: it cannot be read, or no memory; *error says which. */
static uint8_t *bytes_of(const struct culm_safetensors_entry *entry, struct culm_error *error) {
    uint8_t *bytes = malloc(entry->bytes + 1);
    if (!bytes) {
        culm_error_set(error, CULM_ERR_MEMORY, "tensor '%s': out of memory", entry->name);
    } else if (culm_safetensors_load(entry, 0, bytes, entry->bytes, error) != CULM_OK) {
        free(bytes);
        return NULL;
    }
    return bytes;
}

/* True, and printed, when the two differ; also when that cannot be found out: see *error. */
static bool print_difference(const struct culm_safetensors_entry *a,
                             const struct culm_safetensors_entry *b, struct culm_error *error) {
    bool same_form = strcmp(a->dtype, b->dtype) == 0 && a->rank == b->rank &&
                     memcmp(a->shape, b->shape, sizeof a->shape) == 0;
    if (!same_form) {
        char x[CULM_SHAPE_TEXT_MAX], y[CULM_SHAPE_TEXT_MAX];
        culm_shape_text(a->rank, a->shape, x);
        culm_shape_text(b->rank, b->shape, y);
        printf("tensor '%s' is %s %s and %s %s\n", a->name, a->dtype, x, b->dtype, y);
        return true;
    }
    uint8_t *x = bytes_of(a, error), *y = x ? bytes_of(b, error) : NULL;
    bool different = !x || !y || memcmp(x, y, a->bytes) != 0;
    if (x && y && different) {
        print_element(a, x, y);
    }
    free(x);
    free(y);
    return different;
}

static size_t skip_to(const struct source *source, size_t at, bool state) {
    while (at < source->count && culm_checkpoint_is_state(source->entry[at]->name) != state) {
        at++;
    }
    return at;
}

/* Walks both in order of names; prints the first difference. *compared counts equal tensors. */
static bool differs(const struct source *a, const struct source *b, bool state, size_t *compared,
                    struct culm_error *error) {
    size_t i = skip_to(a, 0, state), j = skip_to(b, 0, state);
    while (i < a->count || j < b->count) {
        int order = i == a->count   ? 1
                    : j == b->count ? -1
                                    : strcmp(a->entry[i]->name, b->entry[j]->name);
        if (order != 0) {
            printf("tensor '%s' is only in '%s'\n",
                   order < 0 ? a->entry[i]->name : b->entry[j]->name,
                   order < 0 ? a->path : b->path);
            return true;
        }
        if (print_difference(a->entry[i], b->entry[j], error)) {
            return true;
        }
        (*compared)++;
        i = skip_to(a, i + 1, state);
        j = skip_to(b, j + 1, state);
    }
    return false;
}

static bool steps_differ(const struct source *a, const struct source *b) {
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
    struct source a, b;
    size_t weights = 0, state = 0;
    enum culm_status status = source_open(path_a, &a, error);
    if (status != CULM_OK) {
        return culm_status_exit_code(status);
    }
    status = source_open(path_b, &b, error);
    if (status != CULM_OK) {
        source_release(&a);
        return culm_status_exit_code(status);
    }
    bool both_state = a.has_state && b.has_state;
    bool different =
        steps_differ(&a, &b); /* and the first tensor too: that is what is looked for */
    if (differs(&a, &b, false, &weights, error) ||
        (both_state && differs(&a, &b, true, &state, error))) {
        different = true;
    }
    if (!different && both_state) {
        printf("bit-equal: %zu weight tensors, %zu tensors of optimizer state\n", weights, state);
    } else if (!different) {
        printf("bit-equal: %zu weight tensors; optimizer state is not in both\n", weights);
    }
    source_release(&a);
    source_release(&b);
    return error->text[0] ? culm_status_exit_code(error->status) : different ? 1 : 0;
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
