/*
 * Carries out what the scheduler decides: reads tensors into the arena (loader.c), runs
 * models on them, and writes answers.
 */
#include "live/executor.h"
#include "live/run.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/url.h"
#include "base/wall.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct culm_live *self(struct culm_edge_exec *exec) { return (struct culm_live *)exec; }

/* --- loads --- */

static enum culm_status load(struct culm_job *job) {
    struct culm_edge_load *it = (struct culm_edge_load *)job;
    return live_read(self(it->exec), it->tensor, &job->error);
}

static void loaded(struct culm_edge_exec *exec, const struct culm_edge_load *load, uint64_t ns) {
    struct culm_live *run = self(exec);
    culm_live_loads_add(&run->loads[run->read_again], run->store.unit[load->tensor].bytes, ns);
}

/* --- batches --- */

/* The most that a batch is assumed to have skipped: with less left, it would say too little about
 * the time of a whole run. */
#define MOST_LEFT_OUT 0.99

/* Where a batch's images begin: behind what is kept between batches. */
static char *image_of(const struct culm_live *run, const struct live_query *query, int32_t size) {
    return run->activations_at +
           culm_live_kept_bytes(&query->trunk, query->trunk.cuts, query->size[size]);
}

enum culm_status live_hold(struct culm_live *run, struct culm_error *error) {
    enum culm_status status =
        culm_live_arena_hold(&run->arena, run->activations_at + run->activations_held,
                             run->activations_wanted - run->activations_held, error);
    run->activations_held = status == CULM_OK ? run->activations_wanted : run->activations_held;
    return status;
}

static char *output_of(const struct culm_live *run, const struct live_query *query, int32_t size) {
    const struct live_program *program = &query->program[size];
    return image_of(run, query, size) + program->image_bytes + program->activation_bytes +
           program->scratch_bytes;
}

void live_compute(struct culm_live *run, struct live_query *query, int32_t size, int32_t from,
                  uint64_t *ret_ns) {
    struct live_program *program = &query->program[size];
    const struct culm_stage_info *info = culm_stage_info_of(program->stage);
    const struct culm_live_trunk *trunk = &query->trunk;
    char *image = image_of(run, query, size);
    const void *fields[] = {image};
    uint64_t begin = culm_clock_ns();
    for (int32_t p = 0; p < info->param_count; p++) {
        program->param[p] = query->at[program->part[p]];
    }
    struct culm_stage_run how = {
        .param = program->param,
        .fields = fields,
        .output = output_of(run, query, size),
        .loss_scale = 1,
        .activations = image + program->image_bytes,
        .scratch = image + program->image_bytes + program->activation_bytes,
        .first = true,
        .least = &run->least,
    };
    if (from > 0) {
        const struct culm_live_cut *cut = &trunk->cut[from - 1];
        how.cursor = cut->operators;
        culm_live_crossing_take(program->stage, &how, program->crossing[from - 1], cut->values,
                                run->activations_at +
                                    culm_live_kept_bytes(trunk, from - 1, query->size[size]));
    }
    for (int32_t i = from; i < trunk->cuts; i++) {
        while (how.cursor < trunk->cut[i].operators) {
            culm_stage_execute(program->stage, run->device, &how, how.cursor++);
        }
        culm_live_crossing_keep(program->stage, &how, program->crossing[i], trunk->cut[i].values,
                                run->activations_at +
                                    culm_live_kept_bytes(trunk, i, query->size[size]));
        ret_ns[i] = culm_clock_ns() - begin;
    }
    (void)culm_stage_forward(program->stage, run->device, &how);
}

struct culm_frame live_pixels(const struct culm_live *run, const struct live_query *query,
                              const struct live_frame *frame) {
    const struct culm_vision_input *input = &query->entry->model->input;
    const struct live_feed *feed = &run->feed[query->feed];
    size_t offset = 0;
    for (int32_t i = 0; i < feed->inputs; i++) {
        if (culm_vision_same_bytes(&feed->input[i].input, input)) {
            offset = feed->input[i].offset;
        }
    }
    return (struct culm_frame){
        .data = frame->pixels + offset,
        .stride = (size_t)input->width * (size_t)input->channels,
        .width = input->width,
        .height = input->height,
        .channels = input->channels,
    };
}

