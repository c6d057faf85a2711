/* Pictures of a folder. See feed_folder.h. */
#include "data/feed_folder.h"

#include "base/clock.h"
#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define GONE (-2) /* was removed, and that has been said */

/* Between two looks at a folder; longer if a look takes long, so that little of a processor goes into it. */
#define LOOK_NS UINT64_C(250000000)
#define LOOK_SHARE 20

static enum culm_status no_memory(const char *feed, struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "feed '%s': too many pictures", feed);
}

/* --- what is known --- */

static bool add(struct feed_folder *folder, const char *path, int32_t number) {
    int32_t count = folder->path.count;
    if (!(count & (count - 1))) { /* 0 or a power of two: the array is full */
        int32_t *larger = realloc(folder->number, (count ? 2 * (size_t)count : 1) * sizeof *larger);
        if (!larger) {
            return false;
        }
        folder->number = larger;
    }
    if (count == CULM_STRINGS_MAX || culm_strings_add(&folder->path, path, strlen(path) + 1) < 0) {
        return false;
    }
    folder->number[count] = number;
    return true;
}

int64_t feed_folder_end(const struct feed_folder *folder) {
    return folder->first + folder->path.count;
}

bool feed_folder_is_known_gone(const struct feed_folder *folder, int64_t turn) {
    return folder->number[turn - folder->first] == GONE;
}

const char *feed_folder_path(const struct feed_folder *folder, int64_t turn) {
    size_t len;
    return culm_strings_get(&folder->path, (int32_t)(turn - folder->first), &len);
}

int32_t feed_folder_number(const struct feed_folder *folder, int64_t turn) {
    const int32_t number = folder->number[turn - folder->first];
    return number == GONE ? -1 : number;
}

void feed_folder_is_gone(struct feed_folder *folder, int64_t turn) {
    folder->number[turn - folder->first] = GONE;
}

void feed_folder_release(struct feed_folder *folder) {
    culm_strings_release(&folder->path);
    free(folder->number);
    *folder = (struct feed_folder){0};
}

/* --- what is there --- */

struct opening {
    struct feed_folder *folder;
    const char *feed;
};

static enum culm_status take(void *ctx, const char *path, int32_t number,
                             struct culm_error *error) {
    struct opening *opening = ctx;
    return add(opening->folder, path, number) ? CULM_OK : no_memory(opening->feed, error);
}

enum culm_status feed_folder_open(struct feed_folder *folder, const char *feed, const char *file,
                                  bool may_be_empty, struct culm_error *error) {
    struct opening opening = {folder, feed};
    char what[128];
    if (!culm_file_is_directory(file)) {
        return take(&opening, file, -1, error);
    }
    snprintf(what, sizeof what, "feed '%.100s'", feed);
    struct culm_pictures_walker walk = {.what = what, .found = take, .ctx = &opening};
    enum culm_status status = culm_pictures_walk(&walk, file, error);
    if (status != CULM_OK) {
        return status;
    }
    folder->folders = walk.folders;
    culm_pictures_left_text(&walk.left, "folder", file, folder->note);
    return folder->path.count || may_be_empty
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_CONFIG,
                                "feed '%s': the folder '%s' has no .jpg, .png or .webp in it", feed,
                                file);
}

/* --- what is new --- */

struct found {
    char *path;
    int32_t number;
    int64_t time_ns;
};

struct looking {
    const struct feed_folder *folder;
    bool *is_there; /* [known]; NULL: nobody wants to know */
    int64_t now_ns; /* what is written at about this time is left for later; 0: nothing is */
    struct found *found;
    size_t count, capacity;
};

