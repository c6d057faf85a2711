/* Internal to data: a source of images, shared by what opens it (images_open.c) and what fills
 * samples (source_images.c). */
#ifndef CULM_DATA_IMAGES_INTERNAL_H
#define CULM_DATA_IMAGES_INTERNAL_H

#include "data/idx.h"
#include "data/image.h"
#include "data/source_internal.h"
#include "data/string_set.h"
#include "ledger/order.h"

#include <pthread.h>

struct culm_images_workspace;

struct culm_images {
    struct culm_source source;
    int64_t height, width, resize, padding;
    int32_t channels;
    enum culm_source_crop crop;
    bool flip, orient;
    float value[3][256]; /* of a byte, per channel */
    pthread_mutex_t lock;
    struct culm_images_workspace *idle; /* under the lock */
    /* folders */
    struct culm_strings path; /* sorted */
    int32_t *label;
    bool named; /* labels are by names that were given */
    struct culm_order shuffle;
    struct culm_pins *pins; /* borrowed; NULL: what changes is not noticed */
    char *root;
    struct culm_leaving *leaving; /* while it is opened */
    /* IDX */
    struct culm_idx pixels;
    uint8_t *labels;
    char *pixels_path;
    char *name; /* of the first file */
};

/* What the options name, as `images->path` and `label`, or as `pixels` and `labels`; sets the
 * samples.
 */
enum culm_status images_open_folders(struct culm_images *images,
                                     const struct culm_source_options *options,
                                     struct culm_error *error);
enum culm_status images_open_idx(struct culm_images *images,
                                 const struct culm_source_options *options,
                                 struct culm_error *error);

#endif
