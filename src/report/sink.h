/*
 * Sinks: where events go.
 *
 * An event is a JSON object: "event" (its kind) first, then "t_ms", "view" and its own members.
 * Events are the record of truth. A sink sees nothing else, so whatever it shows can be shown again
 * from events.jsonl. A sink ignores kinds and members that it does not know, and members of the
 * wrong type.
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

/* Writes JSON lines. Each event is a single write() of one line, so readers never see half an
 * event, and a writer that is killed leaves at most one torn line, its last. The file is only ever
 * appended to; if an earlier writer left a torn line, that is terminated first. */
enum culm_status culm_sink_jsonl_open(const char *path, struct culm_sink **ret_sink,
                                      struct culm_error *error);
/* The same to an open descriptor, such as standard output, which is not closed. */
struct culm_sink *culm_sink_jsonl_fd(int fd); /* NULL: out of memory */

/* Hands each event to a function of whoever embeds this, as the line that is in events.jsonl, without
 * its end. It lies in an object of its owner, and freeing it does nothing. */
struct culm_function_sink {
    struct culm_sink sink;
    void (*event)(void *context, const char *json);
    void *context;
};
void culm_function_sink_init(struct culm_function_sink *sink,
                             void (*event)(void *context, const char *json), void *context);

/* Calls `each` for every event of an events.jsonl, in order; stops at the first failure. Skips a
 * torn line, which is the last one of the file or followed by the `start` of a resumed run.
 * CULM_ERR_FORMAT, with its number, for any other line that is not an event; CULM_ERR_NOT_FOUND if
 * there is no such file. */
enum culm_status culm_events_read(const char *path,
                                  enum culm_status (*each)(void *context, const json_t *event,
                                                           struct culm_error *error),
                                  void *context, struct culm_error *error);
/* The same; goes on behind lines that are no events. *bad, of the caller, becomes the number of the first
 * of them as soon as it is known, unless it is one already; `each` may set it back to 0. NULL: as
 * culm_events_read. */
enum culm_status culm_events_skim(const char *path,
                                  enum culm_status (*each)(void *context, const json_t *event,
                                                           struct culm_error *error),
                                  void *context, size_t *bad, struct culm_error *error);

/* --- reading members, with a fallback for those that are missing or of another type -------------
 */

const char *culm_event_text(const json_t *object, const char *key, const char *fallback);
int64_t culm_event_int(const json_t *object, const char *key, int64_t fallback);
double culm_event_real(const json_t *object, const char *key, double fallback);

#endif
