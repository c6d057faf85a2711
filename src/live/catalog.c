/* A workload's models, and layouts of them. See catalog.h. */
#include "live/catalog.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/rng.h"
#include "edge/choice.h"
#include "edge/planner.h"
#include "query/open.h"
#include "vision/runner.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MEASURED 5 /* timed runs of each batch size; the median counts */

/* --- models --- */

static void name_of(const char *model, char ret_name[64]) {
    const char *slash = strrchr(model, '/'), *begin = slash ? slash + 1 : model;
    const char *dot = strrchr(begin, '.');
    snprintf(ret_name, 64, "%.*s", (int)(dot && dot > begin ? dot - begin : (long)strlen(begin)),
             begin);
}

/* When a file was written last, and how long it is; 0: it is not there. */
static void add_state(const char *path, size_t len, char *text, size_t size) {
    char file[CULM_PATH_MAX];
    struct stat info = {0};
    if (len > 0 && culm_path_format(file, NULL, "%.*s", (int)len, path) == CULM_OK) {
        (void)stat(file, &info);
    }
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "\n%lld.%09ld %lld", (long long)info.st_mtim.tv_sec,
             info.st_mtim.tv_nsec, (long long)info.st_size);
}

/* A number that is another one for other classes. */
static uint64_t classes_of(const struct culm_query_reading *reading) {
    uint64_t hash = reading->class_count;
    for (size_t i = 0; i < reading->class_count; i++) {
        hash = culm_rng_mix_bytes(hash, reading->classes[i], strlen(reading->classes[i]) + 1);
    }
    return hash;
}

/* Identifies a model by the files it is made of: which they are, and what state they are in. */
static void identify(const struct culm_query_config *config, char ret_hex[CULM_SHA256_HEX]) {
    char files[CULM_QUERY_FILES_TEXT], text[CULM_QUERY_FILES_TEXT + 256];
    char reading[CULM_QUERY_READING_TEXT];
    culm_query_files(config->model, config->weights, files);
    const size_t model = strcspn(files, "\n");
    snprintf(text, sizeof text, "%s", files);
    add_state(files, model, text, sizeof text);
    add_state(files + model + 1, strlen(files + model + 1), text, sizeof text);
    culm_query_reading_text(&config->reading, reading);
    if (reading[0] || config->reading.class_count > 0) { /* read otherwise it is another model */
        const size_t len = strlen(text);
        snprintf(text + len, sizeof text - len, "\n%s %016llx", reading,
                 (unsigned long long)classes_of(&config->reading));
    }
    if (culm_sha256_of(text, strlen(text), ret_hex) != CULM_OK) {
        snprintf(ret_hex, CULM_SHA256_HEX, "%.64s", config->name);
    }
}

/* The k-th layer with some signature in one model could be the k-th such layer of any other. */
static void call_alike(struct culm_live_entry *entry) {
    for (int32_t p = 0; p < entry->part_count; p++) {
        struct culm_live_part *part = &entry->part[p];
        char text[CULM_VISION_SIGNATURE_TEXT];
        int32_t before = 0;
        for (int32_t l = 0; l < part->layer; l++) {
            before += culm_vision_signature_equal(&entry->layers.layer[l].signature,
                                                  &entry->layers.layer[part->layer].signature);
        }
        if (part->layer >= 0) {
            const struct culm_vision_layer *layer = &entry->layers.layer[part->layer];
            snprintf(part->alike, sizeof part->alike, "%s %s %d",
                     culm_vision_signature_text(&layer->signature, text),
                     part->bias ? "bias" : "weight", before);
            part->shared = true;
        }
    }
}

