/* All samples are made once; see the header. */
#include "data/check.h"

#include "base/clock.h"
#include "base/grow.h"
#include "data/files.h"
#include "data/unicode.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PART 8          /* samples that a thread takes at once */
#define PROGRESS_MS 200 /* between two looks at how far it is */
#define THREADS_MAX 256
#define TEXT_PART (64 << 10) /* bytes of a text at once */

struct found {
    int32_t file; /* number of its name */
    char *why;    /* NULL: of text that is not UTF-8 */
    uint8_t byte; /* the first that is not */
    enum culm_data_unit unit;
    int64_t number;
};

struct list {
    struct culm_strings file; /* names, with their NULs */
    struct found *found;
    size_t count, capacity;
    bool failed; /* out of memory */
};

struct check {
    const struct culm_source *source;
    const struct culm_check_options *o;
    int64_t total, next, done, end; /* under the lock; end: not beyond, for now */
    int running;
    enum culm_status status; /* that ends it */
    struct culm_error error;
    struct list list;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

/* --- what was found --- */

static void push(struct list *list, const char *file, const struct found *found) {
    int32_t number = culm_strings_add(&list->file, file, strlen(file) + 1);
    if (number < 0 || !CULM_GROW(list->found, list->capacity, list->count + 1)) {
        free(found->why);
        list->failed = true;
        return;
    }
    list->found[list->count] = *found;
    list->found[list->count++].file = number;
}

static void add(void *ctx, const struct culm_data_bad *bad) {
    struct list *list = ctx;
    struct found found = {
        .why = strdup(bad->why), .unit = bad->place.unit, .number = bad->place.number};
    char *advice = found.why ? strstr(found.why, CULM_SKIP_ADVICE) : NULL;
    if (!found.why) {
        list->failed = true;
        return;
    }
    if (advice) { /* to do what is being done */
        *advice = '\0';
    }
    push(list, bad->place.file, &found);
}

static const char *file_of(const struct list *list, const struct found *found) {
    size_t len;
    return culm_strings_get(&list->file, found->file, &len);
}

static int compare(const void *a, const void *b, void *ctx) {
    const struct found *x = a, *y = b;
    int order = x->file == y->file ? 0 : strcmp(file_of(ctx, x), file_of(ctx, y));
    return order                    ? order
           : x->unit != y->unit     ? (x->unit < y->unit ? -1 : 1)
           : x->number != y->number ? (x->number < y->number ? -1 : 1)
                                    : !x->why - !y->why; /* what is usable comes last */
}

static void tell_one(const struct list *list, const struct found *found,
                     const struct culm_check_options *o) {
    char utf8[CULM_ERROR_MAX];
    const char *file = file_of(list, found);
    if (!found->why) {
        snprintf(utf8, sizeof utf8,
                 "text '%s': line %lld: byte 0x%02x is not UTF-8; turn the file into UTF-8, or "
                 "leave the line out",
                 file, (long long)found->number, found->byte);
    }
    o->bad(o->ctx, &(struct culm_data_bad){{file, found->unit, found->number},
                                           found->why ? found->why : utf8,
                                           !found->why});
}

/* Sorted, each place once: two windows share a token. */
static void tell(struct list *list, const struct culm_check_options *o,
                 struct culm_check_result *result) {
    if (list->count) {
        qsort_r(list->found, list->count, sizeof *list->found, compare, list);
    }
    for (size_t i = 0; i < list->count; i++) {
        const struct found *found = &list->found[i], *before = i ? found - 1 : NULL;
        if (before && before->file == found->file && before->unit == found->unit &&
            before->number == found->number) {
            continue;
        }
        if (found->why) {
            result->bad++;
        } else {
            result->doubtful++;
        }
        if (o->bad) {
            tell_one(list, found, o);
        }
    }
}

static void release(struct list *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->found[i].why);
    }
    culm_strings_release(&list->file);
    free(list->found);
}

/* --- samples --- */

struct room {
    void *field[CULM_SOURCE_FIELDS_MAX];
};

static bool room_make(const struct culm_source *source, struct room *room) {
    bool good = true;
    for (int32_t f = 0; f < culm_source_field_count(source); f++) {
        room->field[f] = malloc(culm_source_fields(source)[f].size_bytes);
        good = good && room->field[f];
    }
    return good;
}

static void room_release(struct room *room) {
    for (int f = 0; f < CULM_SOURCE_FIELDS_MAX; f++) {
        free(room->field[f]);
    }
}

/* Whose fault it is: a file's, or the machine's. */
static bool of_sample(enum culm_status status) {
    return status != CULM_ERR_MEMORY && status != CULM_ERR_CHANGED && status != CULM_ERR_ARGUMENT;
}

