/* A place of a test's own, with a text, for tests that have the library alone: setup and teardown of a
 * test, which runs in it. */
#ifndef CULM_TESTS_API_PLACE_H
#define CULM_TESTS_API_PLACE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline int make_place(void **state) {
    char *folder = strdup("/tmp/culm-api-XXXXXX"); /* mkdtemp writes its end */
    *state = folder;
    FILE *file = mkdtemp(folder) && !chdir(folder) ? fopen("text", "w") : NULL;
    for (int i = 0; i < 400 && file; i++) {
        fprintf(file, "the quick brown fox jumps over the lazy dog %d.\n", i);
    }
    return file ? fclose(file) : -1;
}

static inline int drop_place(void **state) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", (const char *)*state);
    int failed = chdir("/tmp") || system(command);
    free(*state);
    return failed;
}

#define IN_PLACE(test_) cmocka_unit_test_setup_teardown(test_, make_place, drop_place)

#endif