static enum culm_status take_parts(struct culm_live_entry *entry, struct culm_error *error) {
    enum culm_status status = culm_vision_layers_of(entry->graph, &entry->layers, error);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_graph *graph = entry->graph;
    entry->part = calloc((size_t)graph->param_count + 1, sizeof *entry->part);
    if (!entry->part) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a model");
    }
    struct culm_graph *fused = NULL; /* its parameters have the same indices */
    if ((status = culm_graph_fuse(graph, &fused, error)) != CULM_OK) {
        return status;
    }
    /* As programs have: who may go on from whose map depends on it. */
    culm_vision_gate(entry->model, fused);
    const struct culm_stage_options how = {.forward_only = true};
    if ((status = culm_stages_compile(fused, 1, &how, &entry->stage, error)) != CULM_OK) {
        culm_graph_free(fused);
        return status;
    }
    for (int32_t p = 0; p < graph->param_count; p++) {
        struct culm_live_part *part = &entry->part[entry->part_count++];
        part->turned = fused->param[p].turned;
        snprintf(part->name, sizeof part->name, "%s", graph->param[p].name);
        part->bytes = (size_t)culm_elements(&graph->param[p].shape) * 4;
        part->layer = -1;
        for (int32_t l = 0; l < entry->layers.count; l++) {
            if (entry->layers.layer[l].weight == p || entry->layers.layer[l].bias == p) {
                part->layer = l;
                part->bias = entry->layers.layer[l].bias == p;
            }
        }
    }
    culm_graph_free(fused);
    call_alike(entry);
    return CULM_OK;
}

static enum culm_status parts_of_profile(const struct culm_live_profile_model *model,
                                         struct culm_live_entry *entry, struct culm_error *error) {
    entry->part = calloc((size_t)model->tensor_count + 1, sizeof *entry->part);
    if (!entry->part) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a model");
    }
    for (int32_t t = 0; t < model->tensor_count; t++) {
        struct culm_live_part *part = &entry->part[entry->part_count++];
        snprintf(part->name, sizeof part->name, "%s", model->tensor[t].name);
        part->bytes = (size_t)model->tensor[t].bytes;
        part->layer = -1;
        int32_t before = 0;
        const char *kind = model->tensor[t].kind;
        for (int32_t other = 0; other < t && kind; other++) {
            before += model->tensor[other].kind && strcmp(model->tensor[other].kind, kind) == 0 &&
                      model->tensor[other].bytes == model->tensor[t].bytes;
        }
        if (kind) {
            snprintf(part->alike, sizeof part->alike, "%.150s %lld %d", kind,
                     (long long)part->bytes, before);
            part->shared = true;
        }
    }
    return CULM_OK;
}

/* Two models that are not the same may be in files of one name, in two folders. The later one is
 * then known by its query, too. */
static void name_apart(const struct culm_live_catalog *catalog, struct culm_live_entry *entry) {
    for (const struct culm_live_entry *e = catalog->entry; e < entry; e++) {
        if (strcmp(e->model_name, entry->model_name) == 0 &&
            strcmp(e->structure, entry->structure) != 0) {
            char stem[64];
            memcpy(stem, entry->model_name, sizeof stem);
            snprintf(entry->model_name, sizeof entry->model_name, "%.31s@%.31s", stem,
                     entry->config->name);
            const struct culm_live_profile_model *known =
                culm_live_profile_find(&catalog->profile, entry->model_name);
            entry->times = known ? known->times : (struct culm_live_times){0};
            return;
        }
    }
}

static enum culm_status open_entry(struct culm_live_catalog *catalog,
                                   const struct culm_live_catalog_options *options,
                                   struct culm_live_entry *entry, struct culm_error *error) {
    const struct culm_query_config *config = entry->config;
    const struct culm_live_profile_model *known;
    name_of(config->model, entry->model_name);
    identify(config, entry->identity);
    known = culm_live_profile_find(&catalog->profile, entry->model_name);
    if (known) {
        entry->times = known->times;
    }
    struct culm_query_normalize normalize;
    memcpy(normalize.mean, config->mean, sizeof normalize.mean);
    memcpy(normalize.deviation, config->deviation, sizeof normalize.deviation);
    struct culm_query_open_options how = {.weights = config->weights,
                                          .names = config->names,
                                          .reading = &config->reading,
                                          .normalize = config->normalized ? &normalize : NULL};
    enum culm_status status = culm_query_open(config->model, &how, &entry->model, error);
    if (status != CULM_OK && options->structure) {
        how.structure = true;
        how.weights = NULL;
        struct culm_error second;
        entry->why = *error;
        enum culm_status again = culm_query_open(config->model, &how, &entry->model, &second);
        if (again != CULM_OK && known && known->tensor_count) {
            culm_error_clear(error);
            return parts_of_profile(known, entry, error);
        }
        status = again == CULM_OK ? CULM_OK : status;
        entry->bare = again == CULM_OK;
    }
    if (status == CULM_OK) {
        status = culm_vision_model_graph(entry->model, 1, CULM_VISION_INFER, &entry->graph, error);
    }
    if (status == CULM_OK &&
        !(status = culm_vision_structure(entry->model, entry->structure, error))) {
        name_apart(catalog, entry);
        status = take_parts(entry, error);
    }
    return status ? culm_error_prefix(error, "query '%s'", config->name) : CULM_OK;
}

