/*
 * Feeds: each has a thread that reads frames, waits until they are due, stretches them to every
 * input size of its queries and hands them to the loop, unless the program posts its frames (post.c). A
 * frame for which no slot is free is handed over without its pixels, so that it counts as dropped.
 */
#include "live/feed.h"
#include "live/post.h"
#include "live/run.h"
#include "query/feeds.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "vision/picture.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of a stream or device, what comes in so long a time after it was connected is left out: while ffmpeg looked at what it
 * was, frames queued up, which are older than they seem. */
#define BACKLOG_NS UINT64_C(1000000000)
#define WAITING_MAX 1024 /* messages on their way to the loop, after which a feed waits */
#define RATE_NS UINT64_C(3000000000) /* the time over which it is looked at how many frames come */
#define RATE_FRAMES 10               /* and for so many of them at least */
#define RATE_LEAST 0.9 /* a feed is slow if fewer than this share of the frames come */
#define LOOK_MS 50     /* how long a thread waits before it checks whether it is to stop */

static void say(struct live_feed *feed, const char *text) {
    pthread_mutex_lock(&feed->lock);
    snprintf(feed->said, sizeof feed->said, "%s", text);
    pthread_mutex_unlock(&feed->lock);
}

/* Says why the feed ends. */
static void fail(struct live_feed *feed, const struct culm_error *error) {
    say(feed, error->text);
    feed->failed = true;
    feed->why = *error;
}

static bool stops(struct live_feed *feed) {
    return __atomic_load_n(&feed->stop, __ATOMIC_ACQUIRE) ||
           (feed->over_ns && culm_clock_ns() >= feed->over_ns);
}

/* The seconds for which it is to last begin with the first frame. */
static void begin_time(struct live_feed *feed) {
    if (feed->config->for_s > 0 && !feed->over_ns) {
        feed->over_ns = culm_clock_ns() + (uint64_t)(feed->config->for_s * 1e9);
    }
}

/* False: the feed is to stop. */
static bool wait_until(struct live_feed *feed, uint64_t at_ns) {
    uint64_t now = culm_clock_ns();
    while (now < at_ns && !stops(feed)) {
        uint64_t left = at_ns - now;
        left = left < LOOK_MS * 1000000ull ? left : LOOK_MS * 1000000ull;
        const struct timespec pause = {0, (long)left};
        nanosleep(&pause, NULL);
        now = culm_clock_ns();
    }
    return !stops(feed);
}

/* The feed gives nothing, for this reason. When to connect again. */
static uint64_t go_down(struct live_feed *feed, const struct culm_error *error) {
    bool goes_down;
    pthread_mutex_lock(&feed->lock);
    uint64_t at = culm_edge_outage_fails(&feed->outage, culm_clock_ns(), &goes_down);
    if (goes_down) {
        snprintf(feed->went_down, sizeof feed->went_down, "%s", error->text);
    }
    pthread_mutex_unlock(&feed->lock);
    feed->why = *error;
    return at;
}

static void come_up(struct live_feed *feed) {
    uint64_t after_ns = 0;
    pthread_mutex_lock(&feed->lock);
    if (culm_edge_outage_frame(&feed->outage, culm_clock_ns(), &after_ns)) {
        feed->came_up = true;
        feed->up_after_ns = after_ns;
    }
    pthread_mutex_unlock(&feed->lock);
}

/* Waits until it is time to connect again, or until somebody asks for it now. False: it is to stop. */
static bool wait_to_connect(struct live_feed *feed, uint64_t at_ns) {
    __atomic_store_n(&feed->retry, 0, __ATOMIC_RELEASE);
    while (culm_clock_ns() < at_ns && !__atomic_load_n(&feed->retry, __ATOMIC_ACQUIRE) &&
           wait_until(feed, culm_clock_ns() + LOOK_MS * 1000000ull)) {
    }
    return !stops(feed);
}

/* A free slot, with a reference so that its memory is not given back while it is being filled;
 * NULL: none is free. */
static struct culm_blob *free_slot(struct live_feed *feed) {
    struct culm_blob *slot = NULL;
    pthread_mutex_lock(&feed->slots_lock);
    bool over = feed->slots_held > feed->slots; /* a free one is to be given back */
    for (int32_t i = 0; i < CULM_LIVE_FRAME_SLOTS && !slot && !over; i++) {
        if (feed->held[i] && __atomic_load_n(&feed->slot[i]->refs, __ATOMIC_ACQUIRE) == 1) {
            slot = culm_blob_ref(feed->slot[i]);
        }
    }
    pthread_mutex_unlock(&feed->slots_lock);
    return slot;
}

