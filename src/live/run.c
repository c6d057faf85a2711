/*
 * A run: puts the parts together, runs, and lets changes be taken up in the meantime.
 */
#include "live/run.h"
#include "live/receiver.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/wall.h"
#include "edge/virtual.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TICK_MS 100
#define PREDICTED_S 20
#define FOR_MS_MAX 1e15

void live_publish(struct culm_live *run, json_t *take_event) {
    struct culm_world *world = culm_alone_world(run->alone);
    world->ops->publish(world, take_event);
}

/* Adds up the counts of a query that went and came back, or whose feed began anew, so that it is
 * listed once. */
static void join_queries(json_t *queries) {
    static const char *const count[] = {"frames", "processed", "dropped", "late", "shared"};
    for (size_t i = json_array_size(queries); i-- > 0;) {
        json_t *item = json_array_get(queries, i);
        const char *name = json_string_value(json_object_get(item, "query"));
        size_t j = 0;
        while (j < i && strcmp(name, json_string_value(json_object_get(json_array_get(queries, j),
                                                                       "query"))) != 0) {
            j++;
        }
        if (j < i) {
            json_t *first = json_array_get(queries, j);
            for (size_t k = 0; k < sizeof count / sizeof *count; k++) {
                json_int_t sum = json_integer_value(json_object_get(first, count[k])) +
                                 json_integer_value(json_object_get(item, count[k]));
                json_object_set_new(first, count[k], json_integer(sum));
            }
            json_array_remove(queries, i);
        }
    }
}

/* Adds to the event `done` what the scheduler does not know. */
static void add_accuracy(struct culm_live *run, json_t *event) {
    size_t i;
    join_queries(json_object_get(event, "queries"));
    json_t *item;
    json_array_foreach(json_object_get(event, "queries"), i, item) {
        const char *name = json_string_value(json_object_get(item, "query"));
        json_t *why = json_object(), *count;
        const char *reason;
        json_object_set_new(item, "accuracy", json_null());
        json_object_set_new(item, "why", why);
        for (int32_t q = 0; q < run->query_count && name; q++) {
            const struct live_query *query = &run->query[q];
            const double value = culm_live_scored_value(&query->accuracy);
            if (strcmp(query->entry->config->name, name) != 0) {
                continue;
            }
            if (value >= 0) {
                json_object_set_new(item, "accuracy", json_real(value));
            }
            json_object_foreach(query->why, reason, count) {
                json_object_set_new(
                    why, reason,
                    json_integer(culm_event_int(why, reason, 0) + json_integer_value(count)));
            }
        }
    }
}

void live_fill_done(struct culm_live *run, json_t *event) {
    add_accuracy(run, event);
    live_fill_lost(run, event);
    json_object_set_new(event, "round", run->round < 0 ? json_null() : json_integer(run->round));
    json_object_set_new(event, "package", live_package(run));
    json_object_set_new(event, "feeds", live_outages(run));
    json_object_set_new(event, "answers", live_receivers(run));
    live_count_saving(run);
    if (run->round >= 0 && run->saved.own > 0) { /* over the run, whatever went back */
        json_object_set_new(event, "saved", json_real(1 - run->saved.laid / run->saved.own));
    }
}

/* Counts a frame that was dropped, by the reason. */
static void count_why(struct culm_live *run, const json_t *event) {
    const char *name = json_string_value(json_object_get(event, "query"));
    const char *why = json_string_value(json_object_get(event, "why"));
    struct live_query *query = NULL;
    for (int32_t q = 0; q < run->query_count && name && why; q++) {
        struct live_query *other = &run->query[q];
        if (other->original_of < 0 && strcmp(other->entry->config->name, name) == 0) {
            query = other; /* the last of that name */
        }
    }
    if (query) {
        query->why = query->why ? query->why : json_object();
        json_object_set_new(query->why, why, json_integer(culm_event_int(query->why, why, 0) + 1));
    }
}

