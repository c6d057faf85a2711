/*
 * Reading the workload again during a run: new queries and feeds begin, and those no longer in it
 * end.
 *
 * A thread reads the text, opens its models, compiles new ones and writes their tensors, rewrites
 * damaged tensors that were written before, counts the frames of feeds for which there are labels
 * (which may mean decoding a whole clip) and reads the labels. Then the loop takes everything up,
 * or nothing. After a new round of the package, the thread only looks after the run's own tensors.
 */
#include "live/reload.h"
#include "live/run.h"

#include "base/json.h"
#include "base/url.h"
#include "base/words.h"
#include "query/feeds.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CROP_WAIT_MS 5000 /* for a first picture */
#define CROP_LOOK_MS 100  /* between looks at whether the run is to stop */

/* --- what is taken up --- */

static bool same_feed(const struct culm_feed_config *a, const struct culm_feed_config *b) {
    return strcmp(a->name, b->name) == 0 && strcmp(a->file, b->file) == 0 && a->fps == b->fps &&
           a->loop == b->loop && a->ends == b->ends && a->stall_ms == b->stall_ms &&
           a->from == b->from && a->to == b->to && a->every == b->every && a->for_s == b->for_s &&
           culm_feed_same_options(a, b) && memcmp(a->crop, b->crop, sizeof a->crop) == 0;
}

/* As what a feed goes on. */
static const struct culm_feed_config *will_be(const struct live_feed *feed) {
    return feed->again ? &feed->to_be : feed->config;
}

static bool has_input(const struct live_feed *feed, const struct culm_vision_input *input) {
    for (int32_t i = 0; i < feed->inputs; i++) {
        if (culm_vision_same_bytes(&feed->input[i].input, input)) {
            return true;
        }
    }
    return false;
}

/* Whether it gives nothing any more although there may be something to give. */
static bool is_broken(const struct live_feed *feed) {
    return feed->ended && /* first: once ended, its thread writes no more */
           (feed->failed ||
            (!feed->posted && culm_feed_lasts(feed->config->file) && !feed->over_ns));
}

/* Whether it has all input sizes that the catalog's queries of this feed read. */
static bool has_inputs(const struct live_feed *feed, const struct culm_live_catalog *catalog,
                       int32_t number) {
    bool has = true;
    for (size_t q = 0; has && q < catalog->workload.query_count; q++) {
        has = catalog->entry[q].config->feed_index != number ||
              has_input(feed, &catalog->entry[q].model->input);
    }
    return has;
}

/* Whether a present feed, which has ended or of which the text now says something else, can go on as it
 * says with its number: it shows the same, and nobody has labels for what may now be another file. Otherwise it
 * takes a number more, and so do its queries. */
static bool can_begin_again(const struct live_feed *feed, const struct culm_live_catalog *catalog,
                            int32_t number) {
    const struct culm_feed_config *is = will_be(feed);
    const struct culm_feed_config *config = &catalog->workload.feeds[number];
    bool labels = false;
    for (size_t q = 0; q < catalog->workload.query_count; q++) {
        const struct culm_query_config *query = catalog->entry[q].config;
        labels |= query->feed_index == number && query->labels;
    }
    return !feed->gone && !feed->posted && feed->started && !labels &&
           strcmp(is->name, config->name) == 0 && strcmp(is->file, config->file) == 0 &&
           is->from == config->from && is->to == config->to && is->every == config->every &&
           culm_feed_same_options(is, config) &&
           memcmp(is->crop, config->crop, sizeof is->crop) == 0 &&
           has_inputs(feed, catalog, number);
}

/* Finds the present feed, running or at its end, for a feed of the catalog if it has all input
 * sizes that the queries read; else adds one. -1: there are too many. */
static int32_t feed_for(struct culm_live *run, struct culm_live_catalog *catalog, int32_t number) {
    struct culm_feed_config *config = &catalog->workload.feeds[number];
    for (int32_t f = 0; f < run->feed_count; f++) {
        const struct live_feed *there = &run->feed[f];
        if (!there->gone && !is_broken(there) && same_feed(will_be(there), config) &&
            has_inputs(there, catalog, number)) {
            return f;
        }
    }
    for (int32_t f = 0; f < run->feed_count; f++) {
        struct live_feed *there = &run->feed[f];
        if (can_begin_again(there, catalog, number)) {
            there->next = config;
            there->period_ns = live_period_ns(config);
            return f;
        }
    }
    if (run->feed_count == CULM_EDGE_FEEDS_MAX) {
        return -1;
    }
    struct live_feed *feed = &run->feed[run->feed_count];
    live_open_feed(run, config, run->feed_count);
    for (size_t q = 0; q < catalog->workload.query_count; q++) {
        if (catalog->entry[q].config->feed_index == number) {
            live_add_input(feed, &catalog->entry[q].model->input);
        }
    }
    live_round_frame(feed);
    return run->feed_count++;
}

