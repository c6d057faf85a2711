/* Limits of tasks, by kind. See patience.h. */
#include "pipeline/patience.h"

#include <stdio.h>
#include <string.h>

#define LONGEST_MS (INT64_MAX / 4)

void culm_patience_init(struct culm_patience *patience, int64_t start_ms) {
    memset(patience, 0, sizeof *patience);
    patience->start_ms = start_ms;
}

static bool exists(int32_t kind, int32_t stage) {
    return kind >= 0 && kind < CULM_WATCHED_KINDS && stage >= 0 && stage < CULM_MAX_STAGES;
}

int64_t culm_patience_limit_ms(const struct culm_patience *patience, int32_t kind, int32_t stage,
                               uint64_t began_ns) {
    if (!exists(kind, stage)) {
        return patience->start_ms;
    }
    const struct culm_patience_row *row = &patience->row[kind][stage];
    int64_t limit = began_ns < row->since_ns ? row->old_ms : row->limit_ms;
    return limit > patience->start_ms ? limit : patience->start_ms;
}

static void raise_to(int64_t *limit_ms, int64_t to_ms) {
    *limit_ms = to_ms > *limit_ms ? to_ms : *limit_ms;
}

void culm_patience_took(struct culm_patience *patience, int32_t kind, int32_t stage, int64_t ms) {
    if (!exists(kind, stage) || ms < 0) {
        return;
    }
    struct culm_patience_row *row = &patience->row[kind][stage];
    int64_t limit = ms < LONGEST_MS ? CULM_PATIENCE_FACTOR * ms : LONGEST_MS;
    raise_to(&row->limit_ms, limit);
    raise_to(&row->old_ms, limit);
    /* A quick one proves nothing about those that were given up. */
    row->tries = ms >= row->first_ms ? 0 : row->tries;
}

const struct culm_patience_row *culm_patience_lost(struct culm_patience *patience, int32_t kind,
                                                   int32_t stage, int64_t ms, uint64_t began_ns,
                                                   uint64_t now_ns) {
    if (!exists(kind, stage)) {
        return NULL;
    }
    struct culm_patience_row *row = &patience->row[kind][stage];
    int64_t limit = culm_patience_limit_ms(patience, kind, stage, began_ns);
    int64_t longest = ms > limit ? ms : limit;
    int64_t more = longest < LONGEST_MS ? 2 * longest : LONGEST_MS;
    if (began_ns >= row->since_ns) {
        row->since_ns = now_ns;
        raise_to(&row->old_ms, more);
    } else if (row->limit_ms > limit) {
        return row; /* it is not the first of those that had twice the time */
    }
    raise_to(&row->limit_ms, more);
    if (row->tries++ == 0) {
        row->first_ms = limit;
    }
    return row;
}

void culm_patience_committed(struct culm_patience *patience) {
    for (int32_t kind = 0; kind < CULM_WATCHED_KINDS; kind++) {
        for (int32_t stage = 0; stage < CULM_MAX_STAGES; stage++) {
            patience->row[kind][stage].tries = 0;
        }
    }
}

void culm_patience_name(int32_t kind, int32_t stage, char *ret_text, size_t size) {
    static const char *const what[CULM_WATCHED_KINDS] = {
        [CULM_TASK_LOAD] = "loading",
        [CULM_TASK_DROP] = "the release",
        [CULM_TASK_FORWARD] = "a forward task",
        [CULM_TASK_BACKWARD] = "a backward task",
        [CULM_TASK_FOLD] = "a sum",
        [CULM_TASK_NORM] = "taking the norms",
        [CULM_TASK_STEP] = "the optimizer step",
        [CULM_TASK_EXPORT] = "sending a tensor",
        [CULM_TASK_IMPORT] = "receiving a tensor",
        [CULM_TASK_SNAPSHOT] = "a snapshot",
        [CULM_TASK_SAVE] = "writing a checkpoint",
    };
    if (!exists(kind, stage)) {
        snprintf(ret_text, size, "a task");
    } else if (kind == CULM_TASK_NORM) {
        snprintf(ret_text, size, "%s", what[kind]); /* of all its stages at once */
    } else {
        snprintf(ret_text, size, "%s of stage %d", what[kind], stage);
    }
}
