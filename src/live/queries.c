/*
 * The queries of a run: their programs, labels and files of answers; and feeds, with the input
 * sizes that queries need.
 */
#include "live/run.h"
#include "query/feeds.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int32_t part_of(const struct culm_live_entry *entry, const char *name) {
    for (int32_t p = 0; p < entry->part_count; p++) {
        if (strcmp(entry->part[p].name, name) == 0) {
            return p;
        }
    }
    return -1;
}

/* models: held while the model is used; NULL: nobody else uses it. */
static enum culm_status make_program(struct culm_live_entry *entry, int32_t batch,
                                     pthread_mutex_t *models, struct live_program *program,
                                     struct culm_error *error) {
    const struct culm_stage_options how = {.forward_only = true};
    struct culm_graph *plain = NULL;
    if (models) {
        pthread_mutex_lock(models);
    }
    enum culm_status status =
        culm_vision_model_graph(entry->model, batch, CULM_VISION_INFER, &plain, error);
    if (models) {
        pthread_mutex_unlock(models);
    }
    status = status ? status : culm_graph_fuse(plain, &program->graph, error);
    culm_graph_free(plain);
    if (status == CULM_OK) {
        culm_vision_gate(entry->model, program->graph);
    }
    if (status != CULM_OK ||
        (status = culm_stages_compile(program->graph, 1, &how, &program->stage, error))) {
        return status;
    }
    const struct culm_stage_info *info = culm_stage_info_of(program->stage);
    if (program->graph->field_count != 1 || program->graph->output_count == 0) {
        return culm_error_set(error, CULM_ERR_UNSUPPORTED, "'%s' is not a model of pictures",
                              entry->model->name);
    }
    size_t params = (size_t)info->param_count + 1;
    program->part = calloc(params, sizeof *program->part);
    program->param = calloc(params, sizeof *program->param);
    if (!program->part || !program->param) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a model");
    }
    for (int32_t p = 0; p < info->param_count; p++) {
        program->part[p] = part_of(entry, program->graph->param[info->params[p].global_index].name);
        if (program->part[p] < 0) {
            return culm_error_set(error, CULM_ERR_INTERNAL,
                                  "'%s' has other parameters when run in a batch",
                                  entry->model->name);
        }
    }
    program->image_bytes =
        culm_live_round64((size_t)culm_elements(&program->graph->field[0].shape) * 4);
    program->activation_bytes = culm_live_round64(info->activation_bytes);
    program->scratch_bytes = culm_live_round64(info->scratch_bytes);
    program->output_bytes = culm_live_round64(info->output_bytes);
    return CULM_OK;
}

static size_t program_bytes(const struct live_program *program) {
    return program->image_bytes + program->activation_bytes + program->scratch_bytes +
           program->output_bytes;
}

static void release_programs(struct live_program *program) {
    for (int32_t b = 0; b < CULM_EDGE_SIZES_MAX; b++) {
        culm_stage_free(program[b].stage);
        culm_graph_free(program[b].graph);
        free(program[b].part);
        free(program[b].param);
        program[b] = (struct live_program){0};
    }
}

enum culm_status live_ready_make(const struct culm_live_catalog *first,
                                 struct culm_live_entry *entry, struct live_ready *ready) {
    struct culm_edge_query sizes = {0};
    struct culm_error error;
    enum culm_status status = CULM_OK;
    *ready = (struct live_ready){.entry = entry};
    culm_live_catalog_sizes(first, &sizes);
    for (int32_t b = 0; b < sizes.batches && status == CULM_OK; b++) {
        status = make_program(entry, sizes.batch[b], NULL, &ready->program[b], &error);
    }
    if (status != CULM_OK) {
        live_ready_release(ready);
    }
    return status;
}

void live_ready_release(struct live_ready *ready) {
    release_programs(ready->program);
    free(ready->tensor);
    *ready = (struct live_ready){0};
}