enum culm_status culm_live_catalog_open(const char *path,
                                        const struct culm_live_catalog_options *options,
                                        struct culm_live_catalog *catalog,
                                        struct culm_error *error) {
    *catalog = (struct culm_live_catalog){0};
    enum culm_status status =
        options->text ? culm_workload_parse(options->text, options->len, path, options->sets,
                                            options->set_count, &catalog->workload, error)
                      : culm_workload_load(path, options->sets, options->set_count,
                                           &catalog->workload, error);
    status = status ? status : culm_workload_need_feeds(&catalog->workload, path, error);
    if (status == CULM_OK && options->profile) {
        status = culm_live_profile_read(options->profile, &catalog->profile, error);
    }
    size_t count = catalog->workload.query_count;
    if (status == CULM_OK &&
        (count > CULM_EDGE_QUERIES_MAX || catalog->workload.feed_count > CULM_EDGE_FEEDS_MAX)) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "'%s' has %zu queries and %zu feeds; at most %d of each can be run",
                                path, count, catalog->workload.feed_count, CULM_EDGE_QUERIES_MAX);
    }
    if (status == CULM_OK) {
        catalog->entry = calloc(count + 1, sizeof *catalog->entry);
        status = catalog->entry ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    for (size_t q = 0; q < count && status == CULM_OK; q++) {
        catalog->entry[q].config = &catalog->workload.queries[q];
        status = open_entry(catalog, options, &catalog->entry[q], error);
    }
    return status;
}

void culm_live_catalog_release(struct culm_live_catalog *catalog) {
    for (size_t q = 0; catalog->entry && q < catalog->workload.query_count; q++) {
        struct culm_live_entry *entry = &catalog->entry[q];
        culm_vision_layers_release(&entry->layers);
        culm_stage_free(entry->stage);
        culm_graph_free(entry->graph);
        culm_vision_model_free(entry->model);
        for (int32_t b = 0; b < CULM_EDGE_SIZES_MAX; b++) {
            free(entry->reached[b]);
        }
        free(entry->part);
        free(entry->digest);
    }
    free(catalog->entry);
    culm_live_profile_release(&catalog->profile);
    culm_workload_release(&catalog->workload);
    *catalog = (struct culm_live_catalog){0};
}

/* --- times --- */

static int32_t sizes_of(const struct culm_edge_config *config, int32_t *ret_size) {
    int32_t count = 0;
    ret_size[count++] = 1;
    for (int32_t i = 0; i < CULM_EDGE_BATCHES_MAX && count < CULM_EDGE_SIZES_MAX; i++) {
        if (config->batch[i] > ret_size[count - 1] && config->batch[i] <= CULM_EDGE_VISIT_MAX) {
            ret_size[count++] = (int32_t)config->batch[i];
        }
    }
    return count;
}

/* Times runs of one batch size, on a picture with nothing in it, where gates stay closed: most cells of any
 * picture are so. The median of the whole, and when each operator was reached. The
 * latter are only used as shares, since clocking each operator keeps operators from running in
 * chains, so that the whole takes longer. */
static enum culm_status time_runs(struct culm_live_entry *entry, int32_t b,
                                  struct culm_vision_runner *runner, struct culm_error *error) {
    int32_t count = culm_stage_info_of(runner->stage)->forward_ops;
    double took[MEASURED], all = 0;
    uint64_t *ns = malloc(((size_t)count + 1) * sizeof *ns);
    double *sum = calloc((size_t)count + 1, sizeof *sum);
    float *reached = malloc(((size_t)count + 1) * sizeof *reached);
    if (!ns || !sum || !reached) {
        free(ns);
        free(sum);
        free(reached);
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a model");
    }
    culm_vision_runner_run(runner);
    for (int i = 0; i < MEASURED; i++) {
        uint64_t begin = culm_clock_ns();
        culm_vision_runner_run(runner);
        took[i] = (double)(culm_clock_ns() - begin) / 1e6;
        culm_vision_runner_clock(runner, ns);
        all += (double)ns[count];
        for (int32_t k = 0; k <= count; k++) {
            sum[k] += (double)ns[k];
        }
    }
    for (int32_t k = 0; k <= count; k++) {
        reached[k] = (float)(sum[k] / all);
    }
    free(ns);
    free(sum);
    entry->times.run_ms[b] = culm_median(took, MEASURED);
    entry->reached[b] = reached;
    return CULM_OK;
}