static int32_t query_for(const struct culm_live *run, const struct culm_live_entry *entry,
                         int32_t feed) {
    for (int32_t q = 0; q < run->query_count; q++) {
        const struct live_query *query = &run->query[q];
        if (!query->gone && query->original_of < 0 && query->feed == feed &&
            strcmp(query->entry->config->name, entry->config->name) == 0 &&
            strcmp(query->entry->identity, entry->identity) == 0 &&
            culm_words_same(query->entry->config->labels, entry->config->labels)) {
            return q;
        }
    }
    return -1;
}

/* Guesses run times of a model that are not known, until it has run: those of the same files, or of
 * the slowest model. */
static void guess_times(const struct culm_live *run, struct culm_live_entry *entry) {
    for (int32_t b = 0; b < entry->times.sizes && entry->times.run_ms[b] <= 0; b++) {
        entry->times.run_ms[b] = 1;
        for (int32_t q = 0; q < run->query_count; q++) {
            const struct culm_live_entry *other = run->query[q].entry;
            bool same = strcmp(other->identity, entry->identity) == 0;
            if (other != entry && b < other->times.sizes &&
                (same || other->times.run_ms[b] > entry->times.run_ms[b])) {
                entry->times.run_ms[b] = other->times.run_ms[b];
            }
        }
        /* A model thought too slow for its deadline would never be run, nor ever be measured. */
        double most = entry->config->deadline_ms / 2;
        entry->times.run_ms[b] =
            b == 0 && entry->times.run_ms[b] > most ? most : entry->times.run_ms[b];
    }
}

/* Takes over the number of frames that the thread has counted; also for a feed that was there
 * before, since it may be that only now a query has labels. */
static void take_count(struct culm_live *run, int32_t feed, int32_t number) {
    const struct live_reader *reader = &run->reader;
    if (reader->counted[number]) {
        run->feed[feed].frames = reader->frames[number];
        run->feed[feed].counted = true;
    }
}

static enum culm_status take_workload(struct culm_live *run, struct culm_error *error) {
    struct culm_live_catalog *catalog = run->catalog[run->catalogs - 1];
    int32_t feed[CULM_EDGE_FEEDS_MAX];
    bool query_stays[CULM_EDGE_QUERIES_MAX] = {0}, feed_stays[CULM_EDGE_FEEDS_MAX] = {0};
    enum culm_status status = CULM_OK;
    for (size_t f = 0; f < catalog->workload.feed_count; f++) {
        const struct culm_feed_config *config = &catalog->workload.feeds[f];
        int32_t before = run->feed_count;
        feed[f] = feed_for(run, catalog, (int32_t)f);
        if (feed[f] < 0) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "more than %d feeds since the run began; start it again",
                                  CULM_EDGE_FEEDS_MAX);
        }
        feed_stays[feed[f]] = true;
        take_count(run, feed[f], (int32_t)f);
        const struct live_feed *taken = &run->feed[feed[f]];
        status = (run->feed_count > before || taken->next) && !taken->posted
                     ? culm_feed_find(config->name, config->file, config->loop, error)
                     : status;
        if (status != CULM_OK) {
            return status;
        }
    }
    for (size_t q = 0; q < catalog->workload.query_count; q++) {
        struct culm_live_entry *entry = &catalog->entry[q];
        int32_t on = feed[entry->config->feed_index], query = query_for(run, entry, on);
        if (query >= 0) {
            run->query[query].deadline_ms = entry->config->deadline_ms;
            run->query[query].score = entry->config->score;
            run->query[query].target = entry->config->target;
        } else {
            status = live_open(run, entry, -1, on, &query, error);
            if (status != CULM_OK) {
                return status; /* `query` may not be set */
            }
            guess_times(run, entry);
        }
        query_stays[query] = true;
    }
    for (int32_t q = 0; q < run->query_count; q++) {
        if (run->query[q].original_of < 0 && !query_stays[q]) {
            run->query[q].gone = true;
        }
    }
    for (int32_t f = 0; f < run->feed_count; f++) {
        run->feed[f].gone |= !feed_stays[f];
    }
    status = live_sources(run, error);
    return status ? status : live_outs(run, error);
}