static void on_event(void *ctx, json_t *event) {
    struct culm_live *run = ctx;
    const char *kind = json_string_value(json_object_get(event, "event"));
    if (kind && strcmp(kind, "frame") == 0) {
        count_why(run, event);
    }
    if (kind && strcmp(kind, "feed") == 0 && json_object_get(event, "ended")) {
        live_hear(run); /* publish why first, since nothing may follow this event */
    }
    if (kind && strcmp(kind, "done") == 0) {
        live_drop_text(run); /* nothing follows `done` */
        live_end_receivers(run, false);
        live_fill_done(run, event);
        live_keep_status(run, event);
    }
    const json_t *feed = json_object_get(event, "feed"); /* the scheduler has only its number */
    if (json_is_integer(feed) && json_integer_value(feed) < run->feed_count) {
        struct live_feed *of = &run->feed[json_integer_value(feed)];
        const char *name = of->config->name;
        if (of->again && !run->stops && json_is_true(json_object_get(event, "ended"))) {
            live_ended_to_begin(of);
            return;
        }
        of->ended |= json_is_true(json_object_get(event, "ended"));
        json_object_set_new(event, "feed", culm_json_text(name));
    }
    live_write_event(run, event, kind && strcmp(kind, "done") == 0);
}

static void on_stop(void *ctx) {
    struct culm_live *run = ctx;
    __atomic_store_n(&run->stops, true, __ATOMIC_RELEASE);
    culm_edge_scheduler_stop(run->scheduler);
}

static void on_woken(void *ctx) {
    struct culm_live *run = ctx;
    if (__atomic_exchange_n(&run->asked_again, false, __ATOMIC_ACQ_REL)) {
        run->again = true;
        live_follow_files(run, true);
        live_reload(run);
    }
    if (live_asked(run)) {
        on_stop(run);
    }
    live_tell_status(run);
}

static void on_tick(void *ctx) {
    struct culm_live *run = ctx;
    live_hear(run);
    live_follow_files(run, false);
    live_hear_receivers(run);
    live_look(run);
    struct culm_error error;
    /* Gives back slots that were still in use when their number shrank. */
    if (live_slots(run, &error) != CULM_OK && run->failed.status == CULM_OK) {
        run->failed = error;
    }
    live_reload(run);
    if (run->package && !run->next &&
        culm_package_moved(run->package, run->round, run->round_digest)) {
        live_round(run);
    }
    live_settle(run);
    live_replan(run);
    if (run->failed.status != CULM_OK) {
        struct culm_world *world = culm_alone_world(run->alone);
        world->ops->leave(world, culm_status_exit_code(run->failed.status), &run->failed);
    }
}

/* --- before it begins --- */

/* Sets the limit that the workload asks for. A level, which is not in bytes, is never less than the
 * layout needs; for bytes the check that follows says if they are too few. */
static enum culm_status set_limit(struct culm_live *run, struct culm_live_catalog *catalog,
                                  struct culm_error *error) {
    struct culm_live_store store = {0};
    struct culm_live_laid *plain = NULL;
    size_t least, most;
    enum culm_status status =
        culm_live_catalog_lay(catalog, CULM_LIVE_SHARE_FILES, NULL, 0, &store, &plain, error);
    if (status == CULM_OK) {
        run->limit_bytes = culm_live_catalog_limit(catalog, &plain->layout);
        culm_edge_memory_range(&run->laid->layout, &least, &most);
        if (!catalog->workload.edge.memory_bytes && run->limit_bytes < least) {
            run->limit_bytes = least;
        }
        run->laid->layout.limit_bytes = run->limit_bytes;
    }
    culm_live_laid_free(plain);
    culm_live_store_release(&store);
    return status;
}

/* Addresses of tensors that rounds have replaced are not used again, so there is to be room for
 * those of thousands of rounds. Where addresses are limited, fewer have to do. */
#define ADDRESSES ((size_t)1 << 40)

