/*
 * A 64-bit checksum, to notice damage to bytes; no protection against who means harm.
 *
 * A change within one word of eight bytes (counted from the start) always changes it, so a flipped
 * bit never passes; any other change does with a chance of 2^-64. It reads about as fast as memory
 * gives. The same bytes give the same value however they are cut; the value is that of machines
 * whose bytes lie little end first. Thread: none of its own.
 */
#ifndef CULM_BASE_CHECKSUM_H
#define CULM_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#define CULM_CHECKSUM_BLOCK 32

struct culm_checksum {
    uint64_t lane[4];
    uint64_t bytes;
    uint8_t tail[CULM_CHECKSUM_BLOCK]; /* the first bytes % 32 of these wait for more */
};

void culm_checksum_init(struct culm_checksum *sum);
void culm_checksum_add(struct culm_checksum *sum, const void *data, size_t len);
uint64_t culm_checksum_value(const struct culm_checksum *sum); /* of all so far */
/* Of these bytes alone. */
uint64_t culm_checksum_of(const void *data, size_t len);

#endif
