/* What RUN/lock says of steps that are held, and of where they may go. See checkpoint_room.h. */
#include "store/checkpoint_room.h"

#include "base/mark.h"
#include "base/room.h"
#include "store/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define LOCK_BYTES 4000 /* the file stays within the one block that it has */

/* The whole text, with a NUL. -1: it cannot be opened. */
static int open_lock(const char *run_dir, char ret_text[LOCK_BYTES + 1]) {
    char path[CULM_PATH_MAX];
    if (culm_path_format(path, NULL, "%s/lock", run_dir) != CULM_OK) {
        return -1;
    }
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    ssize_t len = fd < 0 ? -1 : pread(fd, ret_text, LOCK_BYTES, 0);
    if (fd >= 0 && len < 0) {
        close(fd);
        return -1;
    }
    ret_text[len > 0 ? len : 0] = '\0';
    return fd;
}

/* The line that begins so, behind that; NULL: there is none, or it is not whole. */
static char *line_of(char *text, const char *begins) {
    for (char *at = strchr(text, '\n'); at; at = strchr(at + 1, '\n')) {
        if (strncmp(at + 1, begins, strlen(begins)) == 0 && strchr(at + 1, '\n')) {
            return at + 1 + strlen(begins);
        }
    }
    return NULL;
}

enum culm_status culm_rescue_hold(const char *run_dir, int64_t step, uint64_t bytes,
                                  struct culm_error *error) {
    char text[LOCK_BYTES + 1], line[80];
    int fd = open_lock(run_dir, text);
    if (fd < 0) {
        return culm_error_errno(error, errno, "open '%s/lock'", run_dir);
    }
    enum culm_status status = CULM_OK;
    const char *end = strchr(text, '\n');
    const off_t at = end ? end - text + 1 : (off_t)strlen(text);
    const int len = snprintf(line, sizeof line, "%sholds %" PRId64 " %" PRIu64 "\n",
                             end ? "" : "\n", step, bytes);
    if (!line_of(text, "holds ") &&
        (ftruncate(fd, at) < 0 || pwrite(fd, line, (size_t)len, at) != len)) {
        status = culm_error_errno(error, errno, "write '%s/lock'", run_dir);
    }
    close(fd);
    return status;
}

bool culm_rescue_asked(const char *run_dir, char ret_to[CULM_PATH_MAX]) {
    char text[LOCK_BYTES + 1];
    int fd = open_lock(run_dir, text);
    const char *to = fd < 0 ? NULL : line_of(text, "to ");
    if (fd >= 0) {
        close(fd);
    }
    if (!to || to[0] != '/') {
        return false;
    }
    snprintf(ret_to, CULM_PATH_MAX, "%.*s", (int)strcspn(to, "\n"), to);
    return true;
}

void culm_rescue_over(const char *run_dir) {
    char text[LOCK_BYTES + 1];
    int fd = open_lock(run_dir, text);
    const char *end = fd < 0 ? NULL : strchr(text, '\n');
    if (end) {
        (void)!ftruncate(fd, end - text + 1);
    }
    if (fd >= 0) {
        close(fd);
    }
}

static bool at_work(int fd) { return flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK; }

enum culm_status culm_rescue_holds(const char *run_dir, int64_t *ret_step,
                                   struct culm_error *error) {
    char text[LOCK_BYTES + 1];
    int fd = open_lock(run_dir, text);
    if (fd < 0 || !at_work(fd)) {
        if (fd >= 0) {
            close(fd);
        }
        return culm_error_set(
            error, CULM_ERR_NOT_FOUND,
            "no run is at work in '%.200s', and nothing is kept in memory for it; "
            "continue one that was there with --resume",
            run_dir);
    }
    close(fd);
    const char *holds = line_of(text, "holds ");
    if (!holds) {
        return culm_error_set(error, CULM_ERR_NOT_FOUND,
                              "the run in '%.200s' holds no step that it could not save", run_dir);
    }
    *ret_step = strtoll(holds, NULL, 10);
    return CULM_OK;
}

