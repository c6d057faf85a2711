/*
 * A file of lines that outlives a full disk, and does not fill one.
 *
 * A line is there whole or not at all. One that cannot be written (no space, a quota, a limit of the
 * process, a disk that fails) is lost and counted, and the next one is tried again: whoever has to go
 * on for weeks does not end for want of room. A file that has reached its size is renamed to
 * NAME.N, N one more than the last one has, and a new one is begun; the oldest of those are
 * removed while all take more than they may.
 *
 * Others may do the same: a file that was moved away or removed is followed by a new one at its path, and one
 * that was emptied is written from its beginning.
 *
 * Thread: one at a time.
 */
#ifndef CULM_REPORT_JOURNAL_H
#define CULM_REPORT_JOURNAL_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct culm_journal;

struct culm_journal_limits {
    int64_t rotate_bytes; /* a file that has as many is renamed; 0: never */
    int64_t keep_bytes;   /* of the file and its renamed ones; 0: all are kept */
};

/* Takes a descriptor of the plain file `path`, open for reading and appending; it is closed after a failure, too. A
 * last line that an earlier writer did not live to end is cut off. CULM_ERR_IO, CULM_ERR_MEMORY. */
enum culm_status culm_journal_open(int take_fd, const char *path,
                                   const struct culm_journal_limits *limits,
                                   struct culm_journal **ret_journal, struct culm_error *error);
void culm_journal_free(struct culm_journal *journal); /* NULL is fine */
/* From now on. */
void culm_journal_limit(struct culm_journal *journal, const struct culm_journal_limits *limits);
/* From now on a file that is empty begins with this line, which has no end; it is copied. False: out of memory. */
bool culm_journal_begin_with(struct culm_journal *journal, const char *text);
/* Looks whether the file is still at its path, and if not, goes on with the one that is there, or a new one. False:
 * that cannot be done, for the first time; `error` says why, and the file that was moved is written further. */
bool culm_journal_follow(struct culm_journal *journal, struct culm_error *error);

enum culm_journal_news {
    CULM_JOURNAL_NONE,
    CULM_JOURNAL_LOST,   /* this line is the first one that was lost; `error` says why */
    CULM_JOURNAL_WRITTEN /* this line was written, and lines before it were not */
};

/* Appends `text`, which has no line end, and one; NULL, which there was no memory for, is lost. CULM_JOURNAL_LOST and _WRITTEN come in turns, each
 * once: they are to be told. `error` is touched with CULM_JOURNAL_LOST only. */
enum culm_journal_news culm_journal_add(struct culm_journal *journal, const char *text,
                                        struct culm_error *error);
/* Lines that were lost since it was opened. */
int64_t culm_journal_lost(const struct culm_journal *journal);

#endif
