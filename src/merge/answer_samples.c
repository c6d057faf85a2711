/* Frames with answers, as training samples. See answer_samples.h. */
#include "merge/answer_samples.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "merging: out of memory");
}

enum culm_status culm_answer_samples_init(struct culm_answer_samples *samples,
                                          const struct culm_merge_frames *frames, int64_t elements,
                                          int32_t points, int32_t slots, struct culm_error *error) {
    *samples = (struct culm_answer_samples){
        .elements = elements,
        .frames = frames,
        .answer = calloc((size_t)frames->count + 1, sizeof *samples->answer),
        .slot = calloc((size_t)slots, sizeof *samples->slot),
    };
    bool made = samples->answer && samples->slot;
    for (; samples->slots < slots && made; samples->slots++) {
        float *list = calloc(2 * (size_t)points + 1, sizeof *list);
        samples->slot[samples->slots].points = list;
        made = list != NULL;
    }
    return made ? CULM_OK : no_memory(error);
}

void culm_answer_samples_release(struct culm_answer_samples *samples) {
    for (int64_t i = 0; samples->answer && i < samples->frames->count; i++) {
        culm_answer_release(&samples->answer[i]);
    }
    for (int32_t i = 0; i < samples->slots; i++) {
        free(samples->slot[i].box);
        free(samples->slot[i].points);
    }
    free(samples->answer);
    free(samples->slot);
    *samples = (struct culm_answer_samples){0};
}

enum culm_status culm_answer_samples_get(void *ctx, int64_t sample, float *ret_image,
                                         struct culm_wanted *ret_wanted, struct culm_error *error) {
    struct culm_answer_samples *samples = ctx;
    const struct culm_merge_frames *frames = samples->frames;
    const struct culm_answer *answer = &samples->answer[sample];
    float width = (float)frames->size[sample].width, left = 0;
    float height = (float)frames->size[sample].height, top = 0;
    struct culm_answer_samples_slot *slot = &samples->slot[samples->turn];
    if (samples->input &&
        samples->input->letterbox) { /* the input is wider or higher than the frame */
        const struct culm_vision_place place =
            culm_vision_place_of(samples->input, (int32_t)width, (int32_t)height);
        left = width * (float)place.x / (float)place.width;
        top = height * (float)place.y / (float)place.height;
        width *= (float)samples->input->width / (float)place.width;
        height *= (float)samples->input->height / (float)place.height;
    }
    samples->turn = (samples->turn + 1) % samples->slots;
    if (!CULM_GROW(slot->box, slot->box_capacity, answer->box_count)) {
        return no_memory(error);
    }
    memcpy(ret_image, frames->image + sample * samples->elements,
           (size_t)samples->elements * sizeof *ret_image);
    for (int32_t b = 0; b < answer->box_count; b++) {
        const struct culm_box *box = &answer->box[b];
        slot->box[b] = (struct culm_wanted_box){
            (box->x + box->width / 2 + left) / width, (box->y + box->height / 2 + top) / height,
            box->width / width, box->height / height, box->class_index};
    }
    for (int32_t p = 0; p < answer->point_count; p++) {
        slot->points[2 * p] = (answer->point[p].x + left) / width;
        slot->points[2 * p + 1] = (answer->point[p].y + top) / height;
    }
    int32_t label = answer->class_count > 0 ? answer->classes[0].class_index : -1;
    *ret_wanted = (struct culm_wanted){.label = frames->label ? frames->label[sample] : label,
                                       .points = slot->points,
                                       .box = slot->box,
                                       .box_count = answer->box_count};
    return CULM_OK;
}