enum culm_status culm_rescue_ask(const char *run_dir, const char *to, struct culm_error *error) {
    char text[LOCK_BYTES + 1], line[CULM_PATH_MAX + 8];
    int fd = open_lock(run_dir, text);
    if (fd < 0) {
        return culm_error_errno(error, errno, "open '%s/lock'", run_dir);
    }
    enum culm_status status = CULM_OK;
    const char *before = line_of(text, "to ");
    const size_t len = strlen(text), before_len = before ? strcspn(before, "\n") : 0;
    const int more = snprintf(line, sizeof line, "to %s\n", to);
    if (before && (before_len != strlen(to) || strncmp(before, to, before_len) != 0)) {
        status = culm_error_set(error, CULM_ERR_EXISTS,
                                "the run was told to save in '%.*s' already; make room there",
                                (int)(before_len < 300 ? before_len : 300), before);
    } else if (!before && (strchr(to, '\n') || strlen(to) >= CULM_RESCUE_PATH_MAX ||
                           len + (size_t)more > LOCK_BYTES)) {
        status = culm_error_set(error, CULM_ERR_ARGUMENT,
                                "'%.100s...' is too long, or has an end of line; name another "
                                "folder",
                                to);
    } else if (!before && pwrite(fd, line, (size_t)more, (off_t)len) != more) {
        status = culm_error_errno(error, errno, "write '%s/lock'", run_dir);
    }
    close(fd);
    return status;
}

/* `from` is a link to `target` then, whatever it was: it is made beside it and renamed, so that there is
 * always one of the two. */
static enum culm_status put_link(struct culm_fs *fs, const char *from, const char *target,
                                 struct culm_error *error) {
    char beside[CULM_PATH_MAX], old[CULM_PATH_MAX], dir[CULM_PATH_MAX];
    enum culm_status status = culm_path_parent(from, dir, error);
    if (status != CULM_OK ||
        (status = culm_path_format(beside, error, "%s/.tmp-link", dir)) != CULM_OK ||
        (status = culm_path_format(old, error, "%s/.old-link", dir)) != CULM_OK ||
        (status = culm_tree_remove(fs, beside, error)) != CULM_OK ||
        (status = culm_tree_remove(fs, old, error)) != CULM_OK) {
        return status;
    }
    if (symlink(target, beside) != 0) {
        return culm_error_errno(error, errno, "link '%s' to '%s'", from, target);
    }
    if (culm_file_is_directory(from)) { /* which nothing can be renamed over, or a link to one */
        CULM_MARK(store_link_takes_the_place_of_a_folder);
        status = culm_file_rename(fs, from, old, error);
    }
    if (status == CULM_OK) {
        status = culm_file_rename(fs, beside, from, error);
    }
    (void)culm_tree_remove(fs, status == CULM_OK ? old : beside, NULL);
    return status;
}