/* What has the place of a slot for a frame whose pixels are not kept; NULL: out of memory. */
static struct culm_blob *no_slot(struct live_feed *feed) {
    struct culm_blob *blob = NULL;
    if (culm_blob_pool_get(feed->run->headers, sizeof(struct live_frame), &blob) == CULM_OK) {
        *(struct live_frame *)blob->data = (struct live_frame){.pixels = NULL};
    }
    return blob;
}

static void stretch(const struct live_feed *feed, const struct culm_feed_frame *frame,
                    uint8_t *ret_pixels) {
    const struct culm_frame pixels = {frame->data, frame->stride, frame->width, frame->height,
                                      frame->channels};
    for (int32_t i = 0; i < feed->inputs; i++) {
        culm_vision_stretch(&feed->input[i].input, &pixels, ret_pixels + feed->input[i].offset);
    }
}

static bool post(struct live_feed *feed, uint16_t type, int64_t number, uint64_t at_ns,
                 struct culm_blob *slot) {
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_ALONE_META_MAX);
    culm_buf_u64(&meta, (uint64_t)number);
    culm_buf_u64(&meta, at_ns);
    const struct culm_message message = {.type = type,
                                         .meta = meta.data,
                                         .meta_bytes = (uint32_t)meta.len,
                                         .payload = slot,
                                         .payload_bytes = slot ? slot->size_bytes : 0};
    bool ok = !meta.failed && culm_alone_post(feed->run->alone, feed->number, &message);
    culm_buf_release(&meta);
    return ok;
}

/* For who watches the run. */
static void note_handed(struct live_feed *feed, uint64_t at_ns) {
    const uint64_t now = culm_clock_ns();
    __atomic_store_n(&feed->lag_ns, now > at_ns ? now - at_ns : 0, __ATOMIC_RELAXED);
    __atomic_store_n(&feed->handed_ns, now, __ATOMIC_RELAXED);
    __atomic_add_fetch(&feed->handed, 1, __ATOMIC_RELAXED);
}

bool live_hand_over(struct live_feed *feed, const struct culm_feed_frame *frame, uint64_t at_ns) {
    struct culm_blob *slot = free_slot(feed);
    const bool kept = slot != NULL;
    if (!kept && !(slot = no_slot(feed))) {
        return false;
    }
    struct live_frame *to = slot->data;
    to->source = frame->source;
    to->width = frame->width;
    to->height = frame->height;
    to->folder = frame->label; /* which it is, as the feed was opened without labels */
    if (kept) {
        stretch(feed, frame, to->pixels);
    }
    bool ok = post(feed, kept ? CULM_EDGE_FRAME : CULM_EDGE_FRAME_LOST, frame->number, at_ns, slot);
    culm_blob_unref(slot);
    note_handed(feed, at_ns);
    return ok;
}

bool live_take_frame(struct live_feed *feed, struct live_pace *pace, uint64_t now) {
    double fps = feed->config->fps;
    uint64_t period = fps > 0 ? (uint64_t)(1e9 / fps) : 0;
    if (now + period / 8 < pace->due_ns) {
        return false;
    }
    pace->due_ns = (now > pace->due_ns + period ? now : pace->due_ns) + period;
    uint64_t *at = &pace->at_ns[pace->count % CULM_LIVE_PACED];
    if (pace->count >= CULM_LIVE_PACED) {
        __atomic_store_n(&feed->seen_ns, (now - *at) / CULM_LIVE_PACED, __ATOMIC_RELEASE);
    }
    *at = now;
    pace->count++;
    return true;
}

/* Frames that have their times: what is due, how many frames the source has given, and how many more were
 * due. A frame's number counts both. */
struct timed {
    struct culm_edge_due due;
    int64_t given, missed;
};

/* Frames that were due and have not come are dropped. came: one has. False: the feed is to stop, or
 * there is no memory. */
