/* From frames to a network's input. See picture.h. */
#include "vision/picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define POINT 11 /* fractional bits of a weight */
#define ONE (1 << POINT)

/* Where output pixel o of a line lies: between inputs low and low + 1 (or at low alone), with a
 * weight for each. The weights, and the shifts of the products below, are those of the libraries
 * that such networks are usually run with: rounding in another way would change scores by a
 * hundredth. */
struct tap {
    int32_t low, step; /* step: 0 at the borders */
    int32_t first, second;
};

static struct tap tap_of(int32_t o, int32_t out, int32_t in) {
    float at = (float)(((double)o + 0.5) * (1 / ((double)out / (double)in)) - 0.5);
    float low = floorf(at), share = at - low;
    if (low < 0) {
        return (struct tap){0, 0, ONE, 0};
    }
    if (low >= (float)(in - 1)) {
        return (struct tap){in - 1, 0, ONE, 0};
    }
    return (struct tap){(int32_t)low, 1, (int32_t)rintf((1 - share) * ONE),
                        (int32_t)rintf(share * ONE)};
}

/* One row of the picture; tap[width] for its columns. */
static void stretch_row(const struct culm_frame *frame, const struct tap *tap, int32_t width,
                        struct tap down, uint8_t *ret_data) {
    const int32_t channels = frame->channels;
    const uint8_t *top = frame->data + (size_t)down.low * frame->stride;
    const uint8_t *bottom = top + (size_t)down.step * frame->stride;
    for (int32_t x = 0; x < width; x++) {
        const uint8_t *a = top + (size_t)tap[x].low * (size_t)channels;
        const uint8_t *b = bottom + (size_t)tap[x].low * (size_t)channels;
        const int32_t next = tap[x].step * channels, left = tap[x].first, right = tap[x].second;
        for (int32_t c = 0; c < channels; c++) {
            int32_t above = (a[c] * left + a[c + next] * right) >> 4; /* less than 255 * 2^7 */
            int32_t below = (b[c] * left + b[c + next] * right) >> 4;
            int32_t sum = (above * down.first >> 16) + (below * down.second >> 16);
            *ret_data++ = (uint8_t)((sum + 2) >> 2);
        }
    }
}

/* Passes on all rows, in strips of PART columns so that nothing has to be allocated. */
#define PART 512

typedef void row_fn(void *ctx, int32_t y, int32_t x, int32_t count, const uint8_t *pixels);

static void stretch(const struct culm_frame *frame, int32_t width, int32_t height, row_fn *row,
                    void *ctx) {
    struct tap tap[PART];
    uint8_t pixels[3 * PART];
    if (width == frame->width && height == frame->height) { /* the same size */
        for (int32_t y = 0; y < height; y++) {
            row(ctx, y, 0, width, frame->data + (size_t)y * frame->stride);
        }
        return;
    }
    for (int32_t x = 0; x < width; x += PART) {
        int32_t count = width - x < PART ? width - x : PART;
        for (int32_t i = 0; i < count; i++) {
            tap[i] = tap_of(x + i, width, frame->width);
        }
        for (int32_t y = 0; y < height; y++) {
            stretch_row(frame, tap, count, tap_of(y, height, frame->height), pixels);
            row(ctx, y, x, count, pixels);
        }
    }
}

static uint8_t grey(const uint8_t *rgb) {
    return (uint8_t)((19595 * rgb[0] + 38470 * rgb[1] + 7471 * rgb[2] + 32768) >> 16);
}

/* Where in the input, in numbers, a frame that lies there begins. */
static size_t begin_of(const struct culm_vision_input *input,
                       const struct culm_vision_place *place) {
    return ((size_t)place->y * (size_t)input->width + (size_t)place->x) * (size_t)input->channels;
}

/* --- bytes --- */

struct bytes {
    uint8_t *data;                 /* where the frame begins */
    int32_t width, channels, from; /* width: of the input; from: channels of the frame */
};

static void put_bytes(void *ctx, int32_t y, int32_t x, int32_t count, const uint8_t *pixels) {
    const struct bytes *to = ctx;
    size_t each = (size_t)to->channels;
    uint8_t *out = to->data + ((size_t)y * (size_t)to->width + (size_t)x) * each;
    if (to->channels == to->from) {
        memcpy(out, pixels, (size_t)count * each);
        return;
    }
    for (int32_t i = 0; i < count; i++, out += each, pixels += to->from) {
        memset(out, to->channels == 1 ? grey(pixels) : *pixels, each);
    }
}

void culm_vision_stretch(const struct culm_vision_input *input, const struct culm_frame *frame,
                         uint8_t *ret_data) {
    const struct culm_vision_place place = culm_vision_place_of(input, frame->width, frame->height);
    const size_t all = (size_t)input->width * (size_t)input->height * (size_t)input->channels;
    struct bytes to = {ret_data + begin_of(input, &place), input->width, input->channels,
                       frame->channels};
    if (place.width < input->width || place.height < input->height) {
        memset(ret_data, input->around, all);
    }
    stretch(frame, place.width, place.height, put_bytes, &to);
}

/* --- numbers --- */

struct numbers {
    float *data;             /* where the frame begins */
    int32_t width, channels; /* of the input */
    int32_t from;            /* channels of the frame */
    int32_t pick[3];         /* the channel of a colour frame that channel c is */
    float value[3][256];
};

static void put_numbers(void *ctx, int32_t y, int32_t x, int32_t count, const uint8_t *pixels) {
    const struct numbers *to = ctx;
    float *out = to->data + ((size_t)y * (size_t)to->width + (size_t)x) * (size_t)to->channels;
    for (int32_t i = 0; i < count; i++, pixels += to->from) {
        if (to->channels == 1) {
            *out++ = to->value[0][to->from == 3 ? grey(pixels) : pixels[0]];
            continue;
        }
        for (int32_t c = 0; c < 3; c++) {
            *out++ = to->value[c][pixels[to->from == 3 ? to->pick[c] : 0]];
        }
    }
}

void culm_vision_fill(const struct culm_vision_input *input, const struct culm_frame *frame,
                      float *ret_data) {
    const struct culm_vision_place place = culm_vision_place_of(input, frame->width, frame->height);
    const int64_t all = (int64_t)input->width * input->height * input->channels;
    struct numbers to = {.data = ret_data + begin_of(input, &place),
                         .width = input->width,
                         .channels = input->channels,
                         .from = frame->channels};
    for (int c = 0; c < 3; c++) {
        to.pick[c] = input->bgr ? 2 - c : c;
        for (int x = 0; x < 256; x++) {
            to.value[c][x] = ((float)x / 255 - input->mean[c]) / input->deviation[c];
        }
    }
    for (int64_t i = 0; (place.width < input->width || place.height < input->height) && i < all;
         i++) {
        ret_data[i] = to.value[i % input->channels][input->around];
    }
    stretch(frame, place.width, place.height, put_numbers, &to);
}
