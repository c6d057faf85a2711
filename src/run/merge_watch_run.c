/* The folder of a run at the edge, as a watcher reads it. See merge_watch_run.h. */
#include "run/merge_watch_run.h"

#include "base/clock.h"
#include "base/grow.h"
#include "report/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES ((size_t)1 << 20)
#define READ_BYTES 65536

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a run's events");
}

enum culm_status merge_watched_open(const char *dir, struct merge_watched *run,
                                    struct culm_error *error) {
    char path[CULM_PATH_MAX];
    *run = (struct merge_watched){.log = -1, .round = -1};
    enum culm_status status = culm_path_format(run->dir, error, "%s", dir);
    status = status ? status : culm_path_format(path, error, "%s/workload.yaml", dir);
    if (status == CULM_OK && !culm_file_is_regular(path)) {
        status = culm_error_set(error, CULM_ERR_NOT_FOUND,
                                "'%s' is no folder of 'culm edge run': there is no '%s'; begin the "
                                "run first",
                                dir, path);
    }
    return status;
}

void merge_watched_release(struct merge_watched *run) {
    if (run->log >= 0) {
        close(run->log);
    }
    free(run->drifted);
    free(run->line);
    *run = (struct merge_watched){.log = -1};
}

void merge_watched_forget(struct merge_watched *run, const char *query) {
    for (size_t i = 0; i < run->drifted_count; i++) {
        if (strcmp(run->drifted[i].query, query) == 0) {
            run->drifted[i] = run->drifted[--run->drifted_count];
            return;
        }
    }
}

static enum culm_status add(struct merge_watched *run, const char *query, const char *frames,
                            struct culm_error *error) {
    const char *name = strrchr(frames, '/');
    merge_watched_forget(run, query);
    if (!CULM_GROW(run->drifted, run->drifted_capacity, run->drifted_count + 1)) {
        return no_memory(error);
    }
    struct merge_drifted *drifted = &run->drifted[run->drifted_count];
    *drifted = (struct merge_drifted){.since_ns = culm_clock_ns()};
    snprintf(drifted->query, sizeof drifted->query, "%s", query);
    /* By the folder as it is named here, which may be another way than the run's. */
    enum culm_status status =
        culm_path_format(drifted->frames, error, "%s/drift/%s", run->dir, name ? name + 1 : frames);
    run->drifted_count += status == CULM_OK;
    return status;
}

static enum culm_status take(struct merge_watched *run, const json_t *event,
                             struct culm_error *error) {
    const char *kind = culm_event_text(event, "event", "");
    if (strcmp(kind, "start") == 0) { /* of a run that begins anew */
        run->drifted_count = 0;
        run->round = culm_event_int(event, "round", -1);
    } else if (strcmp(kind, "round") == 0) {
        run->round = culm_event_int(event, "round", run->round);
    } else if (strcmp(kind, "drift") == 0) {
        const char *action = culm_event_text(event, "action", "");
        const char *query = culm_event_text(event, "query", "");
        const char *frames = culm_event_text(event, "frames", "");
        if (strcmp(action, "returned") == 0) {
            merge_watched_forget(run, query);
        } else if (strcmp(action, "reverted") == 0 && *frames && strlen(query) <= 64) {
            return add(run, query, frames, error);
        }
    }
    return CULM_OK;
}

/* Whether a line may be of interest: most are not, and are not even parsed. */
static bool is_of_interest(const char *line) {
    static const char *const begins[] = {"{\"event\":\"start\"", "{\"event\":\"round\"",
                                         "{\"event\":\"drift\""};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        if (strncmp(line, begins[i], strlen(begins[i])) == 0) {
            return true;
        }
    }
    return false;
}

static enum culm_status take_line(struct merge_watched *run, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    run->line[run->line_len] = '\0';
    if (!run->long_line && is_of_interest(run->line)) {
        json_t *event = json_loads(run->line, 0, NULL);
        status = event ? take(run, event, error) : CULM_OK;
        json_decref(event);
    }
    run->line_len = 0;
    run->long_line = false;
    return status;
}

static enum culm_status take_bytes(struct merge_watched *run, const char *data, size_t len,
                                   struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (size_t i = 0; i < len && status == CULM_OK; i++) {
        if (data[i] == '\n') {
            status = run->line ? take_line(run, error) : CULM_OK;
        } else if (run->line_len == LINE_MAX_BYTES) {
            run->long_line = true;
        } else if (!CULM_GROW(run->line, run->line_capacity, run->line_len + 2)) {
            status = no_memory(error);
        } else {
            run->line[run->line_len++] = data[i];
        }
    }
    return status;
}

static enum culm_status read_log(struct merge_watched *run, struct culm_error *error) {
    char *data = malloc(READ_BYTES);
    enum culm_status status = data ? CULM_OK : no_memory(error);
    ssize_t len = 1;
    while (status == CULM_OK && len > 0) {
        len = read(run->log, data, READ_BYTES);
        status = len > 0 ? take_bytes(run, data, (size_t)len, error) : CULM_OK;
    }
    free(data);
    return status;
}

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Events, also where the file was moved away and another one begun, or emptied. */
static enum culm_status look_at_log(struct merge_watched *run, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct stat now;
    enum culm_status status = culm_path_format(path, error, "%s/events.jsonl", run->dir);
    if (status == CULM_OK && run->log >= 0) {
        status = read_log(run, error);
    }
    if (status != CULM_OK || stat(path, &now) != 0) {
        return status;
    }
    if (run->log >= 0 && is_same(&now, &run->log_is) &&
        now.st_size >= lseek(run->log, 0, SEEK_CUR)) {
        return CULM_OK;
    }
    if (run->log >= 0) {
        close(run->log);
    }
    run->line_len = 0;
    run->long_line = false;
    run->log = open(path, O_RDONLY | O_CLOEXEC);
    if (run->log >= 0 && fstat(run->log, &run->log_is) == 0) {
        status = read_log(run, error);
    }
    return status;
}

enum culm_status merge_watched_look(struct merge_watched *run, bool *ret_changed,
                                    struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct stat now;
    enum culm_status status = look_at_log(run, error);
    status = status ? status : culm_path_format(path, error, "%s/workload.yaml", run->dir);
    *ret_changed = false;
    if (status == CULM_OK && stat(path, &now) == 0) { /* it is replaced, never written into */
        *ret_changed = !is_same(&now, &run->workload_is) ||
                       now.st_mtim.tv_sec != run->workload_is.st_mtim.tv_sec ||
                       now.st_mtim.tv_nsec != run->workload_is.st_mtim.tv_nsec;
        run->workload_is = now;
    }
    return status;
}