static enum culm_status make_arena(struct culm_live *run, struct culm_error *error) {
    size_t bytes = 2 * live_activations(run->laid) + ((size_t)256 << 20);
    for (int32_t f = 0; f < run->feed_count; f++) {
        bytes += CULM_LIVE_FRAME_SLOTS * run->feed[f].frame_bytes;
    }
    for (int32_t u = 0; u < run->store.unit_count; u++) {
        bytes += 8 * run->store.unit[u].bytes; /* room for those of later rounds */
    }
    return culm_live_arena_init(&run->arena, bytes, ADDRESSES, error);
}

json_t *live_package(const struct culm_live *run) {
    return run->round < 0 ? json_null()
                          : json_pack("{s:I, s:I, s:s}", "bytes", (json_int_t)run->layer_bytes,
                                      "distinct_bytes", (json_int_t)run->layer_distinct, "digest",
                                      run->round_digest);
}

void live_tell_query(struct culm_live *run, int32_t q) {
    const struct culm_live_laid *laid = run->next ? run->next : run->laid;
    struct live_query *query = &run->query[q];
    const struct culm_query_config *config = query->entry->config;
    const double accuracy =
        query->plain || query->reverted ? query->own_accuracy : query->merged_accuracy;
    query->told = true;
    live_publish(run,
                 json_pack("{s:s, s:o, s:o, s:I, s:o}", "event", "query", "query",
                           culm_json_text(config->name), "model", culm_json_text(config->model),
                           "bytes", (json_int_t)culm_edge_query_bytes(&laid->layout, q), "accuracy",
                           accuracy < 0 ? json_null() : json_real(accuracy)));
    if (query->entry->model->note[0]) { /* what was done to its weights */
        char text[sizeof query->entry->model->note + 120];
        snprintf(text, sizeof text, "query '%.100s': %s", config->name, query->entry->model->note);
        live_warn(run, text);
    }
}

static void tell_start(struct culm_live *run, const struct culm_edge_totals *totals) {
    char from[32], to[32];
    json_t *queries = json_array();
    snprintf(from, sizeof from, "%p", (void *)run->arena.base);
    snprintf(to, sizeof to, "%p", (void *)(run->arena.base + run->arena.size));
    for (int32_t q = 0; q < run->query_count; q++) {
        if (run->query[q].original_of >= 0) {
            continue; /* an original, which only looks at samples */
        }
        json_array_append_new(
            queries,
            json_pack("{s:o, s:f}", "query", culm_json_text(run->query[q].entry->config->name),
                      "processed",
                      totals[q].frames ? (double)totals[q].processed / (double)totals[q].frames
                                       : 1.0));
    }
    run->began_ns = culm_clock_ns();
    culm_wall_text(run->began_ns, run->began);
    json_t *start = json_pack(
        "{s:s, s:s, s:s, s:I, s:[s, s], s:{s:s, s:f}, s:o, s:o, s:o}", "event", "start", "job",
        "edge", "began", run->began, "limit_bytes", (json_int_t)run->limit_bytes, "arena", from, to,
        "loading", "from", run->rate_mb_per_s > 0 ? "rate" : "files", "mb_per_s",
        run->laid->layout.load_ns_per_byte > 0 ? 1e3 / run->laid->layout.load_ns_per_byte : 0.0,
        "round", run->round < 0 ? json_null() : json_integer(run->round), "package",
        live_package(run), "expected", queries);
    if (run->monitor.health[0]) {
        json_object_set_new(start, "health", json_string(run->monitor.health));
    }
    live_publish(run, start);
    for (int32_t q = 0; q < run->query_count; q++) {
        if (run->query[q].original_of < 0) {
            live_tell_query(run, q);
        }
    }
}

