/*
 * What the launcher tells, and nobody else: events go to the sinks here.
 *
 * The last event waits until all processes have ended: what the job does before it may take long, and
 * they would hear nothing of us meanwhile.
 */
#include "launch/launcher_internal.h"

#include "base/clock.h"
#include "base/json.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define UPLOAD_LOOK_MS 20

static enum culm_status add_sink(struct culm_launcher *l, struct culm_sink *take_sink,
                                 struct culm_error *error) {
    if (!take_sink || culm_sink_tee_add(l->sink, take_sink) != CULM_OK) {
        culm_sink_free(take_sink);
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    return CULM_OK;
}

enum culm_status launcher_open_sinks(struct culm_launcher *l, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct culm_sink *file = NULL;
    l->sink = culm_sink_tee_new();
    if (!l->sink) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    enum culm_status status = culm_path_format(path, error, "%s/events.jsonl", l->o->dir);
    if (status == CULM_OK) {
        status = culm_sink_jsonl_open(path, &file, error);
    }
    if (status == CULM_OK) {
        status = add_sink(l, file, error);
    }
    if (status == CULM_OK) {
        status = add_sink(l, culm_sink_summary_new(&l->job.result->summary), error);
    }
    return status;
}

/* To those of the sinks that there are, all of them even when one fails; the first failure. */
static enum culm_status hand_out(struct culm_sink *const *sinks, size_t count, const json_t *event,
                                 struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (size_t i = 0; i < count; i++) {
        bool first = status == CULM_OK; /* to fail, if this one does */
        enum culm_status own =
            sinks[i] ? culm_sink_event(sinks[i], event, first ? error : NULL) : CULM_OK;
        if (first) {
            status = own;
        }
    }
    return status;
}

static void set_time(json_t *event, const json_t *at) {
    json_object_set(event, "t_ms", json_object_get(at, "t_ms"));
    json_object_set(event, "view", json_object_get(at, "view"));
}

/* Those that were not told yet, at the time and view of `at`. */
static void tell_warnings(struct culm_launcher *l, const json_t *at) {
    json_t *event;
    while ((event = culm_warnings_event(&l->warnings))) {
        set_time(event, at);
        (void)hand_out((struct culm_sink *[]){l->sink, l->o->log}, 2, event, NULL);
        json_decref(event);
    }
}

/* What has come of uploads since, at the time of `at`. */
static void tell_uploads(struct culm_launcher *l, const json_t *at) {
    json_t *event;
    while (l->uploads && (event = culm_uploads_result(l->uploads))) {
        culm_launcher_tell_at(l, event, at);
        json_decref(event);
    }
}

void launcher_await_uploads(struct culm_launcher *l) {
    const struct timespec pause = {.tv_nsec = UPLOAD_LOOK_MS * 1000000};
    const uint64_t begun = culm_clock_ns();
    while (culm_uploads_busy(l->uploads) && !culm_launcher_stop_asked(l->o) &&
           culm_clock_ns() - begun < CULM_UPLOADS_END_MS * UINT64_C(1000000)) {
        tell_uploads(l, l->latest);
        (void)nanosleep(&pause, NULL);
    }
    tell_uploads(l, l->latest);
}

void culm_launcher_send(struct culm_launcher *l, const char *path) {
    if (l->uploads && path[0]) {
        culm_uploads_send(l->uploads, path);
    }
}

/* A whole checkpoint, which is in its place in the run directory. Weights alone are none. */
static void send_checkpoint(struct culm_launcher *l, const json_t *event) {
    const char *path = culm_event_text(event, "path", ""), *slash = strrchr(path, '/');
    if (l->uploads && strcmp(culm_event_text(event, "event", ""), "checkpoint") == 0 &&
        json_is_true(json_object_get(event, "ok")) && slash && !strncmp(slash, "/step-", 6)) {
        culm_uploads_send(l->uploads, path);
    }
}

/* A sink that fails (a full disk, a closed pipe) is reported once; the run goes on. */
void culm_launcher_tell(struct culm_launcher *l, json_t *event) {
    struct culm_error error = {0};
    tell_uploads(l, event);
    if (l->job.before) {
        l->job.before(l->job.job, event);
    }
    enum culm_status status =
        hand_out((struct culm_sink *[]){l->sink, l->o->log, l->o->screen}, 3, event, &error);
    if (status != CULM_OK && !l->sink_failed) {
        l->sink_failed = true; /* said once, and to whichever sink still works */
        culm_warnings_add(&l->warnings, "events: %s", error.text);
        tell_warnings(l, event);
    }
    send_checkpoint(l, event);
}

void culm_launcher_tell_at(struct culm_launcher *l, json_t *event, const json_t *at) {
    set_time(event, at);
    culm_launcher_tell(l, event);
}

void culm_launcher_start(struct culm_launcher *l, const char *config_sha256, const json_t *more) {
    json_t *start =
        json_pack("{s:s, s:f, s:i, s:s, s:s, s:s}", "event", "start", "t_ms", 0.0, "view", 0, "run",
                  l->o->run, "config_sha256", config_sha256, "signature", l->doors.signature);
    const char *job = l->job.result->summary.job->name;
    if (start && job) {
        json_object_set_new(start, "job", json_string(job));
    }
    if (start && more) {
        json_object_update_missing(start, (json_t *)more);
    }
    culm_launcher_tell(l, start);
    tell_warnings(l, start);
    json_decref(start);
}

json_t *culm_launcher_plan_event(json_t *take_plan) {
    json_t *event = json_pack("{s:s, s:f, s:i}", "event", "plan", "t_ms", 0.0, "view", 0);
    if (event && take_plan) {
        json_object_update_missing(event, take_plan);
    }
    json_decref(take_plan);
    return event;
}

void launcher_tell_error(struct culm_launcher *l, const struct culm_error *error) {
    json_t *event = json_pack("{s:s, s:f, s:i, s:s, s:s}", "event", "error", "t_ms", 0.0, "view", 0,
                              "code", culm_status_name(error->status), "message", error->text);
    if (event && l->latest) {
        set_time(event, l->latest);
    }
    if (event) {
        culm_launcher_tell(l, event);
    }
    json_decref(event);
}

/* What is committed, and what of it could be lost. Steps that a roll-back undid count until the first
 * of them is done again: whoever stops the run before that finds less than there was. */
static void keep_count(struct culm_launcher *l, json_t *event) {
    const char *name = culm_event_text(event, "event", ""),
               *step = l->job.result->summary.job->step;
    char to[32];
    if (strcmp(name, step) == 0) {
        int64_t committed = culm_event_int(event, step, 0);
        l->saved = l->committed ? l->saved : committed - 1; /* what the run began with */
        l->committed = committed;
        if (l->candidate && !l->committed_once && !json_object_get(event, "again")) {
            l->committed_once = true;
            culm_candidate_committed(l->candidate);
        }
    } else if (strcmp(name, "checkpoint") == 0 && json_is_true(json_object_get(event, "ok"))) {
        l->saved = culm_event_int(event, step, l->saved);
        if (l->candidate) {
            culm_candidate_saved(l->candidate, l->saved);
        }
    } else if (strcmp(name, "rollback") == 0) { /* it was looked for, and is whole */
        snprintf(to, sizeof to, "to_%s", step);
        l->saved = culm_event_int(event, to, l->saved);
    }
    json_decref(l->latest);
    l->latest = json_incref(event);
}

/* Who leads is this process. */
static void add_self(json_t *event) {
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1);
    json_object_set_new(event, "host", culm_json_text(host));
    json_object_set_new(event, "pid", json_integer(getpid()));
}