static bool pass_missed(struct live_feed *feed, struct timed *timed, bool came) {
    const uint64_t slack = __atomic_load_n(&feed->slack_ns, __ATOMIC_ACQUIRE);
    const uint64_t now = culm_clock_ns();
    const int64_t before = timed->missed;
    uint64_t at;
    bool ok = true;
    while (ok && culm_edge_due_missed(&timed->due, slack, now, came, &at)) {
        while (ok && culm_alone_count_waiting(feed->run->alone) >= WAITING_MAX) {
            ok = wait_until(feed, culm_clock_ns() + LOOK_MS * 1000000ull);
        }
        const int64_t number = feed->first + timed->given + timed->missed;
        ok = ok && post(feed, CULM_EDGE_FRAME_MISSED, number, at, NULL);
        timed->missed += ok;
        feed->frames_given = number + 1;
    }
    if (timed->missed > before || came) {
        pthread_mutex_lock(&feed->lock);
        feed->missed += timed->missed - before;
        feed->came += came;
        pthread_mutex_unlock(&feed->lock);
    }
    return ok;
}

/* Waits for the time of a frame that has come, which it is then given, and its number. False: the feed is
 * to stop, or there is no memory. */
static bool give_time(struct live_feed *feed, struct timed *timed, struct culm_feed_frame *frame,
                      uint64_t *ret_at_ns) {
    if (!pass_missed(feed, timed, true)) {
        return false;
    }
    *ret_at_ns = culm_edge_due_take(&timed->due, culm_clock_ns());
    timed->given = frame->number + 1;
    frame->number += timed->missed;
    feed->frames_given = feed->first + frame->number + 1;
    return wait_until(feed, *ret_at_ns);
}

/* A picture is damaged: its turn passes without a frame. False: the feed ends, since a whole round
 * of its pictures was. */
static bool pass_damaged(struct live_feed *feed, const struct culm_feed *source,
                         struct timed *timed, struct culm_feed_frame *frame, int64_t in_a_row,
                         struct culm_error *error) {
    uint64_t at;
    if (in_a_row == culm_feed_count(source)) {
        culm_error_prefix(error, "feed '%s': none of its pictures can be read", feed->config->name);
        fail(feed, error);
        return false;
    }
    say(feed, error->text);
    return give_time(feed, timed, frame, &at);
}

static void count_queued_up(struct live_feed *feed) {
    pthread_mutex_lock(&feed->lock);
    feed->queued_up++;
    pthread_mutex_unlock(&feed->lock);
}

/* Why a feed that could go on does not. */
static enum culm_status ended(struct live_feed *feed, struct culm_error *error) {
    return stops(feed) ? CULM_OK
                       : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a frame");
}

bool live_feed_follows(const struct live_feed *feed) {
    const struct culm_feed_config *config = feed->config;
    return !feed->posted && !config->loop && !config->ends && config->to <= 0 &&
           culm_file_is_directory(config->file);
}

/* Reads until the feed is to stop, which is CULM_OK, or no more frames come. lasts: so that a stall
 * is an end, too, unless it is a pipe. */
static enum culm_status read_frames(struct live_feed *feed, struct culm_feed *source, bool lasts,
                                    struct culm_error *error) {
    struct culm_feed_frame frame;
    struct live_pace pace = {0};
    struct timed timed = {.due = {.period_ns = feed->period_ns}};
    uint64_t connected = 0;
    int64_t damaged = 0; /* in a row */
    const bool followed = live_feed_follows(feed);
    bool live = culm_feed_is_live(source), hangs_up = !culm_feed_is_pipe(feed->config->file);
    while (!stops(feed)) {
        enum culm_status status = culm_feed_next(source, LOOK_MS, &frame, error);
        if (status == CULM_ERR_AGAIN && followed) { /* nothing is due until there is something */
            timed.due = (struct culm_edge_due){.period_ns = feed->period_ns};
            continue;
        }
        if (!live && !pass_missed(feed, &timed, false)) {
            break;
        }
        if (status == CULM_ERR_AGAIN) {
            continue;
        }
        if (status == CULM_ERR_TIMEOUT && !(lasts && hangs_up)) {
            if (lasts) {
                (void)go_down(feed, error);
            } else {
                say(feed, error->text);
            }
            continue;
        }
        if (status == CULM_ERR_FORMAT) {
            if (!pass_damaged(feed, source, &timed, &frame, ++damaged, error)) {
                return feed->failed ? status : ended(feed, error);
            }
            continue;
        }
        if (status != CULM_OK) {
            return status;
        }
        feed->any = true;
        damaged = 0;
        begin_time(feed);
        come_up(feed);
        uint64_t now = culm_clock_ns(), at = now;
        connected = connected ? connected : now;
        if (lasts && hangs_up && now - connected < BACKLOG_NS) {
            count_queued_up(feed);
            continue;
        }
        if (live && !live_take_frame(feed, &pace, now)) {
            continue;
        }
        if (!live && !give_time(feed, &timed, &frame, &at)) {
            break;
        }
        frame.number += feed->first;
        feed->frames_given = frame.number + 1;
        if (!live_hand_over(feed, &frame, at)) {
            break;
        }
    }
    return ended(feed, error);
}