static int64_t ns_of(struct timespec time) {
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static bool note(struct looking *looking, const char *path, int32_t number, int64_t time_ns) {
    if (looking->count == looking->capacity) {
        size_t capacity = looking->capacity ? 2 * looking->capacity : 16;
        struct found *larger = realloc(looking->found, capacity * sizeof *larger);
        if (!larger) {
            return false;
        }
        looking->found = larger;
        looking->capacity = capacity;
    }
    char *copy = strdup(path);
    if (copy) {
        looking->found[looking->count++] = (struct found){copy, number, time_ns};
    }
    return copy != NULL;
}

static enum culm_status look(void *ctx, const char *path, int32_t number,
                             struct culm_error *error) {
    struct looking *looking = ctx;
    const struct feed_folder *folder = looking->folder;
    const int32_t at = culm_strings_find(&folder->path, path, strlen(path) + 1);
    struct stat about;
    if (at >= 0) {
        if (looking->is_there) {
            looking->is_there[at] = true;
        }
        folder->number[at] = folder->number[at] == GONE ? number : folder->number[at];
        return CULM_OK;
    }
    if (stat(path, &about) != 0) {
        return CULM_OK; /* it has gone again */
    }
    const int64_t written = ns_of(about.st_mtim);
    if (written <= looking->now_ns && looking->now_ns - written < (int64_t)FEED_FOLDER_QUIET_NS) {
        return CULM_OK; /* somebody may be at it */
    }
    return note(looking, path, number, written)
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for pictures");
}

static int by_time(const void *one, const void *other) {
    const struct found *a = one, *b = other;
    return a->time_ns != b->time_ns ? (a->time_ns < b->time_ns ? -1 : 1) : strcmp(a->path, b->path);
}

/* Goes through the folder. False: not everything could be listed. */
static bool go_through(struct feed_folder *folder, const char *feed, const char *file,
                       struct looking *looking) {
    char what[128];
    const uint64_t began = culm_clock_ns();
    if (!culm_file_is_directory(file)) {
        return false;
    }
    snprintf(what, sizeof what, "feed '%.100s'", feed);
    struct culm_pictures_walker walk = {.what = what, .found = look, .ctx = looking};
    const bool whole = culm_pictures_walk(&walk, file, NULL) == CULM_OK;
    if (looking->count > 1) {
        qsort(looking->found, looking->count, sizeof *looking->found, by_time);
    }
    for (size_t i = 0; i < looking->count && walk.folders != folder->folders; i++) {
        looking->found[i].number = -1; /* a new folder has moved the numbers of classes */
    }
    const uint64_t took = culm_clock_ns() - began;
    folder->look_ns = culm_clock_ns() + (LOOK_SHARE * took > LOOK_NS ? LOOK_SHARE * took : LOOK_NS);
    return whole;
}

static void add_found(struct feed_folder *folder, struct looking *looking) {
    bool ok = true;
    for (size_t i = 0; i < looking->count; i++) {
        ok = ok && add(folder, looking->found[i].path, looking->found[i].number);
        free(looking->found[i].path);
    }
    free(looking->found);
}

void feed_folder_grow(struct feed_folder *folder, const char *feed, const char *file) {
    struct looking looking = {.folder = folder};
    (void)go_through(folder, feed, file, &looking);
    add_found(folder, &looking);
}

/* Leaves out what is not there any more of the pictures before `turn`. */
static void forget(struct feed_folder *folder, const bool *is_there, int64_t turn) {
    struct feed_folder kept = {.folders = folder->folders, .look_ns = folder->look_ns};
    int32_t before = 0;
    for (int32_t i = 0; i < folder->path.count; i++) {
        const bool had = folder->first + i < turn;
        size_t len;
        if (had && !is_there[i]) {
            continue;
        }
        if (!add(&kept, culm_strings_get(&folder->path, i, &len), folder->number[i])) {
            feed_folder_release(&kept);
            return; /* it is tried again the next time */
        }
        before += had;
    }
    memcpy(kept.note, folder->note, sizeof kept.note);
    kept.first = turn - before;
    feed_folder_release(folder);
    *folder = kept;
}

void feed_folder_follow(struct feed_folder *folder, const char *feed, const char *file,
                        int64_t turn) {
    if (culm_clock_ns() < folder->look_ns) {
        return;
    }
    struct looking looking = {.folder = folder,
                              .is_there = calloc((size_t)folder->path.count + 1, sizeof(bool))};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    looking.now_ns = ns_of(now);
    const bool whole = go_through(folder, feed, file, &looking);
    int32_t gone = 0;
    for (int32_t i = 0; i < folder->path.count && looking.is_there && whole; i++) {
        gone += folder->first + i < turn && !looking.is_there[i];
    }
    if (2 * gone > folder->path.count) {
        forget(folder, looking.is_there, turn);
    }
    free(looking.is_there);
    add_found(folder, &looking);
}
