/*
 * Labelled images as samples: a folder with a folder of JPEG, PNG and WebP files for each class, or
 * IDX images and labels.
 *
 * Folders: the class is the place of its folder's name among the sorted names, from 0. Files may
 * lie deeper inside of it; names that begin with a dot are passed over, other files are counted
 * (pictures.h).
 * The index of a sample is a fixed shuffle of the sorted paths, so that the held-out share, the
 * last by index, has of every class.
 *
 * A sample is made in this order, as torchvision's transforms do it, random numbers apart:
 *
 *     center    shorter side to `resize` (antialiased), middle height x width
 *     padded    the same; then `padding` zeros on each side, and a random window
 *     resized   up to ten draws of a part of 8 to 100 % of the area and of a ratio of 3/4 to 4/3,
 *               else the largest middle part of such a ratio; resized to height x width
 *     flip      left to right, half of them
 *     (x / 255 - mean) / std in float32
 *
 * Memory: the image and what resizing needs, in a few workspaces that are kept; libjpeg and libpng
 * allocate what they need for each image.
 */
#include "data/images_internal.h"

#include "base/file.h"
#include "data/image_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX (256u << 20)

enum { IMAGE, LABEL };
enum { DRAW_FLIP, DRAW_TOP, DRAW_LEFT, DRAW_PART /* 4 each of ten tries */ };

struct culm_images_workspace {
    struct culm_images_workspace *next;
    struct culm_image image;
    struct culm_resizer resizer;
    uint8_t *file, *window;
    size_t file_capacity;
};

/* --- workspaces --- */

static void workspace_free(struct culm_images_workspace *space) {
    if (space) {
        culm_image_release(&space->image);
        culm_resizer_release(&space->resizer);
        free(space->file);
        free(space->window);
        free(space);
    }
}

static struct culm_images_workspace *workspace_take(const struct culm_images *images) {
    struct culm_images *pool =
        (struct culm_images *)images; /* the lock and the list are not constant */
    pthread_mutex_lock(&pool->lock);
    struct culm_images_workspace *space = pool->idle;
    pool->idle = space ? space->next : NULL;
    pthread_mutex_unlock(&pool->lock);
    if (!space && (space = calloc(1, sizeof *space))) {
        space->window = malloc((size_t)(images->height * images->width * images->channels));
        if (!space->window) {
            free(space);
            space = NULL;
        }
    }
    return space;
}

static void workspace_give(const struct culm_images *images, struct culm_images_workspace *space) {
    struct culm_images *pool = (struct culm_images *)images;
    pthread_mutex_lock(&pool->lock);
    space->next = pool->idle;
    pool->idle = space;
    pthread_mutex_unlock(&pool->lock);
}

static void images_free(struct culm_source *source) {
    struct culm_images *images = (struct culm_images *)source;
    while (images->idle) {
        struct culm_images_workspace *space = images->idle;
        images->idle = space->next;
        workspace_free(space);
    }
    pthread_mutex_destroy(&images->lock);
    culm_strings_release(&images->path);
    culm_strings_release(&images->source.class_name);
    culm_idx_release(&images->pixels);
    free(images->label);
    free(images->labels);
    free(images->root);
    free(images->pixels_path);
    free(images->name);
    free(images);
}

/* --- the image of a sample, as it is stored --- */

/* Reads a file, and its stamp into *ret_stamp. If the file changed while it was read, the stamp is
 * one that no file has; if it could not be opened, *ret_stamp is left alone. `pinned`: a missing
 * file counts as changed. */
