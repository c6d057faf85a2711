/*
 * What the scheduler has done: tensors read into the arena, models run there, answers written.
 *
 * A file is read past the cache of the system where that is possible, so that a load is what it costs;
 * with a rate, a load takes as long as at that rate. A tensor's digest is compared when it is first read.
 */
#include "run/edge_run.h"

#include "base/clock.h"
#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct culm_edge_running *self(struct culm_edge_exec *exec) {
    return (struct culm_edge_running *)exec;
}

#define OVERSLEPT_NS 5000000ull

static void wait_until(uint64_t at_ns) {
    uint64_t now = culm_clock_ns();
    while (now < at_ns) {
        const struct timespec left = {(time_t)((at_ns - now) / 1000000000),
                                      (long)((at_ns - now) % 1000000000)};
        nanosleep(&left, NULL);
        now = culm_clock_ns();
    }
}

/* --- loads --- */

/* A source that is being read. */
struct reading {
    char path[CULM_PATH_MAX];
    struct culm_package_tensor tensor;
    size_t bytes;
    bool turned, verified;
    int32_t number;
};

/* At least `bytes` from `offset` on, and no more than `room`. */
static enum culm_status read_some(int fd, char *at, size_t offset, size_t bytes, size_t room,
                                  const char *path, struct culm_error *error) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = pread(fd, at + done, room - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got < 0 ? culm_error_errno(error, errno, "read '%s'", path)
                           : culm_error_set(error, CULM_ERR_FORMAT,
                                            "'%s': cut short after %zu bytes", path, offset + done);
        }
        done += (size_t)got;
    }
    return CULM_OK;
}

/* To its place in one go; what is run on in another order goes there part by part, so that it takes no
 * memory beside its own. */
static enum culm_status read_parts(const struct culm_edge_running *run,
                                   const struct reading *source, int fd, char *at, size_t room,
                                   struct culm_sha256 *hash, struct culm_error *error) {
    struct culm_param param = {.turned = true, .written = {.rank = source->tensor.rank}};
    memcpy(param.written.dim, source->tensor.shape,
           (size_t)source->tensor.rank * sizeof *source->tensor.shape);
    size_t part = source->turned ? CULM_EDGE_PART : source->bytes;
    enum culm_status status = CULM_OK;
    for (size_t done = 0; done < source->bytes && status == CULM_OK; done += part) {
        size_t bytes = source->bytes - done < part ? source->bytes - done : part;
        char *to = source->turned ? run->part : at;
        status = read_some(fd, to, done, bytes, source->turned ? CULM_EDGE_PART : room,
                           source->path, error);
        if (status == CULM_OK && hash) {
            culm_sha256_update(hash, to, bytes);
        }
        if (status == CULM_OK && source->turned) {
            culm_graph_turn_part(&param, (const float *)to, (int64_t)(done / sizeof(float)),
                                 (int64_t)(bytes / sizeof(float)), (float *)at);
        }
    }
    return status;
}

static enum culm_status read_and_verify(const struct culm_edge_running *run,
                                        const struct reading *source, int fd, char *at, size_t room,
                                        struct culm_error *error) {
    struct culm_sha256 hash = {0};
    char digest[CULM_SHA256_HEX];
    if (source->verified) {
        return read_parts(run, source, fd, at, room, NULL, error);
    }
    enum culm_status status = culm_package_digest_begin(&source->tensor, &hash);
    if (status != CULM_OK) {
        return culm_error_set(error, status, "SHA-256 failed");
    }
    status = read_parts(run, source, fd, at, room, &hash, error);
    if (status == CULM_OK && (status = culm_sha256_final(&hash, digest)) != CULM_OK) {
        culm_error_set(error, status, "SHA-256 failed");
    } else if (status == CULM_OK && strcmp(digest, source->tensor.digest) != 0) {
        status =
            culm_error_set(error, CULM_ERR_FORMAT,
                           "'%s' is not what its name says; copy the package again", source->path);
    }
    culm_sha256_release(&hash);
    return status;
}

