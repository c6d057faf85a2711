/* JPEG and PNG through their libraries, and which decoder a file needs; see image.h. Both report
 * errors by a jump, to here; what the jump passes over holds nothing but what the libraries own and
 * the image. */
#include "data/image_internal.h"

#include "data/content.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

#define SCANS_MAX 500 /* of a progressive file: more are an attack on our time */
#define CHUNK_MAX (8u << 20)

bool culm_image_is_jpeg(const void *data, size_t len) {
    return len >= 3 && !memcmp(data, "\xff\xd8\xff", 3);
}

bool culm_image_is_png(const void *data, size_t len) {
    return len >= 8 && !memcmp(data, "\x89PNG\r\n\x1a\n", 8);
}

/* --- JPEG --- */

struct jpeg {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    char message[JMSG_LENGTH_MAX];
    JSAMPLE *row; /* the library's, of a CMYK image */
};

static void jpeg_fail(j_common_ptr info) {
    struct jpeg *jpeg = info->client_data;
    info->err->format_message(info, jpeg->message);
    longjmp(jpeg->jump, 1);
}

/* A warning says that the picture is not what was saved, but for those that change nothing. */
static void jpeg_message(j_common_ptr info, int level) {
    int code = info->err->msg_code;
    if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_JFIF_MAJOR &&
        code != JWRN_ADOBE_XFORM) {
        jpeg_fail(info);
    }
}

static void jpeg_scan(j_common_ptr info) {
    struct jpeg *jpeg = info->client_data;
    if (jpeg->info.input_scan_number > SCANS_MAX) {
        snprintf(jpeg->message, sizeof jpeg->message, "more than %d scans", SCANS_MAX);
        longjmp(jpeg->jump, 1);
    }
}

static uint8_t cmyk_part(int paper, int ink) { /* paper (1 - ink), as Pillow rounds it */
    int product = paper * ink + 128, part = paper - ((product + (product >> 8)) >> 8);
    return (uint8_t)(part < 0 ? 0 : part);
}

/* Files that Adobe's programs write hold CMYK upside down. */
static void cmyk_row(const struct jpeg *jpeg, uint8_t *to, int32_t width, int32_t channels) {
    uint8_t flip = jpeg->info.saw_Adobe_marker ? 0xFF : 0;
    for (int32_t x = 0; x < width; x++) {
        const JSAMPLE *ink = jpeg->row + 4 * x;
        int paper = 255 - (ink[3] ^ flip);
        uint8_t rgb[3];
        for (int i = 0; i < 3; i++) {
            rgb[i] = cmyk_part(paper, ink[i] ^ flip);
        }
        if (channels == 1) {
            to[x] = image_grey_of(rgb);
        } else {
            memcpy(to + 3 * x, rgb, 3);
        }
    }
}

static enum culm_status jpeg_start(struct jpeg *jpeg, int32_t channels, struct culm_image *image,
                                   struct culm_error *error) {
    struct jpeg_decompress_struct *info = &jpeg->info;
    jpeg_read_header(info, TRUE);
    enum culm_status status =
        culm_image_resize(image, info->image_height, info->image_width, channels, error);
    if (status != CULM_OK) {
        return status;
    }
    bool cmyk = info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
    bool grey = info->jpeg_color_space == JCS_GRAYSCALE && channels == 1;
    info->out_color_space = cmyk ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
    info->dct_method = JDCT_ISLOW;
    jpeg_start_decompress(info);
    return CULM_OK;
}