/* Takes the programs that the reading thread has compiled for the model. False: it has not. */
static bool take_ready(struct culm_live *run, struct live_query *query) {
    for (int32_t i = 0; i < run->reader.ready_count; i++) {
        struct live_ready *ready = &run->reader.ready[i];
        if (ready->entry == query->entry && !ready->taken) {
            memcpy(query->program, ready->program, sizeof query->program);
            memset(ready->program, 0, sizeof ready->program);
            ready->taken = true;
            return true;
        }
    }
    return false;
}

void live_release_query(struct live_query *query) {
    release_programs(query->program);
    for (int32_t k = 0; k < CULM_EDGE_VISIT_MAX; k++) {
        culm_answer_release(&query->answer[k]);
        culm_answer_release(&query->ahead[k]);
    }
    culm_answer_release(&query->latest);
    for (int32_t p = 0; p < query->pictures; p++) {
        culm_answer_release(&query->picture[p].answer);
    }
    culm_live_scored_release(&query->accuracy);
    culm_journal_free(query->out);
    for (int32_t i = 0; i < CULM_LIVE_RING; i++) {
        culm_answer_release(query->ring ? &query->ring->answer[i] : &(struct culm_answer){0});
        culm_answer_release(query->given ? &query->given->answer[i] : &(struct culm_answer){0});
    }
    json_decref(query->why);
    free(query->ring);
    free(query->given);
    free(query->record.wrong);
    if (query->samples) {
        close(query->samples - 1);
    }
    free(query->label);
    culm_labels_release(&query->right);
    free(query->original);
    free(query->merged);
    free(query->source);
    free(query->at);
    free(query->next_at);
    *query = (struct live_query){0};
}

/* Compiles the programs, or takes those that are ready. Run times from a profile are kept, while
 * the memory of activations is what the programs need. */
static enum culm_status open_programs(struct culm_live *run, struct live_query *query,
                                      struct culm_error *error) {
    struct culm_live_entry *entry = query->entry;
    struct culm_edge_query sizes = {0};
    struct culm_live_times times = entry->times;
    enum culm_status status = CULM_OK;
    culm_live_catalog_sizes(run->catalog[0], &sizes);
    query->sizes = sizes.batches;
    const bool ready = take_ready(run, query);
    for (int32_t b = 0; b < query->sizes && status == CULM_OK; b++) {
        uint64_t run_ns = 0;
        size_t bytes;
        query->size[b] = sizes.batch[b];
        status = ready ? CULM_OK
                       : make_program(entry, sizes.batch[b], &run->models_lock, &query->program[b],
                                      error);
        if (times.sizes && times.run_ms[0] > 0) {
            culm_live_times_of(&times, sizes.batch[b], &run_ns, &bytes);
        }
        entry->times.batch[b] = sizes.batch[b];
        entry->times.run_ms[b] = (double)run_ns / 1e6;
        entry->times.activation_bytes[b] = (double)program_bytes(&query->program[b]);
        culm_live_times_shares(&entry->times, b, &times);
    }
    entry->times.sizes = query->sizes;
    return status;
}

int64_t live_frames(const struct culm_feed_config *config, const struct culm_stop *stop) {
    const struct culm_feed_options options = culm_feed_options_of(config, NULL);
    struct culm_feed *feed = NULL;
    struct culm_error error;
    int64_t count = -1;
    if (!culm_file_is_regular(config->file) && !culm_file_is_directory(config->file)) {
        return -1;
    }
    if (culm_feed_open(&options, &feed, &error) != CULM_OK ||
        culm_feed_count_whole(feed, stop, &count, &error) != CULM_OK) {
        count = -1;
    }
    culm_feed_close(feed);
    return count;
}

enum culm_status live_read_labels(const struct culm_live_entry *entry,
                                  const struct culm_feed_config *feed, int64_t frames,
                                  struct live_labels *labels, struct culm_error *error) {
    const char *path = entry->config->labels;
    if (culm_labels_suit(entry->model)) {
        return culm_labels_read(path, feed->name, frames, entry->model, &labels->right, error);
    }
    labels->by_folder = strcmp(path, "folders") == 0;
    return labels->by_folder ? culm_feed_find_folders(feed->name, feed->file, error)
                             : culm_feed_read_labels(feed->name, path, frames, &labels->label,
                                                     &labels->label_count, error);
}