static void fill(struct culm_live *run, const struct live_query *query,
                 const struct culm_edge_batch *batch, int32_t size) {
    const struct culm_vision_input *input = &query->entry->model->input;
    size_t floats = (size_t)input->width * (size_t)input->height * (size_t)input->channels;
    for (int32_t k = 0; k < batch->count; k++) {
        struct culm_frame pixels = live_pixels(run, query, batch->look[k].blob->data);
        culm_vision_fill(input, &pixels, (float *)image_of(run, query, size) + (size_t)k * floats);
    }
}

/* Decodes what `of` has computed as answers of `query`, which is itself or a twin. */
static enum culm_status decode(struct culm_live *run, const struct live_query *of,
                               const struct live_query *query, const struct culm_edge_batch *batch,
                               int32_t size, struct culm_answer *answer, struct culm_error *error) {
    const struct live_program *program = &of->program[size];
    const struct culm_vision_model *model = query->entry->model;
    const int32_t outputs = culm_vision_outputs(model);
    enum culm_status status = CULM_OK;
    for (int32_t k = 0; k < batch->count && status == CULM_OK; k++) {
        const struct live_frame *frame = batch->look[k].blob->data;
        const float *output[CULM_VISION_HEADS_MAX];
        struct culm_shape shape[CULM_VISION_HEADS_MAX];
        for (int32_t i = 0; i < outputs; i++) {
            const struct culm_shape *all =
                &program->graph->value[program->graph->output[i].value].shape;
            shape[i] = (struct culm_shape){.rank = all->rank - 1};
            memcpy(shape[i].dim, all->dim + 1, sizeof shape[i].dim - sizeof *shape[i].dim);
            output[i] = (const float *)(output_of(run, of, size) +
                                        culm_stage_output_offset(program->stage, i)) +
                        k * culm_elements(&shape[i]);
        }
        status = culm_answer_read(model, output, shape, frame->width, frame->height,
                                  query->score_now, &answer[k], error);
    }
    return status;
}

/* Whether a twin has already answered these frames; takes its answers if so. */
static bool answered_ahead(struct live_query *query, const struct culm_edge_batch *batch) {
    bool all = batch->shared_prefix >= 0 && batch->count == query->ahead_count;
    for (int32_t k = 0; k < batch->count && all; k++) {
        all = query->ahead_frame[k] == batch->look[k].frame;
    }
    for (int32_t k = 0; k < batch->count && all; k++) {
        struct culm_answer old = query->answer[k];
        query->answer[k] = query->ahead[k];
        query->ahead[k] = old; /* to reuse its memory */
    }
    query->ahead_count = 0;
    return all;
}

static enum culm_status answer_for_twins(struct culm_live *run, const struct live_query *query,
                                         const struct culm_edge_batch *batch, int32_t size,
                                         struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (uint64_t left = query->twins; left && status == CULM_OK; left &= left - 1) {
        struct live_query *twin = &run->query[__builtin_ctzll(left)];
        status = decode(run, query, twin, batch, size, twin->ahead, error);
        for (int32_t k = 0; k < batch->count; k++) {
            twin->ahead_frame[k] = batch->look[k].frame;
        }
        twin->ahead_count = status == CULM_OK ? batch->count : 0;
    }
    return status;
}

/* How many cuts the query can skip by continuing from what the previous batch has left. */
static int32_t cuts_behind(const struct culm_live *run, const struct live_query *query,
                           const struct culm_edge_batch *batch, int32_t size) {
    const struct live_kept *kept = &run->kept;
    int32_t cuts = 0;
    bool same = batch->shared_prefix >= 0 && kept->size == size && kept->count == batch->count;
    for (int32_t k = 0; k < batch->count && same; k++) {
        same = kept->frame[k] == batch->look[k].frame;
    }
    while (same && cuts < kept->cuts && cuts < query->trunk.cuts &&
           kept->id[cuts] == query->trunk.cut[cuts].id) {
        cuts++;
    }
    return cuts;
}

static void note_kept(struct culm_live *run, const struct live_query *query,
                      const struct culm_edge_batch *batch, int32_t size) {
    struct live_kept *kept = &run->kept;
    *kept = (struct live_kept){.cuts = query->trunk.cuts, .size = size, .count = batch->count};
    for (int32_t i = 0; i < kept->cuts; i++) {
        kept->id[i] = query->trunk.cut[i].id;
        kept->end[i] = culm_live_kept_bytes(&query->trunk, i + 1, query->size[size]);
    }
    for (int32_t k = 0; k < batch->count; k++) {
        kept->frame[k] = batch->look[k].frame;
    }
}

static int32_t size_of(const struct live_query *query, const struct culm_edge_batch *batch) {
    int32_t size = 0;
    while (size < query->sizes - 1 && query->size[size] < batch->count) {
        size++;
    }
    return size;
}