static enum culm_status measure(struct culm_live_entry *entry, struct culm_device *device,
                                const int32_t *size, int32_t count, struct culm_error *error) {
    for (int32_t b = 0; b < count; b++) {
        struct culm_vision_runner runner;
        enum culm_status status = culm_vision_runner_init(
            &runner, entry->model, size[b], (float)entry->config->score, device, error);
        if (status == CULM_OK) {
            const struct culm_stage_info *info = culm_stage_info_of(runner.stage);
            size_t floats = (size_t)culm_elements(&runner.graph->field[0].shape);
            for (size_t i = 0; i < floats; i++) {
                runner.image[i] = 0.5F;
            }
            status = time_runs(entry, b, &runner, error);
            entry->times.batch[b] = size[b];
            entry->times.activation_bytes[b] = (double)(floats * 4 + info->activation_bytes +
                                                        info->scratch_bytes + info->output_bytes);
            entry->times.sizes = b + 1;
        }
        culm_vision_runner_release(&runner);
        if (status != CULM_OK) {
            return status;
        }
    }
    return CULM_OK;
}

/* Takes over the times of an entry with the same files. */
static enum culm_status times_from(struct culm_live_entry *entry,
                                   const struct culm_live_entry *other, struct culm_error *error) {
    entry->times = other->times;
    for (int32_t b = 0; b < entry->times.sizes && entry->stage && other->reached[b]; b++) {
        size_t bytes =
            ((size_t)culm_stage_info_of(entry->stage)->forward_ops + 1) * sizeof **entry->reached;
        if (!(entry->reached[b] = malloc(bytes))) {
            return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a model");
        }
        memcpy(entry->reached[b], other->reached[b], bytes);
    }
    return CULM_OK;
}

enum culm_status culm_live_catalog_measure(struct culm_live_catalog *catalog,
                                           struct culm_error *error) {
    int32_t size[CULM_EDGE_SIZES_MAX], count = sizes_of(&catalog->workload.edge, size);
    struct culm_device *device = NULL;
    enum culm_status status = CULM_OK;
    for (size_t q = 0; q < catalog->workload.query_count && status == CULM_OK; q++) {
        struct culm_live_entry *entry = &catalog->entry[q];
        for (size_t other = 0; other < q && !entry->times.sizes; other++) {
            if (strcmp(catalog->entry[other].identity, entry->identity) == 0) {
                status = times_from(entry, &catalog->entry[other], error);
            }
        }
        if (entry->times.sizes || status != CULM_OK) {
            continue;
        }
        if (!device) {
            status = culm_device_new((int)catalog->workload.edge.threads, &device, error);
        }
        if (status == CULM_OK && entry->bare) {
            status = culm_error_set(error, CULM_ERR_CONFIG,
                                    "query '%s': no run times; give --profile FILE, which culm "
                                    "edge run writes, or weights to run it with: %s",
                                    entry->config->name, entry->why.text);
        }
        status = status ? status : measure(entry, device, size, count, error);
    }
    culm_device_free(device);
    return status;
}

/* --- layouts --- */

void culm_live_laid_free(struct culm_live_laid *laid) {
    if (laid) {
        for (int32_t q = 0; q < CULM_EDGE_QUERIES_MAX; q++) {
            free(laid->list[q]);
            free(laid->source[q]);
        }
        free(laid->bytes);
        free(laid);
    }
}

enum culm_status culm_live_catalog_choose(const struct culm_live_catalog *catalog,
                                          const struct culm_edge_layout *const *layout,
                                          int32_t count, int64_t frames,
                                          const struct culm_stop *stop, int32_t *ret_chosen,
                                          struct culm_edge_plan *ret_plan,
                                          struct culm_error *error) {
    const struct culm_edge_plan_options how = {.given_order = catalog->workload.edge.order ==
                                                              CULM_EDGE_ORDER_GIVEN,
                                               .tries = CULM_EDGE_PLAN_TRIES,
                                               .frames = frames,
                                               .stop = stop};
    return culm_edge_choose(layout, count, &how, ret_chosen, ret_plan, error);
}

