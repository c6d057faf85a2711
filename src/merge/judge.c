/* The accuracy of a model on frames. See judge.h. */
#include "merge/judge.h"

#include <stdlib.h>
#include <string.h>

enum culm_status culm_judge_init(struct culm_judge *judge, struct culm_merge_model *model,
                                 int64_t batch, float score, struct culm_device *device,
                                 struct culm_error *error) {
    *judge = (struct culm_judge){
        .model = model, .score = score, .by = CULM_ACCURACY_BOXES, .overlap = 0.5};
    judge->accuracy = culm_accuracy_new(model->vision->kind);
    if (!judge->accuracy) {
        return culm_error_set(error, CULM_ERR_MEMORY, "merging: out of memory");
    }
    return culm_vision_runner_init(&judge->runner, model->vision, batch, 0, device, error);
}

void culm_judge_by(struct culm_judge *judge, enum culm_accuracy_by by, double overlap) {
    judge->by = by;
    judge->overlap = overlap;
    culm_accuracy_judge_by(judge->accuracy, by, overlap);
}

void culm_judge_release(struct culm_judge *judge) {
    culm_accuracy_free(judge->accuracy);
    culm_answer_release(&judge->answer);
    culm_vision_runner_release(&judge->runner);
    *judge = (struct culm_judge){0};
}

static void load(struct culm_judge *judge, float *const *value) {
    const struct culm_stage_info *info = culm_stage_info_of(judge->runner.stage);
    for (int32_t p = 0; p < info->param_count; p++) {
        int32_t index = info->params[p].global_index; /* the same index as in the model's graph */
        culm_graph_turn(&judge->runner.graph->param[index], value[index],
                        judge->runner.params + info->params[p].offset);
    }
}

/* Runs frames [first, first + batch), or as many as are left. */
static void run(struct culm_judge *judge, const struct culm_merge_frames *frames, int64_t first) {
    int64_t batch = judge->runner.batch, count = frames->count - first;
    const struct culm_shape *shape = &judge->runner.graph->field[0].shape;
    size_t bytes = 4 * (size_t)(culm_elements(shape) / shape->dim[0]);
    count = count < batch ? count : batch;
    memcpy(judge->runner.image, (const char *)frames->image + (size_t)first * bytes,
           (size_t)count * bytes);
    culm_vision_runner_run(&judge->runner);
}

static enum culm_status read(struct culm_judge *judge, const struct culm_merge_frames *frames,
                             int64_t frame, struct culm_answer *ret_answer,
                             struct culm_error *error) {
    const struct culm_merge_size *size = &frames->size[frame];
    return culm_vision_runner_answer(&judge->runner, judge->model->vision,
                                     frame % judge->runner.batch, size->width, size->height,
                                     judge->score, ret_answer, error);
}

enum culm_status culm_judge_answer(struct culm_judge *judge, float *const *value,
                                   const struct culm_merge_frames *frames,
                                   struct culm_answer *ret_answer, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    int64_t batch = judge->runner.batch;
    load(judge, value);
    for (int64_t i = 0; i < frames->count && status == CULM_OK; i++) {
        if (i % batch == 0) {
            run(judge, frames, i);
        }
        status = read(judge, frames, i, &ret_answer[i], error);
    }
    return status;
}

enum culm_status culm_judge_now(struct culm_judge *judge, float *const *value,
                                const struct culm_merge_frames *frames,
                                const struct culm_answer *wanted, double *ret_accuracy,
                                struct culm_error *error) {
    enum culm_status status = CULM_OK;
    int64_t batch = judge->runner.batch;
    bool ok = true;
    load(judge, value);
    wanted = frames->right ? frames->right : wanted;
    culm_accuracy_clear(judge->accuracy);
    for (int64_t i = 0; i < frames->count && status == CULM_OK && ok; i++) {
        if (i % batch == 0) {
            run(judge, frames, i);
        }
        status = read(judge, frames, i, &judge->answer, error);
        if (status == CULM_OK && frames->label) {
            ok = culm_accuracy_add_label(judge->accuracy, &judge->answer, frames->label[i]);
        } else if (status == CULM_OK) {
            ok = culm_accuracy_add(judge->accuracy, &judge->answer, &wanted[i],
                                   frames->size[i].width);
        }
    }
    *ret_accuracy = culm_accuracy_judged(judge->accuracy);
    return status == CULM_OK && !ok
               ? culm_error_set(error, CULM_ERR_MEMORY, "merging: out of memory")
               : status;
}

/* Adds to the objectness of all boxes of a sample. */
static void make_surer(const struct culm_judge *judge, int64_t sample, float by) {
    const struct culm_vision_model *vision = judge->model->vision;
    for (int32_t h = 0; h < vision->head_count; h++) {
        struct culm_shape shape;
        const float *map =
            culm_vision_runner_output(&judge->runner, vision->head[h].output, sample, &shape);
        float *own = (float *)(uintptr_t)map; /* the runner's, until it runs again */
        const int64_t count = culm_elements(&shape), each = 5 + vision->head[h].classes;
        for (int64_t i = 4; i < count && by != 0; i += each) {
            own[i] += by;
        }
    }
}

enum culm_status culm_judge_surer(struct culm_judge *judge, float *const *value,
                                  const struct culm_merge_frames *frames,
                                  const struct culm_answer *wanted, const float *by, int32_t count,
                                  double *ret_accuracy, int64_t *ret_told,
                                  struct culm_error *error) {
    struct culm_accuracy **accuracy = calloc((size_t)count + 1, sizeof(struct culm_accuracy *));
    const int64_t batch = judge->runner.batch;
    bool ok = accuracy != NULL;
    enum culm_status status = CULM_OK;
    memset(ret_told, 0, (size_t)count * sizeof *ret_told);
    for (int32_t s = 0; s < count && ok; s++) {
        ok = (accuracy[s] = culm_accuracy_new(judge->model->vision->kind)) != NULL;
        if (ok) {
            culm_accuracy_judge_by(accuracy[s], judge->by, judge->overlap);
        }
    }
    load(judge, value);
    wanted = frames->right ? frames->right : wanted;
    for (int64_t i = 0; i < frames->count && status == CULM_OK && ok; i++) {
        if (i % batch == 0) {
            run(judge, frames, i);
        }
        for (int32_t s = 0; s < count && status == CULM_OK && ok; s++) {
            make_surer(judge, i % batch, by[s] - (s > 0 ? by[s - 1] : 0));
            status = read(judge, frames, i, &judge->answer, error);
            ok = status != CULM_OK ||
                 culm_accuracy_add(accuracy[s], &judge->answer, &wanted[i], frames->size[i].width);
            ret_told[s] += judge->answer.box_count;
        }
    }
    for (int32_t s = 0; s < count && accuracy; s++) {
        if (status == CULM_OK && ok) {
            ret_accuracy[s] = culm_accuracy_judged(accuracy[s]);
        }
        culm_accuracy_free(accuracy[s]);
    }
    free(accuracy);
    return status == CULM_OK && !ok
               ? culm_error_set(error, CULM_ERR_MEMORY, "merging: out of memory")
               : status;
}
