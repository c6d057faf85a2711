/* Finding and reading weights. See weights.h. */
#include "store/weights_internal.h"

#include "base/finite.h"
#include "base/pins.h"
#include "store/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INDEX_END ".safetensors.index.json"
#define INDEX_MAX_BYTES ((size_t)64 << 20)
#define NAME_MAX_BYTES 512

static enum culm_status no_memory(const char *path, struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", path);
}

static bool ends_with(const char *text, const char *end) {
    size_t len = strlen(text), tail = strlen(end);
    return len > tail && strcmp(text + len - tail, end) == 0;
}

static bool is_in(const char *folder, const char *name, char ret_path[CULM_PATH_MAX]) {
    return culm_path_format(ret_path, NULL, "%s/%s", folder, name) == CULM_OK &&
           culm_file_is_regular(ret_path);
}

/* --- where they are --- */

bool culm_weights_is_checkpoint(const char *path) {
    char inside[CULM_PATH_MAX];
    return is_in(path, "manifest.json", inside);
}

bool culm_weights_is_run(const char *path) {
    char inside[CULM_PATH_MAX];
    return is_in(path, "config.yaml", inside) ||
           (culm_path_format(inside, NULL, "%s/checkpoints", path) == CULM_OK &&
            culm_file_is_directory(inside));
}

/* The checkpoint of the run that is pinned. */
static enum culm_status locate_pinned(const char *run, const struct culm_pins *pins,
                                      struct culm_weights_place *place, struct culm_error *error) {
    char folder[CULM_PATH_MAX], manifest[CULM_PATH_MAX];
    struct culm_names names = {0};
    enum culm_status status = culm_path_format(folder, error, "%s/checkpoints", run);
    if (status == CULM_OK) {
        status = culm_dir_list(folder, &names, error);
    }
    bool found = false;
    for (size_t i = 0; i < names.count && status == CULM_OK && !found; i++) {
        status = culm_path_format(place->path, error, "%s/%s", folder, names.name[i]);
        if (status == CULM_OK) {
            status = culm_path_format(manifest, error, "%s/manifest.json", place->path);
        }
        found = status == CULM_OK && !culm_pins_exclude(pins, manifest);
    }
    culm_names_release(&names);
    if (status == CULM_OK && !found) {
        status = culm_error_set(error, CULM_ERR_CHANGED,
                                "'%s' no longer has the checkpoint that it had when this run "
                                "began; put it back",
                                run);
    }
    return status;
}

static enum culm_status locate_run(const char *run, const struct culm_pins *pins,
                                   struct culm_weights_place *place, struct culm_error *error) {
    int64_t step;
    place->kind = CULM_WEIGHTS_FILE;
    if (is_in(run, "model.safetensors", place->path) && !culm_pins_exclude(pins, place->path)) {
        return CULM_OK;
    }
    place->kind = CULM_WEIGHTS_CHECKPOINT;
    place->newest = true;
    if (culm_pins_exclude(pins, place->path)) { /* sealed, and it was not the model */
        return locate_pinned(run, pins, place, error);
    }
    enum culm_status status =
        culm_checkpoint_latest(run, true, &step, place->path, place->warning, error);
    if (culm_checkpoint_latest_weights(run, status == CULM_OK ? step : -1, place->path) &&
        status == CULM_ERR_NOT_FOUND) {
        culm_error_clear(error);
        status = CULM_OK;
    }
    return status == CULM_ERR_NOT_FOUND
               ? culm_error_set(error, CULM_ERR_CONFIG,
                                "'%s' is a run that has neither a model.safetensors nor a "
                                "checkpoint yet; name it when it has one",
                                run)
               : status;
}

/* The files of a folder that end so: how many, and the first two. */
static size_t count_files(const struct culm_names *names, const char *end, const char *found[2]) {
    size_t count = 0;
    for (size_t i = 0; i < names->count; i++) {
        if (names->name[i][0] != '.' && ends_with(names->name[i], end)) {
            if (count < 2) {
                found[count] = names->name[i];
            }
            count++;
        }
    }
    return count;
}

