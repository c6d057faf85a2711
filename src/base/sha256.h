/*
 * SHA-256, a thin wrapper over libcrypto.
 *
 *     struct culm_sha256 hash;
 *     status = culm_sha256_init(&hash);
 *     culm_sha256_update(&hash, data, len);
 *     status = culm_sha256_final(&hash, hex);   (releases too)
 *
 * A failure inside the library is remembered and returned by final. Thread: none of its own.
 */
#ifndef CULM_BASE_SHA256_H
#define CULM_BASE_SHA256_H

#include "base/status.h"

#define CULM_SHA256_HEX 65 /* 64 lower-case hexadecimal digits and a NUL */

struct culm_sha256 {
    void *context; /* EVP_MD_CTX; NULL when released */
    bool failed;
};

enum culm_status culm_sha256_init(struct culm_sha256 *hash);
void culm_sha256_update(struct culm_sha256 *hash, const void *data, size_t len);
/* Writes the digest and releases `hash`. On failure ret_hex is untouched. */
enum culm_status culm_sha256_final(struct culm_sha256 *hash, char ret_hex[CULM_SHA256_HEX]);
/* For paths that never reach final; fine after it, and on a zeroed struct. */
void culm_sha256_release(struct culm_sha256 *hash);

/* All at once. */
enum culm_status culm_sha256_of(const void *data, size_t len, char ret_hex[CULM_SHA256_HEX]);

#endif
