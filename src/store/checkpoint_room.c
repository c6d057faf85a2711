/* Older checkpoints give way; what is said before a run. See checkpoint_room.h. */
#include "store/checkpoint_room.h"

#include "base/mark.h"
#include "base/room.h"
#include "store/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TENSOR_TEXT 192    /* of a tensor in the head of its piece */
#define MANIFEST_TEXT 4096 /* besides its texts, which JSON may make longer */
#define PIECE_TEXT 512     /* of a piece in the manifest */

uint64_t culm_checkpoint_room_of(uint64_t number_bytes, size_t tensors, size_t pieces,
                                 size_t text_bytes) {
    const uint64_t manifest = MANIFEST_TEXT + pieces * PIECE_TEXT + text_bytes + text_bytes / 4;
    return number_bytes + tensors * TENSOR_TEXT + pieces * culm_room_of_file(0) +
           culm_room_of_file(manifest) + culm_room_of_file(0);
}

/* Published ones, the lowest step at or above `from`. */
static bool next_step(const struct culm_names *names, int64_t from, int64_t *ret_step) {
    bool any = false;
    int64_t step;
    for (size_t i = 0; i < names->count; i++) {
        if (culm_checkpoint_name_is(names->name[i], "", &step) && step >= from &&
            (!any || step < *ret_step)) {
            *ret_step = step;
            any = true;
        }
    }
    return any;
}

static bool is_whole(const char *run_dir, int64_t step) {
    char path[CULM_PATH_MAX];
    return culm_checkpoint_path(run_dir, step, path, NULL) == CULM_OK &&
           culm_checkpoint_check(path, step, false, NULL) == CULM_OK;
}

/* -1: none. */
static int64_t newest_whole(const char *run_dir, const struct culm_names *names) {
    int64_t newest = -1, step = 0;
    for (int64_t from = 0; next_step(names, from, &step); from = step + 1) {
        newest = is_whole(run_dir, step) ? step : newest;
    }
    return newest;
}

static bool has_room(const char *run_dir, uint64_t bytes, uint64_t *ret_free) {
    if (culm_room_free(run_dir, ret_free, NULL) != CULM_OK) {
        *ret_free = UINT64_MAX;
    }
    return *ret_free >= bytes;
}

