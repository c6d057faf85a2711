/*
 * Queries, their programs, where their tensors come from and where these lie.
 */
#include "run/edge_run.h"
#include "run/feeds.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/grow.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- queries --- */

static int32_t part_of(const struct culm_edge_entry *entry, const char *name) {
    for (int32_t p = 0; p < entry->part_count; p++) {
        if (strcmp(entry->part[p].name, name) == 0) {
            return p;
        }
    }
    return -1;
}

static enum culm_status make_program(struct culm_edge_entry *entry, int32_t batch,
                                     struct edge_program *program, struct culm_error *error) {
    const struct culm_stage_options how = {.forward_only = true};
    struct culm_graph *plain = NULL;
    enum culm_status status =
        culm_vision_model_graph(entry->model, batch, CULM_VISION_INFER, &plain, error);
    status = status ? status : culm_graph_fuse(plain, &program->graph, error);
    culm_graph_free(plain);
    if (status != CULM_OK ||
        (status = culm_stages_compile(program->graph, 1, &how, &program->stage, error))) {
        return status;
    }
    const struct culm_stage_info *info = culm_stage_info(program->stage);
    if (program->graph->field_count != 1 || program->graph->output_count == 0) {
        return culm_error_set(error, CULM_ERR_UNSUPPORTED, "'%s' is no model of pictures",
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
            return culm_error_set(error, CULM_ERR_INTERNAL, "'%s' has other parameters in a batch",
                                  entry->model->name);
        }
    }
    program->image_bytes =
        culm_edge_round64((size_t)culm_elements(&program->graph->field[0].shape) * 4);
    program->activation_bytes = culm_edge_round64(info->activation_bytes);
    program->scratch_bytes = culm_edge_round64(info->scratch_bytes);
    program->output_bytes = culm_edge_round64(info->output_bytes);
    return CULM_OK;
}

static size_t program_bytes(const struct edge_program *program) {
    return program->image_bytes + program->activation_bytes + program->scratch_bytes +
           program->output_bytes;
}

void culm_edge_running_release_query(struct edge_query *query) {
    for (int32_t b = 0; b < CULM_EDGE_SIZES_MAX; b++) {
        culm_stage_free(query->program[b].stage);
        culm_graph_free(query->program[b].graph);
        free(query->program[b].part);
        free(query->program[b].param);
    }
    for (int32_t k = 0; k < CULM_EDGE_VISIT_MAX; k++) {
        culm_answer_release(&query->answer[k]);
        culm_answer_release(&query->ahead[k]);
    }
    culm_answer_release(&query->latest);
    for (int32_t p = 0; p < query->pictures; p++) {
        culm_answer_release(&query->picture[p].answer);
    }
    culm_accuracy_free(query->accuracy);
    if (query->out) {
        fclose(query->out);
    }
    for (int32_t i = 0; i < CULM_EDGE_RING; i++) {
        culm_answer_release(query->ring ? &query->ring->answer[i] : &(struct culm_answer){0});
        culm_answer_release(query->given ? &query->given->answer[i] : &(struct culm_answer){0});
    }
    free(query->ring);
    free(query->given);
    culm_accuracy_free(query->drift);
    culm_accuracy_free(query->own);
    if (query->samples) {
        close(query->samples - 1);
    }
    free(query->label);
    free(query->original);
    free(query->source);
    free(query->at);
    free(query->next_at);
    *query = (struct edge_query){0};
}

/* Times that a profile gave stay; activations are what the programs need. */
static enum culm_status open_programs(struct culm_edge_running *run, struct edge_query *query,
                                      struct culm_error *error) {
    struct culm_edge_entry *entry = query->entry;
    struct culm_edge_query sizes = {0};
    struct culm_edge_times times = entry->times;
    enum culm_status status = CULM_OK;
    culm_edge_catalog_sizes(run->catalog[0], &sizes);
    query->sizes = sizes.batches;
    for (int32_t b = 0; b < query->sizes && status == CULM_OK; b++) {
        uint64_t run_ns = 0;
        size_t bytes;
        query->size[b] = sizes.batch[b];
        status = make_program(entry, sizes.batch[b], &query->program[b], error);
        if (times.sizes && times.run_ms[0] > 0) {
            culm_edge_times_of(&times, sizes.batch[b], &run_ns, &bytes);
        }
        entry->times.batch[b] = sizes.batch[b];
        entry->times.run_ms[b] = (double)run_ns / 1e6;
        entry->times.activation_bytes[b] = (double)program_bytes(&query->program[b]);
        culm_edge_times_shares(&entry->times, b, &times);
    }
    entry->times.sizes = query->sizes;
    return status;
}