static enum culm_status infer(struct culm_job *job) {
    struct culm_edge_batch *batch = (struct culm_edge_batch *)job;
    struct culm_live *run = self(batch->exec);
    struct live_query *query = &run->query[batch->query];
    int32_t size = size_of(query, batch);
    run->from = -1;
    if (answered_ahead(query, batch)) {
        return CULM_OK;
    }
    enum culm_status status = live_hold(run, &job->error);
    if (status != CULM_OK) {
        return status;
    }
    uint64_t begin = culm_clock_ns();
    run->from = cuts_behind(run, query, batch, size);
    if (run->from == 0) {
        fill(run, query, batch, size);
    }
    uint64_t filled_ns = culm_clock_ns() - begin;
    live_compute(run, query, size, run->from, run->reached_ns);
    note_kept(run, query, batch, size);
    for (int32_t i = run->from; i < query->trunk.cuts; i++) {
        run->reached_ns[i] += filled_ns;
    }
    status = decode(run, query, query, batch, size, query->answer, &job->error);
    return status ? status : answer_for_twins(run, query, batch, size, &job->error);
}

static void smooth(double *value, double now) {
    *value = *value > 0 ? *value * 0.9 + now * 0.1 : now;
}

/* Notes how long a batch took. If it began at a cut, the time of a whole run is estimated. */
static void ran(struct culm_edge_exec *exec, const struct culm_edge_batch *batch, uint64_t ns) {
    struct culm_live *run = self(exec);
    struct live_query *query = &run->query[batch->query];
    int32_t size = size_of(query, batch);
    double ms = (double)ns / 1e6;
    if (run->from < 0) {
        return; /* a twin had answered for it, so it took next to nothing */
    }
    if (run->from > 0) {
        const struct culm_live_cut *cut = &query->trunk.cut[run->from - 1];
        double share = query->took_share[run->from - 1][size];
        if (share <= 0) {
            share = culm_live_times_share(&query->entry->times, cut->operators, query->size[size]);
        }
        share = share > 0 ? share : cut->work;
        ms /= 1 - (share < MOST_LEFT_OUT ? share : MOST_LEFT_OUT);
    }
    for (int32_t i = 0; i < query->trunk.cuts && run->from == 0; i++) {
        smooth(&query->took_share[i][size], (double)run->reached_ns[i] / (double)ns);
    }
    smooth(&query->took_ms[size], ms);
    query->ran_ms[size] += ms;
    query->ran[size]++;
}

static void evict(struct culm_edge_exec *exec, int32_t tensor) {
    struct culm_live *run = self(exec);
    culm_live_arena_give_back(&run->arena, run->unit.at[tensor], run->store.unit[tensor].bytes);
}

static void activations(struct culm_edge_exec *exec, size_t bytes) {
    struct culm_live *run = self(exec);
    if (bytes < run->activations_held) {
        culm_live_arena_give_back(&run->arena, run->activations_at + bytes,
                                  run->activations_held - bytes);
        run->activations_held = bytes;
    }
    run->activations_wanted = bytes;
    while (run->kept.cuts > 0 && run->kept.end[run->kept.cuts - 1] > bytes) {
        run->kept.cuts--;
    }
}

/* --- answers --- */

static void tell_answer(struct culm_live *run, const struct live_query *query,
                        const struct culm_edge_look *look,
                        const struct culm_prediction *prediction) {
    const struct culm_live_answer answer = {.query = query->entry->config->name,
                                            .feed = run->feed[query->feed].config->name,
                                            .frame = look->frame,
                                            .of = query->latest_frame,
                                            .at_ns = look->at_ns,
                                            .due_ns = look->due_ns,
                                            .prediction = prediction};
    run->o->answer(run->o->ctx, &answer);
}

