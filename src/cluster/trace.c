/* Parses lines into entries, sorts these by time, and checks the pairing of names. See trace.h. */
#include "cluster/trace.h"

#include "base/file.h"
#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

#define AT_MS_MAX ((int64_t)1000 * 60 * 60 * 24 * 3650)

struct place {
    const char *path;
    int64_t line;
    struct culm_error *error;
};

static enum culm_status wrong(const struct place *place, const char *what) {
    return culm_error_set(place->error, CULM_ERR_CONFIG, "%s:%lld: %s", place->path,
                          (long long)place->line, what);
}

static bool read_name(const char *at, size_t len, char *ret_name) {
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    if (len == 0 || len >= CULM_TRACE_NAME_MAX) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (!at[i] || !strchr(allowed, at[i])) {
            return false;
        }
    }
    memcpy(ret_name, at, len);
    ret_name[len] = '\0';
    return true;
}

static bool read_time(const char *at, size_t len, int64_t *ret_ms) {
    int64_t ms = 0;
    for (size_t i = 0; i < len; i++) {
        if (at[i] < '0' || at[i] > '9' || ms > AT_MS_MAX) {
            return false;
        }
        ms = 10 * ms + (at[i] - '0');
    }
    *ret_ms = ms;
    return len > 0 && ms <= AT_MS_MAX;
}

static enum culm_status read_line(const struct place *place, const char *at, size_t len,
                                  struct culm_trace_entry *ret_entry) {
    const char *first = memchr(at, ',', len);
    const char *second = first ? memchr(first + 1, ',', len - (size_t)(first + 1 - at)) : NULL;
    if (!second) {
        return wrong(place, "not three fields; write milliseconds,add|remove,name");
    }
    struct culm_trace_entry entry = {.line = place->line};
    size_t verb = (size_t)(second - first - 1);
    if (!read_time(at, (size_t)(first - at), &entry.at_ms)) {
        return wrong(place, "the time is not a number of milliseconds from 0, at most ten years");
    }
    entry.add = verb == 3 && !memcmp(first + 1, "add", 3);
    if (!entry.add && !(verb == 6 && !memcmp(first + 1, "remove", 6))) {
        return wrong(place, "the second field is neither add nor remove");
    }
    if (!read_name(second + 1, len - (size_t)(second + 1 - at), entry.name)) {
        return wrong(place, "not a name; use 1 to 63 letters, digits, '.', '_' and '-'");
    }
    *ret_entry = entry;
    return CULM_OK;
}

static int by_time(const void *a, const void *b) {
    const struct culm_trace_entry *x = a, *y = b;
    int time = (x->at_ms > y->at_ms) - (x->at_ms < y->at_ms);
    return time ? time : (x->line > y->line) - (x->line < y->line);
}

static int by_name(const void *a, const void *b) {
    const struct culm_trace_entry *const *x = a, *const *y = b;
    int name = strcmp((*x)->name, (*y)->name);
    return name ? name : by_time(*x, *y);
}

/* Checks that each name is added, removed, added, and so on. */
static enum culm_status check_pairs(const struct culm_trace *trace, struct place *place) {
    const struct culm_trace_entry **sorted = malloc((trace->count + 1) * sizeof(*sorted));
    if (!sorted) {
        return culm_error_set(place->error, CULM_ERR_MEMORY, "out of memory for a trace");
    }
    for (size_t i = 0; i < trace->count; i++) {
        sorted[i] = &trace->entry[i];
    }
    qsort(sorted, trace->count, sizeof(*sorted), by_name);
    const struct culm_trace_entry *bad = NULL;
    for (size_t i = 0; i < trace->count; i++) {
        bool there = i > 0 && !strcmp(sorted[i]->name, sorted[i - 1]->name) && sorted[i - 1]->add;
        if (sorted[i]->add == there && (!bad || sorted[i]->line < bad->line)) {
            bad = sorted[i];
        }
    }
    free(sorted);
    if (!bad) {
        return CULM_OK;
    }
    place->line = bad->line;
    return wrong(place, bad->add ? "adds a name that is there already; remove it first"
                                 : "removes a name that is not there; add it first");
}

static enum culm_status append(struct culm_trace *trace, size_t *capacity,
                               const struct culm_trace_entry *entry, struct culm_error *error) {
    if (!CULM_GROW(trace->entry, *capacity, trace->count + 1)) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a trace");
    }
    trace->entry[trace->count++] = *entry;
    return CULM_OK;
}

enum culm_status culm_trace_parse(const char *text, size_t len, const char *path,
                                  struct culm_trace *ret_trace, struct culm_error *error) {
    struct culm_trace trace = {0};
    struct place place = {path, 0, error};
    size_t capacity = 0;
    enum culm_status status = CULM_OK;
    for (size_t at = 0; at < len && status == CULM_OK;) {
        const char *newline = memchr(text + at, '\n', len - at);
        size_t line = newline ? (size_t)(newline - text) - at : len - at;
        const char *start = text + at;
        at += line + 1;
        place.line++;
        line -= line > 0 && start[line - 1] == '\r';
        if (line == 0 || start[0] == '#') {
            continue;
        }
        struct culm_trace_entry entry;
        status = read_line(&place, start, line, &entry);
        if (status == CULM_OK) {
            status = append(&trace, &capacity, &entry, error);
        }
    }
    if (status == CULM_OK && trace.count == 0) {
        place.line = 1;
        status = wrong(&place, "no entries; write lines of milliseconds,add|remove,name");
    }
    if (status == CULM_OK) {
        qsort(trace.entry, trace.count, sizeof *trace.entry, by_time);
        status = check_pairs(&trace, &place);
    }
    if (status != CULM_OK) {
        culm_trace_release(&trace);
        return status;
    }
    *ret_trace = trace;
    return CULM_OK;
}

enum culm_status culm_trace_read(const char *path, struct culm_trace *ret_trace,
                                 struct culm_error *error) {
    char *text;
    size_t len;
    enum culm_status status = culm_file_read(NULL, path, CULM_TRACE_BYTES_MAX, &text, &len, error);
    if (status == CULM_OK) {
        status = culm_trace_parse(text, len, path, ret_trace, error);
        free(text);
    }
    return status;
}

void culm_trace_release(struct culm_trace *trace) {
    free(trace->entry);
    *trace = (struct culm_trace){0};
}