static enum culm_status write_profile(struct culm_live *run, struct culm_error *error) {
    struct culm_live_profile profile = {.threads = run->catalog[0]->workload.edge.threads};
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(path, error, "%s/profile.json", run->out);
    snprintf(profile.device, sizeof profile.device, "%s", run->device->ops->signature(run->device));
    live_loading(run, &profile.load_ms, &profile.mb_per_s);
    for (int32_t q = 0; q < run->query_count && status == CULM_OK; q++) {
        const struct live_query *query = &run->query[q];
        struct culm_live_profile_model *model =
            culm_live_profile_add(&profile, query->entry->model_name);
        if (!model) {
            status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a profile");
            break;
        }
        struct culm_live_times known = model->times; /* from another query with this model */
        if (!model->times.sizes) {
            model->times = query->entry->times;
        }
        for (int32_t b = 0; b < query->sizes; b++) {
            model->times.run_ms[b] = query->ran[b] > 0 ? query->ran_ms[b] / (double)query->ran[b]
                                                       : model->times.run_ms[b];
            culm_live_times_shares(&model->times, b, known.sizes ? &known : &query->entry->times);
            live_shares(query, &model->times, b);
        }
    }
    status = status ? status : culm_live_profile_write(&profile, path, error);
    culm_live_profile_release(&profile);
    return status;
}

/* Now that run times are known: chooses the forms of queries and a plan, and makes the layout. */
static enum culm_status lay_chosen(struct culm_live *run, struct culm_error *error) {
    struct culm_live_laid *laid = NULL;
    enum culm_status status = live_choose(run, &run->plan, error);
    status = status ? status : live_take_forms(run, error);
    status = status ? status : live_lay(run, &laid, error);
    if (status == CULM_OK) {
        culm_live_laid_free(run->laid);
        run->laid = laid;
        live_count(run);
    }
    return status;
}

static enum culm_status prepare(struct culm_live *run, struct culm_live_catalog *catalog,
                                struct culm_error *error) {
    enum culm_status status;
    char path[CULM_PATH_MAX];
    if ((status = live_take(run, catalog, error)) || (status = live_sources(run, error)) ||
        (status = live_lay(run, &run->laid, error)) || (status = set_limit(run, catalog, error)) ||
        (status = culm_edge_layout_check(&run->laid->layout, error)) ||
        (status = make_arena(run, error)) ||
        (status = culm_device_new((int)catalog->workload.edge.threads, &run->device, error))) {
        return status;
    }
    culm_live_laid_free(run->laid);
    run->laid = NULL;
    status = live_lay(run, &run->next, error);
    if (status != CULM_OK) {
        return status;
    }
    run->laid = run->next;
    run->next = NULL;
    live_count(run);
    if ((status = live_gather(run, error)) || (status = live_calibrate(run, error)) ||
        (status = lay_chosen(run, error)) || (status = live_gather(run, error)) ||
        (status = culm_path_format(path, error, "%s/events.jsonl", run->out)) ||
        (status = live_outs(run, error)) || (status = culm_tree_remove(NULL, path, error)) ||
        (status = live_open_events(run, path, error))) {
        return status;
    }
    status = live_slots(run, error);
    return status ? status : live_write_workload(run, error);
}

/* In ms; 0: without end. */
static uint64_t time_of(double seconds) {
    double ms = seconds * 1e3;
    return ms <= 0 ? 0 : ms < 1 ? 1 : ms > FOR_MS_MAX ? (uint64_t)FOR_MS_MAX : (uint64_t)ms;
}