/* How many frames a file has; -1: that cannot be told, or not without losing some, or, while others run, not
 * quickly. What is wrong with it is told when its frames are wanted. */
static int64_t frames_of(const struct culm_feed_config *config, bool quickly) {
    const struct culm_feed_options options = culm_feed_options_of(config, NULL);
    struct culm_feed *feed = NULL;
    struct culm_error error;
    int64_t count = -1;
    if (!culm_file_is_regular(config->file) && !culm_file_is_directory(config->file)) {
        return -1;
    }
    if (culm_feed_open(&options, &feed, &error) == CULM_OK &&
        (!quickly || culm_feed_count(feed) >= 0) &&
        (culm_feed_count_whole(feed, CULM_FEED_COUNTED_MAX, &count, &error) != CULM_OK ||
         count == CULM_FEED_COUNTED_MAX)) {
        count = -1;
    }
    culm_feed_close(feed);
    return count;
}

/* What its answers are compared with is the query's own: others on the feed may have other labels. */
static enum culm_status read_labels(struct culm_edge_running *run, struct edge_query *query,
                                    struct culm_error *error) {
    const char *labels = query->entry->config->labels;
    query->by_folder = labels && strcmp(labels, "folders") == 0;
    if (!labels || query->by_folder) {
        return CULM_OK;
    }
    struct edge_feed *feed = &run->feed[query->feed];
    if (run->scheduler || !feed->counted) { /* to count the frames of a clip takes long: once */
        feed->frames = frames_of(feed->config, run->scheduler != NULL);
        feed->counted = true;
    }
    return culm_feed_read_labels(feed->config->name, labels, feed->frames, &query->label,
                                 &query->label_count, error);
}

enum culm_status culm_edge_running_open(struct culm_edge_running *run,
                                        struct culm_edge_entry *entry, int32_t of, int32_t feed,
                                        int32_t *ret_query, struct culm_error *error) {
    size_t bytes = ((size_t)entry->part_count + 1) * sizeof(int32_t);
    if (run->query_count == CULM_EDGE_QUERIES_MAX) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "query '%s': more than %d queries since it began: start again",
                              entry->config->name, CULM_EDGE_QUERIES_MAX);
    }
    struct edge_query *query = &run->query[run->query_count];
    *query = (struct edge_query){.entry = entry,
                                 .feed = feed,
                                 .deadline_ms = entry->config->deadline_ms,
                                 .score = entry->config->score,
                                 .latest_frame = -1,
                                 .original_of = of,
                                 .shadow = -1,
                                 .source = malloc(bytes),
                                 .original = malloc(bytes)};
    *ret_query = run->query_count++;
    enum culm_status status = open_programs(run, query, error);
    if (status == CULM_OK && (!query->source || !query->original)) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a query");
    }
    if (status == CULM_OK && of < 0) {
        status = read_labels(run, query, error);
    }
    return status ? culm_error_prefix(error, "query '%s'", entry->config->name) : CULM_OK;
}

enum culm_status culm_edge_running_outs(struct culm_edge_running *run, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    enum culm_status status = CULM_OK;
    for (int32_t q = 0; q < run->query_count && status == CULM_OK; q++) {
        struct edge_query *query = &run->query[q];
        if (query->out || query->original_of >= 0 || query->gone) {
            continue;
        }
        status = culm_path_format(path, error, "%s/%s.jsonl", run->out, query->entry->config->name);
        /* One that comes again goes on where it left off. */
        if (status == CULM_OK && !(query->out = fopen(path, run->scheduler ? "ae" : "we"))) {
            status = culm_error_set(error, CULM_ERR_IO, "cannot write '%s'", path);
        }
    }
    return status;
}

void culm_edge_running_open_feed(struct culm_edge_running *run, struct culm_feed_config *config,
                                 int32_t f) {
    struct edge_feed *feed = &run->feed[f];
    double fps = config->fps > 0 ? config->fps : 25;
    *feed = (struct edge_feed){
        .run = run, .config = config, .number = f, .period_ns = (uint64_t)(1e9 / fps)};
    pthread_mutex_init(&feed->slots_lock, NULL);
}

