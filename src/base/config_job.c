/* A whole configuration, as every job needs it: from a file, as text, and on --resume. See
 * config.h. */
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
    } else if (status == CULM_ERR_FORMAT) { /* it is larger */
        status = culm_error_set(error, CULM_ERR_FORMAT,
                                "'%s' is too large for a configuration, which is 'key: value' "
                                "lines of at most %u bytes",
                                path, CULM_YAML_MAX_BYTES);
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

static char *flagged_text(const struct culm_config_table *table, unsigned flags) {
    struct culm_buf out;
    culm_buf_init(&out, REFERENCE_MAX);
    culm_config_list_flagged(table, flags, &out);
    return culm_buf_take_text(&out);
}

char *culm_config_resumable_text(const struct culm_config_table *table) {
    return flagged_text(table, CULM_CONFIG_RESUMABLE);
}

char *culm_config_setting_text(const struct culm_config_table *table) {
    return flagged_text(table, CULM_CONFIG_SETTING);
}

struct refusal {
    struct culm_config_difference difference;
    unsigned flags; /* of the row */
    bool found;
};

static bool refuse(void *ctx, const struct culm_config_row *row,
                   const struct culm_config_difference *difference) {
    struct refusal *refusal = ctx;
    *refusal = (struct refusal){*difference, row->flags, true};
    return true;
}

enum culm_status culm_config_resumable(const struct culm_config_table *table, const void *before,
                                       const void *now, unsigned more_flags,
                                       struct culm_error *error) {
    struct refusal refusal = {0};
    const struct culm_config_difference *d = &refusal.difference;
    culm_config_differences(table, before, now, CULM_CONFIG_RESUMABLE | more_flags, refuse,
                            &refusal);
    if (!refusal.found) {
        return CULM_OK;
    }
    if (refusal.flags & CULM_CONFIG_INPUT) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "%s: the run has %s, this configuration %s; put it back, or take it up "
            "with --resume --accept-inputs",
            d->key, d->a, d->b);
    }
    char *keys = culm_config_resumable_text(table);
    culm_error_set(
        error, CULM_ERR_CONFIG,
        "%s: the run has %s, this configuration %s; --resume may change only %s settings", d->key,
        d->a, d->b, keys ? keys : "some");
    free(keys);
    return CULM_ERR_CONFIG;
}