static enum culm_status look(struct check *c, int64_t sample, struct room *room,
                             struct culm_error *error) {
    const struct culm_source_item item = {sample, (uint64_t)sample};
    if (culm_order_left_out_has(culm_source_left_out(c->source), sample)) {
        return CULM_OK;
    }
    enum culm_status status = culm_source_fill(c->source, item, room->field, error);
    if (status == CULM_OK || !of_sample(status)) {
        return status;
    }
    const struct culm_data_bad bad = {culm_source_place(c->source, sample), error->text, false};
    pthread_mutex_lock(&c->lock);
    add(&c->list, &bad);
    pthread_mutex_unlock(&c->lock);
    return CULM_OK;
}

static void *run(void *arg) {
    struct check *c = arg;
    struct room room = {{NULL}};
    struct culm_error error;
    enum culm_status status = room_make(c->source, &room)
                                  ? CULM_OK
                                  : culm_error_set(&error, CULM_ERR_MEMORY, "out of memory");
    pthread_mutex_lock(&c->lock);
    while (status == CULM_OK && c->status == CULM_OK && c->next < c->end) {
        int64_t first = c->next, end = first + PART < c->end ? first + PART : c->end;
        c->next = end;
        pthread_mutex_unlock(&c->lock);
        for (int64_t i = first; i < end && status == CULM_OK; i++) {
            status = look(c, i, &room, &error);
        }
        pthread_mutex_lock(&c->lock);
        c->done += end - first;
    }
    if (status != CULM_OK && c->status == CULM_OK) {
        c->status = status;
        c->error = error;
    }
    c->running--;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
    room_release(&room);
    return NULL;
}

/* Samples up to `end`, by all threads; the calling one tells how far they are. */
static void run_to(struct check *c, int64_t end, int threads) {
    pthread_t thread[THREADS_MAX];
    int started = 0;
    c->end = end;
    pthread_mutex_lock(&c->lock);
    for (; started < threads; started++) {
        if (pthread_create(&thread[started], NULL, run, c) != 0) {
            break;
        }
        c->running++;
    }
    while (c->running > 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += PROGRESS_MS * 1000000l;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        (void)pthread_cond_timedwait(&c->changed, &c->lock, &until);
        int64_t done = c->done;
        if (c->o->progress && c->running > 0) {
            pthread_mutex_unlock(&c->lock);
            c->o->progress(c->o->ctx, done, c->total);
            pthread_mutex_lock(&c->lock);
        }
    }
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < started; i++) {
        pthread_join(thread[i], NULL);
    }
    if (!started) { /* no thread is to be had: alone */
        c->running++;
        (void)run(c);
    }
}

static double seconds_since(uint64_t start_ns) {
    return (double)(culm_clock_ns() - start_ns) / 1e9;
}

static void check_samples(struct check *c, struct culm_check_result *result) {
    int threads = c->o->threads < 1 ? 1 : c->o->threads > THREADS_MAX ? THREADS_MAX : c->o->threads;
    uint64_t start = culm_clock_ns();
    int64_t first = c->total < CULM_CHECK_FIRST ? c->total : CULM_CHECK_FIRST;
    run_to(c, first, threads);
    result->all_s = seconds_since(start) * (double)c->total / (double)first;
    result->all = c->o->most_s <= 0 || result->all_s <= c->o->most_s;
    if (c->status == CULM_OK && result->all && first < c->total) {
        run_to(c, c->total, threads);
    }
    if (result->all) {
        result->all_s = seconds_since(start);
    }
    if (c->o->progress && result->all) {
        c->o->progress(c->o->ctx, c->done, c->total);
    }
}

/* Adds to the list. */
static enum culm_status check_into(const struct culm_source *source,
                                   const struct culm_check_options *options, struct list *list,
                                   struct culm_check_result *result, struct culm_error *error) {
    struct check c = {
        .source = source, .o = options, .total = culm_source_samples(source), .list = *list};
    pthread_mutex_init(&c.lock, NULL);
    pthread_cond_init(&c.changed, NULL);
    result->samples = c.total;
    result->left_out = (int64_t)culm_order_left_out_count(culm_source_left_out(source));
    check_samples(&c, result);
    pthread_mutex_destroy(&c.lock);
    pthread_cond_destroy(&c.changed);
    *list = c.list;
    if (c.status != CULM_OK) {
        return culm_error_set(error, c.status, "%s", c.error.text);
    }
    return list->failed ? culm_error_set(error, CULM_ERR_MEMORY, "data: out of memory") : CULM_OK;
}

