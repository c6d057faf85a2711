/*
 * How users write a fault: "name=value,name=value", by a table of the job's fields.
 *
 * What the fields mean (which node, how far, which part) is the job's; here they are numbers and
 * words. Thread: any.
 */
#ifndef CULM_CLUSTER_FAULT_TEXT_H
#define CULM_CLUSTER_FAULT_TEXT_H

#include "base/status.h"

#define CULM_FAULT_FIELDS_MAX 16

struct culm_fault_field {
    const char *name;    /* at most 15 letters; NULL: past the last field */
    const char *allowed; /* in words */
    int64_t min, max;    /* of a number */
    /* Of a word: gives the index-th, and NULL after the last; the value is its index. NULL: not a
     * word. */
    const char *(*word)(size_t index);
    /* Of anything else, such as "server:0"; false: impossible. NULL: a number or a word. */
    bool (*read)(const char *text, int64_t *ret_value);
};

/* Fields by position in the table; those that are not given keep the value that they had. `form`:
 * the whole of it as people are shown it. CULM_ERR_CONFIG: `--fault 'TEXT': what is wrong; what is
 * allowed`. */
enum culm_status culm_fault_read(const char *text, const struct culm_fault_field *fields,
                                 const char *form, int64_t values[CULM_FAULT_FIELDS_MAX],
                                 bool ret_given[CULM_FAULT_FIELDS_MAX], struct culm_error *error);

#endif
