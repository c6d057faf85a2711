/* DIR/search. See merge_kept.h. */
#include "run/merge_kept.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/sha256.h"

#include <stdlib.h>
#include <string.h>

#define KEPT_MAX ((size_t)1 << 40)

static enum culm_status path_of(const char *dir, char ret_path[CULM_PATH_MAX],
                                struct culm_error *error) {
    return culm_path_format(ret_path, error, "%s/search", dir);
}

/* The digest over the models and the data. */
static enum culm_status digest_of(const struct culm_merge_inputs *in, const void *data, size_t len,
                                  char ret_hex[CULM_SHA256_HEX], struct culm_error *error) {
    struct culm_sha256 hash;
    enum culm_status status = culm_sha256_init(&hash);
    for (int32_t k = 0; k < in->models && status == CULM_OK; k++) {
        culm_sha256_update(&hash, in->identity[k], CULM_SHA256_HEX);
        culm_sha256_update(&hash, in->structure[k], sizeof in->structure[k]);
    }
    if (status == CULM_OK) {
        culm_sha256_update(&hash, data, len);
        status = culm_sha256_final(&hash, ret_hex);
    }
    return status == CULM_OK ? status : culm_error_set(error, status, "SHA-256 failed");
}

enum culm_status culm_merge_kept_write(const char *dir, const struct culm_merge_inputs *in,
                                       const void *data, size_t len, struct culm_error *error) {
    char path[CULM_PATH_MAX], digest[CULM_SHA256_HEX];
    struct culm_buf file;
    enum culm_status status = path_of(dir, path, error);
    if (status == CULM_OK) {
        status = digest_of(in, data, len, digest, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    culm_buf_init(&file, KEPT_MAX);
    culm_buf_bytes(&file, digest, CULM_SHA256_HEX);
    culm_buf_bytes(&file, data, len);
    status = file.failed ? culm_error_set(error, CULM_ERR_MEMORY, "merging: out of memory")
                         : culm_file_replace(NULL, path, file.data, file.len, error);
    culm_buf_release(&file);
    return status;
}

enum culm_status culm_merge_kept_read(const char *dir, const struct culm_merge_inputs *in,
                                      void **ret_data, size_t *ret_len, struct culm_error *error) {
    char path[CULM_PATH_MAX], digest[CULM_SHA256_HEX], *text = NULL;
    size_t len = 0;
    enum culm_status status = path_of(dir, path, error);
    if (status == CULM_OK) {
        status = culm_file_read(NULL, path, KEPT_MAX, &text, &len, error);
    }
    if (status != CULM_OK || len <= CULM_SHA256_HEX) {
        free(text);
        return status == CULM_ERR_NOT_FOUND ? CULM_OK : status;
    }
    len -= CULM_SHA256_HEX;
    status = digest_of(in, text + CULM_SHA256_HEX, len, digest, error);
    if (status != CULM_OK || memcmp(text, digest, CULM_SHA256_HEX) != 0) {
        free(text);
        return status;
    }
    memmove(text, text + CULM_SHA256_HEX, len);
    *ret_data = text;
    *ret_len = len;
    return CULM_OK;
}

enum culm_status culm_merge_kept_forget(const char *dir, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    enum culm_status status = path_of(dir, path, error);
    if (status == CULM_OK) {
        status = culm_file_remove(NULL, path, error);
    }
    return status == CULM_ERR_NOT_FOUND ? CULM_OK : status;
}