void live_labels_release(struct live_labels *labels) {
    free(labels->label);
    culm_labels_release(&labels->right);
    *labels = (struct live_labels){0};
}

static void give_labels(struct live_query *query, const struct live_labels *read) {
    query->by_folder = read->by_folder;
    query->label = read->label;
    query->label_count = read->label_count;
    query->right = read->right;
}

/* Takes the labels that the reading thread has read, with its status. False: it has not. */
static bool take_labels(struct culm_live *run, struct live_query *query,
                        enum culm_status *ret_status, struct culm_error *error) {
    const struct culm_live_catalog *catalog = run->catalog[run->catalogs - 1];
    for (size_t q = 0; run->reader.labels && q < catalog->workload.query_count; q++) {
        struct live_labels_read *read = &run->reader.labels[q];
        if (read->entry == query->entry) {
            give_labels(query, &read->labels);
            *ret_status = read->status;
            *error = read->status ? read->error : *error;
            *read = (struct live_labels_read){0};
            return true;
        }
    }
    return false;
}

/* Reads the query's labels; they are its own, since other queries on the feed may have others. */
static enum culm_status read_labels(struct culm_live *run, struct live_query *query,
                                    struct culm_error *error) {
    const char *labels = query->entry->config->labels;
    enum culm_status status;
    if (!labels || take_labels(run, query, &status, error)) {
        return labels ? status : CULM_OK;
    }
    struct live_feed *feed = &run->feed[query->feed];
    /* Counting the frames of a clip takes long, so it is done once; during a run the reading thread
     * has done it. */
    if (!feed->counted && strcmp(labels, "folders") != 0) {
        const struct culm_stop stop = {.asked = live_asked, .ctx = run};
        feed->frames = feed->posted ? -1 : live_frames(feed->config, &stop);
        feed->counted = true;
    }
    struct live_labels read = {0};
    status = live_read_labels(query->entry, feed->config, feed->frames, &read, error);
    give_labels(query, &read);
    return status;
}

enum culm_status live_open(struct culm_live *run, struct culm_live_entry *entry, int32_t of,
                           int32_t feed, int32_t *ret_query, struct culm_error *error) {
    size_t bytes = ((size_t)entry->part_count + 1) * sizeof(int32_t);
    if (run->query_count == CULM_EDGE_QUERIES_MAX) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "query '%s': more than %d queries since the run began; start it again",
            entry->config->name, CULM_EDGE_QUERIES_MAX);
    }
    if (of < 0 && strcmp(entry->config->name, "events") == 0) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "query 'events': its answers would be in events.jsonl, where the "
                              "run's events are; give it another name");
    }
    struct live_query *query = &run->query[run->query_count];
    *query = (struct live_query){.entry = entry,
                                 .feed = feed,
                                 .deadline_ms = entry->config->deadline_ms,
                                 .score = entry->config->score,
                                 .target = entry->config->target,
                                 .latest_frame = -1,
                                 .original_of = of,
                                 .shadow = -1,
                                 .source = calloc(1, bytes),
                                 .original = calloc(1, bytes),
                                 .merged = calloc(1, bytes)};
    *ret_query = run->query_count++;
    enum culm_status status = open_programs(run, query, error);
    if (status == CULM_OK && (!query->source || !query->original || !query->merged)) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a query");
    }
    if (status == CULM_OK && of < 0) {
        status = read_labels(run, query, error);
    }
    return status ? culm_error_prefix(error, "query '%s'", entry->config->name) : CULM_OK;
}

static bool has_no_out(const struct live_query *query) {
    return !query->out && query->original_of < 0 && !query->gone;
}

static enum culm_status out_path(const struct culm_live *run, const struct live_query *query,
                                 char path[CULM_PATH_MAX], struct culm_error *error) {
    return culm_path_format(path, error, "%s/%s.jsonl", run->out, query->entry->config->name);
}

