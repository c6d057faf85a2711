/* Parses fields one by one; errors name the text, the field and what is allowed. See
 * fault_text.h. */
#include "cluster/fault_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_value(const struct culm_fault_field *field, const char *text, int64_t *ret_value) {
    const char *word;
    if (field->read) {
        return field->read(text, ret_value);
    }
    for (size_t i = 0; field->word && (word = field->word(i)); i++) {
        if (!strcmp(text, word)) {
            *ret_value = (int64_t)i;
            return true;
        }
    }
    if (field->word || !*text || text[strspn(text, "0123456789")]) {
        return false;
    }
    errno = 0;
    int64_t value = strtoll(text, NULL, 10);
    if (errno || value < field->min || value > field->max) {
        return false;
    }
    *ret_value = value;
    return true;
}

static enum culm_status not_known(const char *text, const char *name,
                                  const struct culm_fault_field *fields, struct culm_error *error) {
    char names[CULM_FAULT_FIELDS_MAX * 18] = "";
    size_t len = 0;
    for (const struct culm_fault_field *field = fields; field->name; field++) {
        len +=
            (size_t)snprintf(names + len, sizeof names - len, "%s%s", len ? ", " : "", field->name);
    }
    return culm_error_set(error, CULM_ERR_CONFIG,
                          "--fault '%.100s': '%s' is not known; allowed: %s", text, name, names);
}

/* `item`: "name=value", of `len` bytes. */
static enum culm_status read_item(const char *text, const char *item, size_t len,
                                  const struct culm_fault_field *fields, int64_t *values,
                                  bool *given, struct culm_error *error) {
    char name[16], value[32];
    size_t name_len = strcspn(item, "="), at = 0;
    snprintf(name, sizeof name, "%.*s", (int)name_len, item);
    snprintf(value, sizeof value, "%.*s", (int)(len - name_len - 1), item + name_len + 1);
    while (fields[at].name && strcmp(name, fields[at].name)) {
        at++;
    }
    if (!fields[at].name) {
        return not_known(text, name, fields, error);
    }
    if (given[at]) {
        return culm_error_set(error, CULM_ERR_CONFIG, "--fault '%.100s': %s is given twice", text,
                              name);
    }
    if (!read_value(&fields[at], value, &values[at])) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--fault '%.100s': %s: '%s' is impossible; allowed: %s", text, name,
                              value, fields[at].allowed);
    }
    given[at] = true;
    return CULM_OK;
}

enum culm_status culm_fault_read(const char *text, const struct culm_fault_field *fields,
                                 const char *form, int64_t values[CULM_FAULT_FIELDS_MAX],
                                 bool ret_given[CULM_FAULT_FIELDS_MAX], struct culm_error *error) {
    const char *at = text;
    memset(ret_given, 0, CULM_FAULT_FIELDS_MAX * sizeof *ret_given);
    for (bool more = true; more;) {
        size_t len = strcspn(at, ",");
        if (strcspn(at, "=") >= len) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "--fault '%.100s': '%.*s' is not name=value; allowed: %s", text,
                                  (int)(len < 40 ? len : 40), at, form);
        }
        enum culm_status status = read_item(text, at, len, fields, values, ret_given, error);
        if (status != CULM_OK) {
            return status;
        }
        more = at[len] == ',';
        at += len + more;
    }
    return CULM_OK;
}