static size_t input_bytes(const struct culm_vision_model *model) {
    return model ? (size_t)model->input.width * (size_t)model->input.height *
                       (size_t)model->input.channels
                 : 0;
}

static bool same_input(const struct culm_vision_model *a, const struct culm_vision_model *b) {
    return a && b && culm_vision_same_bytes(&a->input, &b->input);
}

/* The bytes of a frame of the feed, at every input size that a query reads. */
static size_t frame_bytes(const struct culm_live_catalog *catalog, int32_t feed) {
    size_t bytes = 0;
    for (size_t q = 0; q < catalog->workload.query_count; q++) {
        bool counted = catalog->entry[q].config->feed_index != feed;
        for (size_t other = 0; other < q && !counted; other++) {
            counted = catalog->entry[other].config->feed_index == feed &&
                      same_input(catalog->entry[other].model, catalog->entry[q].model);
        }
        bytes += counted ? 0 : input_bytes(catalog->entry[q].model);
    }
    return (bytes + CULM_LIVE_UNIT_PAGE - 1) / CULM_LIVE_UNIT_PAGE * CULM_LIVE_UNIT_PAGE;
}

void culm_live_catalog_sizes(const struct culm_live_catalog *catalog,
                             struct culm_edge_query *query) {
    query->batches = sizes_of(&catalog->workload.edge, query->batch);
}

/* Fills in time and memory for the query's batch sizes, without anything kept between batches. */
static void fill_batches(const struct culm_live_entry *entry, struct culm_edge_query *query) {
    for (int32_t b = 0; b < query->batches; b++) {
        size_t bytes;
        culm_live_times_of(&entry->times, query->batch[b], &query->run_ns[b], &bytes);
        query->activation_bytes[b] =
            (bytes + CULM_LIVE_UNIT_PAGE - 1) / CULM_LIVE_UNIT_PAGE * CULM_LIVE_UNIT_PAGE;
    }
}

void culm_live_catalog_fill(const struct culm_live_catalog *catalog,
                            const struct culm_live_entry *entry, struct culm_edge_query *query) {
    snprintf(query->name, sizeof query->name, "%s", entry->config->name);
    query->feed = entry->config->feed_index;
    query->deadline_ns = (uint64_t)(entry->config->deadline_ms * 1e6);
    query->pin = entry->config->pin;
    query->preload = entry->config->preload;
    culm_live_catalog_sizes(catalog, query);
    fill_batches(entry, query);
}

enum culm_status culm_live_catalog_lay_needs(const struct culm_live_catalog *catalog,
                                             const struct culm_live_needs *needs,
                                             struct culm_live_store *store,
                                             struct culm_live_laid **ret_laid,
                                             struct culm_error *error) {
    struct culm_live_laid *laid = calloc(1, sizeof *laid);
    const struct culm_workload *workload = &catalog->workload;
    int32_t count[CULM_EDGE_QUERIES_MAX], queries = (int32_t)workload->query_count;
    if (!laid) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a layout");
    }
    enum culm_status status =
        culm_live_store_units(store, needs, queries, &laid->bytes, laid->list, count, error);
    if (status != CULM_OK) {
        culm_live_laid_free(laid);
        return status;
    }
    double rate =
        workload->edge.load_mb_per_s > 0 ? workload->edge.load_mb_per_s : catalog->profile.mb_per_s;
    laid->layout = (struct culm_edge_layout){
        .query_count = queries,
        .feed_count = (int32_t)workload->feed_count,
        .tensor_count = store->unit_count,
        .query = laid->query,
        .feed = laid->feed,
        .tensor_bytes = laid->bytes,
        .load_ns = (uint64_t)(catalog->profile.load_ms * 1e6),
        .load_ns_per_byte = rate > 0 ? 1e3 / rate : 0,
    };
    for (int32_t f = 0; f < laid->layout.feed_count; f++) {
        double fps = workload->feeds[f].fps > 0 ? workload->feeds[f].fps : CULM_LIVE_OWN_FPS;
        laid->feed[f].period_ns = (uint64_t)(1e9 / fps);
        laid->feed[f].frame_bytes = frame_bytes(catalog, f);
    }
    for (int32_t q = 0; q < queries; q++) {
        culm_live_catalog_fill(catalog, &catalog->entry[q], &laid->query[q]);
        laid->query[q].tensor = laid->list[q];
        laid->query[q].tensor_count = count[q];
    }
    *ret_laid = laid;
    return CULM_OK;
}

