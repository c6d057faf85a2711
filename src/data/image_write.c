/* PNG files: one filter for all rows, one deflated block of them. See image_write.h. */
#include "data/image_write.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static uint8_t *put_u32(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> (24 - 8 * i));
    }
    return at + 4;
}

/* `len` bytes are behind `at` + 8 already. */
static uint8_t *chunk(uint8_t *at, const char *kind, size_t len) {
    put_u32(at, (uint32_t)len);
    memcpy(at + 4, kind, 4);
    put_u32(at + 8 + len, (uint32_t)crc32_z(0, at + 4, len + 4));
    return at + 12 + len;
}

/* Each row is written as its difference from the row above. */
static void difference(const uint8_t *data, size_t line, int32_t height, uint8_t *to) {
    for (int32_t y = 0; y < height; y++, data += line) {
        *to++ = 2;
        for (size_t i = 0; i < line; i++) {
            *to++ = (uint8_t)(data[i] - (y ? data[i - line] : 0));
        }
    }
}

enum culm_status culm_image_write_png(const char *path, const uint8_t *data, int32_t width,
                                      int32_t height, struct culm_error *error) {
    static const uint8_t magic[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
    size_t line = (size_t)width * 3, plain = (line + 1) * (size_t)height;
    uLongf packed = compressBound((uLong)plain);
    uint8_t *rows = malloc(plain), *file = malloc(packed + 128);
    enum culm_status status = CULM_ERR_MEMORY;
    if (rows && file) {
        uint8_t *at = file + sizeof magic;
        memcpy(file, magic, sizeof magic);
        put_u32(at + 8, (uint32_t)width);
        put_u32(at + 12, (uint32_t)height);
        memcpy(at + 16, "\x08\x02\0\0\0", 5); /* 8 bits, RGB */
        at = chunk(at, "IHDR", 13);
        difference(data, line, height, rows);
        if (compress2(at + 8, &packed, rows, (uLong)plain, 3) == Z_OK) {
            at = chunk(at, "IDAT", packed);
            at = chunk(at, "IEND", 0);
            status = CULM_OK;
        }
        if (status == CULM_OK) {
            status = culm_file_replace(NULL, path, file, (size_t)(at - file), error);
        }
    }
    free(rows);
    free(file);
    return status == CULM_ERR_MEMORY
               ? culm_error_set(error, status, "picture '%s': out of memory", path)
               : status;
}