static enum culm_status go(struct culm_live *run, struct culm_error *error) {
    struct culm_edge_totals totals[CULM_EDGE_QUERIES_MAX];
    const struct culm_edge_virtual_options expected = {
        .layout = &run->laid->layout, .plan = &run->plan, .for_ns = PREDICTED_S * 1000000000ull};
    const struct culm_alone_options options = {.publish = on_event,
                                               .woken = on_woken,
                                               .tick = on_tick,
                                               .stop = on_stop,
                                               .ctx = run,
                                               .tick_ms = TICK_MS,
                                               .for_ms = time_of(run->o->for_s)};
    struct culm_alone *alone;
    enum culm_status status = culm_edge_virtual_run(&expected, totals, NULL);
    status = status ? culm_error_set(error, status, "out of memory for a plan")
                    : culm_alone_new(&options, &alone, error);
    if (status != CULM_OK) {
        return status;
    }
    __atomic_store_n(&run->alone, alone, __ATOMIC_SEQ_CST);
    culm_alone_wake(alone); /* for what was asked before */
    const struct culm_edge_scheduler_options how = {.world = culm_alone_world(run->alone),
                                                    .exec = &run->exec,
                                                    .layout = &run->laid->layout,
                                                    .plan = &run->plan};
    run->scheduler = culm_edge_scheduler_new(&how);
    if (!run->scheduler) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a scheduler");
    }
    tell_start(run, totals);
    live_tell_plan(run);
    live_tell_unwatched(run);
    live_trim();
    status = live_feeds(run, error);
    if (status == CULM_OK) {
        struct culm_error why;
        live_begin_status(run);
        run->o->begun(run->o->ctx);
        int code = culm_alone_run(run->alone, &culm_edge_scheduler_actor, run->scheduler, &why);
        if (code != 0) {
            status = why.status != CULM_OK ? why.status : CULM_ERR_INTERNAL;
            *error = why;
        }
    }
    live_ends(run);
    live_stop_feeds(run);
    live_stop_planner(run);
    live_stop_reading(run);
    live_pictures(run);
    status = status ? status : live_any_frame(run, error);
    status = status || run->uncalibrated ? status : write_profile(run, error);
    return status ? status : live_any_feed(run, error);
}

void live_trim(void) {
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

static enum culm_status set_out(struct culm_live *run, struct culm_error *error) {
    const char *path = run->o->workload, *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    int len = (int)(dot && dot != name ? (size_t)(dot - name) : strlen(name));
    enum culm_status status = run->o->out
                                  ? culm_path_format(run->out, error, "%s", run->o->out)
                                  : culm_path_format(run->out, error, "runs/%.*s-edge", len, name);
    status = status ? status : culm_path_format(run->originals, error, "%s/originals", run->out);
    status = status ? status : culm_rundir_claim_anew(run->out, &run->dir, error);
    struct stat info;
    run->own_originals = status == CULM_OK && lstat(run->originals, &info) != 0;
    return status;
}

/* For a run that has not begun: a directory that it made goes with everything in it; in one that was
 * there, the answers and events of the last run have not been touched. */
static void take_back(struct culm_live *run) {
    if (run->dir.made) {
        (void)culm_tree_remove(NULL, run->out, NULL);
    } else if (run->own_originals) {
        (void)culm_tree_remove(NULL, run->originals, NULL);
    }
    culm_rundir_take_back(&run->dir);
}

static enum culm_status check_posted(const struct culm_live *run, struct culm_error *error) {
    const struct culm_workload *workload = &run->catalog[0]->workload;
    for (size_t i = 0; i < run->posted_count; i++) {
        bool there = false;
        for (size_t f = 0; f < workload->feed_count; f++) {
            there |= strcmp(workload->feeds[f].name, run->posted[i].name) == 0;
        }
        if (!there) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "%s: 'feeds' has no '%.40s', whose frames are to be posted",
                                  run->o->workload, run->posted[i].name);
        }
    }
    return live_check_posted(run->o, workload, error);
}

static enum culm_status open_run(struct culm_live *run, struct culm_error *error) {
    const struct culm_live_options *o = run->o;
    const struct culm_live_catalog_options how = {.text = o->text,
                                                  .len = o->len,
                                                  .sets = o->sets,
                                                  .set_count = o->set_count,
                                                  .profile = o->profile};
    run->headers = culm_blob_pool_new(0);
    run->part = aligned_alloc(1 << 16, CULM_LIVE_PART); /* page-aligned on any machine */
    run->catalog[0] = calloc(1, sizeof *run->catalog[0]);
    if (!run->headers || !run->part || !run->catalog[0]) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    enum culm_status status = live_make_posted(run, error);
    if (status == CULM_OK) {
        status = culm_live_catalog_open(o->workload, &how, run->catalog[0], error);
    }
    if (status == CULM_OK) {
        status = check_posted(run, error);
    }
    return status;
}