/* The key of a part's source when nothing but files is shared. */
static void key_of(const struct culm_live_entry *entry, const struct culm_live_part *part,
                   char *ret_key, size_t size) {
    snprintf(ret_key, size, "%s/%s", entry->identity, part->name);
}

static void key_of_equal(const struct culm_live_entry *entry, const struct culm_live_part *part,
                         char *ret_key, size_t size) {
    if (part->shared && part->alike[0]) {
        snprintf(ret_key, size, "%s", part->alike);
    } else {
        key_of(entry, part, ret_key, size);
    }
}

/* Parts with the same `alike` in models of different files. */
struct alike {
    const char *name;
    size_t bytes;
    int32_t models;
    bool chosen;
};

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct alike *)a)->name, ((const struct alike *)b)->name);
}

static double worth(const struct alike *alike) {
    return (double)alike->bytes * (alike->models - 1);
}

static int by_worth(const void *a, const void *b) {
    double one = worth(a), other = worth(b);
    return one != other ? (one < other) - (one > other) : by_name(a, b);
}

/* Collects the parts that could be shared, each `alike` once, sorted by it. ret_bytes: those of all
 * these parts. Returns how many there are. */
static int32_t collect_alike(const struct culm_live_catalog *catalog, struct alike *alike,
                             double *ret_bytes) {
    int32_t parts = 0, count = 0;
    *ret_bytes = 0;
    for (size_t q = 0; q < catalog->workload.query_count; q++) {
        const struct culm_live_entry *entry = &catalog->entry[q];
        size_t other = 0;
        while (strcmp(catalog->entry[other].identity, entry->identity) != 0) {
            other++;
        }
        for (int32_t p = 0; p < entry->part_count && other == q; p++) {
            if (entry->part[p].alike[0]) {
                alike[parts++] =
                    (struct alike){.name = entry->part[p].alike, .bytes = entry->part[p].bytes};
                *ret_bytes += (double)entry->part[p].bytes;
            }
        }
    }
    qsort(alike, (size_t)parts, sizeof *alike, by_name);
    for (int32_t i = 0; i < parts; i++) {
        if (count == 0 || strcmp(alike[count - 1].name, alike[i].name) != 0) {
            alike[count++] = alike[i];
        }
        alike[count - 1].models++;
    }
    return count;
}

enum culm_status culm_live_catalog_share(struct culm_live_catalog *catalog, double most,
                                         double *ret_saved, struct culm_error *error) {
    size_t queries = catalog->workload.query_count, parts = 1;
    for (size_t q = 0; q < queries; q++) {
        parts += (size_t)catalog->entry[q].part_count;
    }
    struct alike *alike = calloc(parts, sizeof *alike);
    if (!alike) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a layout");
    }
    double bytes, saved = 0;
    int32_t count = collect_alike(catalog, alike, &bytes);
    qsort(alike, (size_t)count, sizeof *alike, by_worth);
    for (int32_t i = 0; i < count; i++) {
        alike[i].chosen = saved + worth(&alike[i]) <= most * bytes;
        saved += alike[i].chosen ? worth(&alike[i]) : 0;
    }
    qsort(alike, (size_t)count, sizeof *alike, by_name);
    for (size_t q = 0; q < queries; q++) {
        for (int32_t p = 0; p < catalog->entry[q].part_count; p++) {
            struct culm_live_part *part = &catalog->entry[q].part[p];
            const struct alike key = {.name = part->alike};
            const struct alike *found =
                part->alike[0] ? bsearch(&key, alike, (size_t)count, sizeof *alike, by_name) : NULL;
            part->shared = found && found->chosen;
        }
    }
    free(alike);
    *ret_saved = bytes > 0 ? saved / bytes : 0;
    return CULM_OK;
}

static bool has_shape(const struct culm_package_tensor *tensor, const struct culm_shape *shape) {
    return tensor->rank == shape->rank &&
           memcmp(tensor->shape, shape->dim, (size_t)shape->rank * sizeof *shape->dim) == 0;
}