/* NAME-00003-of-00009.safetensors: 3 and 9, and the length of NAME. */
static bool is_shard(const char *name, size_t *ret_stem, long *ret_number, long *ret_count) {
    const char *of = NULL;
    for (const char *at = name; (at = strstr(at, "-of-")); at++) {
        of = at;
    }
    const char *number = of;
    char *end;
    while (number > name && number[-1] >= '0' && number[-1] <= '9') {
        number--;
    }
    if (!of || number == of || number == name || number[-1] != '-') {
        return false;
    }
    *ret_stem = (size_t)(number - 1 - name);
    *ret_number = strtol(number, NULL, 10);
    *ret_count = strtol(of + 4, &end, 10);
    return end > of + 4 && strcmp(end, ".safetensors") == 0 && *ret_number >= 1 &&
           *ret_number <= *ret_count && *ret_count < 100000;
}

/* All *.safetensors are the shards of one model, and none is missing. */
static enum culm_status check_shards(const char *folder, const struct culm_names *names,
                                     const char *const found[2], struct culm_error *error) {
    size_t stem = 0, first_stem = 0;
    long number = 0, count = 0, first_count = 0, seen = 0;
    const char *first = NULL;
    for (size_t i = 0; i < names->count; i++) {
        const char *name = names->name[i];
        if (name[0] == '.' || !ends_with(name, ".safetensors")) {
            continue;
        }
        if (!is_shard(name, &stem, &number, &count) ||
            (first &&
             (count != first_count || stem != first_stem || strncmp(name, first, stem) != 0))) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "'%.200s' has several files of weights, such as '%.80s' and "
                                  "'%.80s'; name one of them, or their index",
                                  folder, found[0], found[1]);
        }
        if (!first) {
            first = name;
            first_count = count;
            first_stem = stem;
        }
        seen++;
        if (number != seen) { /* sorted by name, which have as many digits */
            break;
        }
    }
    return seen == first_count && number == first_count
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_CONFIG,
                                "'%.200s': shard %ld of %ld is missing beside '%.100s'; copy it, "
                                "too",
                                folder, number == seen ? seen + 1 : seen, first_count, first);
}

/* One shard of several, which alone is a part of a model. */
static bool is_part(const char *path) {
    const char *slash = strrchr(path, '/');
    size_t stem;
    long number, count = 0;
    return is_shard(slash ? slash + 1 : path, &stem, &number, &count) && count > 1;
}

static enum culm_status locate_folder(const char *folder, struct culm_weights_place *place,
                                      struct culm_error *error) {
    const char *index[2] = {NULL}, *file[2] = {NULL};
    struct culm_names names = {0};
    if (is_in(folder, "model.safetensors", place->path)) {
        place->kind = CULM_WEIGHTS_FILE;
        return CULM_OK;
    }
    enum culm_status status = culm_dir_list(folder, &names, error);
    if (status != CULM_OK) {
        return status;
    }
    size_t indices = count_files(&names, INDEX_END, index);
    size_t files = count_files(&names, ".safetensors", file);
    place->kind = indices || files > 1 ? CULM_WEIGHTS_SHARDS : CULM_WEIGHTS_FILE;
    if (indices > 1) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "'%.200s' has several indices of weights, such as '%.80s' and "
                                "'%.80s'; name one of them",
                                folder, index[0], index[1]);
    } else if (indices == 1) {
        status = culm_path_format(place->path, error, "%s/%s", folder, index[0]);
    } else if (files == 1 && !is_part(file[0])) {
        status = culm_path_format(place->path, error, "%s/%s", folder, file[0]);
    } else if (files > 0) {
        status = check_shards(folder, &names, file, error);
        if (status == CULM_OK) {
            status = culm_path_format(place->path, error, "%s", folder);
        }
    } else {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "'%.300s' is a folder without weights: it has no *.safetensors, no "
                                "index of shards, and is neither a checkpoint nor a run",
                                folder);
    }
    culm_names_release(&names);
    return status;
}

enum culm_status culm_weights_locate(const char *path, const struct culm_pins *pins,
                                     struct culm_weights_place *ret_place,
                                     struct culm_error *error) {
    struct culm_weights_place place = {0};
    enum culm_status status;
    if (is_part(path) && culm_file_is_regular(path)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%.300s' is one shard of several; name the folder that has all, or "
                              "their index",
                              path);
    }
    if (!culm_file_is_directory(path)) {
        place.kind = ends_with(path, ".index.json") ? CULM_WEIGHTS_SHARDS : CULM_WEIGHTS_FILE;
        status = culm_path_format(place.path, error, "%s", path);
    } else if (culm_weights_is_checkpoint(path)) {
        place.kind = CULM_WEIGHTS_CHECKPOINT;
        status = culm_path_format(place.path, error, "%s", path);
    } else if (culm_weights_is_run(path)) {
        status = locate_run(path, pins, &place, error);
    } else {
        status = locate_folder(path, &place, error);
    }
    if (status == CULM_OK) {
        *ret_place = place;
    }
    return status;
}