static void write_line(struct culm_live *run, struct live_query *query,
                       const struct culm_edge_look *look, bool stale) {
    const struct live_frame *frame = look->blob ? look->blob->data : NULL;
    const struct culm_feed_config *feed = run->feed[query->feed].config;
    struct culm_prediction prediction;
    char file[CULM_PATH_MAX], at[CULM_WALL_TEXT];
    json_t *line = NULL;
    culm_url_show(feed->file, file, sizeof file);
    culm_wall_text(look->at_ns, at);
    if (culm_prediction_of(query->entry->model, &query->latest, CULM_LIVE_TOP, file, look->frame,
                           &run->room, &prediction, NULL) == CULM_OK) {
        line = culm_prediction_object(&prediction);
        if (run->o->answer) {
            tell_answer(run, query, look, &prediction);
        }
    }
    json_object_set_new(line, "feed", culm_json_text(feed->name));
    json_object_set_new(line, "at", json_string(at));
    if (!frame || frame->source != look->frame) { /* none: it was due, and did not come */
        json_object_set_new(line, "source", frame ? json_integer(frame->source) : json_null());
    }
    if (stale) {
        json_object_set_new(line, "stale", json_true());
        json_object_set_new(
            line, "of", query->latest_frame < 0 ? json_null() : json_integer(query->latest_frame));
    }
    if (!run->no_files) {
        char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
        live_write_answer(run, query, text);
        free(text);
    }
    live_send_answer(run, query, line);
    json_decref(line);
}

int32_t live_label(const struct live_query *query, const struct live_frame *frame) {
    if (query->entry->model->kind != CULM_ANSWER_CLASSES) {
        return -1;
    }
    if (query->label) {
        return frame->source < query->label_count ? query->label[frame->source] : -1;
    }
    return query->by_folder ? frame->folder : -1;
}

const struct culm_answer *live_right(const struct live_query *query,
                                     const struct live_frame *frame) {
    return frame->source < query->right.count ? &query->right.answer[frame->source] : NULL;
}

/* Once for a query: what it answers says nothing, and the others go on. */
static void warn_of_other(struct culm_live *run, struct live_query *query, int64_t frame) {
    char text[CULM_ERROR_MAX];
    snprintf(text, sizeof text,
             "query '%.100s': frame %lld: the model's answer is not finite (%s), and such answers "
             "say nothing; its weights make numbers that are too large",
             query->entry->config->name, (long long)frame, query->latest.other);
    query->told_other = true;
    live_warn(run, text);
}

static void settled(struct culm_edge_exec *exec, int32_t number, const struct culm_edge_look *look,
                    const struct culm_edge_batch *batch) {
    struct culm_live *run = self(exec);
    struct live_query *query = &run->query[number];
    const struct live_frame *frame = look->blob ? look->blob->data : NULL;
    for (int32_t k = 0; batch && frame && k < batch->count; k++) {
        if (batch->look[k].frame == look->frame) {
            live_compare(run, number, look->frame, frame, &query->answer[k]);
            live_sample(run, number, frame);
        }
    }
    if (query->original_of >= 0) {
        return;
    }
    for (int32_t k = 0; batch && k < batch->count; k++) {
        if (batch->look[k].frame == look->frame) {
            struct culm_answer old = query->latest;
            query->latest = query->answer[k];
            query->answer[k] = old; /* to reuse its memory */
            query->latest_frame = look->frame;
            query->answered_ns = culm_clock_ns();
        }
    }
    if (batch && query->latest.other && !query->told_other) {
        warn_of_other(run, query, look->frame);
    }
    query->latest.kind = query->entry->model->kind;
    const int32_t label = frame ? live_label(query, frame) : -1;
    const struct culm_answer *right = frame ? live_right(query, frame) : NULL;
    if (label >= 0) {
        culm_live_scored_add_label(&query->accuracy, &query->latest, label);
    } else if (right) {
        culm_live_scored_add(&query->accuracy, &query->latest, right, frame->width);
    } else if (frame && !query->right.answer) {
        live_given(run, number, look->frame, frame->width, &query->latest);
    }
    if (frame && batch) {
        live_keep(query, frame->source);
    }
    write_line(run, query, look, !batch);
}

static size_t frames(struct culm_edge_exec *exec) {
    struct culm_live *run = self(exec);
    struct culm_error error;
    if (live_slots(run, &error) != CULM_OK && run->failed.status == CULM_OK) {
        run->failed = error;
    }
    return run->frames_held;
}

static void relaid(struct culm_edge_exec *exec) {
    struct culm_live *run = self(exec);
    culm_live_laid_free(run->laid);
    run->laid = run->next;
    run->next = NULL;
    run->plan = run->next_plan;
    run->planner.wanted = run->next_is_quick;
    live_count(run);
    live_tell_plan(run);
    live_tell_unwatched(run);
    (void)frames(exec);
}

const struct culm_edge_exec_ops live_ops = {.size = sizeof(struct culm_edge_exec_ops),
                                            .load = load,
                                            .infer = infer,
                                            .loaded = loaded,
                                            .ran = ran,
                                            .evict = evict,
                                            .activations = activations,
                                            .frames = frames,
                                            .settled = settled,
                                            .relaid = relaid};
