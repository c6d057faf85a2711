/* Limits of tasks, by kind. See patience.h. */
#include "crew/patience.h"

#include <stdbool.h>
#include <string.h>

#define LONGEST_MS (INT64_MAX / 4)

void culm_patience_init(struct culm_patience *patience, int64_t start_ms, int32_t kinds,
                        int32_t parts) {
    memset(patience, 0, sizeof *patience);
    patience->start_ms = start_ms;
    patience->kinds = kinds;
    patience->parts = parts;
}

static bool exists(const struct culm_patience *patience, int32_t kind, int32_t part) {
    return kind >= 0 && kind < patience->kinds && part >= 0 && part < patience->parts;
}

int64_t culm_patience_limit_ms(const struct culm_patience *patience, int32_t kind, int32_t part,
                               uint64_t began_ns) {
    if (!exists(patience, kind, part)) {
        return patience->start_ms;
    }
    const struct culm_patience_row *row = &patience->row[kind][part];
    int64_t limit = began_ns < row->since_ns ? row->old_ms : row->limit_ms;
    return limit > patience->start_ms ? limit : patience->start_ms;
}

static void raise_to(int64_t *limit_ms, int64_t to_ms) {
    *limit_ms = to_ms > *limit_ms ? to_ms : *limit_ms;
}

void culm_patience_took(struct culm_patience *patience, int32_t kind, int32_t part, int64_t ms) {
    if (!exists(patience, kind, part) || ms < 0) {
        return;
    }
    struct culm_patience_row *row = &patience->row[kind][part];
    int64_t limit = ms < LONGEST_MS ? CULM_PATIENCE_FACTOR * ms : LONGEST_MS;
    raise_to(&row->limit_ms, limit);
    raise_to(&row->old_ms, limit);
    /* A quick one proves nothing about those that were given up. */
    row->tries = ms >= row->first_ms ? 0 : row->tries;
}

const struct culm_patience_row *culm_patience_lost(struct culm_patience *patience, int32_t kind,
                                                   int32_t part, int64_t ms, uint64_t began_ns,
                                                   uint64_t now_ns) {
    if (!exists(patience, kind, part)) {
        return NULL;
    }
    struct culm_patience_row *row = &patience->row[kind][part];
    int64_t limit = culm_patience_limit_ms(patience, kind, part, began_ns);
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
    for (int32_t kind = 0; kind < patience->kinds; kind++) {
        for (int32_t part = 0; part < patience->parts; part++) {
            patience->row[kind][part].tries = 0;
        }
    }
}