/* --- opening --- */

static enum culm_status open_one(struct culm_weights *weights, const char *path,
                                 struct culm_pins *pins, struct culm_error *error) {
    struct culm_safetensors **grown =
        realloc(weights->file, (weights->files + 1) * sizeof(weights->file[0]));
    if (!grown) {
        return no_memory(path, error);
    }
    weights->file = grown;
    enum culm_status status =
        culm_safetensors_open_pinned(path, pins, &weights->file[weights->files], error);
    weights->files += status == CULM_OK;
    return status;
}

static enum culm_status open_folder(struct culm_weights *weights, struct culm_pins *pins,
                                    struct culm_error *error) {
    const char *folder = weights->where.path;
    struct culm_names names = {0};
    enum culm_status status = culm_dir_list(folder, &names, error);
    for (size_t i = 0; i < names.count && status == CULM_OK; i++) {
        char path[CULM_PATH_MAX];
        if (names.name[i][0] != '.' && ends_with(names.name[i], ".safetensors") &&
            !(status = culm_path_format(path, error, "%s/%s", folder, names.name[i]))) {
            status = open_one(weights, path, pins, error);
        }
    }
    culm_names_release(&names);
    return status;
}

static enum culm_status read_index(const char *path, struct culm_pins *pins, json_t **ret_index,
                                   struct culm_error *error) {
    char *text = NULL;
    size_t len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    enum culm_status status = fd < 0 ? CULM_OK : culm_pins_file(pins, path, fd, error);
    if (fd >= 0) {
        close(fd);
    }
    if (status == CULM_OK) { /* which says why it cannot be opened */
        status = culm_file_read(NULL, path, INDEX_MAX_BYTES, &text, &len, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    json_t *index = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    free(text);
    if (!json_is_object(json_object_get(index, "weight_map")) ||
        json_object_size(json_object_get(index, "weight_map")) == 0) {
        json_decref(index);
        return culm_error_set(
            error, CULM_ERR_FORMAT,
            "'%s' is not an index of shards: it has no \"weight_map\" from names to files", path);
    }
    *ret_index = index;
    return CULM_OK;
}

/* The file that the index gives for a tensor has it. Files are opened once: `opened` has the place
 * of each. */
static enum culm_status open_listed(struct culm_weights *weights, json_t *opened, const char *name,
                                    const char *file, struct culm_pins *pins,
                                    struct culm_error *error) {
    char folder[CULM_PATH_MAX], path[CULM_PATH_MAX];
    const char *index = weights->where.path;
    enum culm_status status = CULM_OK;
    if (!file || !file[0] || strchr(file, '/') || file[0] == '.') {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "'%.200s': tensor '%.100s' is in no file beside the index", index,
                              name);
    }
    json_t *at = json_object_get(opened, file);
    size_t place = at ? (size_t)json_integer_value(at) : weights->files;
    if (!at) {
        if ((status = culm_path_parent(index, folder, error)) ||
            (status = culm_path_format(path, error, "%s/%s", folder, file)) ||
            (status = open_one(weights, path, pins, error))) {
            culm_error_prefix(error, "'%.160s' lists '%.80s'", index, file);
            return status == CULM_ERR_NOT_FOUND
                       ? (error ? error->status = CULM_ERR_CONFIG : CULM_ERR_CONFIG)
                       : status;
        }
        json_object_set_new(opened, file, json_integer((json_int_t)place));
    }
    return culm_safetensors_find(weights->file[place], name)
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_FORMAT,
                                "'%.200s': '%.80s' does not have the tensor '%.100s' that the "
                                "index gives it; copy the shards again",
                                index, file, name);
}

static enum culm_status open_index(struct culm_weights *weights, struct culm_pins *pins,
                                   struct culm_error *error) {
    json_t *index = NULL, *opened = json_object(), *file;
    const char *name;
    enum culm_status status = opened ? read_index(weights->where.path, pins, &index, error)
                                     : no_memory(weights->where.path, error);
    json_object_foreach(json_object_get(index, "weight_map"), name, file) {
        if (status == CULM_OK) {
            status = open_listed(weights, opened, name, json_string_value(file), pins, error);
        }
    }
    json_decref(opened);
    json_decref(index);
    return status;
}

