/*
 * Parses a fault as users write it, "name=value,name=value", by a table of fields.
 *
 * What the fields mean (which node, when, where) is up to the job; here they are numbers and words.
 * Thread: any.
 */
#ifndef CULM_CLUSTER_FAULT_TEXT_H
#define CULM_CLUSTER_FAULT_TEXT_H

#include "base/status.h"

#define CULM_FAULT_FIELDS_MAX 16

struct culm_fault_field {
    const char *name;    /* at most 15 letters; NULL: end of the table */
    const char *allowed; /* allowed values, in words, for messages */
    int64_t min, max;    /* range, if the value is a number */
    /* If the value is a word: returns the word of that index, NULL after the last. The value is the
     * index. NULL: it is not a word. */
    const char *(*word)(size_t index);
    /* If it is anything else, such as "server:0": parses it; false: invalid. NULL: it is a number
     * or a word. */
    bool (*read)(const char *text, int64_t *ret_value);
};

/* Sets values[i] and ret_given[i] of the i-th field in the table; values of fields that are not
 * given are left alone. `form`: the syntax, for messages. CULM_ERR_CONFIG: `--fault 'TEXT': what is
 * wrong; what is allowed`. */
enum culm_status culm_fault_read(const char *text, const struct culm_fault_field *fields,
                                 const char *form, int64_t values[CULM_FAULT_FIELDS_MAX],
                                 bool ret_given[CULM_FAULT_FIELDS_MAX], struct culm_error *error);

#endif
