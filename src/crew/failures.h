/*
 * Failures that are a run's own: a task that fails in the same way wherever it is tried.
 *
 * A node that fails is lost, and another one does its work again. If the cause is in the work, a
 * file that is damaged or a limit of every machine, that one fails, too, at the same place. So
 * failures are remembered with their status and with the version that was committed at that moment.
 * Only a version that had never been committed before is progress: after a roll-back, work that is
 * done again forgets nothing.
 *
 * The cause may also be a machine's own: a copy of a file, a disk, too little memory. So failures of
 * one origin (a machine) speak against the work only if there is no other where it could be tried.
 *
 * Pure; no memory of its own beyond the struct. Thread: its owner's.
 */
#ifndef CULM_CREW_FAILURES_H
#define CULM_CREW_FAILURES_H

#include <stdbool.h>
#include <stdint.h>

#define CULM_FAILURES_MAX 3   /* with one status, at one version */
#define CULM_FAILURES_KEPT 32 /* with any status, at any version */

struct culm_failures {
    int64_t version; /* the newest that was ever committed */
    int32_t count;
    struct {
        int64_t version;
        int32_t status;
        uint64_t origin;
    } kept[CULM_FAILURES_KEPT];
};

/* `version`: the one that the run begins with. */
void culm_failures_init(struct culm_failures *failures, int64_t version);
void culm_failures_committed(struct culm_failures *failures, int64_t version);
/* A node of that origin has failed with this status while `version` was the newest committed; `others`: there
 * are nodes of other origins. How many failures now speak against the work itself, or 0: another node is to
 * try. */
int32_t culm_failures_add(struct culm_failures *failures, int64_t version, int32_t status,
                          uint64_t origin, bool others);

#endif
