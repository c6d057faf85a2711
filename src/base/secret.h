/*
 * What keeping and proving a secret needs: HMAC-SHA256 (RFC 2104), a comparison whose time tells
 * nothing, and random bytes of the system. Over libcrypto. Thread: any.
 */
#ifndef CULM_BASE_SECRET_H
#define CULM_BASE_SECRET_H

#include "base/status.h"

#define CULM_MAC_BYTES 32

/* CULM_ERR_UNSUPPORTED: libcrypto has no SHA-256, or is out of memory. */
enum culm_status culm_secret_mac(const void *key, size_t key_len, const void *data, size_t len,
                                 uint8_t ret_mac[CULM_MAC_BYTES]);
/* Takes the same time wherever they differ. */
bool culm_secret_equal(const uint8_t a[CULM_MAC_BYTES], const uint8_t b[CULM_MAC_BYTES]);
/* At most 256 bytes. */
enum culm_status culm_secret_random(void *ret_bytes, size_t len, struct culm_error *error);

#endif
