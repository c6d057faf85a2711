/* The pixels of an image, in a buffer that grows. See image.h. */
#include "data/image_internal.h"

#include <stdlib.h>

void culm_image_release(struct culm_image *image) {
    free(image->data);
    *image = (struct culm_image){0};
}

enum culm_status culm_image_resize(struct culm_image *image, int64_t height, int64_t width,
                                   int32_t channels, struct culm_error *error) {
    if (height < 1 || width < 1 || height > CULM_IMAGE_SIDE_MAX || width > CULM_IMAGE_SIDE_MAX ||
        height * width * channels > CULM_IMAGE_BYTES_MAX) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "has %lld x %lld pixels; allowed: 1 to %d each way, %u MB in all",
                              (long long)width, (long long)height, CULM_IMAGE_SIDE_MAX,
                              CULM_IMAGE_BYTES_MAX >> 20);
    }
    size_t needed = (size_t)(height * width * channels);
    if (needed > image->capacity) {
        uint8_t *larger = realloc(image->data, needed);
        if (!larger) {
            return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for %zu bytes", needed);
        }
        image->data = larger;
        image->capacity = needed;
    }
    image->height = (int32_t)height;
    image->width = (int32_t)width;
    image->channels = channels;
    return CULM_OK;
}

void image_to_grey(struct culm_image *image) {
    size_t pixels = (size_t)image->height * (size_t)image->width;
    for (size_t i = 0; i < pixels; i++) {
        image->data[i] = image_grey_of(image->data + 3 * i);
    }
    image->channels = 1;
}

void image_to_colour(struct culm_image *image) {
    for (size_t i = (size_t)image->height * (size_t)image->width; i-- > 0;) {
        image->data[3 * i] = image->data[3 * i + 1] = image->data[3 * i + 2] = image->data[i];
    }
    image->channels = 3;
}