enum culm_status culm_live_open(const struct culm_live_options *options, struct culm_live **ret_run,
                                struct culm_error *error) {
    struct culm_live *run = calloc(1, sizeof *run);
    if (!run) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    run->exec.ops = &live_ops;
    run->o = options;
    run->round = -1;
    run->dir.lock_fd = -1;
    run->package = options->package;
    pthread_mutex_init(&run->lock, NULL);
    pthread_mutex_init(&run->originals_lock, NULL);
    pthread_mutex_init(&run->models_lock, NULL);
    live_status_init(&run->status);
    live_monitor_init(&run->monitor);
    enum culm_status status = open_run(run, error);
    if (status != CULM_OK) {
        culm_live_free(run);
        return status;
    }
    *ret_run = run;
    return CULM_OK;
}

enum culm_status culm_live_prepare(struct culm_live *run, struct culm_error *error) {
    run->rate_mb_per_s = run->catalog[0]->workload.edge.load_mb_per_s;
    live_limit_files(run, &run->catalog[0]->workload.answers);
    enum culm_status status = set_out(run, error);
    if (status == CULM_OK) {
        status = live_begin_monitor(run, error);
        status = status ? status : live_open_receivers(run, error);
        status = status ? status : prepare(run, run->catalog[0], error);
        if (status != CULM_OK) {
            live_end_receivers(run, true);
            live_end_monitor(run);
        }
        if (status != CULM_OK && !run->events) {
            take_back(run);
        }
    }
    if (status != CULM_OK) {
        live_end_posts(run);
        live_end_status(run);
    }
    run->stands = status == CULM_OK;
    return status;
}

/* Ends what preparing has begun. */
static void take_down(struct culm_live *run) {
    if (run->stands) {
        run->stands = false;
        live_end_receivers(run, true);
        live_end_monitor(run);
        live_end_posts(run);
        live_end_status(run);
    }
}

enum culm_status culm_live_run(struct culm_live *run, struct culm_error *error) {
    enum culm_status status = go(run, error);
    take_down(run);
    culm_rundir_release(&run->dir);
    return status;
}

/* Wakes the loop if there is one; else it looks when it begins. */
static void wake(struct culm_live *run) {
    struct culm_alone *alone = __atomic_load_n(&run->alone, __ATOMIC_SEQ_CST);
    if (alone) {
        culm_alone_wake(alone);
    }
}

void culm_live_stop(struct culm_live *run) {
    __atomic_store_n(&run->asked, true, __ATOMIC_SEQ_CST);
    wake(run);
}

void culm_live_again(struct culm_live *run) {
    __atomic_store_n(&run->asked_again, true, __ATOMIC_SEQ_CST);
    wake(run);
}

void culm_live_free(struct culm_live *run) {
    if (!run) {
        return;
    }
    take_down(run); /* it was never run */
    culm_edge_scheduler_free(run->scheduler);
    culm_alone_free(run->alone);
    live_release(run);
    live_release_posted(run);
    live_status_release(&run->status);
    live_monitor_release(&run->monitor);
    for (int32_t r = 0; r < run->receiver_count; r++) {
        culm_receiver_free(run->receiver[r]);
    }
    const int32_t catalogs = run->catalogs ? run->catalogs : run->catalog[0] != NULL;
    for (int32_t c = 0; c < catalogs; c++) {
        culm_live_catalog_release(run->catalog[c]);
        free(run->catalog[c]);
    }
    culm_rundir_release(&run->dir);
    pthread_mutex_destroy(&run->models_lock);
    pthread_mutex_destroy(&run->originals_lock);
    pthread_mutex_destroy(&run->lock);
    free(run);
}