static enum culm_status jpeg_rows(struct jpeg *jpeg, struct culm_image *image,
                                  struct culm_error *error) {
    struct jpeg_decompress_struct *info = &jpeg->info;
    int32_t width = image->width, channels = image->channels;
    if ((int64_t)info->output_width != width || (int64_t)info->output_height != image->height) {
        return culm_error_set(error, CULM_ERR_FORMAT, "is damaged: its size changes");
    }
    if (info->output_components != channels) {
        jpeg->row = info->mem->alloc_small((j_common_ptr)info, JPOOL_IMAGE,
                                           (size_t)width * (size_t)info->output_components);
    }
    while (info->output_scanline < info->output_height) {
        uint8_t *to = image->data + (size_t)info->output_scanline * (size_t)(width * channels);
        JSAMPROW row = jpeg->row ? jpeg->row : to;
        jpeg_read_scanlines(info, &row, 1);
        if (info->out_color_space == JCS_CMYK) {
            cmyk_row(jpeg, to, width, channels);
        } else if (jpeg->row) {
            for (int32_t x = 0; x < width; x++) {
                to[x] = image_grey_of(jpeg->row + 3 * x);
            }
        }
    }
    jpeg_finish_decompress(info);
    return CULM_OK;
}

static enum culm_status decode_jpeg(const void *data, size_t len, int32_t channels,
                                    struct culm_image *image, struct culm_error *error) {
    struct jpeg *jpeg = calloc(1, sizeof *jpeg);
    if (!jpeg) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    enum culm_status status;
    jpeg->info.err = jpeg_std_error(&jpeg->errors);
    jpeg->errors.error_exit = jpeg_fail;
    jpeg->errors.emit_message = jpeg_message;
    jpeg->progress.progress_monitor = jpeg_scan;
    jpeg->info.client_data = jpeg;
    if (setjmp(jpeg->jump)) {
        status = culm_error_set(error, CULM_ERR_FORMAT, "is damaged: %s", jpeg->message);
    } else {
        jpeg_create_decompress(&jpeg->info);
        jpeg->info.mem->max_memory_to_use = 2l * CULM_IMAGE_BYTES_MAX;
        jpeg->info.progress = &jpeg->progress;
        jpeg_mem_src(&jpeg->info, data, (unsigned long)len);
        status = jpeg_start(jpeg, channels, image, error);
        status = status == CULM_OK ? jpeg_rows(jpeg, image, error) : status;
    }
    jpeg_destroy_decompress(&jpeg->info);
    free(jpeg);
    return status;
}

/* --- PNG --- */

struct png {
    png_structp read;
    png_infop info;
    const uint8_t *data;
    size_t len, at;
    uint8_t *row; /* of a colour image that is to be grey */
    uint8_t **rows;
    char message[128];
};

static void png_fail(png_structp read, png_const_charp message) {
    struct png *png = png_get_error_ptr(read);
    snprintf(png->message, sizeof png->message, "%s", message);
    longjmp(png_jmpbuf(read), 1);
}

static void png_ignore(png_structp read, png_const_charp message) {
    (void)read;
    (void)message;
}

static void png_take(png_structp read, png_bytep to, size_t len) {
    struct png *png = png_get_io_ptr(read);
    if (len > png->len - png->at) {
        png_error(read, "it is cut short");
    }
    memcpy(to, png->data + png->at, len);
    png->at += len;
}

/* What turns any PNG into 8-bit grey or RGB without alpha. */
static void png_ask(struct png *png, bool *ret_grey) {
    png_byte type = png_get_color_type(png->read, png->info);
    *ret_grey = !(type & PNG_COLOR_MASK_COLOR);
    if (type == PNG_COLOR_TYPE_PALETTE) {
        png_set_palette_to_rgb(png->read);
    }
    if (*ret_grey && png_get_bit_depth(png->read, png->info) < 8) {
        png_set_expand_gray_1_2_4_to_8(png->read);
    }
    png_set_strip_16(png->read);
    png_set_strip_alpha(png->read);
    png_set_interlace_handling(png->read);
    png_read_update_info(png->read, png->info);
}