static int by_name(const void *a, const void *b) {
    const struct culm_safetensors_entry *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* What all names begin with, up to the last '.' of that; not the whole of any name. A part with a
 * digit is none of it: that numbers a layer, and all of a file may be one layer. */
static size_t front_of(const struct culm_weights *weights) {
    if (weights->count == 0) {
        return 0;
    }
    const char *first = weights->entry[0]->name, *last = weights->entry[weights->count - 1]->name;
    size_t same = 0, front = 0;
    for (; first[same] && first[same] == last[same]; same++) {
        if (first[same] >= '0' && first[same] <= '9') {
            break;
        }
        front = first[same] == '.' ? same + 1 : front; /* sorted: those between have it too */
    }
    return front;
}

static enum culm_status list(struct culm_weights *weights, struct culm_error *error) {
    size_t most = weights->checkpoint ? culm_checkpoint_count(weights->checkpoint) : 0;
    for (size_t f = 0; f < weights->files; f++) {
        most += culm_safetensors_count(weights->file[f]);
    }
    weights->entry = calloc(most + 1, sizeof(weights->entry[0]));
    if (!weights->entry) {
        return no_memory(weights->where.path, error);
    }
    for (size_t i = 0; weights->checkpoint && i < most; i++) {
        const struct culm_safetensors_entry *entry = culm_checkpoint_at(weights->checkpoint, i);
        if (!culm_checkpoint_is_state(entry->name)) {
            weights->entry[weights->count++] = entry;
        }
    }
    for (size_t f = 0; f < weights->files; f++) {
        for (size_t i = 0; i < culm_safetensors_count(weights->file[f]); i++) {
            weights->entry[weights->count++] = culm_safetensors_at(weights->file[f], i);
        }
    }
    qsort(weights->entry, weights->count, sizeof(weights->entry[0]), by_name);
    for (size_t i = 1; i < weights->count; i++) {
        if (strcmp(weights->entry[i - 1]->name, weights->entry[i]->name) == 0) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "'%.200s': tensor '%.100s' is in two of the files; name one of "
                                  "them, or the index that says which counts",
                                  weights->where.path, weights->entry[i]->name);
        }
    }
    weights->front = front_of(weights);
    return CULM_OK;
}

static enum culm_status open_place(struct culm_weights *weights, bool compare,
                                   struct culm_pins *pins, struct culm_error *error) {
    const char *path = weights->where.path;
    switch (weights->where.kind) {
    case CULM_WEIGHTS_CHECKPOINT:
        return culm_checkpoint_open_pinned(path, compare, pins, &weights->checkpoint, error);
    case CULM_WEIGHTS_SHARDS:
        return culm_file_is_directory(path) ? open_folder(weights, pins, error)
                                            : open_index(weights, pins, error);
    default: return open_one(weights, path, pins, error);
    }
}

static enum culm_status open_weights(const char *path, bool compare, struct culm_pins *pins,
                                     struct culm_weights **ret_weights, struct culm_error *error) {
    struct culm_weights *weights = calloc(1, sizeof *weights);
    if (!weights) {
        return no_memory(path, error);
    }
    enum culm_status status = culm_weights_locate(path, pins, &weights->where, error);
    if (status == CULM_OK) {
        status = open_place(weights, compare, pins, error);
    }
    if (status == CULM_OK) {
        status = list(weights, error);
    }
    if (status != CULM_OK) {
        culm_weights_close(weights);
        return status;
    }
    *ret_weights = weights;
    return CULM_OK;
}

enum culm_status culm_weights_open(const char *path, struct culm_pins *pins,
                                   struct culm_weights **ret_weights, struct culm_error *error) {
    /* Where pins are sealed, the launcher, whose they are, has compared it. */
    return open_weights(path, !culm_pins_sealed(pins), pins, ret_weights, error);
}

enum culm_status culm_weights_open_compared(const char *path, struct culm_weights **ret_weights,
                                            struct culm_error *error) {
    return open_weights(path, false, NULL, ret_weights, error);
}

