/* Finding labelled images: a folder of folders, or two IDX files. See source_images.c. */
#include "data/images_internal.h"

#include "base/file.h"
#include "data/pictures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHUFFLE_SEED 1

/* --- opening: folders --- */

static enum culm_status add_file(void *ctx, const char *path, int32_t label,
                                 struct culm_error *error) {
    struct culm_images *images = ctx;
    int32_t count = images->path.count;
    if (count == CULM_STRINGS_MAX) {
        return culm_error_set(error, CULM_ERR_CONFIG, "%s: too many files", images->name);
    }
    if (!(count & (count - 1))) { /* a power of two: full */
        int32_t *larger = realloc(images->label, (count ? 2 * (size_t)count : 1) * sizeof *larger);
        if (!larger) {
            return culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", images->name);
        }
        images->label = larger;
    }
    if (culm_strings_add(&images->path, path, strlen(path) + 1) < 0) { /* with its NUL */
        return culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", images->name);
    }
    images->label[count] = images->named ? -1 - label : label; /* until it is known by name */
    return CULM_OK;
}

/* The label of a folder by its name, for samples of it that have its number. */
static enum culm_status name_class(struct culm_images *images, const char *path, const char *name,
                                   int32_t number, struct culm_error *error) {
    const struct culm_strings *known = &images->source.class_name;
    int32_t label = culm_strings_find(known, name, strlen(name) + 1);
    size_t len;
    if (label < 0) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "images '%s': '%s' is not one of the %d classes that the model was "
                              "trained on ('%s', ...); rename the folder, or leave it out",
                              path, name, known->count, culm_strings_get(known, 0, &len));
    }
    for (int32_t i = images->path.count; i-- > 0 && images->label[i] == -1 - number;) {
        images->label[i] = label;
    }
    return CULM_OK;
}

/* Each class needs something: a folder that is a class by mistake would move the others. */
static enum culm_status end_class(void *ctx, const char *path, const char *name, int32_t label,
                                  struct culm_error *error) {
    struct culm_images *images = ctx;
    label = images->named ? -1 - label : label;
    if (!images->path.count || images->label[images->path.count - 1] != label) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "images '%s': has no JPEG, PNG or WebP file; each folder in '%.*s' "
                              "is a class and needs images",
                              path, (int)(strlen(path) - strlen(name) - 1), path);
    }
    if (images->named) {
        return name_class(images, path, name, -1 - label, error);
    }
    return culm_strings_add(&images->source.class_name, name, strlen(name) + 1) >= 0
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", images->name);
}

/* Names that were given before the folders are looked at. */
static enum culm_status take_names(struct culm_images *images,
                                   const struct culm_source_options *options,
                                   struct culm_error *error) {
    images->named = options->class_name_count > 0;
    for (size_t i = 0; i < options->class_name_count; i++) {
        const char *name = options->class_names[i];
        if (culm_strings_add(&images->source.class_name, name, strlen(name) + 1) < 0) {
            return culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", images->name);
        }
    }
    return CULM_OK;
}

static const char *path_of(const void *ctx, size_t index) {
    const struct culm_images *images = ctx;
    size_t len;
    return culm_strings_get(&images->path, (int32_t)index, &len);
}

static void leave_files_out(struct culm_images *images) {
    for (int32_t i = 0; images->leaving->skip && i < images->path.count; i++) {
        size_t entry = (size_t)culm_order_sample(&images->shuffle, (uint64_t)i);
        const struct culm_data_place place = {.file = path_of(images, entry)};
        if (culm_skip_has(images->leaving->skip, &place)) {
            leaving_add(images->leaving, i);
        }
    }
}

enum culm_status images_open_folders(struct culm_images *images,
                                     const struct culm_source_options *options,
                                     struct culm_error *error) {
    const char *root = options->paths[0];
    struct culm_pictures_walker walk = {.what = images->name,
                                        .trust_names = true,
                                        .classes = true,
                                        .found = add_file,
                                        .folder = end_class,
                                        .ctx = images};
    enum culm_status status = take_names(images, options, error);
    if (status == CULM_OK) {
        status = culm_pictures_walk(&walk, root, error);
    }
    int32_t classes = walk.folders;
    if (status != CULM_OK) {
        return status;
    }
    culm_pictures_left_text(&walk.left, "images", root, images->source.note);
    if (!classes) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "images '%s': has no folders; put the images of each class into a "
                              "folder of its own there",
                              root);
    }
    classes = images->source.class_name.count;
    if (options->classes && classes > options->classes) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "images '%s': has %d classes (folders), the model %lld; set "
                              "model.classes to %d",
                              root, classes, (long long)options->classes, classes);
    }
    status =
        culm_pins_folder(options->pins, root, (size_t)images->path.count, path_of, images, error);
    if (status != CULM_OK) {
        return status;
    }
    images->pins = options->pins;
    images->root = strdup(root);
    if (!images->root) {
        return culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", images->name);
    }
    culm_order_init(&images->shuffle, SHUFFLE_SEED, images->path.count);
    images->source.unseen = true;
    leave_files_out(images);
    return source_set_samples(&images->source, options, images->path.count, images->name, error);
}

