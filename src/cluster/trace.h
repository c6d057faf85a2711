/*
 * Preemption traces: which workers come and go, and when.
 *
 *     # comment
 *     milliseconds,add,NAME
 *     milliseconds,remove,NAME
 *
 * Lines may be in any order; entries of the same time keep the order of their lines. In the order
 * of time, a name may be added only when it is absent and removed only when it is present. A name
 * is 1 to 63 characters of [A-Za-z0-9._-]. Thread: any.
 */
#ifndef CULM_CLUSTER_TRACE_H
#define CULM_CLUSTER_TRACE_H

#include "base/status.h"

#define CULM_TRACE_NAME_MAX 64
#define CULM_TRACE_BYTES_MAX ((size_t)64 << 20)

struct culm_trace_entry {
    int64_t at_ms;
    bool add;
    int64_t line; /* in the file, from 1 */
    char name[CULM_TRACE_NAME_MAX];
};

struct culm_trace {
    struct culm_trace_entry *entry; /* [count] sorted by time */
    size_t count;
};

/* `text` need not end in NUL. CULM_ERR_CONFIG: `PATH:LINE: what is wrong; what is right`. */
enum culm_status culm_trace_parse(const char *text, size_t len, const char *path,
                                  struct culm_trace *ret_trace, struct culm_error *error);
enum culm_status culm_trace_read(const char *path, struct culm_trace *ret_trace,
                                 struct culm_error *error);
void culm_trace_release(struct culm_trace *trace); /* fine on a zeroed struct */

#endif
