/* Finding labelled images: a folder of folders, or two IDX files. See source_images.c. */
#include "data/images_internal.h"

#include "base/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define DEPTH_MAX 8
#define CLASSES_MAX 1000000
#define SHUFFLE_SEED 1

/* --- opening: folders --- */

static bool is_image_name(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot &&
           (!strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg") || !strcasecmp(dot, ".png"));
}

static enum culm_status add_file(struct culm_images *images, const char *path, int32_t label,
                                 struct culm_error *error) {
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
    images->label[count] = label;
    return CULM_OK;
}

static enum culm_status add_folder(struct culm_images *images, const char *folder, int32_t label,
                                   int depth, struct culm_error *error) {
    struct culm_names names;
    enum culm_status status = culm_dir_list(folder, &names, error);
    if (status != CULM_OK) {
        return status;
    }
    char *path = malloc(CULM_PATH_MAX);
    if (!path) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "images '%s': out of memory", folder);
    }
    for (size_t i = 0; status == CULM_OK && i < names.count; i++) {
        const char *name = names.name[i];
        if (name[0] == '.' ||
            (status = culm_path_format(path, error, "%s/%s", folder, name)) != CULM_OK) {
            continue;
        }
        if (is_image_name(name)) {
            status = add_file(images, path, label, error);
        } else if (depth < DEPTH_MAX && culm_file_is_directory(path)) {
            status = add_folder(images, path, label, depth + 1, error);
        }
    }
    free(path);
    culm_names_release(&names);
    return status;
}

static enum culm_status open_class(struct culm_images *images, const char *root, const char *name,
                                   int32_t label, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    int32_t before = images->path.count;
    enum culm_status status = culm_path_format(path, error, "%s/%s", root, name);
    if (status == CULM_OK) {
        status = add_folder(images, path, label, 0, error);
    }
    if (status == CULM_OK && images->path.count == before) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "images '%s': has no JPEG or PNG file; each folder in '%s' is a class "
            "and needs images",
            path, root);
    }
    return status;
}

static bool is_class(const char *root, const char *name) {
    char path[CULM_PATH_MAX];
    return name[0] != '.' && culm_path_format(path, NULL, "%s/%s", root, name) == CULM_OK &&
           culm_file_is_directory(path);
}

static const char *path_of(const void *ctx, size_t index) {
    const struct culm_images *images = ctx;
    size_t len;
    return culm_strings_get(&images->path, (int32_t)index, &len);
}

enum culm_status culm_images_open_folders(struct culm_images *images,
                                          const struct culm_source_options *options,
                                          struct culm_error *error) {
    const char *root = options->paths[0];
    struct culm_names names;
    int32_t classes = 0;
    enum culm_status status = culm_dir_list(root, &names, error);
    if (status != CULM_OK) {
        return status;
    }
    for (size_t i = 0; status == CULM_OK && i < names.count && classes < CLASSES_MAX; i++) {
        if (is_class(root, names.name[i])) {
            status = open_class(images, root, names.name[i], classes++, error);
        }
    }
    culm_names_release(&names);
    if (status != CULM_OK) {
        return status;
    }
    if (!classes) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "images '%s': has no folders; put the images of each class into a "
                              "folder of its own there",
                              root);
    }
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
    return culm_source_set_samples(&images->source, options, images->path.count, images->name,
                                   error);
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
            status = culm_error_set(error, CULM_ERR_CONFIG,
                                    "IDX file '%s': label %lld is %d, the model has %lld classes; "
                                    "set model.classes",
                                    path, (long long)i, images->labels[i], (long long)classes);
        }
    }
    return status;
}

enum culm_status culm_images_open_idx(struct culm_images *images,
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
    return status == CULM_OK
               ? culm_source_set_samples(&images->source, options, idx->dim[0], images->name, error)
               : status;
}
