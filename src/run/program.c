/* Finding the program. See program.h. */
#include "run/program.h"

#include <culm.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef CULM_BINDIR
#define CULM_BINDIR "/usr/local/bin"
#endif

static bool runs(const char *path) { return culm_file_is_regular(path) && access(path, X_OK) == 0; }

static bool beside(char ret_path[CULM_PATH_MAX]) {
    static const char *const at[] = {"culm", "../bin/culm", "../../bin/culm"};
    Dl_info info;
    if (!dladdr((void *)(uintptr_t)culm_version, &info) || !info.dli_fname) {
        return false;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    int folder = slash ? (int)(slash - info.dli_fname) : 0;
    for (size_t i = 0; i < sizeof at / sizeof *at && slash; i++) {
        if (culm_path_format(ret_path, NULL, "%.*s/%s", folder, info.dli_fname, at[i]) == CULM_OK &&
            runs(ret_path)) {
            return true;
        }
    }
    return false;
}

static bool in_path(const char *name, char ret_path[CULM_PATH_MAX]) {
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t len = strcspn(path, ":");
        if (len > 0 &&
            culm_path_format(ret_path, NULL, "%.*s/%s", (int)len, path, name) == CULM_OK &&
            runs(ret_path)) {
            return true;
        }
        path += len + (path[len] == ':');
    }
    return false;
}

enum culm_status culm_program_find(const char *named, char ret_path[CULM_PATH_MAX],
                                   struct culm_error *error) {
    if (named) {
        bool here = strchr(named, '/') != NULL;
        if (here ? !runs(named) : !in_path(named, ret_path)) {
            return culm_error_set(error, CULM_ERR_NOT_FOUND, "'%s' is not a program%s", named,
                                  here ? "" : " in PATH");
        }
        return here ? culm_path_format(ret_path, error, "%s", named) : CULM_OK;
    }
    if (beside(ret_path) ||
        (culm_path_format(ret_path, NULL, "%s", CULM_BINDIR "/culm") == CULM_OK &&
         runs(ret_path)) ||
        in_path("culm", ret_path)) {
        return CULM_OK;
    }
    return culm_error_set(error, CULM_ERR_NOT_FOUND,
                          "the culm program is neither beside the library, nor in '%s', nor in "
                          "PATH; install it, or name it (culm_training_options.program)",
                          CULM_BINDIR);
}