enum culm_status culm_rescue_link(struct culm_fs *fs, const char *run_dir, const char *to,
                                  int64_t step, struct culm_error *error) {
    char dir[CULM_PATH_MAX], from[CULM_PATH_MAX], target[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(dir, error, "%s/checkpoints", run_dir);
    if (status == CULM_OK) {
        status = culm_dir_make(fs, dir, error);
    }
    if (status == CULM_OK) {
        status = culm_checkpoint_path(run_dir, step, from, error);
    }
    if (status == CULM_OK) {
        status = culm_checkpoint_path(to, step, target, error);
    }
    return status == CULM_OK ? put_link(fs, from, target, error) : status;
}

/* "free 7.6 MB there, or name another folder: culm ckpt rescue DIR --to PATH" */
static void advise(const char *run_dir, const char *what, uint64_t need, uint64_t there,
                   const char *where, const char *beside, char ret_note[CULM_ERROR_MAX]) {
    char needed[CULM_ROOM_TEXT], have[CULM_ROOM_TEXT], lack[CULM_ROOM_TEXT];
    culm_room_text(need, needed);
    culm_room_text_of_free(there, have);
    if (there < need) {
        culm_room_text(need - there, lack);
        snprintf(ret_note, CULM_ERROR_MAX,
                 "%.40s takes %s and %s are free in '%.100s'%.30s: free %s there, or name another "
                 "folder "
                 "with 'culm ckpt rescue %.160s --to PATH'",
                 what, needed, have, where, beside, lack, run_dir);
    } else {
        snprintf(
            ret_note, CULM_ERROR_MAX,
            "%.40s takes %s and fails though %s are free in '%.100s': see to it, or name another "
            "folder with 'culm ckpt rescue %.160s --to PATH'",
            what, needed, have, where, run_dir);
    }
}

enum culm_room_for culm_rescue_look(const char *run_dir, const char *unit, int64_t step,
                                    uint64_t all_bytes, uint64_t weights_bytes, bool failed,
                                    char ret_to[CULM_PATH_MAX], char ret_note[CULM_ERROR_MAX]) {
    struct culm_checkpoint_room room = {0};
    char what[64], to[CULM_PATH_MAX];
    uint64_t there = 0;
    snprintf(what, sizeof what, "the checkpoint of %s %" PRId64, unit, step);
    (void)culm_rescue_hold(run_dir, step, all_bytes, NULL); /* then nobody can name a folder */
    ret_to[0] = '\0';
    /* One that cannot be written is as if it had not been named. */
    const bool asked = culm_rescue_asked(run_dir, to) && access(to, W_OK | X_OK) == 0;
    if (asked && (culm_room_free(to, &there, NULL) != CULM_OK || there >= all_bytes)) {
        CULM_MARK(store_rescued_to_the_folder_asked_for);
        snprintf(ret_note, CULM_ERROR_MAX, "%s goes to '%.300s' and fails there: see to it", what,
                 to);
        memcpy(ret_to, to, sizeof to);
        return CULM_ROOM_ALL;
    }
    (void)culm_checkpoint_clean_before(NULL, run_dir, step, NULL); /* again in two seconds */
    if (culm_checkpoint_make_room(NULL, run_dir, all_bytes, failed, &room, NULL) != CULM_OK) {
        /* the writing finds out */
        room = (struct culm_checkpoint_room){.fits = true, .free_bytes = all_bytes};
    }
    if (asked && !room.fits) {
        CULM_MARK(store_folder_asked_for_is_too_small);
        char lack[CULM_ROOM_TEXT], have[CULM_ROOM_TEXT];
        culm_room_text(all_bytes - there, lack);
        culm_room_text_of_free(there, have);
        snprintf(ret_note, CULM_ERROR_MAX, "%s: %s are free in '%.300s', too; free %s there", what,
                 have, to, lack);
    }
    const bool saved = culm_checkpoint_weights_path(run_dir, step, to, NULL) == CULM_OK &&
                       culm_file_is_directory(to);
    const bool weights = !room.fits && !saved && room.free_bytes >= weights_bytes;
    if (!asked || room.fits) { /* what the weights are about to take cannot be counted on */
        advise(run_dir, what, all_bytes, room.free_bytes - (weights ? weights_bytes : 0), run_dir,
               weights || saved ? " beside the weights alone" : "", ret_note);
    }
    if (weights) {
        CULM_MARK(store_weights_alone_are_saved);
    }
    return room.fits ? CULM_ROOM_ALL : weights ? CULM_ROOM_WEIGHTS : CULM_ROOM_NOTHING;
}

/* The weights of a checkpoint as a file. */
static uint64_t model_bytes(const char *path) {
    struct culm_checkpoint *checkpoint = NULL;
    uint64_t bytes = 8;
    if (culm_checkpoint_open(path, false, &checkpoint, NULL) != CULM_OK) {
        return 0; /* whoever reads it says why */
    }
    for (size_t i = 0; i < culm_checkpoint_count(checkpoint); i++) {
        const struct culm_safetensors_entry *entry = culm_checkpoint_at(checkpoint, i);
        bytes +=
            culm_checkpoint_is_state(entry->name) ? 0 : entry->bytes + strlen(entry->name) + 96;
    }
    culm_checkpoint_close(checkpoint);
    return culm_room_of_file(bytes);
}

/* RUN/model.safetensors leads to that in the other folder. */
static enum culm_status link_model(const char *run_dir, const char *to, struct culm_error *error) {
    char from[CULM_PATH_MAX], target[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(from, error, "%s/model.safetensors", run_dir);
    if (status == CULM_OK) {
        status = culm_path_format(target, error, "%s/model.safetensors", to);
    }
    return status == CULM_OK ? put_link(NULL, from, target, error) : status;
}

enum culm_status culm_rescue_conclude(const char *path, const char *run_dir, int64_t step,
                                      char ret_weights[CULM_SHA256_HEX],
                                      char ret_state[CULM_SHA256_HEX], struct culm_error *error) {
    struct culm_checkpoint_room room = {.fits = true};
    char to[CULM_PATH_MAX], note[CULM_ERROR_MAX];
    const uint64_t bytes = model_bytes(path);
    (void)culm_checkpoint_make_room(NULL, run_dir, bytes, false, &room, NULL);
    const bool asked = culm_rescue_asked(run_dir, to);
    if (!room.fits && !asked) {
        CULM_MARK(store_model_has_no_room);
        (void)culm_rescue_hold(run_dir, step, bytes, NULL);
        advise(run_dir, "the model", bytes, room.free_bytes, run_dir, "", note);
        return culm_error_set(error, CULM_ERR_IO, "%s", note);
    }
    const char *dir = room.fits ? run_dir : to;
    enum culm_status status = culm_checkpoint_conclude(path, dir, ret_weights, ret_state, error);
    if (status == CULM_OK && !room.fits) {
        CULM_MARK(store_model_is_in_the_folder_asked_for);
        status = link_model(run_dir, to, error);
    }
    if (status == CULM_OK) {
        culm_rescue_over(run_dir);
    }
    return status;
}
