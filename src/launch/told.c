/* What events tell. See told.h. */
#include "launch/told.h"

#include "report/sink.h"

#include <stdio.h>
#include <string.h>

struct reading {
    const char *unit;
    char to[32]; /* "to_step" */
    struct culm_told told;
};

static void go_back(struct culm_told *told, int64_t step) {
    told->done = told->done < step ? told->done : step;
    told->saved = told->saved < step ? told->saved : step;
}

static enum culm_status each(void *context, const json_t *event, struct culm_error *error) {
    struct reading *r = context;
    const char *name = culm_event_text(event, "event", "");
    const int64_t step = culm_event_int(event, r->unit, 0);
    (void)error;
    if (strcmp(name, r->unit) == 0) {
        r->told.done = step;
    } else if (strcmp(name, "checkpoint") == 0 && json_is_true(json_object_get(event, "ok"))) {
        r->told.saved = step;
        r->told.anew = false;
    } else if (strcmp(name, "merged") == 0) {
        r->told.saved = step;
    } else if (strcmp(name, "rollback") == 0) {
        go_back(&r->told, culm_event_int(event, r->to, 0));
    } else if (strcmp(name, "resumed") == 0) {
        go_back(&r->told, step);
        r->told.anew = step == 0;
        r->told.bad = step == 0 ? 0 : r->told.bad;
    }
    return CULM_OK;
}

enum culm_status culm_told_read(const char *dir, const char *unit, struct culm_told *ret_told,
                                struct culm_error *error) {
    struct reading reading = {.unit = unit};
    char path[CULM_PATH_MAX];
    snprintf(reading.to, sizeof reading.to, "to_%s", unit);
    enum culm_status status = culm_path_format(path, error, "%s/events.jsonl", dir);
    if (status == CULM_OK) {
        status = culm_events_skim(path, each, &reading, &reading.told.bad, error);
    }
    if (status == CULM_OK) {
        *ret_told = reading.told;
    }
    return status;
}
