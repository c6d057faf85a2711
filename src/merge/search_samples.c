/* Frames as samples: as they are, and shifted. See search_samples.h. */
#include "merge/search_samples.h"

#include "base/rng.h"

#include <math.h>
#include <string.h>

#define RATE 2e-2    /* relative to a tensor's size */
#define AVERAGE 0.98 /* decay of the mean of the weights, a step */
#define PIXELS 25088 /* a step, of each model */
#define EACH_MIN 4   /* samples */
#define EACH_MAX 64
#define SMALL 4096 /* pixels of a picture, up to which it gets more variants */

struct search_samples search_samples_of(const struct culm_search *s, int32_t model) {
    const int64_t *dim = s->models[model]->graph->field[0].shape.dim;
    return (struct search_samples){.frames = &s->frames[model],
                                   .h = dim[1],
                                   .w = dim[2],
                                   .c = dim[3],
                                   .variants = dim[1] * dim[2] <= SMALL ? 8 : 2,
                                   .seed = s->config->seed};
}

int64_t search_samples_each(const struct search_samples *samples) {
    int64_t each = PIXELS / (samples->h * samples->w);
    return each < EACH_MIN ? EACH_MIN : each > EACH_MAX ? EACH_MAX : each;
}

static int64_t inside(int64_t at, int64_t count) {
    return at < 0 ? 0 : at < count ? at : count - 1;
}

static enum culm_status get(void *ctx, int64_t sample, float *ret_image,
                            struct culm_wanted *ret_wanted, struct culm_error *error) {
    const struct search_samples *from = ctx;
    const int64_t variant = sample / from->frames->count, one = from->h * from->w * from->c;
    const float *frame = from->frames->image + sample % from->frames->count * one;
    (void)error;
    *ret_wanted = (struct culm_wanted){.label = -1};
    if (variant == 0) {
        memcpy(ret_image, frame, 4 * (size_t)one);
        return CULM_OK;
    }
    uint64_t random = culm_rng_mix(from->seed, (uint64_t)sample);
    const int64_t reach = from->w / 14 > 0 ? from->w / 14 : 1;
    const int64_t dy = (int64_t)culm_rng_below(&random, (uint64_t)(2 * reach + 1)) - reach;
    const int64_t dx = (int64_t)culm_rng_below(&random, (uint64_t)(2 * reach + 1)) - reach;
    for (int64_t y = 0; y < from->h; y++) {
        for (int64_t x = 0; x < from->w; x++) {
            int64_t fx = inside(x + dx, from->w);
            fx = variant % 2 ? from->w - 1 - fx : fx;
            memcpy(ret_image + (y * from->w + x) * from->c,
                   frame + (inside(y + dy, from->h) * from->w + fx) * from->c, 4 * (size_t)from->c);
        }
    }
    return CULM_OK;
}

struct culm_joint_samples search_samples_give(struct search_samples *samples) {
    return (struct culm_joint_samples){samples, samples->frames->count * samples->variants, get};
}

struct culm_joint_config search_samples_config(int64_t each, uint64_t seed) {
    return (struct culm_joint_config){
        .optimizer = {.name = CULM_OPTIMIZER_ADAM,
                      .lr = RATE * sqrt((double)each / SEARCH_SAMPLES_FULL),
                      .beta1 = 0.9,
                      .beta2 = 0.99,
                      .eps = 1e-8},
        .aim = CULM_JOINT_OUTPUTS,
        .batch = 1,
        .average = AVERAGE,
        .relative = true,
        .seed = seed};
}
