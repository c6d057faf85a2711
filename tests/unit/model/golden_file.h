/* Golden vectors in memory, so that tests can look at them where they are. */
#ifndef CULM_TESTS_UNIT_MODEL_GOLDEN_FILE_H
#define CULM_TESTS_UNIT_MODEL_GOLDEN_FILE_H

#include "base/file.h"
#include "store/safetensors.h"

/* *ret_bytes is the caller's to free, after the file was closed. */
static inline enum culm_status golden_open(const char *path, struct culm_safetensors **ret_file,
                                           char **ret_bytes, struct culm_error *error) {
    size_t len;
    enum culm_status status = culm_file_read(NULL, path, (size_t)1 << 30, ret_bytes, &len, error);
    return status == CULM_OK ? culm_safetensors_parse(*ret_bytes, len, path, ret_file, error)
                             : status;
}

#endif