static enum culm_status read_file(struct culm_images_workspace *space, const char *path,
                                  bool pinned, size_t *ret_len, struct culm_stamp *ret_stamp,
                                  struct culm_error *error) {
    struct stat info, after;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        int reason = fd < 0 ? errno : EINVAL;
        if (fd >= 0) {
            close(fd);
        }
        bool gone = reason == ENOENT || reason == ENOTDIR || reason == ELOOP || reason == EINVAL;
        if (gone && pinned) {
            return culm_error_set(
                error, CULM_ERR_CHANGED,
                "image '%s': cannot be read: %s; put it back and go on with --resume, or take "
                "what is there up with --resume --accept-inputs",
                path, strerror(reason));
        }
        return culm_error_errno(error, reason, "image '%s': cannot be read; restore it", path);
    }
    size_t size = (size_t)info.st_size, done = 0;
    enum culm_status status = CULM_OK;
    if (!size || size > FILE_BYTES_MAX) {
        status =
            culm_error_set(error, CULM_ERR_FORMAT,
                           "image '%s': has %zu bytes; replace the file or remove it", path, size);
    } else if (size > space->file_capacity) {
        uint8_t *larger = realloc(space->file, size);
        if (larger) {
            space->file = larger;
            space->file_capacity = size;
        } else {
            status = culm_error_set(error, CULM_ERR_MEMORY, "image '%s': out of memory", path);
        }
    }
    while (status == CULM_OK && done < size) {
        ssize_t got = read(fd, space->file + done, size - done);
        if (got > 0) {
            done += (size_t)got;
        } else if (got == 0) {
            status =
                culm_error_set(error, CULM_ERR_IO, "image '%s': became shorter; restore it", path);
        } else if (errno != EINTR) {
            status = culm_error_errno(error, errno, "image '%s'", path);
        }
    }
    culm_stamp_of(&info, ret_stamp);
    if (fstat(fd, &after) == 0) {
        struct culm_stamp now;
        culm_stamp_of(&after, &now);
        ret_stamp->ctime_ns = culm_stamp_same(ret_stamp, &now) ? ret_stamp->ctime_ns : -1;
    }
    close(fd);
    *ret_len = status == CULM_OK ? size : 0;
    return status;
}

static int32_t entry_of(const struct culm_images *images, int64_t sample) {
    return (int32_t)culm_order_sample(&images->shuffle, (uint64_t)sample);
}