enum culm_status culm_check_source(const struct culm_source *source,
                                   const struct culm_check_options *options,
                                   struct culm_check_result *ret_result, struct culm_error *error) {
    struct list list = {0};
    struct culm_check_result result = {0};
    enum culm_status status = check_into(source, options, &list, &result, error);
    if (status == CULM_OK) {
        tell(&list, options, &result);
        *ret_result = result;
    }
    release(&list);
    return status;
}

/* --- text that is not UTF-8 --- */

static bool is_text(const struct culm_source_options *o) {
    return o->kind == CULM_SOURCE_TEXT || o->kind == CULM_SOURCE_PAIRS ||
           (o->kind == CULM_SOURCE_MASKED && o->masked_of == CULM_SOURCE_TEXT);
}

/* A text that is gone through in parts. */
struct utf8_check {
    const char *file;
    struct culm_skip *skip; /* what is left out is known */
    struct list *list;
    int64_t line;
    bool told; /* of this line */
};

static void not_utf8(struct utf8_check *u, char byte) {
    const struct culm_data_place place = {u->file, CULM_DATA_LINE, u->line};
    if (!u->told && !(u->skip && culm_skip_has(u->skip, &place))) {
        push(u->list, u->file,
             &(struct found){.byte = (uint8_t)byte, .unit = CULM_DATA_LINE, .number = u->line});
    }
    u->told = true;
}

/* Returns how many bytes of the part were looked at: the last few may be a character's beginning. */
static size_t check_part(struct utf8_check *u, const char *text, size_t len, bool last) {
    size_t at = 0;
    while (at < len && (last || len - at >= 4)) {
        int32_t c;
        size_t size = culm_unicode_next(text, len, at, &c);
        if (c == CULM_UNICODE_NONE) {
            not_utf8(u, text[at]);
        } else if (c == '\n') {
            u->line++;
            u->told = false;
        }
        at += size;
    }
    return at;
}

static enum culm_status check_file(const struct culm_files *files, size_t file, char *buffer,
                                   struct utf8_check *u, struct culm_error *error) {
    uint64_t bytes = files->entry[file].bytes;
    for (uint64_t at = 0; at < bytes;) {
        size_t len = bytes - at < TEXT_PART ? (size_t)(bytes - at) : TEXT_PART;
        enum culm_status status = culm_files_read(files, file, at, buffer, len, error);
        if (status != CULM_OK) {
            return status;
        }
        at += check_part(u, buffer, len, at + len == bytes);
    }
    return CULM_OK;
}

static enum culm_status check_texts(const struct culm_source_options *o, struct culm_skip *skip,
                                    struct list *list, struct culm_error *error) {
    const struct culm_files_options how = {.what = "text",
                                           .content = CULM_FILES_TEXT,
                                           .many = true,
                                           .paths = o->paths,
                                           .path_count = o->path_count,
                                           .pins = o->pins};
    struct culm_files *files = NULL;
    char *buffer = malloc(TEXT_PART);
    enum culm_status status = buffer ? culm_files_open_as(&how, &files, error)
                                     : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    for (size_t i = 0; status == CULM_OK && i < files->count; i++) {
        struct utf8_check u = {.file = files->entry[i].path, .skip = skip, .list = list, .line = 1};
        status = check_file(files, i, buffer, &u, error);
    }
    culm_files_free(files);
    free(buffer);
    return status;
}

/* --- all --- */

enum culm_status culm_check_data(const struct culm_source_options *source,
                                 const struct culm_check_options *options,
                                 struct culm_check_result *ret_result, struct culm_error *error) {
    struct list list = {0};
    struct culm_check_result result = {.all = true};
    struct culm_source_options lenient = *source;
    struct culm_source *open = NULL;
    struct culm_skip *skip = NULL;
    lenient.held_out = 0;
    lenient.split = CULM_SPLIT_TRAIN;
    lenient.bad = add;
    lenient.bad_ctx = &list;
    enum culm_status status = CULM_OK;
    if (source->skip) {
        status = culm_skip_read(source->skip, source->paths, source->path_count, source->pins,
                                &skip, error);
    }
    if (status == CULM_OK && is_text(source)) { /* first: what is unpacked is in memory */
        status = check_texts(source, skip, &list, error);
    }
    size_t doubtful = list.count;
    if (status == CULM_OK) {
        status = culm_source_open(&lenient, &open, error);
    }
    if (status == CULM_OK) {
        size_t told = list.count - doubtful; /* left out by opening, but not by the list */
        status = check_into(open, options, &list, &result, error);
        result.left_out -= (int64_t)told;
    }
    if (status == CULM_OK && list.failed) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "data: out of memory");
    }
    if (status == CULM_OK) {
        tell(&list, options, &result);
        *ret_result = result;
    }
    culm_source_free(open);
    culm_skip_free(skip);
    release(&list);
    return status;
}
