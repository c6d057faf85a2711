/*
 * The sample ledger: which step consumed which positions of the sample stream, and the proof that
 * each was consumed exactly once.
 *
 * One record per committed step. The ledger takes what it is told, gaps and repeats included; only
 * the audit judges. A roll-back truncates, so the ledger always is the surviving history.
 * Thread: the owner's.
 */
#ifndef CULM_LEDGER_LEDGER_H
#define CULM_LEDGER_LEDGER_H

#include "base/status.h"

struct culm_ledger;

struct culm_ledger_findings {
    uint64_t lost;           /* positions below `end` that no step consumed */
    uint64_t repeated;       /* consumptions beyond the first of a position, wherever */
    uint64_t first_lost;     /* UINT64_MAX: none */
    uint64_t first_repeated; /* UINT64_MAX: none */
};

struct culm_ledger *culm_ledger_new(void); /* NULL: out of memory */
void culm_ledger_free(struct culm_ledger *ledger);

/* `step` consumed the positions [first, last], both inclusive. A resumed run begins with one record
 * for all that its checkpoint had consumed. CULM_ERR_ARGUMENT when last < first or
 * there is no position after it. */
enum culm_status culm_ledger_commit(struct culm_ledger *ledger, int64_t step, uint64_t first,
                                    uint64_t last);
/* Forgets every record of a step after `step`. */
void culm_ledger_truncate(struct culm_ledger *ledger, int64_t step);
size_t culm_ledger_records(const struct culm_ledger *ledger);

/* `end`: how many positions should have been consumed by now. Only fails for memory. */
enum culm_status culm_ledger_audit(const struct culm_ledger *ledger, uint64_t end,
                                   struct culm_ledger_findings *ret_audit);
/* Of the records in order of commit: equal for equal histories. */
uint64_t culm_ledger_checksum(const struct culm_ledger *ledger);

#endif
