/* A folder of a test program's own: setup and teardown of its group. */
#ifndef CULM_TESTS_FOLDER_H
#define CULM_TESTS_FOLDER_H

#include "base/file.h"

#include <stdlib.h>

static char folder[] = "/tmp/culm-test-XXXXXX"; /* mkdtemp writes its end */

static inline int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static inline int drop_folder(void **state) {
    (void)state;
    return culm_tree_remove(NULL, folder, NULL) == CULM_OK ? 0 : -1;
}

#endif
