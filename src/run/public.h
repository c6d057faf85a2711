/*
 * What the functions of culm.h share: structures whose size the caller tells.
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
/* The other way: *ret_to is what the caller's has, and zero where that is shorter. CULM_ERR_ARGUMENT
 * also when the caller's is longer and not zero there: it asks for what this version does not know. */
enum culm_status culm_public_take(void *ret_to, size_t size, const void *from, const char *name,
                                  struct culm_error *error);

/* A number of threads as devices take it: 0 is 1; what is too large is theirs to refuse. */
int culm_public_threads(int64_t threads);

#endif