void culm_weights_close(struct culm_weights *weights) {
    if (!weights) {
        return;
    }
    for (size_t i = 0; i < weights->files; i++) {
        culm_safetensors_close(weights->file[i]);
    }
    culm_checkpoint_close(weights->checkpoint);
    free(weights->file);
    free(weights->entry);
    free(weights);
}

/* --- looking --- */

const struct culm_weights_place *culm_weights_where(const struct culm_weights *weights) {
    return &weights->where;
}

const struct culm_checkpoint_info *culm_weights_info(const struct culm_weights *weights) {
    return weights->checkpoint ? culm_checkpoint_info_of(weights->checkpoint) : NULL;
}

size_t culm_weights_count(const struct culm_weights *weights) { return weights->count; }

const struct culm_safetensors_entry *culm_weights_at(const struct culm_weights *weights,
                                                     size_t index) {
    return weights->entry[index];
}

int64_t weights_index(const struct culm_weights *weights,
                      const struct culm_safetensors_entry *entry) {
    const struct culm_safetensors_entry **at =
        bsearch(&entry, weights->entry, weights->count, sizeof(weights->entry[0]), by_name);
    return at ? at - weights->entry : -1;
}

/* The name FRONT + FIRST + name, exactly so. */
static const struct culm_safetensors_entry *
find_exact(const struct culm_weights *weights, size_t front, const char *first, const char *name) {
    char whole[NAME_MAX_BYTES];
    const struct culm_safetensors_entry wanted = {.name = whole};
    if (weights->count == 0 ||
        (size_t)snprintf(whole, sizeof whole, "%.*s%s%s", (int)front, weights->entry[0]->name,
                         first, name) >= sizeof whole) {
        return NULL;
    }
    int64_t index = weights_index(weights, &wanted);
    return index < 0 ? NULL : weights->entry[index];
}

/* The same, or LayerNorm.weight as LayerNorm.gamma and .bias as .beta. */
static const struct culm_safetensors_entry *find_spelled(const struct culm_weights *weights,
                                                         size_t front, const char *first,
                                                         const char *name) {
    static const char *const spelled[][2] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                             {"LayerNorm.bias", "LayerNorm.beta"}};
    const struct culm_safetensors_entry *entry = find_exact(weights, front, first, name);
    for (size_t i = 0; i < sizeof spelled / sizeof *spelled && !entry; i++) {
        size_t len = strlen(name), end = strlen(spelled[i][0]);
        char other[NAME_MAX_BYTES];
        if (len >= end && strcmp(name + len - end, spelled[i][0]) == 0 &&
            (size_t)snprintf(other, sizeof other, "%.*s%s", (int)(len - end), name, spelled[i][1]) <
                sizeof other) {
            entry = find_exact(weights, front, first, other);
        }
    }
    return entry;
}

/* With or without the first part that published models have. */
static const struct culm_safetensors_entry *find_behind(const struct culm_weights *weights,
                                                        size_t front, const char *name) {
    static const char *const firsts[] = {"transformer.", "bert."};
    const struct culm_safetensors_entry *entry = find_spelled(weights, front, "", name);
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts && !entry; i++) {
        size_t len = strlen(firsts[i]);
        entry = strncmp(name, firsts[i], len) == 0 ? find_spelled(weights, front, "", name + len)
                                                   : find_spelled(weights, front, firsts[i], name);
    }
    return entry;
}

const struct culm_safetensors_entry *culm_weights_find(const struct culm_weights *weights,
                                                       const char *name) {
    const struct culm_safetensors_entry *entry = find_behind(weights, 0, name);
    for (size_t front = 1; front <= weights->front && !entry; front++) {
        if (weights->entry[0]->name[front - 1] == '.') {
            entry = find_behind(weights, front, name);
        }
    }
    return entry;
}

/* --- reading --- */

static enum culm_status check_part(const struct culm_weights *weights,
                                   const struct culm_safetensors_entry *entry, int64_t at,
                                   const float *data, int64_t count, struct culm_error *error) {
    int64_t other = culm_finite_find_other(data, count);
    if (other < 0) {
        return CULM_OK;
    }
    return culm_error_set(error, CULM_ERR_CONFIG,
                          "'%.200s': tensor '%.120s' is not finite: element %lld of %lld is %s%s; "
                          "name weights without such numbers",
                          weights->where.path, entry->name, (long long)(at + other),
                          (long long)entry->elements, culm_finite_other_name(data[other]),
                          strcmp(entry->dtype, "F64") == 0 ? " as float32" : "");
}

