/*
 * What a test says of the branch that it is about (base/mark.h):
 *
 *     static void test_an_owner_is_lost(void **state) {
 *         EXPECT_MARK(pipeline_owner_is_lost);
 *
 * From there to the end of the block the branch has to be taken; the test ends the program if it was not, or
 * if the program has no such mark. A test that expects marks is linked with rooms that have them
 * (dep_..._marked), and says so before it acts.
 *
 * Thread: the test's.
 */
#ifndef TESTS_MARK_EXPECT_MARK_H
#define TESTS_MARK_EXPECT_MARK_H

#include <stdint.h>

struct mark_expected {
    const char *name, *file;
    int line;
    uint64_t before; /* hits */
};

struct mark_expected mark_expect(const char *name, const char *file, int line);
void mark_met(const struct mark_expected *expected); /* the block ends */

#define EXPECT_MARK(what)                                                                          \
    const struct mark_expected expected_##what __attribute__((cleanup(mark_met))) =                \
        mark_expect(#what, __FILE__, __LINE__)

/* The marks in this program whose names begin so and that have been hit fewer than `least` times; returns how many,
 * prints each. */
int mark_print_missed(const char *prefix, uint64_t least);

#endif