enum culm_status culm_live_entry_find(const struct culm_live_entry *entry, int32_t part,
                                      const struct culm_package_round *round, int32_t of,
                                      const char *dir, const struct culm_package_param **ret_param,
                                      struct culm_error *error) {
    const struct culm_package_query *query = &round->query[of];
    const int32_t p = culm_package_param_find(query, entry->part[part].name);
    const struct culm_package_param *param = p < 0 ? NULL : &query->param[p];
    const struct culm_shape *shape = entry->graph ? &entry->graph->param[part].shape : NULL;
    if (shape && (!param || !has_shape(&round->tensor[param->tensor], shape) ||
                  !has_shape(&round->tensor[param->original], shape))) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "package '%s': query '%s' is of another model: it has no such "
                              "parameter as '%s'; merge again",
                              dir, entry->config->name, entry->part[part].name);
    }
    *ret_param = param;
    return CULM_OK;
}

enum culm_status culm_live_catalog_goes_with(const struct culm_live_catalog *catalog,
                                             const struct culm_package_round *round,
                                             const char *dir, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    bool any = false;
    for (size_t q = 0; q < catalog->workload.query_count && status == CULM_OK; q++) {
        const struct culm_live_entry *entry = &catalog->entry[q];
        const struct culm_package_param *param;
        const int32_t of = culm_package_query_find(round, entry->config->name);
        any |= of >= 0;
        if (of >= 0 &&
            culm_vision_structure_differs(round->query[of].structure, entry->structure)) {
            status = culm_error_set(error, CULM_ERR_CONFIG,
                                    "query '%s': '%s' describes another model than the one that "
                                    "'%s' was made of; put it back, or merge again",
                                    entry->config->name, entry->config->model, dir);
        }
        for (int32_t p = 0; of >= 0 && p < entry->part_count && status == CULM_OK; p++) {
            status = culm_live_entry_find(entry, p, round, of, dir, &param, error);
        }
    }
    return status || any ? status
                         : culm_error_set(error, CULM_ERR_CONFIG,
                                          "package '%s': it has none of the workload's queries; "
                                          "give the package that this workload was merged into",
                                          dir);
}

int32_t culm_live_tensor_of(const struct culm_workload *workload,
                            const struct culm_package_query *query,
                            const struct culm_package_param *param) {
    const bool all = workload->edge.rounds == CULM_EDGE_ROUNDS_ALL;
    return all || query->merged >= 0 ? param->tensor : param->original;
}

static void key_of_package(const struct culm_workload *workload,
                           const struct culm_live_entry *entry,
                           const struct culm_package_round *round,
                           const struct culm_live_part *part, bool plain, char *ret_key,
                           size_t size) {
    int32_t q = culm_package_query_find(round, entry->config->name);
    int32_t p = q >= 0 ? culm_package_param_find(&round->query[q], part->name) : -1;
    key_of(entry, part, ret_key, size);
    if (p >= 0) {
        const struct culm_package_param *param = &round->query[q].param[p];
        const int32_t tensor = culm_live_tensor_of(workload, &round->query[q], param);
        snprintf(ret_key, size, "%s", round->tensor[plain ? param->original : tensor].digest);
    }
}

/* The source of a part. -1: out of memory. */
static int32_t source_of(const struct culm_live_catalog *catalog, enum culm_live_sharing sharing,
                         const struct culm_package_round *round,
                         const struct culm_live_entry *entry, int32_t p, bool own,
                         struct culm_live_store *store) {
    char key[CULM_VISION_SIGNATURE_TEXT + CULM_SHA256_HEX];
    if (sharing == CULM_LIVE_SHARE_PACKAGE) {
        key_of_package(&catalog->workload, entry, round, &entry->part[p], own, key, sizeof key);
    } else if (sharing == CULM_LIVE_SHARE_EQUAL && !own) {
        key_of_equal(entry, &entry->part[p], key, sizeof key);
    } else {
        key_of(entry, &entry->part[p], key, sizeof key);
    }
    return culm_live_store_source(store, key, entry->part[p].bytes, 0);
}

