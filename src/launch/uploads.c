/* A thread that sends. See uploads.h. */
#include "launch/uploads.h"

#include "base/clock.h"
#include "base/json.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define PATIENCE_MS 5000 /* then it is said, and goes on */
#define NICE 10          /* training comes first on this machine */
#define AWAIT_LOOK_MS 5
#define LINE_MAX_BYTES 65536

struct culm_uploads {
    struct culm_storage *storage;
    const char *dir, *unit;
    int64_t keep;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool ending, busy;
    struct culm_archive_source *next; /* NULL: none waits */
    int64_t stored, wanted;           /* the newest that is there, and that was sent; -1: none */
    char why[CULM_ERROR_MAX];
    json_t *results;
};

/* The last one makes a folder a run: it comes when all others are there. */
const char *const culm_uploads_beside[] = {"events.jsonl", "plan.json", "cut.npy", "config.yaml",
                                           NULL};

void culm_uploads_run_of(const char *dir, char ret_run[CULM_ARCHIVE_RUN_SIZE]) {
    char path[CULM_PATH_MAX];
    char *line = malloc(LINE_MAX_BYTES);
    ret_run[0] = '\0';
    FILE *file = line && culm_path_format(path, NULL, "%s/events.jsonl", dir) == CULM_OK
                     ? fopen(path, "re")
                     : NULL;
    if (file && fgets(line, LINE_MAX_BYTES, file)) {
        json_t *event = json_loads(line, 0, NULL);
        const char *run = json_string_value(json_object_get(event, "run"));
        if (run && strlen(run) < CULM_ARCHIVE_RUN_SIZE) {
            strcpy(ret_run, run);
        }
        json_decref(event);
    }
    if (file) {
        fclose(file);
    }
    free(line);
}

/* --- on the thread --- */

static void add_result(struct culm_uploads *u, json_t *take_event) {
    if (take_event) {
        json_array_append_new(u->results, take_event);
    }
}

static json_t *event_of(const struct culm_uploads *u, int64_t step, bool ok) {
    return json_pack("{s:s, s:I, s:b, s:o}", "event", "stored", u->unit, (json_int_t)step, "ok", ok,
                     "to", culm_json_text(u->storage->place));
}

static void tell_failure(struct culm_uploads *u, int64_t step, const struct culm_error *error) {
    json_t *event = event_of(u, step, false);
    if (event) {
        json_object_set_new(event, "message", culm_json_text(error->text));
    }
    pthread_mutex_lock(&u->lock);
    memcpy(u->why, error->text, sizeof u->why);
    add_result(u, event);
    pthread_mutex_unlock(&u->lock);
}

static void tell_stored(struct culm_uploads *u, int64_t step,
                        const struct culm_archive_saved *saved, uint64_t begun,
                        const struct culm_error *problem) {
    json_t *event = event_of(u, step, true);
    if (event) {
        json_object_set_new(event, "bytes", json_integer((json_int_t)saved->bytes));
        json_object_set_new(event, "sent", json_integer((json_int_t)saved->sent));
        json_object_set_new(event, "ms", json_real((double)(culm_clock_ns() - begun) * 1e-6));
    }
    if (event && problem->text[0]) {
        json_object_set_new(event, "message", culm_json_text(problem->text));
    }
    pthread_mutex_lock(&u->lock);
    u->stored = step > u->stored ? step : u->stored;
    u->why[0] = '\0';
    add_result(u, event);
    pthread_mutex_unlock(&u->lock);
}

/* A newer one, or the end, is more urgent than one for which the storage is away. */
static bool goes_on(struct culm_uploads *u) {
    pthread_mutex_lock(&u->lock);
    bool on = !u->ending && !u->next;
    pthread_mutex_unlock(&u->lock);
    return on;
}

static void send_one(struct culm_uploads *u, struct culm_archive_source *source) {
    const int64_t step = culm_archive_source_step(source);
    const uint64_t begun = culm_clock_ns();
    struct culm_archive_saved saved;
    struct culm_error error = {0};
    size_t removed;
    bool told = false;
    enum culm_status status;
    do {
        status = culm_archive_save(u->storage, source, &saved, &error);
        if (status != CULM_OK && status != CULM_ERR_STOPPED && !told) {
            told = true;
            tell_failure(u, step, &error);
        }
    } while (status == CULM_ERR_AGAIN && goes_on(u));
    if (status == CULM_OK) {
        culm_error_clear(&error);
        (void)culm_archive_prune(u->storage, step, u->keep, &removed,
                                 &error); /* or the next time */
        tell_stored(u, step, &saved, begun, &error);
    }
}

static void *run(void *ctx) {
    struct culm_uploads *u = ctx;
    (void)setpriority(PRIO_PROCESS, 0, NICE); /* of this thread alone */
    pthread_mutex_lock(&u->lock);
    for (;;) {
        while (!u->next && !u->ending) {
            pthread_cond_wait(&u->changed, &u->lock);
        }
        if (u->ending) {
            break;
        }
        struct culm_archive_source *source = u->next;
        u->next = NULL;
        u->busy = true;
        pthread_mutex_unlock(&u->lock);
        send_one(u, source);
        culm_archive_source_free(source);
        pthread_mutex_lock(&u->lock);
        u->busy = false;
    }
    pthread_mutex_unlock(&u->lock);
    return NULL;
}