static enum culm_status load_idx(const struct culm_images *images, int64_t sample,
                                 struct culm_images_workspace *space, struct culm_error *error) {
    const struct culm_idx *idx = &images->pixels;
    int32_t stored = idx->rank == 4 ? (int32_t)idx->dim[3] : 1;
    struct culm_image *image = &space->image;
    enum culm_status status =
        culm_image_resize(image, idx->dim[1], idx->dim[2], 3, error); /* room for either */
    if (status == CULM_OK) {
        status = culm_idx_read(idx, sample, 1, image->data, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    if (stored == 3 && images->channels == 1) {
        image_to_grey(image);
    } else if (stored == 1 && images->channels == 3) {
        image_to_colour(image);
    }
    image->channels = images->channels;
    return CULM_OK;
}

static enum culm_status load(const struct culm_images *images, int64_t sample,
                             struct culm_images_workspace *space, struct culm_error *error) {
    size_t len;
    if (images->labels) {
        return load_idx(images, sample, space, error);
    }
    int32_t entry = entry_of(images, sample);
    struct culm_stamp stamp = {0};
    struct culm_error changed = {0};
    const char *path = culm_strings_get(&images->path, entry, &len);
    enum culm_status status = read_file(space, path, images->pins, &len, &stamp, error);
    if (stamp.inode && (status == CULM_OK || status == CULM_ERR_FORMAT || status == CULM_ERR_IO)) {
        enum culm_status same = culm_pins_inside(images->pins, images->root, (size_t)entry, path,
                                                 &stamp, space->file, len, &changed);
        if (same != CULM_OK) { /* says more than that it is empty or became shorter */
            status = culm_error_set(error, same, "%s", changed.text);
        }
    }
    if (status == CULM_OK) {
        status = culm_image_decode(space->file, len, path, images->channels, &space->image, error);
    }
    return status == CULM_OK && images->orient
               ? culm_image_turn(&space->image, culm_image_orientation(space->file, len), error)
               : status;
}

/* --- crops --- */

/* e^x for |x| < 0.3, from additions and multiplications alone: libm's last bit is not the same on
 * all machines. */
static double small_exp(double x) {
    double sum = 1, term = 1;
    for (int i = 1; i <= 12; i++) {
        term = term * x / i;
        sum = sum + term;
    }
    return sum;
}

static uint64_t below(uint64_t random, int64_t bound) {
    return (uint64_t)((unsigned __int128)random * (uint64_t)bound >> 64);
}

struct part {
    int64_t top, left, height, width;
};

/* As torchvision's RandomResizedCrop. */
static struct part random_part(const struct culm_images *images, uint64_t position, int64_t height,
                               int64_t width) {
    const double log_ratio = 0.2876820724517809; /* ln(4/3) */
    for (uint64_t i = 0; i < 10; i++) {
        uint64_t draw[4];
        for (uint64_t k = 0; k < 4; k++) {
            draw[k] = source_draw(&images->source, position, DRAW_PART + 4 * i + k);
        }
        double area = (double)(height * width) * (0.08 + 0.92 * (double)(draw[0] >> 11) * 0x1p-53);
        double ratio = small_exp(log_ratio * (2 * (double)(draw[1] >> 11) * 0x1p-53 - 1));
        int64_t w = (int64_t)rint(sqrt(area * ratio)), h = (int64_t)rint(sqrt(area / ratio));
        if (w >= 1 && w <= width && h >= 1 && h <= height) {
            return (struct part){.top = (int64_t)below(draw[2], height - h + 1),
                                 .left = (int64_t)below(draw[3], width - w + 1),
                                 .height = h,
                                 .width = w};
        }
    }
    int64_t w = width, h = height;
    if (4 * width < 3 * height) {
        h = (4 * w + 1) / 3;
    } else if (3 * width > 4 * height) {
        w = (4 * h + 1) / 3;
    }
    return (struct part){(height - h) / 2, (width - w) / 2, h, w};
}

static enum culm_status cut_part(const struct culm_images *images, uint64_t position,
                                 struct culm_images_workspace *space, struct culm_error *error) {
    const struct culm_image *image = &space->image;
    struct part part = random_part(images, position, image->height, image->width);
    size_t stride = (size_t)image->width * (size_t)image->channels;
    const struct culm_image_window window = {.full_height = images->height,
                                             .full_width = images->width,
                                             .height = images->height,
                                             .width = images->width};
    return culm_resizer_run(
        &space->resizer,
        image->data + (size_t)part.top * stride + (size_t)part.left * (size_t)image->channels,
        part.height, part.width, image->channels, stride, &window, space->window, error);
}

/* Half of an odd number to the even side, as Python rounds. */
static int64_t middle(int64_t space) {
    int64_t half = space / 2;
    return space % 2 ? half + half % 2 : half;
}

static enum culm_status cut_middle(const struct culm_images *images,
                                   struct culm_images_workspace *space, struct culm_error *error) {
    const struct culm_image *image = &space->image;
    int64_t shorter = images->resize;
    struct culm_image_window window = {.height = images->height, .width = images->width};
    if (image->width <= image->height) {
        window.full_width = shorter;
        window.full_height = shorter * image->height / image->width;
    } else {
        window.full_height = shorter;
        window.full_width = shorter * image->width / image->height;
    }
    window.top = middle(window.full_height - window.height);
    window.left = middle(window.full_width - window.width);
    return culm_resizer_run(&space->resizer, image->data, image->height, image->width,
                            image->channels, (size_t)image->width * (size_t)image->channels,
                            &window, space->window, error);
}

/* The window moved by (down, right), black where there is nothing, mirrored, as numbers. */
static void write_image(const struct culm_images *images, const uint8_t *window, int64_t down,
                        int64_t right, bool mirror, float *to) {
    int32_t channels = images->channels;
    for (int64_t y = 0; y < images->height; y++) {
        int64_t row = y + down;
        for (int64_t x = 0; x < images->width; x++) {
            int64_t column = (mirror ? images->width - 1 - x : x) + right;
            bool inside = row >= 0 && row < images->height && column >= 0 && column < images->width;
            int64_t at = inside ? (row * images->width + column) * channels : 0;
            for (int32_t c = 0; c < channels; c++) {
                *to++ = images->value[c][inside ? window[at + c] : 0];
            }
        }
    }
}

static enum culm_status images_fill(const struct culm_source *source, struct culm_source_item item,
                                    void *const *fields, struct culm_error *error) {
    const struct culm_images *images = (const struct culm_images *)source;
    if (fields[LABEL]) {
        *(int32_t *)fields[LABEL] = images->labels ? images->labels[item.sample]
                                                   : images->label[entry_of(images, item.sample)];
    }
    if (!fields[IMAGE]) {
        return CULM_OK;
    }
    struct culm_images_workspace *space = workspace_take(images);
    if (!space) {
        return culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory for an image",
                              images->name);
    }
    enum culm_status status = load(images, item.sample, space, error);
    if (status == CULM_OK) {
        status = images->crop == CULM_CROP_RESIZED ? cut_part(images, item.position, space, error)
                                                   : cut_middle(images, space, error);
    }
    if (status == CULM_OK) {
        int64_t down = 0, right = 0;
        if (images->crop == CULM_CROP_PADDED) {
            int64_t places = 2 * images->padding + 1;
            down = (int64_t)below(source_draw(source, item.position, DRAW_TOP), places) -
                   images->padding;
            right = (int64_t)below(source_draw(source, item.position, DRAW_LEFT), places) -
                    images->padding;
        }
        bool mirror = images->flip && source_draw(source, item.position, DRAW_FLIP) & 1;
        write_image(images, space->window, down, right, mirror, fields[IMAGE]);
    }
    workspace_give(images, space);
    return status;
}

static struct culm_data_place images_place(const struct culm_source *source, int64_t sample) {
    const struct culm_images *images = (const struct culm_images *)source;
    size_t len;
    if (images->labels) {
        return (struct culm_data_place){images->pixels_path, CULM_DATA_INDEX, sample};
    }
    return (struct culm_data_place){
        .file = culm_strings_get(&images->path, entry_of(images, sample), &len)};
}

static const struct culm_source_ops images_ops = {images_fill, images_free, images_place};

/* --- opening --- */

static enum culm_status check(const struct culm_source_options *o, struct culm_error *error) {
    int64_t longer = o->height > o->width ? o->height : o->width;
    if (o->height < 1 || o->width < 1 || longer > 16384 || (o->channels != 1 && o->channels != 3)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "images: %lld x %lld pixels of %lld channels; channels are 1 or 3",
                              (long long)o->width, (long long)o->height, (long long)o->channels);
    }
    if (o->resize < 0 || o->resize > 16384 || (o->resize && o->resize < longer)) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "data.resize: %lld pixels cannot hold a window of %lld; allowed: %lld "
            "to 16384, or 0",
            (long long)o->resize, (long long)longer, (long long)longer);
    }
    if (o->padding < 0 || o->padding > 16384) {
        return culm_error_set(error, CULM_ERR_CONFIG, "data.padding: %lld; allowed: 0 to 16384",
                              (long long)o->padding);
    }
    for (int i = 0; i < 3; i++) {
        if (!isfinite(o->mean[i]) || !isfinite(o->std[i]) || o->std[i] < 0) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "data.mean, data.std: %g and %g; allowed: finite numbers, the "
                                  "second not negative",
                                  o->mean[i], o->std[i]);
        }
    }
    return CULM_OK;
}

