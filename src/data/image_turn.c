/* How a camera was held, as Exif says it, and turning a picture upright; see image.h. One number of
 * one table is read, in place, which is less than a library for all of Exif would have to be shown.
 */
#include "data/image_internal.h"

#include <stdlib.h>
#include <string.h>

#define ORIENTATION 0x0112
#define SHORT 3
#define LONG 4

struct block {
    const uint8_t *data;
    size_t len;
};

static uint32_t number(const uint8_t *at, int bytes, bool little) {
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++) {
        value = value << 8 | at[little ? bytes - 1 - i : i];
    }
    return value;
}

/* The first table of a TIFF block: "II*\0" or "MM\0*", its place, a count, 12 bytes an entry. */
static int read_tiff(struct block tiff) {
    if (tiff.len > 6 && !memcmp(tiff.data, "Exif\0\0", 6)) {
        tiff = (struct block){tiff.data + 6, tiff.len - 6};
    }
    if (tiff.len < 8 || (memcmp(tiff.data, "II*\0", 4) && memcmp(tiff.data, "MM\0*", 4))) {
        return 1;
    }
    bool little = tiff.data[0] == 'I';
    size_t at = number(tiff.data + 4, 4, little);
    if (at > tiff.len - 2) {
        return 1;
    }
    size_t count = number(tiff.data + at, 2, little);
    for (at += 2; count > 0 && tiff.len - at >= 12; count--, at += 12) {
        const uint8_t *entry = tiff.data + at;
        uint32_t type = number(entry + 2, 2, little);
        if (number(entry, 2, little) == ORIENTATION && (type == SHORT || type == LONG)) {
            uint32_t value = number(entry + 8, type == SHORT ? 2 : 4, little);
            return value >= 1 && value <= 8 ? (int)value : 1;
        }
    }
    return 1;
}

/* Segments: FF, a marker, a length with its own two bytes; up to the first scan. */
static struct block find_jpeg(const uint8_t *data, size_t len) {
    size_t at = 2;
    while (at + 4 <= len && data[at] == 0xFF) {
        uint8_t marker = data[at + 1];
        if (marker == 0xFF) {
            at++;
            continue;
        }
        size_t size = number(data + at + 2, 2, false);
        if (marker == 0xDA || marker == 0xD9 || size < 2 || size > len - at - 2) {
            break;
        }
        if (marker == 0xE1 && size >= 8 && !memcmp(data + at + 4, "Exif\0\0", 6)) {
            return (struct block){data + at + 4, size - 2};
        }
        at += 2 + size;
    }
    return (struct block){0};
}

/* Chunks: a length and a name (PNG: then 4 bytes of checksum; WebP: an even number of bytes). */
static struct block find_chunk(const uint8_t *data, size_t len, bool png) {
    size_t at = png ? 8 : 12;
    while (at <= len && len - at >= 8) {
        size_t size = number(data + at + (png ? 0 : 4), 4, !png);
        const uint8_t *name = data + at + (png ? 4 : 0);
        at += 8;
        if (size > len - at) {
            break;
        }
        if (!memcmp(name, png ? "eXIf" : "EXIF", 4)) {
            return (struct block){data + at, size};
        }
        at += size + (png ? 4 : size & 1);
    }
    return (struct block){0};
}

int culm_image_orientation(const void *data, size_t len) {
    bool png = culm_image_is_png(data, len);
    return read_tiff(culm_image_is_jpeg(data, len)          ? find_jpeg(data, len)
                     : png || culm_image_is_webp(data, len) ? find_chunk(data, len, png)
                                                            : (struct block){0});
}

enum culm_status culm_image_turn(struct culm_image *image, int orientation,
                                 struct culm_error *error) {
    if (orientation <= 1 || orientation > 8) {
        return CULM_OK;
    }
    uint8_t *turned = malloc(image->capacity);
    if (!turned) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for %zu bytes",
                              image->capacity);
    }
    /* Pixel (y, x) of the result is pixel (v, u) of the image: of its columns and rows, which are
     * swapped or not, each may count from its end. */
    bool swapped = orientation >= 5;
    bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    int32_t height = swapped ? image->width : image->height;
    int32_t width = swapped ? image->height : image->width;
    size_t channels = (size_t)image->channels;
    uint8_t *to = turned;
    for (int32_t y = 0; y < height; y++) {
        for (int32_t x = 0; x < width; x++) {
            int32_t v = swapped ? x : y, u = swapped ? y : x;
            v = from_bottom ? image->height - 1 - v : v;
            u = from_right ? image->width - 1 - u : u;
            const uint8_t *from =
                image->data + ((size_t)v * (size_t)image->width + (size_t)u) * channels;
            for (size_t c = 0; c < channels; c++) {
                *to++ = from[c];
            }
        }
    }
    free(image->data);
    image->data = turned;
    image->height = height;
    image->width = width;
    return CULM_OK;
}