/* --- of the run --- */

struct culm_uploads *culm_uploads_new(struct culm_storage *storage, const char *dir,
                                      const char *unit, int64_t stored, int64_t keep) {
    struct culm_uploads *u = calloc(1, sizeof *u);
    if (!u) {
        return NULL;
    }
    *u = (struct culm_uploads){.storage = storage,
                               .dir = dir,
                               .unit = unit,
                               .stored = stored,
                               .wanted = -1,
                               .keep = keep,
                               .results = json_array()};
    storage->patience_ms = PATIENCE_MS;
    pthread_mutex_init(&u->lock, NULL);
    pthread_cond_init(&u->changed, NULL);
    if (!u->results || pthread_create(&u->thread, NULL, run, u) != 0) {
        json_decref(u->results);
        free(u);
        return NULL;
    }
    return u;
}

void culm_uploads_free(struct culm_uploads *u) {
    if (!u) {
        return;
    }
    pthread_mutex_lock(&u->lock);
    u->ending = true;
    pthread_cond_signal(&u->changed);
    pthread_mutex_unlock(&u->lock);
    culm_storage_stop(u->storage);
    pthread_join(u->thread, NULL);
    culm_archive_source_free(u->next);
    json_decref(u->results);
    pthread_mutex_destroy(&u->lock);
    pthread_cond_destroy(&u->changed);
    free(u);
}

/* The step that a path ends with. */
static int64_t step_of(const char *path) {
    const char *dash = strrchr(path, '-');
    return dash ? atoll(dash + 1) : 0;
}

void culm_uploads_send(struct culm_uploads *u, const char *path) {
    culm_uploads_send_with(u, path, u->dir);
}

void culm_uploads_send_with(struct culm_uploads *u, const char *path, const char *beside) {
    struct culm_archive_source *source = NULL;
    struct culm_error error = {0};
    char run_id[CULM_ARCHIVE_RUN_SIZE];
    culm_uploads_run_of(u->dir, run_id);
    enum culm_status status =
        culm_archive_source_open(beside, path, run_id, culm_uploads_beside, &source, &error);
    const int64_t step = status == CULM_OK ? culm_archive_source_step(source) : step_of(path);
    if (status != CULM_OK) {
        tell_failure(u, step, &error);
    }
    pthread_mutex_lock(&u->lock);
    u->wanted = step > u->wanted ? step : u->wanted;
    struct culm_archive_source *other = source; /* which is left out */
    if (source && step > u->stored) {
        other = u->next;
        u->next = source;
        pthread_cond_signal(&u->changed);
    }
    pthread_mutex_unlock(&u->lock);
    culm_archive_source_free(other);
}

json_t *culm_uploads_result(struct culm_uploads *u) {
    pthread_mutex_lock(&u->lock);
    json_t *event = json_incref(json_array_get(u->results, 0));
    json_array_remove(u->results, 0);
    pthread_mutex_unlock(&u->lock);
    return event;
}

enum culm_status culm_uploads_await(struct culm_uploads *u, int64_t step, int64_t ms,
                                    struct culm_error *error) {
    const struct timespec pause = {.tv_nsec = AWAIT_LOOK_MS * 1000000};
    const uint64_t until = culm_clock_ns() + (uint64_t)ms * 1000000u;
    enum culm_status status = CULM_ERR_AGAIN;
    while (status == CULM_ERR_AGAIN) {
        pthread_mutex_lock(&u->lock);
        const bool under_way = (u->busy || u->next) && !u->ending && culm_clock_ns() < until;
        if (u->stored >= step) {
            status = CULM_OK;
        } else if (!under_way) {
            status = culm_error_set(error, CULM_ERR_IO, "'%.150s' has not taken it: %.300s",
                                    u->storage->place, u->why[0] ? u->why : "there was no time");
        }
        pthread_mutex_unlock(&u->lock);
        if (status == CULM_ERR_AGAIN) {
            (void)nanosleep(&pause, NULL);
        }
    }
    return status;
}

bool culm_uploads_busy(struct culm_uploads *u) {
    pthread_mutex_lock(&u->lock);
    bool busy = u->busy || u->next;
    pthread_mutex_unlock(&u->lock);
    return busy;
}

bool culm_uploads_done(struct culm_uploads *u, int64_t *ret_step, char *ret_why) {
    pthread_mutex_lock(&u->lock);
    bool done = u->stored >= u->wanted;
    *ret_step = u->wanted;
    snprintf(ret_why, CULM_ERROR_MAX, "%s", u->why[0] ? u->why : "there was no time");
    pthread_mutex_unlock(&u->lock);
    return done;
}