/* Whether connecting again may help. */
static bool may_pass(enum culm_status status) {
    return status != CULM_ERR_MACHINE && status != CULM_ERR_MEMORY;
}

static void *feed_main(void *arg) {
    struct live_feed *feed = arg;
    struct culm_feed_config *config = feed->config;
    const bool lasts = !config->ends && culm_feed_lasts(config->file) && config->from <= 0 &&
                       config->to <= 0 &&                                  /* these are refused */
                       !(config->loop && culm_feed_is_pipe(config->file)); /* which is refused */
    struct culm_feed_options options =
        culm_feed_options_of(config, NULL); /* each query has its own */
    struct culm_feed *source = NULL;
    struct culm_error error = {0};
    enum culm_status status;
    options.loop = config->loop && !lasts; /* it is connected anew in any case */
    options.as_recorded = config->fps <= 0;
    options.follow = live_feed_follows(feed);
    options.most_fps = __atomic_load_n(&feed->labelled, __ATOMIC_ACQUIRE) ? 0 : config->fps;
    options.to_s = config->to; /* `for_s` are seconds of the run here */
    do {
        status =
            source ? culm_feed_reopen(source, &error) : culm_feed_open(&options, &source, &error);
        if (status == CULM_OK) {
            pthread_mutex_lock(&feed->lock);
            snprintf(feed->left_out, sizeof feed->left_out, "%s", culm_feed_note(source));
            pthread_mutex_unlock(&feed->lock);
            status = read_frames(feed, source, lasts, &error);
        }
        if (status == CULM_OK || !lasts || !may_pass(status)) {
            break;
        }
        if (source) {
            culm_feed_hang_up(source);
        }
    } while (wait_to_connect(feed, go_down(feed, &error)));
    if (status != CULM_OK && status != CULM_ERR_CLOSED && !feed->failed && !stops(feed)) {
        fail(feed, &error);
    }
    culm_feed_close(source);
    (void)culm_alone_lost(feed->run->alone, feed->number);
    return NULL;
}

/* --- the threads --- */

void live_tell_feeds(struct culm_live *run) {
    for (int32_t f = 0; f < run->feed_count; f++) {
        double shortest_ms = 3600000; /* the longest deadline that there is */
        int labelled = 0;
        for (int32_t q = 0; q < run->query_count; q++) {
            const struct live_query *query = &run->query[q];
            if (query->feed != f || query->gone || query->original_of >= 0) {
                continue;
            }
            labelled |= query->entry->config->labels != NULL;
            shortest_ms = query->deadline_ms < shortest_ms ? query->deadline_ms : shortest_ms;
        }
        __atomic_store_n(&run->feed[f].labelled, labelled, __ATOMIC_RELEASE);
        __atomic_store_n(&run->feed[f].slack_ns, (uint64_t)(shortest_ms / 2 * 1e6),
                         __ATOMIC_RELEASE);
    }
}

enum culm_status live_feeds(struct culm_live *run, struct culm_error *error) {
    bool ends = run->uncalibrated || live_asked(run);
    live_tell_feeds(run);
    for (int32_t f = 0; f < run->feed_count && !ends; f++) {
        struct live_feed *feed = &run->feed[f];
        if (feed->started || feed->gone) {
            continue;
        }
        pthread_mutex_init(&feed->lock, NULL);
        if (feed->posted) {
            live_begin_posts(feed);
            feed->started = feed->joined = true;
            continue;
        }
        if (pthread_create(&feed->thread, NULL, feed_main, feed) != 0) {
            return culm_error_set(error, CULM_ERR_MEMORY, "feed '%s': cannot start a thread for it",
                                  feed->config->name);
        }
        feed->started = true;
    }
    return CULM_OK;
}

