/*
 * Writing, publishing and removing checkpoints.
 *
 * The invariant: at every moment, and after a crash at every moment, the newest published
 * checkpoint can be read. Only two renames change what readers see, the one that publishes and the
 * one that turns a checkpoint into trash; both are followed by a sync of the directory.
 */
#include "store/manifest.h"

#include "base/mark.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum culm_status not_an_owner(const char *owner, struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_ARGUMENT, "checkpoint: '%.40s' is not an owner", owner);
}

/* What a writer calls the file of its piece until it is published. */
static void name_piece(const char *owner, int32_t node, char *ret_file, size_t size) {
    snprintf(ret_file, size, "%s.node-%" PRId32 ".safetensors", owner, node);
}

enum culm_status culm_checkpoint_write_piece(struct culm_fs *fs, const char *run_dir, int64_t step,
                                             const char *owner, int32_t node,
                                             const struct culm_tensor_ref *tensors, size_t count,
                                             const struct culm_write_hook *hook,
                                             struct culm_piece *ret_piece,
                                             struct culm_error *error) {
    char dir[CULM_PATH_MAX], path[CULM_PATH_MAX], step_text[24];
    char kind[CULM_OWNER_SIZE], number_text[16];
    struct culm_piece piece = {.node = node, .tensors = count};
    struct culm_written written;
    int32_t number;
    if (!culm_owner_split(owner, kind, &number)) {
        return not_an_owner(owner, error);
    }
    snprintf(piece.owner, sizeof piece.owner, "%s", owner);
    name_piece(piece.owner, node, piece.file, sizeof piece.file);
    snprintf(step_text, sizeof step_text, "%" PRId64, step);
    snprintf(number_text, sizeof number_text, "%" PRId32, number);
    const struct culm_metadata metadata[] = {
        {"format", "pt"}, {"step", step_text}, {kind, number_text}};
    enum culm_status status = culm_checkpoint_name(run_dir, CULM_CHECKPOINT_TMP, step, dir, error);
    if (status == CULM_OK) {
        status = culm_path_format(path, error, "%s/%s", dir, piece.file);
    }
    if (status == CULM_OK) {
        status = culm_dir_make(fs, dir, error);
    }
    if (status == CULM_OK) {
        status =
            culm_safetensors_write(fs, path, tensors, count, metadata,
                                   sizeof metadata / sizeof metadata[0], hook, &written, error);
    }
    if (status != CULM_OK) {
        culm_error_prefix(error, "checkpoint of step %" PRId64, step);
        return status;
    }
    piece.bytes = written.bytes;
    memcpy(piece.sha256, written.sha256, sizeof piece.sha256);
    *ret_piece = piece;
    return CULM_OK;
}

/* Removes what is in DIR beside the final names of these pieces. */
static enum culm_status remove_others(struct culm_fs *fs, const char *dir,
                                      const struct culm_piece *pieces, size_t count,
                                      struct culm_error *error) {
    struct culm_names names = {0};
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_dir_list(dir, &names, error);
    for (size_t i = 0; status == CULM_OK && i < names.count; i++) {
        bool wanted = false;
        for (size_t p = 0; p < count; p++) {
            wanted = wanted || strcmp(names.name[i], pieces[p].file) == 0;
        }
        if (!wanted) {
            CULM_MARK(store_piece_of_nobody_goes);
            status = culm_path_format(path, error, "%s/%s", dir, names.name[i]);
            if (status == CULM_OK) {
                status = culm_tree_remove(fs, path, error);
            }
        }
    }
    culm_names_release(&names);
    return status;
}

/* Turns the temporary directory into what is to be published, all of it synced: writing the
 * manifest, which comes last, syncs the directory. */
static enum culm_status assemble(struct culm_fs *fs, const char *dir,
                                 const struct culm_checkpoint_info *info,
                                 const struct culm_piece *pieces, size_t count,
                                 struct culm_piece *final, struct culm_error *error) {
    enum culm_status status;
    char from[CULM_PATH_MAX], to[CULM_PATH_MAX];
    struct culm_checkpoint *check = NULL;
    for (size_t i = 0; i < count; i++) {
        char kind[CULM_OWNER_SIZE];
        int32_t number;
        if (!culm_owner_split(pieces[i].owner, kind, &number)) {
            return not_an_owner(pieces[i].owner, error);
        }
        /* Writers say where their piece is: no other file must be moved. */
        name_piece(pieces[i].owner, pieces[i].node, final[i].file, sizeof final[i].file);
        if (strcmp(pieces[i].file, final[i].file) != 0) {
            return culm_error_set(error, CULM_ERR_ARGUMENT,
                                  "checkpoint: '%.63s' is not the piece of '%s' by node %" PRId32,
                                  pieces[i].file, pieces[i].owner, pieces[i].node);
        }
        final[i] = pieces[i];
        snprintf(final[i].file, sizeof final[i].file, "%s.safetensors", pieces[i].owner);
        for (size_t p = 0; p < i; p++) {
            if (strcmp(pieces[p].owner, pieces[i].owner) == 0) {
                return culm_error_set(error, CULM_ERR_ARGUMENT,
                                      "checkpoint of step %" PRId64 ": two pieces of '%s'",
                                      info->step, pieces[i].owner);
            }
        }
        status = culm_path_format(from, error, "%s/%s", dir, pieces[i].file);
        if (status == CULM_OK) {
            status = culm_path_format(to, error, "%s/%s", dir, final[i].file);
        }
        if (status == CULM_OK) {
            status = culm_file_sync(fs, from, error);
        }
        if (status == CULM_OK) {
            status = culm_file_rename(fs, from, to, error);
        }
        if (status != CULM_OK) {
            return status;
        }
    }
    status = remove_others(fs, dir, final, count, error);
    if (status == CULM_OK) {
        status = culm_manifest_write(fs, dir, info, final, count, error);
    }
    if (status == CULM_OK) {
        /* The reader is the judge of what may be published. */
        status = culm_checkpoint_open(dir, false, &check, error);
        culm_checkpoint_close(check);
    }
    return status;
}

