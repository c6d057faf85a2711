/* A whole configuration, as every job needs it: from a file, as text, and on --resume. See config.h. */
#include "base/config.h"
#include "base/file.h"

#include <stdlib.h>

#define REFERENCE_MAX ((size_t)1 << 20)

enum culm_status culm_config_load(const struct culm_config_table *table, const char *path,
                                  const char *const *sets, size_t set_count, void *ret_object,
                                  struct culm_error *error) {
    char *text;
    size_t len;
    enum culm_status status = culm_file_read(NULL, path, CULM_YAML_MAX_BYTES, &text, &len, error);
    if (status == CULM_OK) {
        status = culm_config_parse(table, text, len, path, sets, set_count, ret_object, error);
        free(text);
    }
    return status;
}

char *culm_config_dump_text(const struct culm_config_table *table, const void *object) {
    struct culm_buf out;
    culm_buf_init(&out, 4 * CULM_YAML_MAX_BYTES);
    culm_config_dump(table, object, &out);
    return culm_buf_take_text(&out);
}

char *culm_config_document_text(const struct culm_config_table *table, bool markdown) {
    struct culm_buf out;
    culm_buf_init(&out, REFERENCE_MAX);
    culm_config_document(table, markdown, &out);
    return culm_buf_take_text(&out);
}

char *culm_config_resumable_text(const struct culm_config_table *table) {
    struct culm_buf out;
    culm_buf_init(&out, REFERENCE_MAX);
    culm_config_list_flagged(table, CULM_CONFIG_RESUMABLE, &out);
    return culm_buf_take_text(&out);
}

enum culm_status culm_config_resumable(const struct culm_config_table *table, const void *before,
                                       const void *now, struct culm_error *error) {
    struct culm_config_difference difference;
    if (!culm_config_differ(table, before, now, CULM_CONFIG_RESUMABLE, &difference)) {
        return CULM_OK;
    }
    char *keys = culm_config_resumable_text(table);
    culm_error_set(
        error, CULM_ERR_CONFIG,
        "%s: the run has %s, this configuration %s; --resume may change only %s settings",
        difference.key, difference.a, difference.b, keys ? keys : "some");
    free(keys);
    return CULM_ERR_CONFIG;
}