enum culm_status culm_live_catalog_sources(const struct culm_live_catalog *catalog,
                                           enum culm_live_sharing sharing,
                                           const struct culm_package_round *round, uint64_t plain,
                                           struct culm_live_store *store,
                                           int32_t *ret_list[CULM_EDGE_QUERIES_MAX],
                                           struct culm_error *error) {
    bool ok = true;
    for (size_t q = 0; q < catalog->workload.query_count && ok; q++) {
        const struct culm_live_entry *entry = &catalog->entry[q];
        ret_list[q] = malloc(((size_t)entry->part_count + 1) * sizeof *ret_list[q]);
        ok = ret_list[q] != NULL;
        for (int32_t p = 0; p < entry->part_count && ok; p++) {
            /* Originals come first, as in a run, so that plans are the same to the last tie. */
            ok = sharing != CULM_LIVE_SHARE_PACKAGE ||
                 source_of(catalog, sharing, round, entry, p, true, store) >= 0;
            ret_list[q][p] = source_of(catalog, sharing, round, entry, p, plain >> q & 1, store);
            ok = ok && ret_list[q][p] >= 0;
        }
    }
    return ok ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a layout");
}

enum culm_status culm_live_catalog_lay(const struct culm_live_catalog *catalog,
                                       enum culm_live_sharing sharing,
                                       const struct culm_package_round *round, uint64_t plain,
                                       struct culm_live_store *store,
                                       struct culm_live_laid **ret_laid, struct culm_error *error) {
    const size_t queries = catalog->workload.query_count;
    struct culm_live_needs needs[CULM_EDGE_QUERIES_MAX] = {0};
    int32_t *list[CULM_EDGE_QUERIES_MAX] = {0};
    enum culm_status status =
        culm_live_catalog_sources(catalog, sharing, round, plain, store, list, error);
    for (size_t q = 0; q < queries; q++) {
        needs[q] = (struct culm_live_needs){list[q], catalog->entry[q].part_count};
    }
    status = status ? status : culm_live_catalog_lay_needs(catalog, needs, store, ret_laid, error);
    for (size_t q = 0; q < queries; q++) {
        if (status == CULM_OK) {
            (*ret_laid)->source[q] = list[q];
        } else {
            free(list[q]);
        }
    }
    return status;
}

bool culm_live_entries_agree(const struct culm_live_entry *a, const int32_t *source_a,
                             const struct culm_live_entry *b, const int32_t *source_b) {
    return a->part_count == b->part_count && strcmp(a->identity, b->identity) == 0 &&
           (!a->model || !b->model || culm_vision_same_input(&a->model->input, &b->model->input)) &&
           memcmp(source_a, source_b, (size_t)a->part_count * sizeof *source_a) == 0;
}

static bool are_twins(const struct culm_live_catalog *catalog, const struct culm_live_laid *laid,
                      int32_t a, int32_t b) {
    const struct culm_live_entry *one = &catalog->entry[a], *other = &catalog->entry[b];
    return one->config->feed_index == other->config->feed_index &&
           culm_live_entries_agree(one, laid->source[a], other, laid->source[b]);
}

enum culm_status culm_live_catalog_prefixes(const struct culm_live_catalog *catalog,
                                            struct culm_live_laid *laid, bool on,
                                            struct culm_error *error) {
    struct culm_live_beginning of[CULM_EDGE_QUERIES_MAX] = {0};
    for (int32_t q = 0; q < laid->layout.query_count; q++) {
        const struct culm_live_entry *entry = &catalog->entry[q];
        of[q] = (struct culm_live_beginning){.stage = on ? entry->stage : NULL,
                                             .source = laid->source[q],
                                             .input = entry->model ? &entry->model->input : NULL,
                                             .feed = entry->config->feed_index,
                                             .times = &entry->times,
                                             .reached = entry->reached};
        for (int32_t other = laid->layout.query_count - 1; other >= 0 && on; other--) {
            if (other != q && are_twins(catalog, laid, q, other)) {
                of[q].twin = 1 + (uint64_t)(other < q ? other : q);
            }
        }
        fill_batches(entry, &laid->query[q]);
    }
    return culm_live_prefixes_lay(of, &laid->layout, laid->query, laid->trunk, error);
}

size_t culm_live_catalog_limit(const struct culm_live_catalog *catalog,
                               const struct culm_edge_layout *unshared) {
    const struct culm_edge_config *config = &catalog->workload.edge;
    size_t least, most;
    culm_edge_memory_range(unshared, &least, &most);
    return config->memory_bytes
               ? (size_t)config->memory_bytes
               : least + (size_t)((double)(most - least) * config->memory_share + 0.5);
}
