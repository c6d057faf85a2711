/* Which marks were hit. See expect_mark.h. */
#include "expect_mark.h"

#define CULM_MARKS
#include "base/mark.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* From the linker; a program without marks has none. */
extern struct culm_mark __start_culm_marks[] __attribute__((weak));
extern struct culm_mark __stop_culm_marks[] __attribute__((weak));

static const struct culm_mark *find(const char *name) {
    for (const struct culm_mark *mark = __start_culm_marks; mark < __stop_culm_marks; mark++) {
        if (strcmp(mark->name, name) == 0) {
            return mark;
        }
    }
    return NULL;
}

static uint64_t hits_of(const struct culm_mark *mark) {
    return __atomic_load_n(&mark->hits, __ATOMIC_RELAXED);
}

__attribute__((noreturn)) static void complain(const struct mark_expected *expected,
                                               const char *what) {
    fflush(stdout);
    fprintf(stderr, "%s:%d: %s %s\n", expected->file, expected->line, expected->name, what);
    exit(1);
}

struct mark_expected mark_expect(const char *name, const char *file, int line) {
    const struct mark_expected none = {name, file, line, 0};
    const struct culm_mark *mark = find(name);
    if (!mark) {
        complain(&none, "is no mark in this program: is it linked with rooms that have theirs?");
    }
    return (struct mark_expected){name, file, line, hits_of(mark)};
}

void mark_met(const struct mark_expected *expected) {
    if (hits_of(find(expected->name)) == expected->before) {
        complain(expected, "was not hit: this test does not take the branch that it is about");
    }
}

int mark_print_missed(const char *prefix, uint64_t least) {
    int missed = 0;
    for (const struct culm_mark *mark = __start_culm_marks; mark < __stop_culm_marks; mark++) {
        if (strncmp(mark->name, prefix, strlen(prefix)) == 0 && hits_of(mark) < least) {
            printf("# not hit: %s\n", mark->name);
            missed++;
        }
    }
    return missed;
}
