/*
 * Bilinear resizing with antialiasing; see image.h.
 *
 * An output pixel is a weighted sum of the input pixels under a triangle whose half width is one
 * output pixel, or one input pixel where the image is enlarged. Weights are rounded to 22 bits
 * after the point, sums to bytes after each of the two passes. The weights come from additions,
 * multiplications and divisions alone, so their bits are the same everywhere.
 */
#include "data/image.h"

#include <stdlib.h>
#include <string.h>

#define POINT 22

void culm_resizer_release(struct culm_resizer *resizer) {
    free(resizer->weight);
    free(resizer->first);
    free(resizer->rows);
    *resizer = (struct culm_resizer){0};
}

static bool grow(void *pointer, size_t *capacity, size_t needed, size_t size) {
    void **memory = pointer;
    if (needed > *capacity) {
        void *larger = realloc(*memory, needed * size);
        if (!larger) {
            return false;
        }
        *memory = larger;
        *capacity = needed;
    }
    return true;
}

/* One direction: for outputs [begin, begin + count) of `to`, the first input pixel, how many there
 * are, and their weights, `taps` apart. */
struct axis {
    int64_t taps;
    int32_t *first; /* [count][2]: first input, number of inputs */
    int32_t *weight;
};

static double triangle(double x) {
    x = x < 0 ? -x : x;
    return x < 1 ? 1 - x : 0;
}

static void axis_fill(struct axis *axis, int64_t from, int64_t to, int64_t begin, int64_t count) {
    double scale = (double)from / (double)to, support = scale < 1 ? 1 : scale;
    double shrink = 1 / support;
    for (int64_t i = 0; i < count; i++) {
        double center = ((double)(begin + i) + 0.5) * scale, sum = 0;
        int64_t first = (int64_t)(center - support + 0.5), last = (int64_t)(center + support + 0.5);
        int32_t *weight = axis->weight + i * axis->taps;
        first = first < 0 ? 0 : first;
        last = last > from ? from : last;
        for (int64_t k = first; k < last; k++) {
            sum += triangle(((double)k - center + 0.5) * shrink);
        }
        for (int64_t k = first; k < last; k++) {
            double share = triangle(((double)k - center + 0.5) * shrink);
            share = sum != 0 ? share / sum : share;
            weight[k - first] = (int32_t)(0.5 + share * (1 << POINT));
        }
        axis->first[2 * i] = (int32_t)first;
        axis->first[2 * i + 1] = (int32_t)(last - first);
    }
}

static int64_t axis_taps(int64_t from, int64_t to) {
    int64_t half = from <= to ? 1 : (from + to - 1) / to;
    return 2 * half + 1;
}

/* out[i] = sum of pixels `step` bytes apart, for `count` outputs of one line of pixels. */
static void run_across(const struct axis *axis, const uint8_t *from, int64_t count,
                       int32_t channels, uint8_t *to) {
    for (int64_t i = 0; i < count; i++) {
        const int32_t *weight = axis->weight + i * axis->taps;
        const uint8_t *pixel = from + (size_t)axis->first[2 * i] * (size_t)channels;
        for (int32_t c = 0; c < channels; c++) {
            int32_t sum = 1 << (POINT - 1); /* 255 times weights that add up to one fit */
            for (int32_t k = 0; k < axis->first[2 * i + 1]; k++) {
                sum += pixel[k * channels + c] * weight[k];
            }
            sum >>= POINT;
            *to++ = (uint8_t)(sum > 255 ? 255 : sum);
        }
    }
}

static void run_down(const struct axis *axis, const uint8_t *rows, int64_t first_row, int64_t count,
                     size_t width, uint8_t *to) {
    for (int64_t i = 0; i < count; i++) {
        const int32_t *weight = axis->weight + i * axis->taps;
        const uint8_t *row = rows + (size_t)(axis->first[2 * i] - first_row) * width;
        for (size_t x = 0; x < width; x++) {
            int32_t sum = 1 << (POINT - 1);
            for (int32_t k = 0; k < axis->first[2 * i + 1]; k++) {
                sum += row[(size_t)k * width + x] * weight[k];
            }
            sum >>= POINT;
            *to++ = (uint8_t)(sum > 255 ? 255 : sum);
        }
    }
}

enum culm_status culm_resizer_run(struct culm_resizer *resizer, const uint8_t *from,
                                  int64_t from_height, int64_t from_width, int32_t channels,
                                  size_t stride, const struct culm_image_window *w,
                                  uint8_t *ret_data, struct culm_error *error) {
    struct axis across = {.taps = axis_taps(from_width, w->full_width)};
    struct axis down = {.taps = axis_taps(from_height, w->full_height)};
    size_t weights = (size_t)(w->width * across.taps + w->height * down.taps);
    size_t line = (size_t)w->width * (size_t)channels;
    if (!grow(&resizer->weight, &resizer->weight_capacity, weights, sizeof(int32_t)) ||
        !grow(&resizer->first, &resizer->first_capacity, (size_t)(2 * (w->width + w->height)),
              sizeof(int32_t)) ||
        !grow(&resizer->rows, &resizer->rows_capacity, (size_t)from_height * line, 1)) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for an image");
    }
    across.weight = resizer->weight;
    across.first = resizer->first;
    down.weight = resizer->weight + w->width * across.taps;
    down.first = resizer->first + 2 * w->width;
    bool wider = w->full_width != from_width, taller = w->full_height != from_height;
    if (taller) {
        axis_fill(&down, from_height, w->full_height, w->top, w->height);
    }
    if (wider) {
        axis_fill(&across, from_width, w->full_width, w->left, w->width);
    }
    int64_t first = taller ? down.first[0] : w->top;
    int64_t end =
        taller ? down.first[2 * w->height - 2] + down.first[2 * w->height - 1] : w->top + w->height;
    uint8_t *rows = taller ? resizer->rows : ret_data;
    for (int64_t y = first; y < end; y++) {
        const uint8_t *source = from + (size_t)y * stride;
        uint8_t *to = rows + (size_t)(y - first) * line;
        if (wider) {
            run_across(&across, source, w->width, channels, to);
        } else {
            memcpy(to, source + (size_t)w->left * (size_t)channels, line);
        }
    }
    if (taller) {
        run_down(&down, rows, first, w->height, line, ret_data);
    }
    return CULM_OK;
}