/* PREFIXstep-N from `.tmp-step-N`. */
static enum culm_status publish_as(struct culm_fs *fs, const char *run_dir, const char *prefix,
                                   const struct culm_checkpoint_info *info,
                                   const struct culm_piece *pieces, size_t count,
                                   struct culm_error *error) {
    char temporary[CULM_PATH_MAX], published[CULM_PATH_MAX], old[CULM_PATH_MAX];
    if (count == 0) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "checkpoint of step %" PRId64 ": has no pieces", info->step);
    }
    struct culm_piece *final = calloc(count, sizeof *final);
    if (!final) {
        return culm_error_set(error, CULM_ERR_MEMORY, "checkpoint: out of memory");
    }
    enum culm_status status =
        culm_checkpoint_name(run_dir, CULM_CHECKPOINT_TMP, info->step, temporary, error);
    if (status == CULM_OK) {
        status = culm_checkpoint_name(run_dir, CULM_CHECKPOINT_OLD, info->step, old, error);
    }
    if (status == CULM_OK) {
        status = culm_checkpoint_name(run_dir, prefix, info->step, published, error);
    }
    if (status == CULM_OK) {
        status = assemble(fs, temporary, info, pieces, count, final, error);
    }
    bool set_aside = false;
    if (status == CULM_OK &&
        culm_file_exists(published)) { /* a link to a folder that is gone, too */
        status = culm_tree_remove(fs, old, error);
        if (status == CULM_OK) {
            CULM_MARK(store_replaced_one_is_set_aside);
            status = culm_file_rename(fs, published, old, error);
            set_aside = true;
        }
    }
    if (status == CULM_OK) {
        status = culm_file_rename(fs, temporary, published, error);
    }
    if (status == CULM_OK && set_aside) {
        /* It is published; what cannot be removed now goes with the next prune. */
        culm_tree_remove(fs, old, NULL);
    }
    free(final);
    return status;
}

enum culm_status culm_checkpoint_publish(struct culm_fs *fs, const char *run_dir,
                                         const struct culm_checkpoint_info *info,
                                         const struct culm_piece *pieces, size_t count,
                                         struct culm_error *error) {
    return publish_as(fs, run_dir, "", info, pieces, count, error);
}

enum culm_status culm_checkpoint_publish_weights(struct culm_fs *fs, const char *run_dir,
                                                 const struct culm_checkpoint_info *info,
                                                 const struct culm_piece *pieces, size_t count,
                                                 struct culm_error *error) {
    return publish_as(fs, run_dir, CULM_CHECKPOINT_WEIGHTS, info, pieces, count, error);
}

enum culm_status culm_checkpoint_discard(struct culm_fs *fs, const char *run_dir, int64_t step,
                                         struct culm_error *error) {
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_checkpoint_name(run_dir, CULM_CHECKPOINT_TMP, step, path, error);
    return status == CULM_OK ? culm_tree_remove(fs, path, error) : status;
}

enum culm_status culm_checkpoint_remove(struct culm_fs *fs, const char *run_dir, int64_t step,
                                        struct culm_error *error) {
    char path[CULM_PATH_MAX], trash[CULM_PATH_MAX];
    enum culm_status status = culm_checkpoint_path(run_dir, step, path, error);
    if (status == CULM_OK) {
        status = culm_checkpoint_name(run_dir, CULM_CHECKPOINT_TRASH, step, trash, error);
    }
    if (status == CULM_OK) {
        status = culm_tree_remove(fs, trash, error);
    }
    if (status == CULM_OK) {
        status = culm_file_rename(fs, path, trash, error);
    }
    return status == CULM_OK ? culm_tree_remove(fs, trash, error) : status;
}

