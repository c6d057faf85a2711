/* The brief as JSON; see the header. */
#include "train/brief.h"

#include <stdlib.h>
#include <string.h>

bool culm_brief_write(const char *config_text, const struct culm_choices *choices,
                      const struct culm_inputs *inputs, const struct culm_lineage *lineage,
                      struct culm_buf *out) {
    json_t *changes = NULL;
    if (lineage && culm_lineage_json(lineage, &changes, NULL) != CULM_OK) {
        return false;
    }
    json_t *root = json_pack("{s:s, s:o, s:o}", "config", config_text, "choices",
                             culm_choices_json(choices), "inputs", culm_inputs_json(inputs));
    json_object_del(json_object_get(root, "inputs"), "classes"); /* workers know numbers alone */
    bool whole = root && (!changes || !json_object_set(root, "lineage", changes));
    json_decref(changes);
    char *text = whole ? json_dumps(root, JSON_COMPACT) : NULL;
    if (text) {
        culm_buf_bytes(out, text, strlen(text));
    }
    bool good = text && !out->failed;
    free(text);
    json_decref(root);
    return good;
}

static enum culm_status read_lineage(const json_t *root, struct culm_train_spans *ret_spans,
                                     struct culm_error *error) {
    struct culm_lineage lineage = {0};
    enum culm_status status = culm_lineage_read(json_object_get(root, "lineage"), &lineage, error);
    if (status == CULM_OK) {
        status = culm_train_spans_read(&lineage, ret_spans, error);
        culm_lineage_release(&lineage);
    }
    return status;
}

enum culm_status culm_brief_read(const void *data, size_t len, struct culm_brief *ret_brief,
                                 struct culm_error *error) {
    struct culm_brief brief = {0};
    json_error_t reason;
    json_t *root = json_loadb(data ? data : "", len, JSON_REJECT_DUPLICATES, &reason);
    const char *config = json_string_value(json_object_get(root, "config"));
    enum culm_status status = CULM_OK;
    if (!config) {
        status = culm_error_set(error, CULM_ERR_FORMAT,
                                "cannot read what the leader said about the run");
    } else if (!(brief.config_text = strdup(config))) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    if (status == CULM_OK) {
        status = culm_choices_read(root, &brief.choices, error);
    }
    if (status == CULM_OK) {
        status = culm_inputs_read(json_object_get(root, "inputs"), &brief.inputs, error);
    }
    if (status == CULM_OK) {
        status = culm_train_config_parse(config, strlen(config), "configuration of the run", NULL,
                                         0, &brief.config, error);
    }
    if (status == CULM_OK) {
        status = read_lineage(root, &brief.spans, error);
        if (status != CULM_OK) {
            culm_train_config_release(&brief.config);
        }
    }
    json_decref(root);
    if (status != CULM_OK) {
        free(brief.config_text);
        culm_choices_release(&brief.choices);
        culm_inputs_release(&brief.inputs);
        return status;
    }
    brief.config.pins = brief.inputs.pins;
    *ret_brief = brief;
    ret_brief->config.spans = brief.spans.count ? &ret_brief->spans : NULL;
    return CULM_OK;
}

void culm_brief_release(struct culm_brief *brief) {
    free(brief->config_text);
    culm_choices_release(&brief->choices);
    culm_train_config_release(&brief->config);
    culm_inputs_release(&brief->inputs);
    culm_train_spans_release(&brief->spans);
    *brief = (struct culm_brief){0};
}