static enum culm_status list(const char *run_dir, struct culm_names *ret_names,
                             struct culm_error *error) {
    char dir[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(dir, error, "%s/checkpoints", run_dir);
    return status == CULM_OK && culm_file_is_directory(dir) ? culm_dir_list(dir, ret_names, error)
                                                            : status;
}

enum culm_status culm_checkpoint_make_room(struct culm_fs *fs, const char *run_dir, uint64_t bytes,
                                           bool one, struct culm_checkpoint_room *ret_room,
                                           struct culm_error *error) {
    struct culm_checkpoint_room room = {0};
    struct culm_names names = {0};
    int64_t step = 0;
    room.fits = has_room(run_dir, bytes, &room.free_bytes);
    if (room.fits && !one) {
        *ret_room = room;
        return CULM_OK;
    }
    enum culm_status status = list(run_dir, &names, error);
    const int64_t newest = status == CULM_OK ? newest_whole(run_dir, &names) : -1;
    for (int64_t from = 0; status == CULM_OK && (!room.fits || (one && room.given_way == 0)) &&
                           next_step(&names, from, &step) && step < newest;
         from = step + 1) {
        CULM_MARK(store_older_one_gives_way);
        status = culm_checkpoint_remove(fs, run_dir, step, error);
        room.given_way += status == CULM_OK;
        room.fits = has_room(run_dir, bytes, &room.free_bytes);
    }
    culm_names_release(&names);
    if (status == CULM_OK) {
        *ret_room = room;
    }
    return status;
}

/* What those take that are there. */
static uint64_t bytes_there(const char *run_dir, int64_t *ret_count) {
    struct culm_names names = {0};
    uint64_t sum = 0;
    int64_t step = 0;
    *ret_count = 0;
    if (list(run_dir, &names, NULL) != CULM_OK) {
        return 0;
    }
    for (int64_t from = 0; next_step(&names, from, &step); from = step + 1) {
        char path[CULM_PATH_MAX];
        struct culm_manifest manifest = {0};
        if (culm_checkpoint_path(run_dir, step, path, NULL) != CULM_OK ||
            culm_manifest_read(path, &manifest, NULL) != CULM_OK) {
            continue;
        }
        for (size_t i = 0; i < manifest.piece_count; i++) {
            sum += culm_room_of_file(manifest.piece[i].bytes);
        }
        (*ret_count)++;
        culm_manifest_release(&manifest);
    }
    culm_names_release(&names);
    return sum;
}

void culm_checkpoint_room_note(const char *run_dir, uint64_t checkpoint_bytes, uint64_t model_bytes,
                               int64_t keep, char ret_note[CULM_ERROR_MAX]) {
    char each[CULM_ROOM_TEXT], model[CULM_ROOM_TEXT], have[CULM_ROOM_TEXT], lack[CULM_ROOM_TEXT];
    uint64_t there;
    int64_t count;
    ret_note[0] = '\0';
    if (culm_room_free(run_dir, &there, NULL) != CULM_OK) {
        return;
    }
    const uint64_t old = bytes_there(run_dir, &count);
    /* One that is there already gives way to the next but for the newest, beside which that is
     * written. */
    const uint64_t least = (count > 0 ? 2 : 1) * checkpoint_bytes + model_bytes;
    const uint64_t all = ((uint64_t)keep + 1) * checkpoint_bytes + model_bytes;
    const bool little = there + old < least;
    if (there + old >= all || (keep > 1000 && !little)) {
        return;
    }
    culm_room_text(checkpoint_bytes, each);
    culm_room_text(model_bytes, model);
    culm_room_text_of_free(there, have);
    culm_room_text((little ? least : all) - there - old, lack);
    snprintf(ret_note, CULM_ERROR_MAX,
             "%s are free where '%.150s' is, and a checkpoint takes %s, the model %s: %s; free %s "
             "there, or choose another --out",
             have, run_dir, each, model,
             little ? "there is no room for both"
                    : "older checkpoints give way before there are as many as checkpoint.keep says",
             lack);
}

bool culm_checkpoint_look_ahead(const char *run_dir, uint64_t bytes, bool failed, int *told,
                                char ret_note[CULM_ERROR_MAX]) {
    enum { ENOUGH, GIVING_WAY, TOO_LITTLE };
    char need[CULM_ROOM_TEXT], have[CULM_ROOM_TEXT], lack[CULM_ROOM_TEXT] = "";
    struct culm_checkpoint_room room = {0};
    ret_note[0] = '\0';
    if (culm_checkpoint_make_room(NULL, run_dir, bytes, failed, &room, NULL) != CULM_OK) {
        return false;
    }
    const int now = !room.fits ? TOO_LITTLE : room.given_way > 0 ? GIVING_WAY : ENOUGH;
    if (now > *told || (now == ENOUGH && *told == TOO_LITTLE)) {
        culm_room_text(bytes, need);
        culm_room_text_of_free(room.free_bytes, have);
        if (now == TOO_LITTLE) {
            culm_room_text(bytes - room.free_bytes, lack);
            snprintf(ret_note, CULM_ERROR_MAX,
                     "the next checkpoint takes %s, and %s are free where '%.200s' is; free %s "
                     "there, or it cannot be written",
                     need, have, run_dir, lack);
        } else if (now == GIVING_WAY) {
            snprintf(ret_note, CULM_ERROR_MAX,
                     "a checkpoint takes %s, for which older ones in '%.200s' give way before "
                     "there are as many as checkpoint.keep says; %s are free there",
                     need, run_dir, have);
        }
        *told = now;
    }
    return room.fits && (!failed || room.given_way > 0);
}
