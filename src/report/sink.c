/* The tee, functions as sinks, writing and reading JSON lines, and access to members. See sink.h. */
#include "report/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A longer line cannot be an event: the largest one, a view of 4096 nodes, is far shorter. */
#define LINE_BYTES_MAX ((size_t)16 << 20)
#define EVENT_FORMAT (JSON_COMPACT | JSON_REAL_PRECISION(17))

const char *culm_event_text(const json_t *object, const char *key, const char *fallback) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : fallback;
}

int64_t culm_event_int(const json_t *object, const char *key, int64_t fallback) {
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

double culm_event_real(const json_t *object, const char *key, double fallback) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : fallback;
}

/* --- tee ------------------------------------------------------------------------------------- */

struct tee {
    struct culm_sink sink;
    struct culm_sink **sinks;
    size_t count;
};

static enum culm_status tee_event(struct culm_sink *sink, const json_t *event,
                                  struct culm_error *error) {
    struct tee *tee = (struct tee *)sink;
    enum culm_status first = CULM_OK;
    for (size_t i = 0; i < tee->count; i++) {
        enum culm_status status = culm_sink_event(tee->sinks[i], event, first ? NULL : error);
        first = first ? first : status;
    }
    return first;
}

static void tee_free(struct culm_sink *sink) {
    struct tee *tee = (struct tee *)sink;
    for (size_t i = 0; i < tee->count; i++) {
        culm_sink_free(tee->sinks[i]);
    }
    free(tee->sinks);
    free(tee);
}

struct culm_sink *culm_sink_tee_new(void) {
    static const struct culm_sink_ops ops = {sizeof ops, tee_event, tee_free};
    struct tee *tee = calloc(1, sizeof *tee);
    if (!tee) {
        return NULL;
    }
    tee->sink.ops = &ops;
    return &tee->sink;
}

enum culm_status culm_sink_tee_add(struct culm_sink *sink, struct culm_sink *take_sink) {
    struct tee *tee = (struct tee *)sink;
    struct culm_sink **sinks = realloc(tee->sinks, (tee->count + 1) * sizeof(struct culm_sink *));
    if (!sinks) {
        culm_sink_free(take_sink);
        return CULM_ERR_MEMORY;
    }
    tee->sinks = sinks;
    tee->sinks[tee->count++] = take_sink;
    return CULM_OK;
}

/* --- a function ------------------------------------------------------------------------------ */

static enum culm_status function_event(struct culm_sink *sink, const json_t *event,
                                       struct culm_error *error) {
    struct culm_function_sink *self = (struct culm_function_sink *)sink;
    char *line = json_dumps(event, EVENT_FORMAT);
    if (!line) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for an event");
    }
    self->event(self->context, line);
    free(line);
    return CULM_OK;
}

static void function_free(struct culm_sink *sink) { (void)sink; /* its owner's */ }

void culm_function_sink_init(struct culm_function_sink *sink,
                             void (*event)(void *context, const char *json), void *context) {
    static const struct culm_sink_ops ops = {sizeof ops, function_event, function_free};
    *sink = (struct culm_function_sink){{&ops}, event, context};
}

/* --- JSON lines ------------------------------------------------------------------------------ */

struct jsonl {
    struct culm_sink sink;
    int fd;
    bool owns_fd;
    char *path; /* NULL: not known */
};

/* path: NULL where it is not known. */
static enum culm_status write_line(int fd, const char *path, const char *line, size_t len,
                                   struct culm_error *error) {
    while (len) {
        ssize_t written = write(fd, line, len);
        if (written < 0 && errno != EINTR) {
            const char *advice = errno == ENOSPC ? "; free some space there" : "";
            return path ? culm_error_set(error, CULM_ERR_IO, "write '%s': %s%s", path,
                                         strerror(errno), advice)
                        : culm_error_errno(error, errno, "write event");
        }
        if (written > 0) {
            line += written;
            len -= (size_t)written;
        }
    }
    return CULM_OK;
}

static enum culm_status jsonl_event(struct culm_sink *sink, const json_t *event,
                                    struct culm_error *error) {
    struct jsonl *jsonl = (struct jsonl *)sink;
    char *text = json_dumps(event, EVENT_FORMAT);
    if (!text) {
        return culm_error_set(error, CULM_ERR_MEMORY, "write event: out of memory");
    }
    size_t len = strlen(text);
    text[len] = '\n'; /* in place of the NUL */
    enum culm_status status = write_line(jsonl->fd, jsonl->path, text, len + 1, error);
    free(text);
    return status;
}

