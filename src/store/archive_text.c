/* Texts of a run, by what they have. See archive.h. */
#include "store/archive_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void name_of(const char *sha256, char ret_name[CULM_STORAGE_NAME_MAX]) {
    snprintf(ret_name, CULM_STORAGE_NAME_MAX, "texts/%.*s", CULM_SHA256_HEX - 1, sha256);
}

static enum culm_status hash(const char *text, size_t len, char ret_sha256[CULM_SHA256_HEX],
                             struct culm_error *error) {
    const enum culm_status status = culm_sha256_of(text, len, ret_sha256);
    return status ? culm_error_set(error, status, "libcrypto has no SHA-256") : CULM_OK;
}

enum culm_status culm_archive_text_put(struct culm_storage *storage, const char *text, size_t len,
                                       char ret_sha256[CULM_SHA256_HEX], struct culm_error *error) {
    char name[CULM_STORAGE_NAME_MAX];
    if (len > CULM_ARCHIVE_TEXT_MAX) {
        return culm_error_set(error, CULM_ERR_CONFIG, "it has %zu bytes, and %zu are allowed", len,
                              CULM_ARCHIVE_TEXT_MAX);
    }
    const enum culm_status status = hash(text, len, ret_sha256, error);
    name_of(ret_sha256, name);
    return status ? status : storage->ops->put(storage, name, text, len, false, error);
}

static enum culm_status damaged(const struct culm_storage *storage, const char *name,
                                const char *how, struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_FORMAT, "'%s/%s' is damaged: %s", storage->place, name,
                          how);
}

enum culm_status culm_archive_text_get(struct culm_storage *storage, const char *sha256, size_t len,
                                       char **ret_text, struct culm_error *error) {
    char name[CULM_STORAGE_NAME_MAX], own[CULM_SHA256_HEX];
    char *text = NULL;
    size_t got;
    struct culm_error problem;
    name_of(sha256, name);
    enum culm_status status = storage->ops->get(storage, name, len, &text, &got, &problem);
    if (status == CULM_ERR_NOT_FOUND) {
        return culm_error_set(error, CULM_ERR_FORMAT, "'%s/%s' is gone", storage->place, name);
    }
    if (status == CULM_ERR_FORMAT) {
        return damaged(storage, name, "it is too long", error);
    }
    if (status != CULM_OK) {
        return culm_error_set(error, status, "%s", problem.text);
    }
    status = hash(text, got, own, error);
    if (status == CULM_OK && got != len) {
        status = damaged(storage, name, "it was cut short", error);
    } else if (status == CULM_OK && strcmp(own, sha256) != 0) {
        status = damaged(storage, name, "it has other bytes than its name says", error);
    }
    if (status != CULM_OK) {
        free(text);
        return status;
    }
    *ret_text = text;
    return CULM_OK;
}
