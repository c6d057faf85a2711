/*
 * Marks: names for branches that are seldom taken, so that a test can say that it takes one.
 *
 *     if (!culm_view_find(view, id)) {
 *         CULM_MARK(pipeline_owner_is_lost);
 *
 * Whoever reads a test sees what is meant by its name only; that it still meets what it was written for
 * shows when the branch is broken, or never. So each branch of recovery has a mark, whose name begins
 * with that of its room, and each mark has a small test that fails unless the branch was taken
 * (tests/mark/expect_mark.h). tools/check-marks finds marks without a test and tests without a mark.
 *
 * Marks are there in the tests only: the rooms that have some are compiled once more for them, with
 * CULM_MARKS (tests/mark/meson.build). Elsewhere a mark is nothing: no code, no data, no symbol. The
 * counters are of the process and are never reset.
 *
 * Thread: any.
 */
#ifndef CULM_BASE_MARK_H
#define CULM_BASE_MARK_H

#ifdef CULM_MARKS

#include <stdint.h>

/* The linker puts those of a program side by side. */
struct culm_mark {
    const char *name;
    uint64_t hits;
} __attribute__((aligned(16)));

#define CULM_MARK(what)                                                                            \
    do {                                                                                           \
        static struct culm_mark mark_ __attribute__((used, section("culm_marks"))) = {#what, 0};   \
        __atomic_fetch_add(&mark_.hits, 1, __ATOMIC_RELAXED);                                      \
    } while (0)

#else

#define CULM_MARK(what) ((void)0)

#endif

#endif