enum culm_status culm_weights_read(const struct culm_weights *weights, const char *name, int rank,
                                   const int64_t *shape, float *ret_data,
                                   struct culm_error *error) {
    const struct culm_safetensors_entry *entry = culm_weights_find(weights, name);
    if (!entry) {
        return culm_error_set(error, CULM_ERR_NOT_FOUND, "'%s': has no tensor '%s'",
                              weights->where.path, name);
    }
    if (culm_safetensors_is_real(entry) && !culm_safetensors_fits(entry, rank, shape)) {
        char has[CULM_SHAPE_TEXT_MAX], wanted[CULM_SHAPE_TEXT_MAX];
        culm_shape_text(entry->rank, entry->shape, has);
        culm_shape_text(rank, shape, wanted);
        return culm_error_set(error, CULM_ERR_FORMAT, "'%s': tensor '%s' is %s %s, not F32 %s",
                              weights->where.path, entry->name, entry->dtype, has, wanted);
    }
    enum culm_status status = culm_safetensors_floats(entry, 0, entry->elements, ret_data, error);
    return status == CULM_OK ? check_part(weights, entry, 0, ret_data, entry->elements, error)
                             : status;
}

#define PART_ELEMENTS ((int64_t)1 << 18)

enum culm_status culm_weights_check_finite(const struct culm_weights *weights,
                                           struct culm_error *error) {
    float *part = malloc((size_t)PART_ELEMENTS * sizeof *part);
    enum culm_status status = part ? CULM_OK : no_memory(weights->where.path, error);
    for (size_t i = 0; i < weights->count && status == CULM_OK; i++) {
        const struct culm_safetensors_entry *entry = weights->entry[i];
        int64_t end = culm_safetensors_is_real(entry) ? entry->elements : 0;
        for (int64_t at = 0; at < end && status == CULM_OK; at += PART_ELEMENTS) {
            int64_t count = end - at < PART_ELEMENTS ? end - at : PART_ELEMENTS;
            status = culm_safetensors_floats(entry, at, count, part, error);
            if (status == CULM_OK) {
                status = check_part(weights, entry, at, part, count, error);
            }
        }
    }
    free(part);
    return status;
}

/* --- as one file --- */

static enum culm_status write_file(struct culm_fs *fs, const char *path,
                                   const struct culm_tensor_ref *tensors, size_t count,
                                   const struct culm_metadata *metadata, size_t metadata_count,
                                   struct culm_error *error) {
    char temporary[CULM_PATH_MAX];
    struct culm_file own;
    struct culm_written written;
    enum culm_status status = culm_file_create_beside(fs, path, &own, error);
    if (status != CULM_OK) {
        return status;
    }
    memcpy(temporary, own.path, sizeof temporary);
    if ((status = culm_file_finish(&own, error)) ||
        (status = culm_safetensors_write(fs, temporary, tensors, count, metadata, metadata_count,
                                         NULL, &written, error)) ||
        (status = culm_file_rename(fs, temporary, path, error))) {
        culm_file_remove(fs, temporary, NULL);
    }
    return status;
}

enum culm_status culm_weights_export(struct culm_fs *fs, const struct culm_weights *weights,
                                     const char *path, const struct culm_metadata *metadata,
                                     size_t metadata_count, struct culm_error *error) {
    struct culm_tensor_ref *tensors = calloc(weights->count + 1, sizeof *tensors);
    enum culm_status status = tensors ? CULM_OK : no_memory(path, error);
    for (size_t i = 0; i < weights->count && status == CULM_OK; i++) {
        const struct culm_safetensors_entry *entry = weights->entry[i];
        if (!culm_safetensors_is_real(entry) || entry->rank > 4) {
            status = culm_error_set(error, CULM_ERR_FORMAT,
                                    "'%s': tensor '%s' is not F32, F16, BF16 or F64 of up to 4 "
                                    "dimensions",
                                    weights->where.path, entry->name);
            break;
        }
        tensors[i] =
            (struct culm_tensor_ref){.name = entry->name, .rank = entry->rank, .from = entry};
        memcpy(tensors[i].shape, entry->shape, sizeof tensors[i].shape);
    }
    if (status == CULM_OK) {
        status = write_file(fs, path, tensors, weights->count, metadata, metadata_count, error);
    }
    free(tensors);
    return status;
}
