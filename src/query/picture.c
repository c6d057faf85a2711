/* Pictures as frames, and frames with answers drawn into them; see picture.h. */
#include "query/picture.h"

#include "data/image_write.h"

#include <stdlib.h>

enum culm_status culm_picture_frame_of(const struct culm_picture *picture,
                                       struct culm_frame *ret_frame, struct culm_error *error) {
    if (!picture->pixels) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "the picture has no pixels");
    }
    if (picture->width < 1 || picture->height < 1 || picture->width > CULM_FRAME_SIDE_MAX ||
        picture->height > CULM_FRAME_SIDE_MAX) {
        return culm_error_set(
            error, CULM_ERR_ARGUMENT, "the picture is %lld x %lld; its sides must be 1 to %d",
            (long long)picture->width, (long long)picture->height, CULM_FRAME_SIDE_MAX);
    }
    if (picture->channels != 1 && picture->channels != 3) {
        return culm_error_set(
            error, CULM_ERR_ARGUMENT,
            "the picture has %lld channels; they must be 3 (red, green, blue) or 1 "
            "(grey)",
            (long long)picture->channels);
    }
    const int64_t line = picture->width * picture->channels;
    const int64_t stride = picture->stride ? picture->stride : line;
    if (stride < line || stride > INT32_MAX) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "the picture's rows are %lld bytes apart, and a row has %lld",
                              (long long)stride, (long long)line);
    }
    *ret_frame = (struct culm_frame){.data = picture->pixels,
                                     .stride = (size_t)stride,
                                     .width = (int32_t)picture->width,
                                     .height = (int32_t)picture->height,
                                     .channels = (int32_t)picture->channels};
    return CULM_OK;
}

enum culm_status culm_picture_write(const char *path, const struct culm_feed_frame *frame,
                                    const struct culm_vision_model *model,
                                    const struct culm_answer *answer, struct culm_error *error) {
    size_t line = (size_t)frame->width * 3;
    uint8_t *copy = malloc(line * (size_t)frame->height);
    if (!copy) {
        return culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", path);
    }
    for (int32_t y = 0; y < frame->height; y++) {
        const uint8_t *from = frame->data + (size_t)y * frame->stride;
        for (int32_t x = 0; x < frame->width; x++) {
            for (int32_t c = 0; c < 3; c++) {
                copy[(size_t)y * line + (size_t)(3 * x + c)] =
                    from[x * frame->channels + (frame->channels == 3 ? c : 0)];
            }
        }
    }
    culm_vision_draw(copy, frame->width, frame->height, model, answer->box, answer->box_count);
    culm_vision_draw_points(copy, frame->width, frame->height, answer->point, answer->point_count);
    enum culm_status status = culm_image_write_png(path, copy, frame->width, frame->height, error);
    free(copy);
    return status;
}
