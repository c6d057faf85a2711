/* Internal to data: decoders, and what they share. See image.h. */
#ifndef CULM_DATA_IMAGE_INTERNAL_H
#define CULM_DATA_IMAGE_INTERNAL_H

#include "data/image.h"

static inline uint8_t image_grey_of(const uint8_t *rgb) {
    return (uint8_t)((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

/* From 3 channels to 1, in place; from 1 to 3, where there is room for them. */
void image_to_grey(struct culm_image *image);
void image_to_colour(struct culm_image *image);

/* As culm_image_decode, of data that is WebP; errors without the file's name. */
enum culm_status image_decode_webp(const void *data, size_t len, int32_t channels,
                                   struct culm_image *image, struct culm_error *error);

#endif