/* Past the cache if `direct`: then room is a whole number of pages. */
static enum culm_status read_source(const struct culm_edge_running *run,
                                    const struct reading *source, char *at, size_t room,
                                    bool direct, struct culm_error *error) {
    int fd = direct ? open(source->path, O_RDONLY | O_CLOEXEC | O_DIRECT) : -1;
    bool past = fd >= 0;
    if (fd < 0) {
        fd = open(source->path, O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0) {
        return culm_error_errno(error, errno, "open '%s'", source->path);
    }
    enum culm_status status =
        read_and_verify(run, source, fd, at, past ? room : source->bytes, error);
    if (!past) {
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    }
    close(fd);
    /* A file system may say only then that it does not do that. */
    return status == CULM_ERR_IO && past ? read_source(run, source, at, room, false, error)
                                         : status;
}

static enum culm_status describe(const struct culm_edge_running *run, int32_t number,
                                 struct reading *source, struct culm_error *error) {
    const struct edge_tensor *tensor = &run->tensor[number];
    source->number = number;
    source->tensor = tensor->of;
    source->turned = tensor->turned;
    source->verified = tensor->verified;
    source->bytes = run->store.source[number].bytes;
    return culm_package_tensor_path(run->store.source[number].place ? run->originals : run->package,
                                    tensor->of.digest, source->path, error);
}

enum culm_status culm_edge_running_read(struct culm_edge_running *run, int32_t number,
                                        struct culm_error *error) {
    uint64_t begin = culm_clock_ns();
    pthread_mutex_lock(&run->lock);
    struct culm_edge_unit unit = run->store.unit[number]; /* its list stays where it is */
    char *at = run->unit_at[number];
    pthread_mutex_unlock(&run->lock);
    enum culm_status status = culm_edge_arena_hold(&run->arena, at, unit.bytes, error);
    size_t offset = 0;
    for (int32_t i = 0; i < unit.count && status == CULM_OK; i++) {
        struct reading source;
        pthread_mutex_lock(&run->lock);
        status = describe(run, unit.source[i], &source, error);
        pthread_mutex_unlock(&run->lock);
        status = status
                     ? status
                     : read_source(run, &source, at + offset, unit.bytes, unit.count == 1, error);
        if (status == CULM_OK && !source.verified) {
            pthread_mutex_lock(&run->lock);
            run->tensor[source.number].verified = true;
            pthread_mutex_unlock(&run->lock);
        }
        offset += edge_round64(source.bytes);
    }
    if (status != CULM_OK) {
        culm_edge_arena_give_back(&run->arena, at, unit.bytes);
        return status;
    }
    if (run->rate_mb_per_s > 0) {
        /* What one load overslept the next one makes good. */
        uint64_t from = run->line_free_ns + OVERSLEPT_NS > begin ? run->line_free_ns : begin;
        run->line_free_ns = from + (uint64_t)((double)unit.bytes * 1e3 / run->rate_mb_per_s);
        wait_until(run->line_free_ns);
    }
    run->read_s += (double)(culm_clock_ns() - begin) / 1e9;
    run->read_bytes += (int64_t)unit.bytes;
    run->reads++;
    return CULM_OK;
}

static enum culm_status load(struct culm_job *job) {
    struct culm_edge_load *it = (struct culm_edge_load *)job;
    return culm_edge_running_read(self(it->exec), it->tensor, &job->error);
}

/* --- batches --- */

float *culm_edge_running_image(struct culm_edge_running *run) {
    return (float *)run->activations_at;
}

static char *output_of(const struct culm_edge_running *run, const struct edge_program *program) {
    return run->activations_at + program->image_bytes + program->activation_bytes +
           program->scratch_bytes;
}

void culm_edge_running_compute(struct culm_edge_running *run, struct edge_query *query,
                               int32_t size) {
    struct edge_program *program = &query->program[size];
    const struct culm_stage_info *info = culm_stage_info(program->stage);
    const void *fields[] = {run->activations_at};
    for (int32_t p = 0; p < info->param_count; p++) {
        program->param[p] = query->at[program->part[p]];
    }
    struct culm_stage_run how = {
        .param = program->param,
        .fields = fields,
        .output = output_of(run, program),
        .loss_scale = 1,
        .activations = run->activations_at + program->image_bytes,
        .scratch = run->activations_at + program->image_bytes + program->activation_bytes,
        .first = true,
    };
    (void)culm_stage_forward(program->stage, run->device, &how);
}

struct culm_frame culm_edge_running_pixels(const struct culm_edge_running *run,
                                           const struct edge_query *query,
                                           const struct edge_frame *frame) {
    const struct culm_vision_input *input = &query->entry->model->input;
    const struct edge_feed *feed = &run->feed[query->feed];
    size_t offset = 0;
    for (int32_t i = 0; i < feed->inputs; i++) {
        if (feed->input[i].width == input->width && feed->input[i].height == input->height &&
            feed->input[i].channels == input->channels) {
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

static void fill(struct culm_edge_running *run, const struct edge_query *query,
                 const struct culm_edge_batch *batch) {
    const struct culm_vision_input *input = &query->entry->model->input;
    size_t floats = (size_t)input->width * (size_t)input->height * (size_t)input->channels;
    for (int32_t k = 0; k < batch->count; k++) {
        struct culm_frame pixels = culm_edge_running_pixels(run, query, batch->look[k].blob->data);
        culm_vision_fill(input, &pixels, culm_edge_running_image(run) + (size_t)k * floats);
    }
}

/* What `of` has computed, as an answer of `query`, which may be its twin. */
static enum culm_status decode(struct culm_edge_running *run, const struct edge_query *of,
                               const struct edge_query *query, const struct culm_edge_batch *batch,
                               int32_t size, struct culm_answer *answer, struct culm_error *error) {
    const struct edge_program *program = &of->program[size];
    const struct culm_vision_model *model = query->entry->model;
    int32_t outputs = model->head_count ? model->head_count : 1;
    enum culm_status status = CULM_OK;
    for (int32_t k = 0; k < batch->count && status == CULM_OK; k++) {
        const struct edge_frame *frame = batch->look[k].blob->data;
        const float *output[CULM_VISION_HEADS_MAX];
        struct culm_shape shape[CULM_VISION_HEADS_MAX];
        for (int32_t i = 0; i < outputs; i++) {
            const struct culm_shape *all =
                &program->graph->value[program->graph->output[i].value].shape;
            shape[i] = (struct culm_shape){.rank = all->rank - 1};
            memcpy(shape[i].dim, all->dim + 1, sizeof shape[i].dim - sizeof *shape[i].dim);
            output[i] = (const float *)(output_of(run, program) +
                                        culm_stage_output_offset(program->stage, i)) +
                        k * culm_elements(&shape[i]);
        }
        status = culm_answer_read(model, output, shape, frame->width, frame->height,
                                  query->score_now, &answer[k], error);
    }
    return status;
}

/* Whether a twin has answered these frames. */
static bool answered_ahead(struct edge_query *query, const struct culm_edge_batch *batch) {
    bool all = batch->shared_prefix >= 0 && batch->count == query->ahead_count;
    for (int32_t k = 0; k < batch->count && all; k++) {
        all = query->ahead_frame[k] == batch->look[k].frame;
    }
    for (int32_t k = 0; k < batch->count && all; k++) {
        struct culm_answer old = query->answer[k];
        query->answer[k] = query->ahead[k];
        query->ahead[k] = old; /* its memory is used again */
    }
    query->ahead_count = 0;
    return all;
}

static enum culm_status answer_for_twins(struct culm_edge_running *run,
                                         const struct edge_query *query,
                                         const struct culm_edge_batch *batch, int32_t size,
                                         struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (uint64_t left = query->twins; left && status == CULM_OK; left &= left - 1) {
        struct edge_query *twin = &run->query[__builtin_ctzll(left)];
        status = decode(run, query, twin, batch, size, twin->ahead, error);
        for (int32_t k = 0; k < batch->count; k++) {
            twin->ahead_frame[k] = batch->look[k].frame;
        }
        twin->ahead_count = status == CULM_OK ? batch->count : 0;
    }
    return status;
}

static enum culm_status infer(struct culm_job *job) {
    struct culm_edge_batch *batch = (struct culm_edge_batch *)job;
    struct culm_edge_running *run = self(batch->exec);
    struct edge_query *query = &run->query[batch->query];
    uint64_t begin = culm_clock_ns();
    int32_t size = 0;
    while (size < query->sizes - 1 && query->size[size] < batch->count) {
        size++;
    }
    if (answered_ahead(query, batch)) {
        return CULM_OK;
    }
    fill(run, query, batch);
    culm_edge_running_compute(run, query, size);
    enum culm_status status = decode(run, query, query, batch, size, query->answer, &job->error);
    status = status ? status : answer_for_twins(run, query, batch, size, &job->error);
    double ms = (double)(culm_clock_ns() - begin) / 1e6, *took = &query->took_ms[size];
    *took = *took > 0 ? *took * 0.9 + ms * 0.1 : ms;
    return status;
}

static void evict(struct culm_edge_exec *exec, int32_t tensor) {
    struct culm_edge_running *run = self(exec);
    culm_edge_arena_give_back(&run->arena, run->unit_at[tensor], run->store.unit[tensor].bytes);
}

static void activations(struct culm_edge_exec *exec, size_t bytes) {
    struct culm_edge_running *run = self(exec);
    struct culm_error error;
    if (bytes > run->activations_held) {
        if (culm_edge_arena_hold(&run->arena, run->activations_at + run->activations_held,
                                 bytes - run->activations_held, &error) != CULM_OK &&
            run->failed.status == CULM_OK) {
            run->failed = error;
        }
    } else {
        culm_edge_arena_give_back(&run->arena, run->activations_at + bytes,
                                  run->activations_held - bytes);
    }
    run->activations_held = bytes;
}

/* --- answers --- */

static void write_line(struct culm_edge_running *run, struct edge_query *query,
                       const struct culm_edge_look *look, bool stale) {
    const struct edge_frame *frame = look->blob ? look->blob->data : NULL;
    struct culm_prediction prediction;
    json_t *line = NULL;
    if (culm_prediction_of(query->entry->model, &query->latest, CULM_EDGE_TOP,
                           run->feed[query->feed].config->file, look->frame, &run->room,
                           &prediction, NULL) == CULM_OK) {
        line = culm_prediction_json(&prediction);
    }
    if (frame && frame->source != look->frame) {
        json_object_set_new(line, "source", json_integer(frame->source));
    }
    if (stale) {
        json_object_set_new(line, "stale", json_true());
        json_object_set_new(
            line, "of", query->latest_frame < 0 ? json_null() : json_integer(query->latest_frame));
    }
    char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
    json_decref(line);
    if ((!text || fprintf(query->out, "%s\n", text) < 0 || fflush(query->out) != 0) &&
        run->failed.status == CULM_OK) {
        culm_error_errno(&run->failed, errno ? errno : ENOMEM, "write '%s/%s.jsonl'", run->out,
                         query->entry->config->name);
    }
    free(text);
}

/* What is right on a frame, by the labels of the query; -1: it has none there. */
static int32_t label_of(const struct edge_query *query, const struct edge_frame *frame) {
    if (query->label) {
        return frame->source < query->label_count ? query->label[frame->source] : -1;
    }
    return query->by_folder ? frame->folder : -1;
}

static void settled(struct culm_edge_exec *exec, int32_t number, const struct culm_edge_look *look,
                    const struct culm_edge_batch *batch) {
    struct culm_edge_running *run = self(exec);
    struct edge_query *query = &run->query[number];
    const struct edge_frame *frame = look->blob ? look->blob->data : NULL;
    for (int32_t k = 0; batch && frame && k < batch->count; k++) {
        if (batch->look[k].frame == look->frame) {
            culm_edge_running_compare(run, number, look->frame, frame->width, &query->answer[k]);
            culm_edge_running_sample(run, number, frame);
        }
    }
    if (query->original_of >= 0) {
        return;
    }
    for (int32_t k = 0; batch && k < batch->count; k++) {
        if (batch->look[k].frame == look->frame) {
            struct culm_answer old = query->latest;
            query->latest = query->answer[k];
            query->answer[k] = old; /* its memory is used again */
            query->latest_frame = look->frame;
        }
    }
    query->latest.kind = query->entry->model->kind;
    const int32_t label = frame ? label_of(query, frame) : -1;
    if (label >= 0 && query->entry->model->kind == CULM_ANSWER_CLASSES) {
        query->accuracy =
            query->accuracy ? query->accuracy : culm_accuracy_new(CULM_ANSWER_CLASSES);
        if (query->accuracy) {
            (void)culm_accuracy_add_label(query->accuracy, &query->latest, label);
        }
    } else if (frame) {
        culm_edge_running_given(run, number, look->frame, frame->width, &query->latest);
    }
    if (frame && batch) {
        culm_edge_running_keep(query, frame->source);
    }
    write_line(run, query, look, !batch);
}

static void relaid(struct culm_edge_exec *exec) {
    struct culm_edge_running *run = self(exec);
    struct culm_error error;
    culm_edge_laid_free(run->laid);
    run->laid = run->next;
    run->next = NULL;
    run->plan = run->next_plan;
    culm_edge_running_count(run);
    if (culm_edge_running_slots(run, &error) != CULM_OK && run->failed.status == CULM_OK) {
        run->failed = error;
    }
}

const struct culm_edge_exec_ops culm_edge_running_ops = {.size = sizeof(struct culm_edge_exec_ops),
                                                         .load = load,
                                                         .infer = infer,
                                                         .evict = evict,
                                                         .activations = activations,
                                                         .settled = settled,
                                                         .relaid = relaid};