void culm_edge_running_add_input(struct edge_feed *feed, const struct culm_vision_input *input) {
    size_t bytes = (size_t)input->width * (size_t)input->height * (size_t)input->channels;
    for (int32_t i = 0; i < feed->inputs; i++) {
        if (feed->input[i].width == input->width && feed->input[i].height == input->height &&
            feed->input[i].channels == input->channels) {
            return;
        }
    }
    feed->input[feed->inputs++] =
        (struct edge_input){input->width, input->height, input->channels, feed->frame_bytes};
    feed->frame_bytes += bytes;
}

void culm_edge_running_round_frame(struct edge_feed *feed) {
    feed->frame_bytes =
        (feed->frame_bytes + CULM_EDGE_UNIT_PAGE - 1) / CULM_EDGE_UNIT_PAGE * CULM_EDGE_UNIT_PAGE;
}

enum culm_status culm_edge_running_take(struct culm_edge_running *run,
                                        struct culm_edge_catalog *catalog,
                                        struct culm_error *error) {
    run->catalog[run->catalogs++] = catalog;
    run->feed_count = (int32_t)catalog->workload.feed_count;
    for (int32_t f = 0; f < run->feed_count; f++) {
        culm_edge_running_open_feed(run, &catalog->workload.feeds[f], f);
    }
    for (size_t q = 0; q < catalog->workload.query_count; q++) {
        struct culm_edge_entry *entry = &catalog->entry[q];
        int32_t feed = entry->config->feed_index, query;
        enum culm_status status = culm_edge_running_open(run, entry, -1, feed, &query, error);
        if (status != CULM_OK) {
            return status;
        }
        culm_edge_running_add_input(&run->feed[feed], &entry->model->input);
    }
    for (int32_t f = 0; f < run->feed_count; f++) {
        culm_edge_running_round_frame(&run->feed[f]);
    }
    return CULM_OK;
}

/* --- where tensors come from --- */

/* Who runs on the same numbers in the same order shares them. */
static enum culm_status add_source(struct culm_edge_running *run,
                                   const struct culm_package_tensor *tensor, bool turned,
                                   int32_t place, int32_t *ret_source, struct culm_error *error) {
    char key[CULM_SHA256_HEX + 8];
    snprintf(key, sizeof key, "%s%s", tensor->digest, turned ? " turned" : "");
    int32_t source = culm_edge_store_source(&run->store, key, (size_t)tensor->count * 4, place);
    if (source >= run->tensor_count && source >= 0) {
        if (!CULM_GROW(run->tensor, run->tensor_capacity, source + 1)) {
            source = -1;
        } else {
            run->tensor[source] = (struct edge_tensor){.of = *tensor, .turned = turned};
            run->tensor_count = source + 1;
        }
    }
    *ret_source = source;
    return source < 0 ? culm_error_set(error, CULM_ERR_MEMORY, "out of memory for tensors")
                      : CULM_OK;
}

static bool has_shape(const struct culm_package_tensor *tensor, const struct culm_shape *shape) {
    return tensor->rank == shape->rank &&
           memcmp(tensor->shape, shape->dim, (size_t)shape->rank * sizeof *shape->dim) == 0;
}

static enum culm_status from_package(struct culm_edge_running *run, struct edge_query *query,
                                     const struct culm_package_round *round, int32_t of,
                                     struct culm_error *error) {
    const struct culm_edge_entry *entry = query->entry;
    query->promised = culm_edge_drift_promise(entry->config->target, round->query[of].original,
                                              round->query[of].merged, round->query[of].agreement);
    for (int32_t p = 0; p < entry->part_count; p++) {
        int32_t param = culm_package_param_find(&round->query[of], entry->part[p].name);
        const struct culm_package_tensor *tensor =
            param < 0 ? NULL : &round->tensor[round->query[of].param[param].tensor];
        const struct culm_shape *shape = &entry->graph->param[p].shape;
        const struct culm_package_tensor *original =
            param < 0 ? NULL : &round->tensor[round->query[of].param[param].original];
        if (!tensor || !has_shape(tensor, shape) || !has_shape(original, shape)) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "package '%s': query '%s' is of another model: it has no such "
                                  "parameter as '%s'; merge again",
                                  run->package, entry->config->name, entry->part[p].name);
        }
        bool turned = entry->part[p].turned;
        enum culm_status status = add_source(run, original, turned, 0, &query->original[p], error);
        status = status ? status : add_source(run, tensor, turned, 0, &query->source[p], error);
        if (status != CULM_OK) {
            return status;
        }
    }
    return CULM_OK;
}