static enum culm_status png_rows(struct png *png, int32_t channels, struct culm_image *image,
                                 struct culm_error *error) {
    bool grey;
    png_read_info(png->read, png->info);
    int64_t height = png_get_image_height(png->read, png->info);
    int64_t width = png_get_image_width(png->read, png->info);
    /* Decoded as it is, then turned in place: from the front to grey, from the back to colour. */
    enum culm_status status = culm_image_resize(image, height, width, 3, error);
    if (status != CULM_OK) {
        return status;
    }
    png_ask(png, &grey);
    size_t stride = (size_t)width * (grey ? 1 : 3);
    if (png_get_rowbytes(png->read, png->info) != stride) {
        return culm_error_set(error, CULM_ERR_FORMAT, "has pixels of an unknown kind");
    }
    png->rows = malloc((size_t)height * sizeof *png->rows);
    if (!png->rows) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    for (int64_t y = 0; y < height; y++) {
        png->rows[y] = image->data + (size_t)y * stride;
    }
    png_read_image(png->read, png->rows);
    png_read_end(png->read, NULL);
    if (!grey && channels == 1) {
        image_to_grey(image);
    } else if (grey && channels == 3) {
        image_to_colour(image);
    }
    image->channels = channels;
    return CULM_OK;
}

static enum culm_status decode_png(const void *data, size_t len, int32_t channels,
                                   struct culm_image *image, struct culm_error *error) {
    struct png *png = calloc(1, sizeof *png);
    if (!png) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    enum culm_status status = CULM_ERR_MEMORY;
    png->data = data;
    png->len = len;
    png->read = png_create_read_struct(PNG_LIBPNG_VER_STRING, png, png_fail, png_ignore);
    png->info = png->read ? png_create_info_struct(png->read) : NULL;
    if (!png->info) {
        culm_error_set(error, status, "out of memory");
    } else if (setjmp(png_jmpbuf(png->read))) {
        status = culm_error_set(error, CULM_ERR_FORMAT, "is damaged: %s", png->message);
    } else {
        png_set_user_limits(png->read, CULM_IMAGE_SIDE_MAX, CULM_IMAGE_SIDE_MAX);
        png_set_chunk_malloc_max(png->read, CHUNK_MAX);
        png_set_chunk_cache_max(png->read, 16);
        png_set_crc_action(png->read, PNG_CRC_ERROR_QUIT, PNG_CRC_WARN_DISCARD);
        png_set_read_fn(png->read, png, png_take);
        status = png_rows(png, channels, image, error);
    }
    free(png->rows);
    png_destroy_read_struct(png->read ? &png->read : NULL, png->info ? &png->info : NULL, NULL);
    free(png);
    return status;
}

enum culm_status culm_image_decode(const void *data, size_t len, const char *name, int32_t channels,
                                   struct culm_image *image, struct culm_error *error) {
    struct culm_error reason = {0};
    enum culm_status status;
    bool advised = false;
    if (culm_image_is_jpeg(data, len)) {
        status = decode_jpeg(data, len, channels, image, &reason);
    } else if (culm_image_is_png(data, len)) {
        status = decode_png(data, len, channels, image, &reason);
    } else if (culm_image_is_webp(data, len)) {
        status = image_decode_webp(data, len, channels, image, &reason);
    } else {
        const struct culm_content *content = culm_content_of(data, len);
        const char *other = len ? "is neither JPEG, PNG nor WebP" : "is empty";
        status = culm_error_set(&reason, CULM_ERR_FORMAT, content ? "is %s%s" : "%s%s",
                                content ? content->name : other,
                                content ? "; convert it to JPEG, PNG or WebP" : "");
        advised = content;
    }
    if (status != CULM_OK) {
        for (char *at = reason.text; *at; at++) {
            *at = (uint8_t)*at < ' ' ? ' ' : *at;
        }
        return culm_error_set(
            error, status, "image '%s': %s%s", name, reason.text,
            status == CULM_ERR_FORMAT && !advised ? "; replace the file or remove it" : "");
    }
    return CULM_OK;
}