void live_stop_feed(struct live_feed *feed) {
    __atomic_store_n(&feed->stop, 1, __ATOMIC_RELEASE);
    if (feed->posted && feed->started) {
        live_drop_posts(feed);
    }
}

/* Its thread has ended. Another one begins with the next call of live_feeds. */
static void begin_anew(struct live_feed *feed) {
    if (feed->started && !feed->joined) {
        pthread_join(feed->thread, NULL);
    }
    if (feed->started) {
        pthread_mutex_destroy(&feed->lock);
    }
    feed->own = feed->to_be;
    feed->config = &feed->own;
    feed->first = feed->frames_given;
    feed->stop = 0;
    feed->over_ns = 0;
    feed->seen_ns = 0;
    feed->rate = (struct live_rate){.came = feed->came, .missed = feed->missed};
    feed->again = feed->started = feed->joined = feed->failed = feed->ended = false;
    culm_edge_scheduler_feed_again(feed->run->scheduler, feed->number);
}

void live_begin_again(struct live_feed *feed) {
    feed->to_be = *feed->next;
    feed->to_be.name = feed->config->name; /* these are equal; the new ones may go */
    feed->to_be.file = feed->config->file;
    feed->to_be.options = feed->config->options;
    feed->next = NULL;
    feed->again = true;
    if (feed->ended || !feed->started) {
        begin_anew(feed);
    } else {
        live_stop_feed(feed);
    }
}

void live_ended_to_begin(struct live_feed *feed) {
    struct culm_error error;
    begin_anew(feed);
    if (live_feeds(feed->run, &error) != CULM_OK) {
        live_warn(feed->run, error.text);
    }
}

void live_stop_feeds(struct culm_live *run) {
    live_end_posts(run);
    for (int32_t f = 0; f < run->feed_count; f++) {
        __atomic_store_n(&run->feed[f].stop, 1, __ATOMIC_RELEASE);
    }
    for (int32_t f = 0; f < run->feed_count; f++) {
        if (run->feed[f].started && !run->feed[f].joined) {
            pthread_join(run->feed[f].thread, NULL);
            run->feed[f].joined = true;
        }
    }
}

enum culm_status live_any_frame(const struct culm_live *run, struct culm_error *error) {
    const struct culm_error *first = NULL;
    struct culm_error late;
    for (int32_t f = 0; f < run->feed_count; f++) {
        const struct live_feed *feed = &run->feed[f];
        const bool lasts = !feed->posted && !live_asked(run) &&
                           (culm_feed_lasts(feed->config->file) || live_feed_follows(feed));
        const bool down = lasts && feed->outage.down; /* from the beginning to the end */
        const bool waits = lasts && !feed->outage.down && !feed->failed;
        if (feed->started && (feed->any || !(feed->failed || down || waits))) {
            return CULM_OK;
        }
        if (waits && !first) { /* it has not even failed yet */
            culm_error_set(&late, CULM_ERR_NOT_FOUND,
                           "feed '%s': nothing came within the run's time", feed->config->name);
        }
        first = first || !feed->started ? first : waits ? &late : &feed->why;
    }
    return first ? culm_error_set(error, first->status, "no frame came: %s", first->text) : CULM_OK;
}

enum culm_status live_any_feed(const struct culm_live *run, struct culm_error *error) {
    const struct culm_error *first = NULL;
    for (int32_t f = 0; f < run->feed_count && !run->stops; f++) {
        const struct live_feed *feed = &run->feed[f];
        if (feed->started && !feed->gone && !feed->failed) {
            return CULM_OK;
        }
        first = first || !feed->started || feed->gone ? first : &feed->why;
    }
    return first ? culm_error_set(error, first->status, "no feed is left: %s", first->text)
                 : CULM_OK;
}

static void tell_down(struct culm_live *run, const struct live_feed *feed, const char *why) {
    if (why[0]) {
        live_publish(run, json_pack("{s:s, s:o, s:b, s:o}", "event", "feed", "feed",
                                    culm_json_text(feed->config->name), "down", 1, "error",
                                    culm_json_text(why)));
    }
}

