/*
 * A set of byte strings, numbered from 0 in the order in which they came.
 *
 * Open addressing over one array of numbers, the bytes one after the other in one block: a
 * vocabulary of 50,000 tokens takes about a megabyte. Values belong to the caller, in arrays
 * indexed by the number. Strings may hold any bytes, NUL too; at most CULM_STRINGS_MAX of them.
 * Thread: one that adds; any number that look up once nobody adds any more.
 */
#ifndef CULM_DATA_STRING_SET_H
#define CULM_DATA_STRING_SET_H

#include "base/status.h"

#define CULM_STRINGS_MAX (1 << 28)

struct culm_strings {
    int32_t *slot; /* number + 1; 0: free */
    size_t slot_count;
    uint64_t *end; /* of string i in `bytes`; it begins at the end of the one before */
    size_t end_capacity;
    char *bytes;
    size_t bytes_capacity;
    int32_t count;
};

void culm_strings_release(struct culm_strings *strings); /* fine on a zeroed struct */
/* Its number, old or new; -1: out of memory, nothing changed. A zeroed struct is an empty set. */
int32_t culm_strings_add(struct culm_strings *strings, const void *data, size_t len);
int32_t culm_strings_find(const struct culm_strings *strings, const void *data, size_t len);
/* The bytes of string `number`, in place until the next is added. */
const char *culm_strings_get(const struct culm_strings *strings, int32_t number, size_t *ret_len);

/* Of the bytes; the same on every machine. */
uint64_t culm_strings_hash(const void *data, size_t len);

#endif