/* --- opening: IDX --- */

static enum culm_status read_labels(struct culm_images *images, const char *path, int64_t classes,
                                    struct culm_pins *pins, struct culm_error *error) {
    struct culm_idx idx;
    int64_t count = images->pixels.dim[0];
    enum culm_status status = culm_idx_open(path, pins, &idx, error);
    if (status != CULM_OK) {
        return status;
    }
    if (idx.rank != 1) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "IDX file '%s': has %d dimensions, labels have 1; give the images "
                                "first, then the labels",
                                path, idx.rank);
    } else if (idx.dim[0] != count) {
        status =
            culm_error_set(error, CULM_ERR_CONFIG,
                           "IDX file '%s': has %lld labels for %lld images; give the two files "
                           "that belong together",
                           path, (long long)idx.dim[0], (long long)count);
    } else if (!(images->labels = malloc((size_t)count))) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "IDX file '%s': out of memory", path);
    } else {
        status = culm_idx_read(&idx, 0, count, images->labels, error);
    }
    culm_idx_release(&idx);
    for (int64_t i = 0; status == CULM_OK && classes && i < count; i++) {
        if (images->labels[i] >= classes) {
            const struct culm_data_place place = {path, CULM_DATA_INDEX, i};
            struct culm_error why;
            status = culm_error_set(&why, CULM_ERR_CONFIG,
                                    "IDX file '%s': label %lld is %d, the model has %lld classes; "
                                    "set model.classes",
                                    path, (long long)i, images->labels[i], (long long)classes);
            if (leaving_bad(images->leaving, &place, why.text)) {
                leaving_add(images->leaving, i);
                status = CULM_OK;
            } else {
                status = culm_error_set(error, why.status, "%s" CULM_SKIP_ADVICE, why.text);
            }
        }
    }
    return status;
}

static void leave_indexes_out(struct culm_images *images, const char *const *paths) {
    for (int64_t i = 0; images->leaving->skip && i < images->pixels.dim[0]; i++) {
        for (int file = 0; file < 2; file++) {
            const struct culm_data_place place = {paths[file], CULM_DATA_INDEX, i};
            if (culm_skip_has(images->leaving->skip, &place)) {
                leaving_add(images->leaving, i);
            }
        }
    }
}

enum culm_status images_open_idx(struct culm_images *images,
                                 const struct culm_source_options *options,
                                 struct culm_error *error) {
    if (options->path_count == 1 && access(options->paths[0], R_OK) != 0) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "images '%s': %s; give a folder of folders, or [images, labels]",
                              options->paths[0], strerror(errno));
    }
    if (options->path_count != 2) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "images '%s': %zu files; give a folder of folders, or two IDX files: "
                              "[images, labels]",
                              options->paths[0], options->path_count);
    }
    const struct culm_idx *idx = &images->pixels;
    enum culm_status status =
        culm_idx_open(options->paths[0], options->pins, &images->pixels, error);
    if (status != CULM_OK) {
        return status;
    }
    if (idx->rank < 3 || (idx->rank == 4 && idx->dim[3] != 1 && idx->dim[3] != 3)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "IDX file '%s': has %d dimensions%s; images are [count, height, "
                              "width] or [count, height, width, 1 or 3]",
                              options->paths[0], idx->rank,
                              idx->rank == 1 ? " (labels?)" : " or other channels");
    }
    if (idx->dim[1] > CULM_IMAGE_SIDE_MAX || idx->dim[2] > CULM_IMAGE_SIDE_MAX ||
        3 * idx->dim[1] * idx->dim[2] > CULM_IMAGE_BYTES_MAX) {
        return culm_error_set(error, CULM_ERR_CONFIG, "IDX file '%s': images of %lld x %lld pixels",
                              options->paths[0], (long long)idx->dim[2], (long long)idx->dim[1]);
    }
    status = read_labels(images, options->paths[1], options->classes, options->pins, error);
    if (status == CULM_OK && !(images->pixels_path = strdup(options->paths[0]))) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", images->name);
    }
    leave_indexes_out(images, options->paths);
    return status == CULM_OK
               ? source_set_samples(&images->source, options, idx->dim[0], images->name, error)
               : status;
}