/* Frees the newest catalog if no query and no feed came from it. */
static void drop_unused(struct culm_live *run) {
    struct culm_live_catalog *catalog = run->catalog[run->catalogs - 1];
    const struct culm_workload *workload = &catalog->workload;
    bool used = false;
    for (int32_t q = 0; q < run->query_count; q++) {
        for (size_t e = 0; catalog->entry && e < workload->query_count; e++) {
            used |= run->query[q].entry == &catalog->entry[e];
        }
    }
    for (int32_t f = 0; f < run->feed_count; f++) {
        for (size_t e = 0; e < workload->feed_count; e++) {
            used |= run->feed[f].config == &workload->feeds[e];
        }
    }
    if (!used) {
        run->catalogs--;
        culm_live_catalog_release(catalog);
        free(catalog);
    }
}

/* --- reading --- */

/* Whether some query of the feed has labels, of which there must be one for each frame. */
static bool wants_count(const struct culm_workload *workload, int32_t feed) {
    bool wants = false;
    for (size_t q = 0; q < workload->query_count; q++) {
        const struct culm_query_config *query = &workload->queries[q];
        wants |=
            query->feed_index == feed && query->labels && strcmp(query->labels, "folders") != 0;
    }
    return wants;
}

/* Whether the number of frames is known from a feed that goes on. */
static bool is_known(const struct live_reader *reader, const struct culm_feed_config *config,
                     int64_t *ret_frames) {
    for (int32_t f = 0; f < reader->known_count; f++) {
        if (same_feed(&reader->known[f].config, config)) {
            *ret_frames = reader->known[f].frames;
            return true;
        }
    }
    return false;
}

/* Compiles programs and writes tensors here, since frames would have to wait for the loop to do so.
 * What fails here is tried again there, and reported. */
static void make_ready(struct live_reader *reader) {
    struct culm_live_catalog *catalog = reader->catalog;
    struct culm_package_round round = {0};
    struct culm_error error;
    int32_t each = reader->package ? 2 : 1; /* one more for the original that watches for drift */
    bool package = reader->package && culm_package_open(reader->package, &round, &error) == CULM_OK;
    reader->ready = calloc(catalog->workload.query_count * 2 + 1, sizeof *reader->ready);
    for (size_t q = 0; q < catalog->workload.query_count && reader->ready; q++) {
        struct culm_live_entry *entry = &catalog->entry[q];
        bool runs = false;
        for (int32_t i = 0; i < reader->running_count && !runs; i++) {
            runs = strcmp(reader->running[i]->config->name, entry->config->name) == 0 &&
                   strcmp(reader->running[i]->identity, entry->identity) == 0;
        }
        for (int32_t k = 0; k < each && !runs && !live_stopped(&reader->stop); k++) {
            struct live_ready *ready = &reader->ready[reader->ready_count];
            if (live_ready_make(reader->first, entry, ready) != CULM_OK) {
                continue;
            }
            reader->ready_count++;
            const int32_t of = package ? culm_package_query_find(&round, entry->config->name) : -1;
            const bool own = of < 0 || (culm_live_entry_sum(entry, &error) == CULM_OK &&
                                        culm_live_entry_is_retrained(entry, &round, of));
            if (k == 0 && own) {
                (void)live_write_own(entry, reader->originals, reader->lock, &ready->tensor,
                                     &error);
            }
        }
    }
    culm_package_round_release(&round);
}

static void release_ready(struct live_reader *reader) {
    for (int32_t i = 0; i < reader->ready_count; i++) {
        live_ready_release(&reader->ready[i]);
    }
    free(reader->ready);
    reader->ready = NULL;
    reader->ready_count = 0;
}

/* Reads labels here as well, since there may be many. Queries that go on keep the ones they have;
 * which these are is known only when the workload is taken up, and errors of the others are
 * reported then. */
