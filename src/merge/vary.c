/* See vary.h. */
#include "merge/vary.h"

#include "base/rng.h"

#define REACH 14    /* one part in so many of the width that a frame is moved by, at most */
#define NOISE 0.08F /* of a pixel's range: the most that noise adds or takes away */
#define NOISY 3     /* every so manieth variant is */

static int64_t inside(int64_t at, int64_t count) {
    return at < 0 ? 0 : at < count ? at : count - 1;
}

/* Between -1 and 1, near 0 more often. */
static float noise(uint64_t *random) {
    const float a = culm_rng_unit((uint32_t)culm_rng_next(random));
    const float b = culm_rng_unit((uint32_t)culm_rng_next(random));
    return a - b;
}

void culm_merge_vary(const struct culm_vision_input *input, const float *frame, uint64_t variant,
                     uint64_t seed, float *ret_frame) {
    static const float light[] = {1, 0.7F, 0.5F, 0.85F};
    const int64_t h = input->height, w = input->width, c = input->channels;
    const int64_t reach = w / REACH > 0 ? w / REACH : 1;
    const float keep = light[variant / 2 % (sizeof light / sizeof *light)];
    const float most = variant % NOISY == NOISY - 1 ? NOISE : 0;
    uint64_t random = culm_rng_mix(seed, variant);
    const int64_t dy = (int64_t)culm_rng_below(&random, (uint64_t)(2 * reach + 1)) - reach;
    const int64_t dx = (int64_t)culm_rng_below(&random, (uint64_t)(2 * reach + 1)) - reach;
    for (int64_t y = 0; y < h; y++) {
        for (int64_t x = 0; x < w; x++) {
            int64_t from = inside(x + dx, w);
            from = variant % 2 ? w - 1 - from : from;
            const float *pixel = frame + (inside(y + dy, h) * w + from) * c;
            for (int64_t k = 0; k < c; k++) {
                float value = (pixel[k] * input->deviation[k] + input->mean[k]) * keep;
                value += most > 0 ? most * noise(&random) : 0;
                value = value < 0 ? 0 : value > 1 ? 1 : value;
                ret_frame[(y * w + x) * c + k] = (value - input->mean[k]) / input->deviation[k];
            }
        }
    }
}