static void tell_up(struct culm_live *run, const struct live_feed *feed, bool came_up,
                    double after_s) {
    if (came_up) {
        live_publish(run,
                     json_pack("{s:s, s:o, s:b, s:f}", "event", "feed", "feed",
                               culm_json_text(feed->config->name), "up", 1, "after_s", after_s));
    }
}

json_t *live_outages(struct culm_live *run) {
    json_t *list = json_array();
    const uint64_t now = culm_clock_ns();
    for (int32_t f = 0; f < run->feed_count; f++) {
        struct live_feed *feed = &run->feed[f];
        if (!feed->started || feed->posted || !culm_feed_lasts(feed->config->file)) {
            continue;
        }
        pthread_mutex_lock(&feed->lock);
        const struct culm_edge_outage outage = feed->outage;
        const int64_t queued_up = feed->queued_up;
        pthread_mutex_unlock(&feed->lock);
        json_array_append_new(list, json_pack("{s:o, s:I, s:f, s:I}", "feed",
                                              culm_json_text(feed->config->name), "reconnects",
                                              (json_int_t)outage.reconnects, "down_s",
                                              (double)culm_edge_outage_down_ns(&outage, now) / 1e9,
                                              "queued_up", (json_int_t)queued_up));
    }
    return list;
}

static void tell_rate(struct culm_live *run, struct live_feed *feed, double fps) {
    feed->rate.slow = !feed->rate.slow;
    live_publish(run, json_pack("{s:s, s:o, s:b, s:f, s:f}", "event", "feed", "feed",
                                culm_json_text(feed->config->name), "slow", feed->rate.slow, "fps",
                                fps, "planned", feed->config->fps > 0 ? feed->config->fps : 25));
}

/* Whether as many frames come as were planned, of late; tells when that changes. */
static void watch_rate(struct culm_live *run, struct live_feed *feed, int64_t came,
                       int64_t missed) {
    struct live_rate *rate = &feed->rate;
    const uint64_t now = culm_clock_ns();
    const int64_t due = came + missed - rate->came - rate->missed;
    const double planned = feed->config->fps;
    const double seen = (double)__atomic_load_n(&feed->seen_ns, __ATOMIC_ACQUIRE);
    if (feed->posted || rate->at_ns == 0 || now - rate->at_ns < RATE_NS ||
        (due > 0 && due < RATE_FRAMES)) {
        rate->at_ns = rate->at_ns ? rate->at_ns : now;
        return;
    }
    const double share = due > 0                   ? (double)(came - rate->came) / (double)due
                         : planned > 0 && seen > 0 ? 1e9 / seen / planned
                                                   : 1;
    if ((share < RATE_LEAST) != rate->slow) {
        tell_rate(run, feed, share * (planned > 0 ? planned : 25));
    }
    rate->came = came;
    rate->missed = missed;
    rate->at_ns = now;
}

void live_hear(struct culm_live *run) {
    for (int32_t f = 0; f < run->feed_count; f++) {
        struct live_feed *feed = &run->feed[f];
        char said[CULM_ERROR_MAX] = "", left_out[sizeof feed->left_out] = "";
        char went_down[CULM_ERROR_MAX] = "";
        if (!feed->started) {
            continue;
        }
        pthread_mutex_lock(&feed->lock);
        memcpy(said, feed->said, sizeof said);
        memcpy(left_out, feed->left_out, sizeof left_out);
        memcpy(went_down, feed->went_down, sizeof went_down);
        const bool came_up = feed->came_up, down = feed->outage.down;
        const double after_s = (double)feed->up_after_ns / 1e9;
        const int64_t came = feed->came, missed = feed->missed;
        feed->said[0] = feed->left_out[0] = feed->went_down[0] = '\0';
        feed->came_up = false;
        pthread_mutex_unlock(&feed->lock);
        if (left_out[0]) {
            live_publish(run, json_pack("{s:s, s:o}", "event", "warning", "message",
                                        culm_json_text(left_out)));
        }
        if (down) { /* both may have happened since the last time */
            tell_up(run, feed, came_up, after_s);
            tell_down(run, feed, went_down);
        } else {
            tell_down(run, feed, went_down);
            tell_up(run, feed, came_up, after_s);
        }
        if (said[0]) {
            live_publish(run, json_pack("{s:s, s:o, s:o}", "event", "feed", "feed",
                                        culm_json_text(feed->config->name), "error",
                                        culm_json_text(said)));
        }
        watch_rate(run, feed, came, missed);
    }
}
