/* The sample ledger: a growing list of records; the audit sorts a copy and sweeps it once. */
#include "ledger/ledger.h"

#include "base/grow.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

struct record {
    int64_t step;
    uint64_t first, last;
};

struct culm_ledger {
    struct record *record; /* in order of commit */
    size_t count, capacity;
};

struct culm_ledger *culm_ledger_new(void) {
    return calloc(1, sizeof(struct culm_ledger));
}

void culm_ledger_free(struct culm_ledger *ledger) {
    if (ledger) {
        free(ledger->record);
        free(ledger);
    }
}

enum culm_status culm_ledger_commit(struct culm_ledger *ledger, int64_t step, uint64_t first,
                                    uint64_t last) {
    if (last < first || last == UINT64_MAX) {
        return CULM_ERR_ARGUMENT;
    }
    if (!CULM_GROW(ledger->record, ledger->capacity, ledger->count + 1)) {
        return CULM_ERR_MEMORY;
    }
    ledger->record[ledger->count++] = (struct record){step, first, last};
    return CULM_OK;
}

void culm_ledger_truncate(struct culm_ledger *ledger, int64_t step) {
    size_t kept = 0;
    for (size_t i = 0; i < ledger->count; i++) {
        if (ledger->record[i].step <= step) {
            ledger->record[kept++] = ledger->record[i];
        }
    }
    ledger->count = kept;
}

size_t culm_ledger_records(const struct culm_ledger *ledger) { return ledger->count; }

static int compare_first(const void *a, const void *b) {
    const struct record *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

enum culm_status culm_ledger_audit(const struct culm_ledger *ledger, uint64_t end,
                                   struct culm_ledger_findings *ret_audit) {
    struct culm_ledger_findings audit = {.first_lost = UINT64_MAX, .first_repeated = UINT64_MAX};
    struct record *sorted = NULL;
    if (ledger->count) {
        sorted = malloc(ledger->count * sizeof *sorted);
        if (!sorted) {
            return CULM_ERR_MEMORY;
        }
        memcpy(sorted, ledger->record, ledger->count * sizeof *sorted);
        qsort(sorted, ledger->count, sizeof *sorted, compare_first);
    }
    uint64_t covered = 0; /* every position below it was seen, as consumed or as lost */
    for (size_t i = 0; i < ledger->count; i++) {
        uint64_t first = sorted[i].first, beyond = sorted[i].last + 1;
        if (first > covered && covered < end) {
            uint64_t gap_end = first < end ? first : end;
            audit.lost += gap_end - covered;
            if (audit.first_lost == UINT64_MAX) {
                audit.first_lost = covered;
            }
        }
        if (first < covered) {
            audit.repeated += (beyond < covered ? beyond : covered) - first;
            if (audit.first_repeated == UINT64_MAX) {
                audit.first_repeated = first;
            }
        }
        covered = beyond > covered ? beyond : covered;
    }
    if (covered < end) {
        audit.lost += end - covered;
        if (audit.first_lost == UINT64_MAX) {
            audit.first_lost = covered;
        }
    }
    free(sorted);
    *ret_audit = audit;
    return CULM_OK;
}

uint64_t culm_ledger_checksum(const struct culm_ledger *ledger) {
    uint64_t sum = 0;
    for (size_t i = 0; i < ledger->count; i++) {
        sum = culm_rng_mix(sum, (uint64_t)ledger->record[i].step);
        sum = culm_rng_mix(sum, ledger->record[i].first);
        sum = culm_rng_mix(sum, ledger->record[i].last);
    }
    return sum;
}
