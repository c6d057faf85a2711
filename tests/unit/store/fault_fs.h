/*
 * A file system table that fails on demand, for tests: the n-th operation fails once, or the
 * process "dies" at it (it and all later ones do nothing), or the machine loses power (as death,
 * and what was not synced is gone: contents, new names, renames).
 *
 * Loop: for (n = 1;; n++) { init(n); run; if (!fs.fired) break; check; } visits every operation.
 */
#ifndef TESTS_STORE_FAULT_FS_H
#define TESTS_STORE_FAULT_FS_H

#include "base/file.h"

enum fault_mode { FAULT_ONCE, FAULT_DEATH, FAULT_POWER, FAULT_MODES };

#define FAULT_JOURNAL_MAX 512

struct fault_fs {
    struct culm_fs fs; /* first: the table's functions find the rest from it */
    enum fault_mode mode;
    int fail_at; /* counts from 1; 0: never */
    int errno_value;
    int calls;
    bool fired;
    struct {
        char path[256];
        int writable;
    } open[64]; /* by descriptor */
    struct {
        enum { ENTRY_GONE, ENTRY_NAME, ENTRY_RENAME } kind;
        char path[256], from[256], saved[256]; /* saved: what a rename replaced, or "" */
    } journal[FAULT_JOURNAL_MAX]; /* names that no sync of their directory has made durable */
    int journal_count;
    uint64_t unsynced[FAULT_JOURNAL_MAX]; /* inodes with contents not synced */
    int unsynced_count;
};

void fault_fs_init(struct fault_fs *fault, enum fault_mode mode, int fail_at, int errno_value);
/* After a power loss fired: makes the directory tree what the disk would hold. */
void fault_fs_power_off(struct fault_fs *fault, const char *root);

#endif