static void jsonl_free(struct culm_sink *sink) {
    struct jsonl *jsonl = (struct jsonl *)sink;
    if (jsonl->owns_fd) {
        close(jsonl->fd);
    }
    free(jsonl->path);
    free(jsonl);
}

struct culm_sink *culm_sink_jsonl_fd(int fd) {
    static const struct culm_sink_ops ops = {sizeof ops, jsonl_event, jsonl_free};
    struct jsonl *jsonl = calloc(1, sizeof *jsonl);
    if (!jsonl) {
        return NULL;
    }
    jsonl->sink.ops = &ops;
    jsonl->fd = fd;
    return &jsonl->sink;
}

enum culm_status culm_sink_jsonl_open(const char *path, struct culm_sink **ret_sink,
                                      struct culm_error *error) {
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) {
        return culm_error_errno(error, errno, "open '%s'", path);
    }
    enum culm_status status = CULM_OK;
    struct stat info;
    char last = '\n';
    if (fstat(fd, &info) < 0 || (info.st_size > 0 && pread(fd, &last, 1, info.st_size - 1) != 1)) {
        status = culm_error_errno(error, errno, "read '%s'", path);
    } else if (last != '\n') {
        status = write_line(fd, path, "\n", 1, error);
    }
    struct culm_sink *sink = status == CULM_OK ? culm_sink_jsonl_fd(fd) : NULL;
    if (!sink) {
        close(fd);
        return status ? status : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    ((struct jsonl *)sink)->owns_fd = true;
    ((struct jsonl *)sink)->path = strdup(path); /* without it, messages do not name the file */
    *ret_sink = sink;
    return CULM_OK;
}

/* Notes the first line that is no event, or ends reading there. */
static enum culm_status is_no_event(const char *path, size_t line, size_t *bad,
                                    struct culm_error *error) {
    if (!bad) {
        return culm_error_set(error, CULM_ERR_FORMAT, "%s:%zu: not an event", path, line);
    }
    *bad = *bad ? *bad : line;
    return CULM_OK;
}

enum culm_status culm_events_read(const char *path,
                                  enum culm_status (*each)(void *context, const json_t *event,
                                                           struct culm_error *error),
                                  void *context, struct culm_error *error) {
    return culm_events_skim(path, each, context, NULL, error);
}

enum culm_status culm_events_skim(const char *path,
                                  enum culm_status (*each)(void *context, const json_t *event,
                                                           struct culm_error *error),
                                  void *context, size_t *bad, struct culm_error *error) {
    FILE *file = fopen(path, "re");
    if (!file) {
        int reason = errno;
        culm_error_errno(error, reason, "read '%s'", path);
        if (error && reason == ENOENT) {
            error->status = CULM_ERR_NOT_FOUND;
        }
        return reason == ENOENT ? CULM_ERR_NOT_FOUND : CULM_ERR_IO;
    }
    enum culm_status status = CULM_OK;
    char *line = NULL;
    size_t capacity = 0, number = 0, torn = 0;
    for (ssize_t len; status == CULM_OK && (len = getline(&line, &capacity, file)) > 0;) {
        number++;
        json_error_t problem;
        json_t *event = (size_t)len <= LINE_BYTES_MAX
                            ? json_loadb(line, (size_t)len, JSON_REJECT_DUPLICATES, &problem)
                            : NULL;
        if (torn) {
            /* A torn line is its writer's last, so only the start of a resumed run may follow. */
            const char *name = event ? culm_event_text(event, "event", "") : "";
            if (strcmp(name, "start")) {
                status = is_no_event(path, torn, bad, error);
            }
            torn = 0;
        }
        if (status == CULM_OK && (!event || !culm_event_text(event, "event", NULL))) {
            torn = number;
        } else if (status == CULM_OK) {
            status = each(context, event, error);
        }
        json_decref(event);
    }
    if (status == CULM_OK && ferror(file)) {
        status = culm_error_errno(error, errno, "read '%s'", path);
    }
    free(line);
    fclose(file);
    return status;
}
