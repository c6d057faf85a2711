/*
 * Images: JPEG, PNG and WebP to bytes, and the part of an image at another size.
 *
 * Decoding is libjpeg's (its exact integer transform, whatever instructions it uses), libpng's and
 * libwebp's (one picture; the same bytes with all instructions): 16-bit samples lose their lower
 * byte, an alpha channel and what is said of gamma and profiles is ignored, palettes become
 * colours. Grey becomes colour by repetition, colour grey as (19595 R + 38470 G + 7471 B + 32768)
 * >> 16, both as Pillow does, CMYK as well.
 *
 * Resizing is bilinear with antialiasing in integers, horizontally, then vertically, and gives the
 * bytes of Pillow's (hence of torchvision's transforms on its images).
 *
 * Thread: any; an image and a resizer belong to one thread at a time.
 */
#ifndef CULM_DATA_IMAGE_H
#define CULM_DATA_IMAGE_H

#include "base/status.h"

#define CULM_IMAGE_SIDE_MAX 65500
#define CULM_IMAGE_BYTES_MAX (1u << 28) /* decoded */

struct culm_image {
    uint8_t *data; /* [height, width, channels] */
    size_t capacity;
    int32_t height, width, channels;
};
void culm_image_release(struct culm_image *image); /* fine on a zeroed struct */
/* Sets the size; the contents are undefined. */
enum culm_status culm_image_resize(struct culm_image *image, int64_t height, int64_t width,
                                   int32_t channels, struct culm_error *error);

/* Decodes a whole file in memory to `channels` (1 or 3); `name` stands in messages. The image keeps
 * its memory from call to call. CULM_ERR_FORMAT: no such image, damaged, cut short, or too large.
 */
enum culm_status culm_image_decode(const void *data, size_t len, const char *name, int32_t channels,
                                   struct culm_image *image, struct culm_error *error);
/* How the picture in such a file is to be turned, 1 (not) to 8, by its Exif data; 1 where nothing
 * that makes sense is said. */
int culm_image_orientation(const void *data, size_t len);
/* Turns and mirrors the image so that it stands upright. CULM_ERR_MEMORY */
enum culm_status culm_image_turn(struct culm_image *image, int orientation,
                                 struct culm_error *error);
/* The libraries that decode, as loaded, for what must tell them apart since they decide pixels:
 * "libpng-1.6.39/libjpeg-75b71ddb85234be3/libwebp-1.2.4". libjpeg has no function that tells its
 * version; it is named by the first 8 bytes of its build id. */
void culm_image_libraries(char *ret_text, size_t size);
/* By what its first bytes say. */
bool culm_image_is_jpeg(const void *data, size_t len);
bool culm_image_is_png(const void *data, size_t len);
bool culm_image_is_webp(const void *data, size_t len);

/* The whole of `from` (pixels of `channels` bytes, rows `stride` bytes apart) at full_height x
 * full_width, and of that the window of height x width at (top, left), into [height, width,
 * channels]. */
struct culm_image_window {
    int64_t full_height, full_width, top, left, height, width;
};
struct culm_resizer { /* its memory is kept from call to call */
    int32_t *weight;
    int32_t *first;
    uint8_t *rows;
    size_t weight_capacity, first_capacity, rows_capacity;
};
void culm_resizer_release(struct culm_resizer *resizer); /* fine on a zeroed struct */
enum culm_status culm_resizer_run(struct culm_resizer *resizer, const uint8_t *from,
                                  int64_t from_height, int64_t from_width, int32_t channels,
                                  size_t stride, const struct culm_image_window *window,
                                  uint8_t *ret_data, struct culm_error *error);

#endif
