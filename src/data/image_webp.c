/* WebP through libwebp; see image.h. */
#include "data/image_internal.h"

#include <string.h>
#include <webp/decode.h>

bool culm_image_is_webp(const void *data, size_t len) {
    return len >= 12 && !memcmp(data, "RIFF", 4) && !memcmp((const char *)data + 8, "WEBP", 4);
}

static enum culm_status damaged(VP8StatusCode code, struct culm_error *error) {
    return code == VP8_STATUS_OUT_OF_MEMORY
               ? culm_error_set(error, CULM_ERR_MEMORY, "out of memory")
               : culm_error_set(error, CULM_ERR_FORMAT, "is damaged: %s",
                                code == VP8_STATUS_SUSPENDED || code == VP8_STATUS_NOT_ENOUGH_DATA
                                    ? "it is cut short"
                                    : "libwebp cannot decode it");
}

enum culm_status image_decode_webp(const void *data, size_t len, int32_t channels,
                                   struct culm_image *image, struct culm_error *error) {
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config)) {
        return culm_error_set(error, CULM_ERR_INTERNAL,
                              "libwebp is another version than the program was built for");
    }
    VP8StatusCode code = WebPGetFeatures(data, len, &config.input);
    if (code != VP8_STATUS_OK) {
        return damaged(code, error);
    }
    if (config.input.has_animation) {
        return culm_error_set(error, CULM_ERR_FORMAT, "is a moving picture");
    }
    enum culm_status status =
        culm_image_resize(image, config.input.height, config.input.width, 3, error);
    if (status != CULM_OK) {
        return status;
    }
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = image->data;
    config.output.u.RGBA.stride = 3 * image->width;
    config.output.u.RGBA.size = (size_t)3 * (size_t)image->width * (size_t)image->height;
    code = WebPDecode(data, len, &config);
    WebPFreeDecBuffer(&config.output);
    if (code != VP8_STATUS_OK) {
        return damaged(code, error);
    }
    if (channels == 1) {
        image_to_grey(image);
    }
    return CULM_OK;
}