/* Appends to a plain file, or makes one. A link is not followed: what it leads to may be anyone's. */
static enum culm_status open_out(struct culm_live *run, struct live_query *query,
                                 struct culm_error *error) {
    const int how = O_RDWR | O_APPEND | O_NOFOLLOW;
    char path[CULM_PATH_MAX];
    enum culm_status status = out_path(run, query, path, error);
    status = status ? status : culm_file_may_replace(path, error); /* opening a pipe may block */
    if (status != CULM_OK) {
        return status;
    }
    int file = open(path, how | O_CLOEXEC | O_CREAT | O_EXCL, 0666);
    query->made_out = file >= 0;
    file = file >= 0 || errno != EEXIST ? file : open(path, how | O_CLOEXEC);
    if (file < 0) {
        return errno == ELOOP
                   ? culm_error_set(error, CULM_ERR_CONFIG,
                                    "'%s' is a link; remove it, or choose another --out", path)
                   : culm_error_errno(error, errno, "open '%s'", path);
    }
    return culm_journal_open(file, path, &run->limits, &query->out, error);
}

void live_take_back_out(const struct culm_live *run, const struct live_query *query) {
    char path[CULM_PATH_MAX];
    if (query->out && query->made_out && out_path(run, query, path, NULL) == CULM_OK) {
        (void)unlink(path);
    }
}

enum culm_status live_outs(struct culm_live *run, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (int32_t q = 0; q < run->query_count && status == CULM_OK && !run->no_files; q++) {
        status = has_no_out(&run->query[q]) ? open_out(run, &run->query[q], error) : CULM_OK;
    }
    return status;
}

uint64_t live_period_ns(const struct culm_feed_config *config) {
    return (uint64_t)(1e9 / (config->fps > 0 ? config->fps : CULM_LIVE_OWN_FPS));
}

void live_open_feed(struct culm_live *run, struct culm_feed_config *config, int32_t f) {
    struct live_feed *feed = &run->feed[f];
    *feed = (struct live_feed){.run = run,
                               .config = config,
                               .number = f,
                               .posted = live_posted_of(run, config->name),
                               .period_ns = live_period_ns(config)};
    pthread_mutex_init(&feed->slots_lock, NULL);
}

void live_add_input(struct live_feed *feed, const struct culm_vision_input *input) {
    size_t bytes = (size_t)input->width * (size_t)input->height * (size_t)input->channels;
    for (int32_t i = 0; i < feed->inputs; i++) {
        if (culm_vision_same_bytes(&feed->input[i].input, input)) {
            return;
        }
    }
    feed->input[feed->inputs++] = (struct live_input){*input, feed->frame_bytes};
    feed->frame_bytes += bytes;
}

void live_round_frame(struct live_feed *feed) {
    feed->frame_bytes =
        (feed->frame_bytes + CULM_LIVE_UNIT_PAGE - 1) / CULM_LIVE_UNIT_PAGE * CULM_LIVE_UNIT_PAGE;
}

enum culm_status live_take(struct culm_live *run, struct culm_live_catalog *catalog,
                           struct culm_error *error) {
    run->catalog[run->catalogs++] = catalog;
    run->feed_count = (int32_t)catalog->workload.feed_count;
    for (int32_t f = 0; f < run->feed_count; f++) {
        live_open_feed(run, &catalog->workload.feeds[f], f);
    }
    for (size_t q = 0; q < catalog->workload.query_count; q++) {
        struct culm_live_entry *entry = &catalog->entry[q];
        int32_t feed = entry->config->feed_index, query;
        enum culm_status status = live_open(run, entry, -1, feed, &query, error);
        if (status != CULM_OK) {
            return status;
        }
        live_add_input(&run->feed[feed], &entry->model->input);
    }
    for (int32_t f = 0; f < run->feed_count; f++) {
        live_round_frame(&run->feed[f]);
    }
    return CULM_OK;
}