static void make_table(struct culm_images *images, const struct culm_source_options *o) {
    for (int c = 0; c < 3; c++) {
        float mean = (float)o->mean[c], std = o->std[c] == 0 ? 1 : (float)o->std[c];
        for (int byte = 0; byte < 256; byte++) {
            float value = (float)byte / 255.0f;
            value = value - mean;
            images->value[c][byte] = value / std;
        }
    }
}

enum culm_status source_open_images(const struct culm_source_options *options,
                                    struct culm_leaving *leaving, struct culm_source **ret_source,
                                    struct culm_error *error) {
    enum culm_status status = check(options, error);
    struct culm_images *images = status == CULM_OK ? calloc(1, sizeof *images) : NULL;
    if (status != CULM_OK) {
        return status;
    }
    if (!images) {
        return culm_error_set(error, CULM_ERR_MEMORY, "images: out of memory");
    }
    images->source.ops = &images_ops;
    images->leaving = leaving;
    pthread_mutex_init(&images->lock, NULL);
    images->height = options->height;
    images->width = options->width;
    images->channels = (int32_t)options->channels;
    images->padding = options->padding;
    images->crop = options->augment ? options->crop : CULM_CROP_CENTER;
    images->flip = options->augment && options->flip;
    images->orient = options->orient;
    images->resize = options->resize                    ? options->resize
                     : options->height > options->width ? options->height
                                                        : options->width;
    make_table(images, options);
    if (asprintf(&images->name, "images '%s'", options->paths[0]) < 0) {
        images->name = NULL;
        status = culm_error_set(error, CULM_ERR_MEMORY, "images: out of memory");
    } else {
        bool folder = options->path_count == 1 && culm_file_is_directory(options->paths[0]);
        status = folder ? images_open_folders(images, options, error)
                        : images_open_idx(images, options, error);
    }
    if (status != CULM_OK) {
        images_free(&images->source);
        return status;
    }
    const int64_t shape[] = {images->height, images->width, images->channels};
    source_add_image(&images->source, "image", 3, shape);
    source_add_numbers(&images->source, "label", 1,
                       options->classes ? options->classes : INT32_MAX);
    *ret_source = &images->source;
    return CULM_OK;
}
