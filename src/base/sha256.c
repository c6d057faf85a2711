/* SHA-256 through libcrypto's EVP interface, which picks the CPU's own instructions. */
#include "base/sha256.h"

#include "base/hex.h"

#include <openssl/evp.h>

enum culm_status culm_sha256_init(struct culm_sha256 *hash) {
    *hash = (struct culm_sha256){.context = EVP_MD_CTX_new()};
    if (!hash->context) {
        return CULM_ERR_MEMORY;
    }
    if (EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL) != 1) {
        culm_sha256_release(hash);
        return CULM_ERR_MACHINE; /* a libcrypto configured without SHA-256 */
    }
    return CULM_OK;
}

void culm_sha256_update(struct culm_sha256 *hash, const void *data, size_t len) {
    if (len && EVP_DigestUpdate(hash->context, data, len) != 1) {
        hash->failed = true;
    }
}

enum culm_status culm_sha256_final(struct culm_sha256 *hash, char ret_hex[CULM_SHA256_HEX]) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int len = 0;
    bool ok = !hash->failed && EVP_DigestFinal_ex(hash->context, digest, &len) == 1 && len == 32;
    culm_sha256_release(hash);
    if (!ok) {
        return CULM_ERR_INTERNAL;
    }
    culm_hex(digest, len, ret_hex);
    return CULM_OK;
}

void culm_sha256_release(struct culm_sha256 *hash) {
    EVP_MD_CTX_free(hash->context);
    hash->context = NULL;
}

enum culm_status culm_sha256_of(const void *data, size_t len, char ret_hex[CULM_SHA256_HEX]) {
    struct culm_sha256 hash;
    enum culm_status status = culm_sha256_init(&hash);
    if (status != CULM_OK) {
        return status;
    }
    culm_sha256_update(&hash, data, len);
    return culm_sha256_final(&hash, ret_hex);
}
