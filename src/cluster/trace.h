/*
 * Preemption traces: who comes and goes when.
 *
 *     # comment
 *     milliseconds,add,NAME
 *     milliseconds,remove,NAME
 *
 * Lines may come in any order; those of one instant keep theirs. In the order of time a name is
 * added only when it is not there and removed only when it is. A name is 1 to 63 of
 * [A-Za-z0-9._-]. Thread: none of their own.
 */
#ifndef CULM_CLUSTER_TRACE_H
#define CULM_CLUSTER_TRACE_H

#include "base/status.h"

#define CULM_TRACE_NAME_MAX 64
#define CULM_TRACE_BYTES_MAX ((size_t)64 << 20)

struct culm_trace_entry {
    int64_t at_ms;
    bool add;
    int64_t line; /* of the file, from 1 */
    char name[CULM_TRACE_NAME_MAX];
};

struct culm_trace {
    struct culm_trace_entry *entry; /* by time */
    size_t count;
};

/* `text` need not end in NUL. CULM_ERR_CONFIG: `PATH:LINE: what is wrong; what is right`. */
enum culm_status culm_trace_parse(const char *text, size_t len, const char *path,
                                  struct culm_trace *ret_trace, struct culm_error *error);
enum culm_status culm_trace_read(const char *path, struct culm_trace *ret_trace,
                                 struct culm_error *error);
void culm_trace_release(struct culm_trace *trace); /* fine on a zeroed struct */

#endif
