/*
 * Room on disks: how much there is, how much is needed, and the line that says so.
 *
 * What is said here is a promise: whoever frees as much as a line says has room. What a file system
 * keeps from one user (quotas) is not seen; a write that fails says so. Thread: any.
 */
#ifndef CULM_BASE_ROOM_H
#define CULM_BASE_ROOM_H

#include "base/status.h"

#define CULM_ROOM_TEXT 24
#define CULM_ROOM_AGAIN_MS 2000 /* what found no room is tried again so often */

/* What of a version that could not be saved there is room for. */
enum culm_room_for { CULM_ROOM_NOTHING, CULM_ROOM_WEIGHTS, CULM_ROOM_ALL };

/* Whether what is wrong with a save may be put right while whoever saves waits. */
static inline bool culm_room_may_pass(enum culm_status status) {
    return status == CULM_ERR_IO || status == CULM_ERR_NOT_FOUND || status == CULM_ERR_AGAIN ||
           status == CULM_ERR_EXISTS || status == CULM_ERR_MEMORY;
}

/* Bytes that this process may still write where `path` is; where it is not yet, in the nearest
 * folder above it that is there. CULM_ERR_IO. */
enum culm_status culm_room_free(const char *path, uint64_t *ret_bytes, struct culm_error *error);
/* What a file of so many bytes takes, with its name: whole blocks. */
uint64_t culm_room_of_file(uint64_t bytes);
/* "21.6 MB" or "12 kB", rounded up: of what is needed. */
void culm_room_text(uint64_t bytes, char ret_text[CULM_ROOM_TEXT]);
/* The same, rounded down: of what there is. */
void culm_room_text_of_free(uint64_t bytes, char ret_text[CULM_ROOM_TEXT]);
/* CULM_ERR_IO unless `bytes` fit where `path` is: "WHAT takes 21.6 MB and 14.0 MB are free where
 * 'PATH' is; free 7.6 MB there". A room that cannot be looked at is room enough. */
enum culm_status culm_room_check(const char *path, uint64_t bytes, const char *what,
                                 struct culm_error *error);

#endif