/* Its own numbers, which are written where they can be read tensor by tensor. */
static enum culm_status from_model(struct culm_edge_running *run, struct edge_query *query,
                                   struct culm_error *error) {
    struct culm_edge_entry *entry = query->entry;
    const struct culm_graph *graph = entry->graph;
    enum culm_status status = culm_package_make(NULL, run->originals, error);
    for (int32_t p = 0; p < entry->part_count && status == CULM_OK; p++) {
        const struct culm_param *param = &graph->param[p];
        struct culm_package_tensor tensor = {.rank = param->shape.rank,
                                             .count = culm_elements(&param->shape)};
        memcpy(tensor.shape, param->shape.dim, (size_t)tensor.rank * sizeof *tensor.shape);
        float *data = malloc(entry->part[p].bytes + 64);
        status = data ? culm_vision_model_weights(entry->model, param, data, error)
                      : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a tensor");
        status = status ? status : culm_package_digest(&tensor, data, error);
        status =
            status ? status : culm_package_put(NULL, run->originals, &tensor, data, NULL, error);
        free(data);
        status = status
                     ? status
                     : add_source(run, &tensor, entry->part[p].turned, 1, &query->source[p], error);
        query->original[p] = query->source[p];
    }
    return status;
}

enum culm_status culm_edge_running_sources(struct culm_edge_running *run,
                                           struct culm_error *error) {
    struct culm_package_round round = {0};
    enum culm_status status = CULM_OK;
    int64_t before = run->round;
    if (run->package) {
        status = culm_package_open(run->package, &round, error);
        run->round = status == CULM_OK ? round.number : run->round;
    }
    for (int32_t q = 0; q < run->query_count && status == CULM_OK; q++) {
        struct edge_query *query = &run->query[q];
        if (query->gone || query->original_of >= 0) {
            continue;
        }
        if (run->round != before) { /* a new round is another chance */
            query->reverted = false;
            culm_edge_running_forget_checks(query);
        }
        int32_t of =
            run->package ? culm_package_query_find(&round, query->entry->config->name) : -1;
        status =
            of >= 0 ? from_package(run, query, &round, of, error) : from_model(run, query, error);
        if (status == CULM_OK && query->reverted) {
            memcpy(query->source, query->original,
                   (size_t)query->entry->part_count * sizeof *query->source);
        }
    }
    culm_package_round_release(&round);
    return status ? status : culm_edge_running_shadows(run, error);
}

/* --- layouts --- */

static enum culm_status place_units(struct culm_edge_running *run, struct culm_error *error) {
    if (!CULM_GROW(run->unit_at, run->unit_capacity, run->store.unit_count + 1)) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for tensors");
    }
    while (run->unit_placed < run->store.unit_count) {
        char *at = culm_edge_arena_place(&run->arena, run->store.unit[run->unit_placed].bytes);
        if (!at) {
            return culm_error_set(error, CULM_ERR_MEMORY,
                                  "no addresses left for new tensors: start again");
        }
        run->unit_at[run->unit_placed++] = at;
    }
    return CULM_OK;
}