void launcher_hear(void *launcher, json_t *event) {
    struct culm_launcher *l = launcher;
    if (strcmp(culm_event_text(event, "event", ""), "leader") == 0) {
        add_self(event);
    }
    keep_count(l, event);
    if (!l->done && strcmp(culm_event_text(event, "event", ""), "done") == 0) {
        l->done = json_incref(event);
        return;
    }
    culm_launcher_tell(l, event);
}

void culm_launcher_inexact(struct culm_launcher *l, const char *why) {
    size_t index;
    json_t *said;
    l->inexact = l->inexact ? l->inexact : json_array();
    json_array_foreach(l->inexact, index, said) {
        if (strcmp(json_string_value(said), why) == 0) {
            return;
        }
    }
    json_array_append_new(l->inexact, json_string(why));
}

void launcher_tell_done(struct culm_launcher *l) {
    int64_t fired = 0;
    for (size_t i = 0; i < l->o->fault_count; i++) {
        fired += culm_host_fired(l->host, i) > 0;
    }
    if (l->done) {
        json_object_set_new(l->done, "faults_fired", json_integer(fired));
        json_object_set_new(l->done, "exact", json_boolean(!l->inexact));
        if (l->inexact) {
            json_object_set(l->done, "inexact", l->inexact);
        }
        culm_launcher_tell(l, l->done);
    }
}
