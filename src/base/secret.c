/* Thin layer over libcrypto and getrandom. */
#include "base/secret.h"

#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

enum culm_status culm_secret_mac(const void *key, size_t key_len, const void *data, size_t len,
                                 uint8_t ret_mac[CULM_MAC_BYTES]) {
    uint8_t mac[EVP_MAX_MD_SIZE];
    unsigned mac_len = 0;
    if (!HMAC(EVP_sha256(), key, (int)key_len, data, len, mac, &mac_len) ||
        mac_len != CULM_MAC_BYTES) {
        return CULM_ERR_UNSUPPORTED;
    }
    for (size_t i = 0; i < CULM_MAC_BYTES; i++) {
        ret_mac[i] = mac[i];
    }
    return CULM_OK;
}

bool culm_secret_equal(const uint8_t a[CULM_MAC_BYTES], const uint8_t b[CULM_MAC_BYTES]) {
    return CRYPTO_memcmp(a, b, CULM_MAC_BYTES) == 0;
}

enum culm_status culm_secret_random(void *ret_bytes, size_t len, struct culm_error *error) {
    assert(len <= 256); /* so many come at once, or none */
    ssize_t got;
    do {
        got = getrandom(ret_bytes, len, 0);
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)len ? CULM_OK : culm_error_errno(error, errno, "draw random numbers");
}
