/*
 * The events of a run whose file has given way to newer ones [journal.h]: events.jsonl.* of the same
 * folder that begin with the same run's `start`, in the order in which they were written last, then
 * events.jsonl. Files that Culm has renamed and those that logrotate has are alike to it.
 */
#include "report/segments.h"

#include "base/file.h"
#include "base/grow.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NAME "events.jsonl"
#define BEGAN 64

struct first {
    char began[BEGAN];
};

static enum culm_status look_at(void *context, const json_t *event, struct culm_error *error) {
    struct first *first = context;
    (void)error;
    if (strcmp(culm_event_text(event, "event", ""), "start") == 0) {
        snprintf(first->began, sizeof first->began, "%s", culm_event_text(event, "began", ""));
    }
    return CULM_ERR_CLOSED; /* to stop reading */
}

/* When the run began whose `start` is the first event of the file; "": that is not said. */
static void began_of(const char *path, char ret_began[BEGAN]) {
    struct first first = {""};
    (void)culm_events_read(path, look_at, &first, NULL);
    memcpy(ret_began, first.began, BEGAN);
}

struct segment {
    char path[CULM_PATH_MAX];
    struct timespec written;
};

struct segments {
    struct segment *at; /* [count] owned */
    size_t count, capacity;
};

static int by_time(const void *a, const void *b) {
    const struct timespec *x = &((const struct segment *)a)->written;
    const struct timespec *y = &((const struct segment *)b)->written;
    return x->tv_sec != y->tv_sec     ? (x->tv_sec > y->tv_sec) - (x->tv_sec < y->tv_sec)
           : x->tv_nsec != y->tv_nsec ? (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec)
                                      : 0;
}

static enum culm_status find(const char *dir, const char *began, struct segments *ret,
                             struct culm_error *error) {
    DIR *folder = opendir(dir);
    enum culm_status status = CULM_OK;
    for (const struct dirent *entry; folder && !status && (entry = readdir(folder));) {
        struct segment segment;
        struct stat info;
        char other[BEGAN];
        if (strncmp(entry->d_name, NAME ".", strlen(NAME ".")) != 0 ||
            culm_path_format(segment.path, NULL, "%s/%s", dir, entry->d_name) != CULM_OK ||
            lstat(segment.path, &info) != 0 || !S_ISREG(info.st_mode)) {
            continue;
        }
        began_of(segment.path, other);
        if (strcmp(other, began) != 0) {
            continue;
        }
        segment.written = info.st_mtim;
        if (CULM_GROW(ret->at, ret->capacity, ret->count + 1)) {
            ret->at[ret->count++] = segment;
        } else {
            status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory for '%s'", dir);
        }
    }
    if (folder) {
        closedir(folder);
    }
    if (ret->count > 0) {
        qsort(ret->at, ret->count, sizeof *ret->at, by_time);
    }
    return status;
}

struct passing {
    enum culm_status (*each)(void *context, const json_t *event, struct culm_error *error);
    void *context;
    bool begun;
};

static enum culm_status pass(void *context, const json_t *event, struct culm_error *error) {
    struct passing *passing = context;
    if (passing->begun && json_is_true(json_object_get(event, "repeated"))) {
        return CULM_OK;
    }
    passing->begun = true;
    return passing->each(passing->context, event, error);
}

enum culm_status culm_events_read_run(const char *dir,
                                      enum culm_status (*each)(void *context, const json_t *event,
                                                               struct culm_error *error),
                                      void *context, struct culm_error *error) {
    struct passing passing = {.each = each, .context = context};
    struct segments segments = {0};
    char path[CULM_PATH_MAX], began[BEGAN];
    enum culm_status status = culm_path_format(path, error, "%s/" NAME, dir);
    if (status != CULM_OK) {
        return status;
    }
    began_of(path, began);
    status = began[0] ? find(dir, began, &segments, error) : CULM_OK;
    for (size_t i = 0; i < segments.count && status == CULM_OK; i++) {
        status = culm_events_read(segments.at[i].path, pass, &passing, error);
        status = status == CULM_ERR_NOT_FOUND ? CULM_OK : status; /* it has just given way */
    }
    status = status ? status : culm_events_read(path, pass, &passing, error);
    free(segments.at);
    return status;
}
