/* See cluster_texts.h. */
#include "run/cluster_texts.h"

#include "run/archive.h"
#include "store/archive.h"

#include <stdlib.h>
#include <string.h>

#define TEXTS 2
#define FIRST_MS 6000 /* who reads at its start is told soon that nobody answers */

static const char *const names[TEXTS] = {"config", "plan"};
static const char *const words[TEXTS] = {"configuration", "plan"}; /* in messages */

static struct culm_cluster_text *text_of(struct culm_cluster_run *run, int which) {
    return which == 0 ? &run->config : &run->plan;
}

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

/* --- putting --- */

static bool copy(const char *text, char **ret_copy) {
    *ret_copy = text ? strdup(text) : NULL;
    return *ret_copy || !text;
}

/* The larger one of those that the store would have; NULL: they fit. */
static struct culm_cluster_text *too_large(struct culm_cluster_run *run) {
    struct culm_cluster_text *largest = NULL;
    size_t sum = 0;
    for (int i = 0; i < TEXTS; i++) {
        struct culm_cluster_text *text = text_of(run, i);
        sum += text->sha256[0] ? 0 : strlen(text->text);
        if (!text->sha256[0] && (!largest || strlen(text->text) > strlen(largest->text))) {
            largest = text;
        }
    }
    return sum > CULM_CLUSTER_TEXTS_MAX ? largest : NULL;
}

enum culm_status culm_cluster_texts_put(struct culm_storage *storage,
                                        const struct culm_checkpoint_config *place,
                                        struct culm_cluster_run *run, struct culm_error *error) {
    struct culm_cluster_text *text;
    char sha256[CULM_SHA256_HEX];
    while ((text = too_large(run))) {
        const size_t len = strlen(text->text);
        const enum culm_status status =
            culm_archive_text_put(storage, text->text, len, sha256, error);
        if (status != CULM_OK) {
            return culm_error_prefix(error, "the run's %s", words[text == text_of(run, 0) ? 0 : 1]);
        }
        memcpy(text->sha256, sha256, sizeof sha256);
        text->bytes = len;
        if (!run->to && (!copy(place->to, &run->to) || !copy(place->endpoint, &run->endpoint) ||
                         !copy(place->region, &run->region))) {
            return no_memory(error);
        }
    }
    return CULM_OK;
}

/* --- getting --- */

enum culm_status culm_cluster_texts_get(struct culm_cluster_run *run, struct culm_error *error) {
    struct culm_storage *storage = NULL;
    enum culm_status status = CULM_OK;
    for (int i = 0; i < TEXTS && status == CULM_OK; i++) {
        struct culm_cluster_text *text = text_of(run, i);
        if (text->text) {
            continue;
        }
        if (!storage) {
            status = culm_archive_open(run->to, run->endpoint, run->region, &storage, error);
        }
        if (status == CULM_OK) {
            storage->patience_ms = FIRST_MS;
            status = culm_archive_text_get(storage, text->sha256, text->bytes, &text->text, error);
        }
        if (status != CULM_OK) {
            culm_error_prefix(error, "the run's %s", words[i]);
        }
    }
    culm_storage_free(storage);
    return status;
}

/* --- what the store has of it --- */

static bool set_text(json_t *object, const char *key, const char *text) {
    return !text || json_object_set_new(object, key, json_string(text)) == 0;
}

bool culm_cluster_texts_write(const struct culm_cluster_run *run, json_t *about) {
    if (!run->to) {
        return true;
    }
    json_t *apart = json_object();
    bool good = apart && set_text(apart, "to", run->to) &&
                set_text(apart, "endpoint", run->endpoint) &&
                set_text(apart, "region", run->region);
    const struct culm_cluster_text *const text[TEXTS] = {&run->config, &run->plan};
    for (int i = 0; i < TEXTS && good; i++) {
        good = !text[i]->sha256[0] ||
               json_object_set_new(apart, names[i],
                                   json_pack("{s:I, s:s}", "bytes", (json_int_t)text[i]->bytes,
                                             "sha256", text[i]->sha256)) == 0;
    }
    if (!good) {
        json_decref(apart);
        return false;
    }
    return json_object_set_new(about, "apart", apart) == 0;
}

static bool read_text(const json_t *apart, const char *key, struct culm_cluster_text *ret_text) {
    const json_t *json = json_object_get(apart, key);
    const char *sha256 = json_string_value(json_object_get(json, "sha256"));
    const json_int_t bytes = json_integer_value(json_object_get(json, "bytes"));
    if (!json) {
        return true;
    }
    if (!sha256 || strlen(sha256) != CULM_SHA256_HEX - 1 ||
        strspn(sha256, "0123456789abcdef") != CULM_SHA256_HEX - 1 || bytes < 0 ||
        (uint64_t)bytes > CULM_ARCHIVE_TEXT_MAX) {
        return false;
    }
    memcpy(ret_text->sha256, sha256, CULM_SHA256_HEX);
    ret_text->bytes = (uint64_t)bytes;
    return true;
}

enum culm_status culm_cluster_texts_read(const json_t *about, struct culm_cluster_run *run,
                                         struct culm_error *error) {
    const json_t *apart = json_object_get(about, "apart");
    if (!apart) {
        return CULM_OK;
    }
    const char *to = json_string_value(json_object_get(apart, "to"));
    for (int i = 0; i < TEXTS; i++) {
        if (!to || !read_text(apart, names[i], text_of(run, i))) {
            return culm_error_set(error, CULM_ERR_FORMAT,
                                  "what the store has of the run does not say where its %s lies",
                                  words[i]);
        }
    }
    return copy(to, &run->to) &&
                   copy(json_string_value(json_object_get(apart, "endpoint")), &run->endpoint) &&
                   copy(json_string_value(json_object_get(apart, "region")), &run->region)
               ? CULM_OK
               : no_memory(error);
}