size_t culm_edge_running_activations(const struct culm_edge_laid *laid) {
    size_t most = 0;
    for (int32_t q = 0; q < laid->layout.query_count; q++) {
        for (int32_t b = 0; b < laid->query[q].batches && !laid->query[q].gone; b++) {
            size_t bytes = laid->query[q].activation_bytes[b];
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

/* For activations, and frames of feeds that come. What has grown lies elsewhere once the layout counts. */
static enum culm_status place_others(struct culm_edge_running *run,
                                     const struct culm_edge_laid *laid, struct culm_error *error) {
    size_t most = culm_edge_running_activations(laid);
    bool ok = true;
    run->next_activations_at = run->activations_at;
    run->next_activations_room = run->activations_room;
    if (most > run->activations_room) {
        run->next_activations_at = culm_edge_arena_place(&run->arena, most);
        run->next_activations_room = most;
        ok = run->next_activations_at != NULL;
    }
    for (int32_t f = 0; f < run->feed_count && ok; f++) {
        struct edge_feed *feed = &run->feed[f];
        if (!feed->gone && !feed->slots_at) {
            feed->slots_at = culm_edge_arena_place(
                &run->arena,
                CULM_EDGE_FRAME_SLOTS * culm_edge_arena_round(&run->arena, feed->frame_bytes));
            ok = feed->slots_at != NULL;
        }
    }
    return ok ? CULM_OK
              : culm_error_set(error, CULM_ERR_MEMORY,
                               "no addresses left for activations of %.0f MB: start again",
                               (double)most / 1e6);
}

static enum culm_status resolve(struct culm_edge_running *run, struct edge_query *query,
                                struct culm_error *error) {
    const float **at = calloc((size_t)query->entry->part_count + 1, sizeof *at);
    if (!at) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for tensors");
    }
    for (int32_t p = 0; p < query->entry->part_count; p++) {
        const struct culm_edge_source *source = &run->store.source[query->source[p]];
        at[p] = (const float *)(run->unit_at[source->unit] + source->offset);
    }
    free(query->next_at);
    query->next_at = at;
    return CULM_OK;
}

static bool are_twins(const struct edge_query *a, const struct edge_query *b) {
    return a != b && !a->gone && !b->gone && a->original_of < 0 && b->original_of < 0 &&
           a->feed == b->feed && culm_edge_entries_agree(a->entry, a->source, b->entry, b->source);
}

static uint64_t twins_of(const struct culm_edge_running *run, int32_t q) {
    uint64_t twins = 0;
    for (int32_t other = 0; other < run->query_count; other++) {
        twins |= are_twins(&run->query[q], &run->query[other]) ? 1ull << other : 0;
    }
    return twins;
}

/* What queries have in common. Originals look at other frames, when they have time. */
static enum culm_status lay_prefixes(const struct culm_edge_running *run,
                                     struct culm_edge_laid *laid, struct culm_error *error) {
    struct culm_edge_beginning of[CULM_EDGE_QUERIES_MAX] = {0};
    for (int32_t q = 0; q < run->query_count; q++) {
        const struct edge_query *query = &run->query[q];
        if (!query->gone && query->original_of < 0) {
            uint64_t twins = twins_of(run, q);
            of[q] = (struct culm_edge_beginning){
                .stage = query->entry->stage,
                .source = query->source,
                .input = &query->entry->model->input,
                .feed = query->feed,
                .times = &query->entry->times,
                .twin = twins ? 1 + (uint64_t)__builtin_ctzll(twins | 1ull << q) : 0};
        }
    }
    return culm_edge_prefixes_lay(of, &laid->layout, laid->query, laid->trunk, error);
}

enum culm_status culm_edge_running_lay(struct culm_edge_running *run,
                                       struct culm_edge_laid **ret_laid, struct culm_error *error) {
    struct culm_edge_laid *laid = calloc(1, sizeof *laid);
    struct culm_edge_needs needs[CULM_EDGE_QUERIES_MAX] = {0};
    int32_t count[CULM_EDGE_QUERIES_MAX];
    const struct culm_edge_catalog *first = run->catalog[0];
    if (!laid) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a layout");
    }
    for (int32_t q = 0; q < run->query_count; q++) {
        if (!run->query[q].gone) {
            needs[q] =
                (struct culm_edge_needs){run->query[q].source, run->query[q].entry->part_count};
        }
    }
    enum culm_status status = culm_edge_store_units(&run->store, needs, run->query_count,
                                                    &laid->bytes, laid->list, count, error);
    status = status || !run->arena.base ? status : place_units(run, error);
    double load_ms, rate;
    culm_edge_running_loading(run, &load_ms, &rate);
    laid->layout = (struct culm_edge_layout){
        .query_count = run->query_count,
        .feed_count = run->feed_count,
        .tensor_count = run->store.unit_count,
        .query = laid->query,
        .feed = laid->feed,
        .tensor_bytes = laid->bytes,
        .load_ns = (uint64_t)(load_ms * 1e6),
        .load_ns_per_byte = rate > 0 ? 1e3 / rate : 0,
        .limit_bytes = run->limit_bytes,
    };
    for (int32_t f = 0; f < run->feed_count; f++) {
        laid->feed[f] = (struct culm_edge_feed){.period_ns = run->feed[f].period_ns,
                                                .frame_bytes = run->feed[f].frame_bytes,
                                                .gone = run->feed[f].gone};
    }
    uint64_t originals = 0, sampling = 0;
    for (int32_t q = 0; q < run->query_count; q++) {
        originals += run->query[q].original_of >= 0 && !run->query[q].gone;
    }
    for (int32_t q = 0; q < run->query_count && status == CULM_OK; q++) {
        struct edge_query *query = &run->query[q];
        culm_edge_catalog_fill(first, query->entry, &laid->query[q]);
        laid->query[q].feed = query->feed;
        laid->query[q].gone = query->gone;
        laid->query[q].deadline_ns = (uint64_t)(query->deadline_ms * 1e6);
        if (query->original_of >= 0) { /* it has time, and need not see everything */
            const struct culm_drift_config *drift = &first->workload.edge.drift;
            laid->query[q].every_ns = (uint64_t)(drift->every_s * 1e9);
            laid->query[q].after_ns = /* one after the other */
                laid->query[q].every_ns / (originals > 0 ? originals : 1) * sampling;
            sampling += !query->gone;
            laid->query[q].burst = (int32_t)drift->frames;
            laid->query[q].deadline_ns =
                (uint64_t)(4e6 * run->query[query->original_of].deadline_ms);
        }
        laid->query[q].tensor = laid->list[q];
        laid->query[q].tensor_count = count[q];
        if (!query->gone && run->arena.base) {
            status = resolve(run, query, error);
        }
    }
    if (status == CULM_OK && run->limit_bytes) {
        status = lay_prefixes(run, laid, error);
    }
    status = status || !run->arena.base ? status : place_others(run, laid, error);
    if (status != CULM_OK) {
        culm_edge_laid_free(laid);
        return status;
    }
    *ret_laid = laid;
    return CULM_OK;
}

/* What was measured until a cut holds for that cut alone. A cut that some batch's program does not have, or
 * not for want of memory, is none, nor are those behind it: the query begins before it. */
static void take_trunk(struct edge_query *query, const struct culm_edge_trunk *trunk) {
    double share[CULM_EDGE_CUTS_MAX][CULM_EDGE_SIZES_MAX] = {0};
    int32_t cuts = trunk->cuts;
    for (int32_t i = 0; i < cuts; i++) {
        for (int32_t j = 0; j < query->trunk.cuts; j++) {
            if (trunk->cut[i].operators == query->trunk.cut[j].operators) {
                memcpy(share[i], query->took_share[j], sizeof share[i]);
            }
        }
        for (int32_t b = 0; b < query->sizes; b++) {
            if (culm_edge_crossing(query->program[b].stage, trunk->cut[i].operators,
                                   query->program[b].crossing[i]) != trunk->cut[i].values) {
                cuts = i;
            }
        }
    }
    memcpy(query->took_share, share, sizeof share);
    query->trunk = *trunk;
    query->trunk.cuts = cuts;
}

void culm_edge_running_shares(const struct edge_query *query, struct culm_edge_times *times,
                              int32_t size) {
    for (int32_t i = 0; i < query->trunk.cuts; i++) {
        int32_t operators = query->trunk.cut[i].operators;
        double share = query->took_share[i][size];
        if (share > 0) {
            culm_edge_times_set_share(times, operators, size, share);
        }
    }
}

void culm_edge_running_count(struct culm_edge_running *run) {
    run->activations_at = run->next_activations_at;
    run->activations_room = run->next_activations_room;
    for (int32_t q = 0; q < run->query_count; q++) {
        struct edge_query *query = &run->query[q];
        const struct edge_query *of =
            query->original_of >= 0 ? &run->query[query->original_of] : query;
        query->score_now = (float)of->score;
        query->twins = twins_of(run, q);
        take_trunk(query, &run->laid->trunk[q]);
        query->ahead_count = 0;
        if (query->next_at) {
            free(query->at);
            query->at = query->next_at;
            query->next_at = NULL;
        }
    }
}

/* --- how long it takes --- */

#define CALIBRATED 3

static enum culm_status calibrate_query(struct culm_edge_running *run, int32_t q,
                                        struct culm_error *error) {
    struct edge_query *query = &run->query[q];
    const struct culm_edge_query *of = &run->laid->query[q];
    struct culm_edge_times *times = &query->entry->times;
    size_t frames = culm_edge_frames_bytes(&run->laid->layout, CULM_EDGE_SLOTS_MIN);
    size_t own = culm_edge_query_bytes(&run->laid->layout, q);
    enum culm_status status = CULM_OK;
    int32_t held = 0;
    for (; held < of->tensor_count && status == CULM_OK; held++) {
        uint64_t begin = culm_clock_ns();
        status = culm_edge_running_read(run, of->tensor[held], error);
        if (status == CULM_OK) {
            culm_edge_loads_add(&run->loads[false], run->laid->bytes[of->tensor[held]],
                                culm_clock_ns() - begin);
        }
    }
    held -= status != CULM_OK;
    for (int32_t b = 0; b < query->sizes && status == CULM_OK; b++) {
        double took[CALIBRATED], share[CULM_EDGE_CUTS_MAX][CALIBRATED];
        uint64_t reached_ns[CULM_EDGE_CUTS_MAX];
        if (times->run_ms[b] > 0 || own + frames + of->activation_bytes[b] > run->limit_bytes) {
            continue;
        }
        run->exec.ops->activations(&run->exec, of->activation_bytes[b]);
        status = culm_edge_running_hold(run, error);
        for (int i = -1; i < CALIBRATED && status == CULM_OK; i++) { /* the first does not count */
            uint64_t begin = culm_clock_ns();
            culm_edge_running_compute(run, query, b, 0, reached_ns);
            double ns = (double)(culm_clock_ns() - begin);
            took[i < 0 ? 0 : i] = ns / 1e6;
            for (int32_t c = 0; c < query->trunk.cuts; c++) {
                share[c][i < 0 ? 0 : i] = (double)reached_ns[c] / ns;
            }
        }
        times->run_ms[b] = status == CULM_OK ? culm_median(took, CALIBRATED) : 0;
        for (int32_t c = 0; c < query->trunk.cuts && status == CULM_OK; c++) {
            culm_edge_times_set_share(times, query->trunk.cut[c].operators, b,
                                      culm_median(share[c], CALIBRATED));
        }
    }
    run->exec.ops->activations(&run->exec, 0);
    for (int32_t i = 0; i < held; i++) {
        run->exec.ops->evict(&run->exec, of->tensor[i]);
    }
    /* Sizes that do not fit are never run: as long as they would take, frame by frame. */
    for (int32_t b = 1; b < query->sizes; b++) {
        if (times->run_ms[b] <= 0) {
            times->run_ms[b] = times->run_ms[0] * query->size[b];
        }
    }
    return status;
}

enum culm_status culm_edge_running_calibrate(struct culm_edge_running *run,
                                             struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (int32_t q = 0; q < run->query_count && status == CULM_OK; q++) {
        struct edge_query *query = &run->query[q];
        bool known = query->gone;
        for (int32_t other = 0; other < q && !known; other++) { /* the same files take as long */
            if (strcmp(run->query[other].entry->identity, query->entry->identity) == 0) {
                query->entry->times = run->query[other].entry->times;
            }
        }
        for (int32_t b = 0; b < query->sizes; b++) {
            known |= b == query->sizes - 1 && query->entry->times.run_ms[b] > 0;
        }
        status = known ? CULM_OK : calibrate_query(run, q, error);
    }
    return status;
}

void culm_edge_running_release(struct culm_edge_running *run) {
    for (int32_t q = 0; q < run->query_count; q++) {
        culm_edge_running_release_query(&run->query[q]);
    }
    for (int32_t f = 0; f < run->feed_count; f++) {
        for (int32_t i = 0; i < CULM_EDGE_FRAME_SLOTS; i++) {
            culm_blob_unref(run->feed[f].slot[i]);
        }
    }
    culm_blob_pool_free(run->headers);
    culm_edge_laid_free(run->laid);
    culm_edge_laid_free(run->next);
    culm_edge_store_release(&run->store);
    free(run->unit_at);
    free(run->part);
    if (run->spool.file) {
        close(run->spool.file - 1);
    }
    free(run->spool.at);
    culm_prediction_room_release(&run->room);
    free(run->tensor);
    culm_edge_arena_release(&run->arena);
    culm_device_free(run->device);
    culm_sink_free(run->sink);
}
