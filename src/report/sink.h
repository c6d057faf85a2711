/*
 * Sinks: where events go.
 *
 * An event is a JSON object: "event" (its kind) first, then "t_ms", "view" and its own members.
 * Events are the record of truth; a sink sees nothing else, so whatever a sink shows can be shown
 * again from events.jsonl. A sink ignores what it does not know and members of a wrong type.
 *
 * Thread: one at a time.
 */
#ifndef CULM_REPORT_SINK_H
#define CULM_REPORT_SINK_H

#include "base/status.h"

#include <jansson.h>

struct culm_sink {
    const struct culm_sink_ops *ops;
};

struct culm_sink_ops {
    size_t size; /* sizeof(struct culm_sink_ops), for versioning */
    enum culm_status (*event)(struct culm_sink *sink, const json_t *event,
                              struct culm_error *error); /* borrows the event */
    void (*free)(struct culm_sink *sink);
};

static inline enum culm_status culm_sink_event(struct culm_sink *sink, const json_t *event,
                                               struct culm_error *error) {
    return sink->ops->event(sink, event, error);
}
static inline void culm_sink_free(struct culm_sink *sink) {
    if (sink) {
        sink->ops->free(sink);
    }
}

/* Hands every event to several sinks, all of them even when one fails; returns the first failure.
 * Owns its sinks. */
struct culm_sink *culm_sink_tee_new(void); /* NULL: out of memory */
enum culm_status culm_sink_tee_add(struct culm_sink *tee, struct culm_sink *take_sink);

/* JSON lines. Each event is one write() of one line, so readers never see half of one and a killed
 * writer leaves at most one torn line, the last. The file is only ever appended to; a torn last
 * line of an earlier writer is ended first. */
enum culm_status culm_sink_jsonl_open(const char *path, struct culm_sink **ret_sink,
                                      struct culm_error *error);
/* The same to an open descriptor, such as standard output; not closed. */
struct culm_sink *culm_sink_jsonl_fd(int fd); /* NULL: out of memory */

/* Calls `each` for every event of an events.jsonl, in order; stops at the first failure. A torn
 * last line is left out. CULM_ERR_FORMAT, with the line, for any other line that is no event. */
enum culm_status culm_events_read(const char *path,
                                  enum culm_status (*each)(void *context, const json_t *event,
                                                           struct culm_error *error),
                                  void *context, struct culm_error *error);

/* --- reading members, with a fallback for what is missing or of another type --------------------
 */

const char *culm_event_text(const json_t *object, const char *key, const char *fallback);
int64_t culm_event_int(const json_t *object, const char *key, int64_t fallback);
double culm_event_real(const json_t *object, const char *key, double fallback);

#endif