/* Finishes a publication over an older directory that a crash interrupted. */
static enum culm_status settle_old(struct culm_fs *fs, const char *run_dir, int64_t step,
                                   struct culm_error *error) {
    char path[CULM_PATH_MAX], old[CULM_PATH_MAX];
    enum culm_status status = culm_checkpoint_path(run_dir, step, path, error);
    if (status == CULM_OK) {
        status = culm_checkpoint_name(run_dir, CULM_CHECKPOINT_OLD, step, old, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    if (culm_checkpoint_check(path, step, false, NULL) == CULM_OK ||
        culm_checkpoint_check(old, step, false, NULL) != CULM_OK) {
        CULM_MARK(store_set_aside_goes);
        return culm_tree_remove(fs, old, error);
    }
    CULM_MARK(store_set_aside_comes_back);
    if (culm_file_is_directory(path)) {
        CULM_MARK(store_broken_one_makes_way_for_one_set_aside);
        status = culm_checkpoint_remove(fs, run_dir, step, error);
    }
    return status == CULM_OK ? culm_file_rename(fs, old, path, error) : status;
}

/* Removes trash, temporaries up to `through` and weights alone up to the step `whole`, and settles
 * what was set aside. */
static enum culm_status sweep(struct culm_fs *fs, const char *dir, const char *run_dir,
                              const struct culm_names *names, int64_t through, int64_t whole,
                              struct culm_error *error) {
    char path[CULM_PATH_MAX];
    int64_t step;
    for (size_t i = 0; i < names->count; i++) {
        const char *name = names->name[i];
        enum culm_status status = CULM_OK;
        if (culm_checkpoint_name_is(name, CULM_CHECKPOINT_OLD, &step)) {
            status = settle_old(fs, run_dir, step, error);
        } else if (culm_checkpoint_name_is(name, CULM_CHECKPOINT_TRASH, &step) ||
                   (culm_checkpoint_name_is(name, CULM_CHECKPOINT_WEIGHTS, &step) &&
                    step <= whole) ||
                   (culm_checkpoint_name_is(name, CULM_CHECKPOINT_TMP, &step) && step <= through)) {
            CULM_MARK(store_left_over_goes);
            status = culm_path_format(path, error, "%s/%s", dir, name);
            if (status == CULM_OK) {
                status = culm_tree_remove(fs, path, error);
            }
        }
        if (status != CULM_OK) {
            return status;
        }
    }
    return CULM_OK;
}

static enum culm_status clean_through(struct culm_fs *fs, const char *run_dir, int64_t through,
                                      struct culm_error *error) {
    char dir[CULM_PATH_MAX];
    struct culm_names names = {0};
    enum culm_status status = culm_path_format(dir, error, "%s/checkpoints", run_dir);
    if (status != CULM_OK || !culm_file_is_directory(dir)) {
        return status;
    }
    status = culm_dir_list(dir, &names, error);
    if (status == CULM_OK) {
        status = sweep(fs, dir, run_dir, &names, through, -1, error);
    }
    culm_names_release(&names);
    return status;
}

enum culm_status culm_checkpoint_clean(struct culm_fs *fs, const char *run_dir,
                                       struct culm_error *error) {
    return clean_through(fs, run_dir, INT64_MAX, error);
}

enum culm_status culm_checkpoint_clean_before(struct culm_fs *fs, const char *run_dir, int64_t step,
                                              struct culm_error *error) {
    return clean_through(fs, run_dir, step - 1, error);
}

enum culm_status culm_checkpoint_prune(struct culm_fs *fs, const char *run_dir, int64_t step,
                                       int64_t keep, struct culm_error *error) {
    char dir[CULM_PATH_MAX], path[CULM_PATH_MAX];
    struct culm_names names = {0};
    if (keep < 1) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "keep %" PRId64 " checkpoints; 1 or more",
                              keep);
    }
    enum culm_status status = culm_checkpoint_path(run_dir, step, path, error);
    if (status == CULM_OK) {
        /* Nothing goes before the one that replaces it is seen to be there. */
        status = culm_checkpoint_check(path, step, false, error);
    }
    if (status == CULM_OK) {
        status = culm_path_format(dir, error, "%s/checkpoints", run_dir);
    }
    if (status == CULM_OK) {
        status = culm_dir_list(dir, &names, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    status = sweep(fs, dir, run_dir, &names, step, step, error);
    int64_t kept = 0, found;
    /* Sorted names are sorted steps up to 8 digits; longer ones sort wrongly, so look for the next
     * lower one each time. */
    for (int64_t below = INT64_MAX; status == CULM_OK;) {
        int64_t next = -1;
        for (size_t i = 0; i < names.count; i++) {
            if (culm_checkpoint_name_is(names.name[i], "", &found) && found < below &&
                found > next) {
                next = found;
            }
        }
        if (next < 0) {
            break;
        }
        below = next;
        status = culm_checkpoint_path(run_dir, next, path, error);
        if (status != CULM_OK) {
            break;
        }
        bool whole = culm_checkpoint_check(path, next, false, NULL) == CULM_OK;
        if (next <= step && kept < keep) {
            if (!whole) {
                CULM_MARK(store_broken_one_stays);
            }
            kept += whole; /* a broken one among those kept stays, to be looked at */
        } else {
            if (next > step) {
                CULM_MARK(store_one_of_an_undone_history_goes);
            }
            status = culm_checkpoint_remove(fs, run_dir, next, error);
        }
    }
    culm_names_release(&names);
    return status;
}