static void read_labels(struct live_reader *reader) {
    const struct culm_workload *workload = &reader->catalog->workload;
    reader->labels = calloc(workload->query_count + 1, sizeof *reader->labels);
    for (size_t q = 0; q < workload->query_count && reader->labels; q++) {
        const struct culm_live_entry *entry = &reader->catalog->entry[q];
        const int32_t f = entry->config->feed_index;
        struct live_labels_read *read = &reader->labels[q];
        if (entry->config->labels && !live_stopped(&reader->stop)) {
            read->entry = entry;
            read->status = live_read_labels(entry, &workload->feeds[f],
                                            reader->counted[f] ? reader->frames[f] : -1,
                                            &read->labels, &read->error);
        }
    }
}

static void release_labels(struct live_reader *reader, size_t queries) {
    for (size_t q = 0; q < queries && reader->labels; q++) {
        live_labels_release(&reader->labels[q].labels);
    }
    free(reader->labels);
    reader->labels = NULL;
}

static void mend(struct live_reader *reader) {
    for (int32_t i = 0; i < reader->own_count; i++) {
        live_mend(reader->run, &reader->own[i], &reader->stop);
    }
}

static void *mend_alone(void *arg) {
    struct live_reader *reader = arg;
    mend(reader);
    __atomic_store_n(&reader->done, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Whether the crop of a feed that is new fits into the first picture of its file. What cannot be read here, such as a
 * stream, shows it when it has begun. */
static enum culm_status try_crop(const struct live_reader *reader,
                                 const struct culm_feed_config *config, struct culm_error *error) {
    struct culm_feed_options options = culm_feed_options_of(config, NULL);
    struct culm_feed *feed = NULL;
    struct culm_feed_frame frame;
    struct culm_error why;
    enum culm_status status = CULM_OK;
    struct stat file;
    for (int32_t g = 0; g < reader->going_count; g++) {
        if (same_feed(&reader->going[g], config)) {
            return CULM_OK; /* it goes on, whatever its file has become */
        }
    }
    if (config->crop[2] == 0 || live_is_posted(reader->o, config->name) ||
        stat(config->file, &file) != 0 || !(S_ISREG(file.st_mode) || S_ISDIR(file.st_mode)) ||
        culm_feed_open(&options, &feed, &why) != CULM_OK) {
        return CULM_OK;
    }
    for (int waited_ms = 0; waited_ms < CROP_WAIT_MS && !live_stopped(&reader->stop);
         waited_ms += CROP_LOOK_MS) {
        status = culm_feed_next(feed, CROP_LOOK_MS, &frame, &why);
        if (status != CULM_ERR_AGAIN) {
            break;
        }
    }
    culm_feed_close(feed);
    if (status != CULM_ERR_CONFIG) {
        return CULM_OK;
    }
    *error = why;
    return status;
}

static void *read_workload(void *arg) {
    struct live_reader *reader = arg;
    const struct culm_stop stop = {.asked = live_stopped, .ctx = &reader->stop};
    const struct culm_live_catalog_options options = {
        .sets = reader->o->sets, .set_count = reader->o->set_count, .profile = reader->o->profile};
    reader->status =
        culm_live_catalog_open(reader->o->workload, &options, reader->catalog, &reader->error);
    if (reader->status == CULM_OK) {
        reader->status = live_check_posted(reader->o, &reader->catalog->workload, &reader->error);
    }
    for (size_t f = 0; reader->status == CULM_OK && f < reader->catalog->workload.feed_count; f++) {
        reader->status = try_crop(reader, &reader->catalog->workload.feeds[f], &reader->error);
    }
    if (reader->status == CULM_OK) {
        make_ready(reader);
    }
    mend(reader);
    live_give_way(19); /* counting may take long; ffmpeg inherits the priority */
    const struct culm_workload *workload = &reader->catalog->workload;
    for (size_t f = 0; reader->status == CULM_OK && f < workload->feed_count; f++) {
        const struct culm_feed_config *config = &workload->feeds[f];
        reader->counted[f] = wants_count(workload, (int32_t)f);
        if (reader->counted[f] && live_is_posted(reader->o, config->name)) {
            reader->frames[f] = -1;
        } else if (reader->counted[f] && !is_known(reader, config, &reader->frames[f])) {
            reader->frames[f] = live_frames(config, &stop);
        }
    }
    if (reader->status == CULM_OK) {
        read_labels(reader);
    }
    __atomic_store_n(&reader->done, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Notes the number of frames of feeds that were counted. Not of broken ones, which begin anew,
 * maybe with another file. */
static void note_known(struct culm_live *run) {
    struct live_reader *reader = &run->reader;
    for (int32_t f = 0; f < run->feed_count; f++) {
        const struct live_feed *feed = &run->feed[f];
        if (!feed->gone && !is_broken(feed)) {
            reader->going[reader->going_count++] = *will_be(feed);
        }
        if (!feed->gone && !is_broken(feed) && feed->counted && feed->frames >= 0) {
            reader->known[reader->known_count].config = *will_be(feed);
            reader->known[reader->known_count++].frames = feed->frames;
        }
    }
}

static void tell(struct culm_live *run, const struct culm_error *error) {
    json_t *names = json_array();
    for (int32_t q = 0; q < run->query_count; q++) {
        if (!run->query[q].gone && run->query[q].original_of < 0) {
            json_array_append_new(names, culm_json_text(run->query[q].entry->config->name));
        }
    }
    json_t *event = json_pack("{s:s, s:o}", "event", "workload", "queries", names);
    if (error) { /* which may repeat what was in the place of something else */
        char shown[sizeof error->text];
        culm_url_show(error->text, shown, sizeof shown);
        json_object_set_new(event, "error", culm_json_text(shown));
    }
    live_publish(run, event);
    for (int32_t q = 0; q < run->query_count; q++) {
        struct live_query *query = &run->query[q];
        query->told &= !query->gone;
        if (!query->told && !query->gone && query->original_of < 0) {
            live_tell_query(run, q);
        }
    }
}

/* Notes the own tensors of queries, to be checked. False: out of memory. */
static bool note_own(struct culm_live *run) {
    struct live_reader *reader = &run->reader;
    for (int32_t q = 0; q < run->query_count; q++) {
        const struct live_query *query = &run->query[q];
        if (query->gone || query->original_of >= 0 || !query->own_tensors) {
            continue;
        }
        struct live_own *own = &reader->own[reader->own_count];
        *own = (struct live_own){query->entry,
                                 calloc((size_t)query->entry->part_count + 1, sizeof *own->source)};
        if (!own->source) {
            return false;
        }
        reader->own_count++;
        for (int32_t p = 0; p < query->entry->part_count; p++) {
            int32_t source = query->merged[p];
            own->source[p] = run->store.source[source].place == 1 ? source : -1;
        }
    }
    return true;
}

static void release_own(struct live_reader *reader) {
    while (reader->own_count > 0) {
        free(reader->own[--reader->own_count].source);
    }
}

/* Starts to check own tensors. Should that fail, it is tried again with the next round. */
static void begin_mending(struct culm_live *run) {
    struct live_reader *reader = &run->reader;
    *reader = (struct live_reader){.run = run};
    reader->reads = note_own(run) && reader->own_count > 0 &&
                    pthread_create(&reader->thread, NULL, mend_alone, reader) == 0;
    if (!reader->reads) {
        release_own(reader);
    }
}

static bool same_text(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

static bool same_edge(const struct culm_edge_config *a, const struct culm_edge_config *b) {
    return a->memory_share == b->memory_share && a->memory_bytes == b->memory_bytes &&
           a->load_mb_per_s == b->load_mb_per_s &&
           memcmp(a->batch, b->batch, sizeof a->batch) == 0 && a->threads == b->threads &&
           a->order == b->order && a->originals == b->originals && a->remerge == b->remerge &&
           a->drift.every_s == b->drift.every_s && a->drift.frames == b->drift.frames &&
           same_text(a->health, b->health);
}

static bool same_receivers(const struct culm_answers_config *a,
                           const struct culm_answers_config *b) {
    bool same = a->to_count == b->to_count;
    for (size_t i = 0; i < a->to_count && same; i++) {
        same = strcmp(a->to[i], b->to[i]) == 0;
    }
    return same;
}

static void warn_of_edge(struct culm_live *run) {
    live_publish(run,
                 json_pack("{s:s, s:s}", "event", "warning", "message",
                           "what the workload now has under 'edge' takes effect when the run is "
                           "started again"));
}

static void begin_reading(struct culm_live *run) {
    struct live_reader *reader = &run->reader;
    struct culm_error error;
    *reader = (struct live_reader){.o = run->o,
                                   .run = run,
                                   .first = run->catalog[0],
                                   .package = run->package,
                                   .originals = run->originals,
                                   .lock = &run->originals_lock,
                                   .catalog = calloc(1, sizeof *reader->catalog)};
    note_known(run);
    for (int32_t q = 0; q < run->query_count; q++) {
        if (!run->query[q].gone && run->query[q].original_of < 0) {
            reader->running[reader->running_count++] = run->query[q].entry;
        }
    }
    reader->reads = reader->catalog && note_own(run) &&
                    pthread_create(&reader->thread, NULL, read_workload, reader) == 0;
    if (!reader->reads) {
        release_own(reader);
        free(reader->catalog);
        reader->catalog = NULL;
        culm_error_set(&error, CULM_ERR_MEMORY, "out of memory for a workload");
        tell(run, &error);
    }
}

/* The thread is done: what it has read is taken up, or refused. */
static void take_up(struct culm_live *run) {
    struct live_reader *reader = &run->reader;
    pthread_join(reader->thread, NULL);
    reader->reads = false;
    release_own(reader);
    if (!reader->o) {
        return;
    }
    struct culm_error error = reader->error;
    enum culm_status status = reader->status;
    run->catalog[run->catalogs++] = reader->catalog;
    reader->catalog = NULL;
    status = status ? status : live_try(run, take_workload, NULL, &error);
    bool other_edge =
        status == CULM_OK && !same_edge(&run->catalog[0]->workload.edge,
                                        &run->catalog[run->catalogs - 1]->workload.edge);
    struct culm_error unwritten;
    if (status == CULM_OK && live_write_workload(run, &unwritten) != CULM_OK) {
        live_warn(run, unwritten.text); /* who merges for it goes on with the one before */
    }
    const struct culm_answers_config *answers = &run->catalog[run->catalogs - 1]->workload.answers;
    const bool other_receivers =
        status == CULM_OK && !same_receivers(&run->catalog[0]->workload.answers, answers);
    if (status == CULM_OK) {
        live_limit_files(run, answers);
    }
    release_ready(reader); /* which is left over if it was refused */
    release_labels(reader, run->catalog[run->catalogs - 1]->workload.query_count);
    for (int32_t f = 0; f < run->feed_count; f++) {
        if (run->feed[f].next) {
            live_begin_again(&run->feed[f]);
        }
    }
    drop_unused(run);
    live_trim();
    status = status ? status : live_feeds(run, &error);
    for (int32_t f = 0; f < run->feed_count; f++) {
        if (run->feed[f].gone) {
            live_stop_feed(&run->feed[f]);
        } else {
            __atomic_store_n(&run->feed[f].retry, 1, __ATOMIC_RELEASE);
        }
    }
    tell(run, status ? &error : NULL);
    if (other_edge) {
        warn_of_edge(run);
    }
    if (other_receivers) {
        live_warn(run, "what the workload now has under 'answers.to' takes effect when the run is "
                       "started again");
    }
}

void live_reload(struct culm_live *run) {
    struct live_reader *reader = &run->reader;
    if (run->next || run->stops) {
        return; /* one change at a time */
    }
    if (reader->reads && __atomic_load_n(&reader->done, __ATOMIC_ACQUIRE)) {
        take_up(run);
    }
    if (run->again && !reader->reads) {
        run->again = run->mend = false;
        begin_reading(run);
    } else if (run->mend && !reader->reads) {
        run->mend = false;
        begin_mending(run);
    }
}

void live_drop_text(struct culm_live *run) {
    struct culm_error error;
    if (((run->reader.reads && run->reader.o) || run->again) && !run->stops) {
        culm_error_set(&error, CULM_ERR_CLOSED, "all feeds ended before it was taken up");
        tell(run, &error);
    }
}

void live_stop_reading(struct culm_live *run) {
    struct live_reader *reader = &run->reader;
    if (reader->reads) {
        __atomic_store_n(&reader->stop, 1, __ATOMIC_RELEASE);
        pthread_join(reader->thread, NULL);
        reader->reads = false;
        release_own(reader);
        release_ready(reader);
        if (reader->catalog) {
            release_labels(reader, reader->catalog->workload.query_count);
            culm_live_catalog_release(reader->catalog);
            free(reader->catalog);
        }
    }
}
