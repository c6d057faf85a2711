/*
 * What the functions of <culm.h> share: structures whose size the caller tells.
 *
 * A member that a later version adds must lie behind the size that the structure has today, since
 * the size is all that tells versions apart. So no such structure may end in padding, where a small
 * member would fit unnoticed; tests/embed/versions looks, and builds a later library to prove it.
 */
#ifndef CULM_RUN_PUBLIC_H
#define CULM_RUN_PUBLIC_H

#include "base/status.h"

/* Copies a structure that begins with `size` to a caller's that may be of an older or a newer
 * version: as much as both have; what is behind stays, and so does the caller's size.
 * CULM_ERR_ARGUMENT: NULL, or a size that is not set. `name` is for the message. */
enum culm_status culm_public_fill(void *ret_to, const void *from, size_t size, const char *name,
                                  struct culm_error *error);
/* What culm_public_fill would say of the structure, which stays as it is: for a function that has much
 * to do before it fills it. */
enum culm_status culm_public_room(const void *ret_to, const char *name, struct culm_error *error);
/* The other way: *ret_to is what the caller's has, and zero where that is shorter. CULM_ERR_ARGUMENT
 * also when the caller's is longer and not zero there: it asks for what this version does not know. */
enum culm_status culm_public_take(void *ret_to, size_t size, const void *from, const char *name,
                                  struct culm_error *error);

/* A number that the caller gives must be 0 to `most`: CULM_ERR_ARGUMENT. `name` is for the message. */
enum culm_status culm_public_check(int64_t number, int64_t most, const char *name,
                                   struct culm_error *error);
#define CULM_PUBLIC_THREADS_MAX 256
#define CULM_PUBLIC_BATCH_MAX 1048576

/* How a run ended: its exit code, and the error that came with it, which has no text where there was
 * nothing to say. */
enum culm_status culm_public_ended(int code, const struct culm_error *own,
                                   struct culm_error *error);

/* What a function returns, into the error too: readers of files may have called it otherwise, as a file
 * that is missing is an error of the configuration that names it. */
enum culm_status culm_public_return(enum culm_status status, struct culm_error *error);

/* A directory that the caller names: CULM_ERR_ARGUMENT if it is NULL or "", which would be the root of
 * the file system with a name behind it. Of what may be a file too, NULL alone. */
enum culm_status culm_public_check_dir(const char *dir, const char *function,
                                       struct culm_error *error);
enum culm_status culm_public_check_path(const char *path, const char *function,
                                        struct culm_error *error);

#endif
