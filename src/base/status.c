/* Status names, exit codes and the error record. */
#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

const char *culm_status_name(enum culm_status status) {
    switch (status) {
    case CULM_OK: return "ok";
    case CULM_ERR_ARGUMENT: return "argument";
    case CULM_ERR_CONFIG: return "config";
    case CULM_ERR_FORMAT: return "format";
    case CULM_ERR_NOT_FOUND: return "not-found";
    case CULM_ERR_EXISTS: return "exists";
    case CULM_ERR_UNSUPPORTED: return "unsupported";
    case CULM_ERR_AGAIN: return "again";
    case CULM_ERR_CLOSED: return "closed";
    case CULM_ERR_IO: return "io";
    case CULM_ERR_MEMORY: return "memory";
    case CULM_ERR_TIMEOUT: return "timeout";
    case CULM_ERR_CHANGED: return "changed";
    case CULM_ERR_MACHINE: return "machine";
    case CULM_ERR_INTERNAL: return "internal";
    case CULM_ERR_STOPPED: return "stopped";
    }
    return "unknown";
}

int culm_status_exit_code(enum culm_status status) {
    switch (status) {
    case CULM_OK: return 0;
    case CULM_ERR_ARGUMENT: return 2;
    case CULM_ERR_CONFIG:
    case CULM_ERR_FORMAT:
    case CULM_ERR_NOT_FOUND:
    case CULM_ERR_EXISTS:
    case CULM_ERR_UNSUPPORTED: return 3;
    case CULM_ERR_IO:
    case CULM_ERR_MEMORY:
    case CULM_ERR_MACHINE: return 4;
    case CULM_ERR_STOPPED: return 75;
    default: return 1;
    }
}

void culm_text_free(char *text) { free(text); }

static void mark_cut(struct culm_error *error, int wanted) {
    if (wanted >= CULM_ERROR_MAX) {
        memcpy(error->text + CULM_ERROR_MAX - 4, "...", 4);
    }
}

enum culm_status culm_error_setv(struct culm_error *error, enum culm_status status,
                                 const char *format, va_list args) {
    if (error) {
        error->status = status;
        mark_cut(error, vsnprintf(error->text, sizeof error->text, format, args));
    }
    return status;
}

enum culm_status culm_error_set(struct culm_error *error, enum culm_status status,
                                const char *format, ...) {
    va_list args;
    va_start(args, format);
    culm_error_setv(error, status, format, args);
    va_end(args);
    return status;
}

/* Limits of the system that a user can raise are named. */
static void say_limit(int errno_value, char *text, size_t size) {
    struct rlimit limit;
    if (errno_value == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        snprintf(text, size,
                 ", of which a process may have %llu; raise that, as with 'ulimit -n %llu'",
                 (unsigned long long)limit.rlim_cur, 4 * (unsigned long long)limit.rlim_cur);
    } else if (errno_value == ENFILE) {
        snprintf(text, size, "; raise the limit of the machine, sysctl fs.file-max");
    }
}

enum culm_status culm_error_errno(struct culm_error *error, int errno_value, const char *format,
                                  ...) {
    if (error) {
        va_list args;
        va_start(args, format);
        culm_error_setv(error, CULM_ERR_IO, format, args);
        va_end(args);
        size_t used = strlen(error->text);
        char limit[96] = "";
        say_limit(errno_value, limit, sizeof limit);
        mark_cut(error, (int)used + snprintf(error->text + used, sizeof error->text - used,
                                             ": %s%s", strerror(errno_value), limit));
    }
    return CULM_ERR_IO;
}

enum culm_status culm_error_open(struct culm_error *error, int errno_value, const char *what,
                                 const char *path) {
    bool barred = errno_value == EACCES || errno_value == EMFILE || errno_value == ENFILE;
    enum culm_status status = errno_value == ENOENT ? CULM_ERR_NOT_FOUND
                              : barred              ? CULM_ERR_IO
                                                    : CULM_ERR_CONFIG;
    (void)culm_error_errno(error, errno_value, "%s '%s'", what, path);
    if (error) {
        error->status = status;
    }
    return status;
}

enum culm_status culm_error_prefix(struct culm_error *error, const char *format, ...) {
    if (!error) {
        return CULM_ERR_INTERNAL;
    }
    char old[CULM_ERROR_MAX];
    memcpy(old, error->text, sizeof old);
    va_list args;
    va_start(args, format);
    int used = vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    if (used < 0 || used >= CULM_ERROR_MAX) {
        used = CULM_ERROR_MAX - 1;
    }
    mark_cut(error,
             used + snprintf(error->text + used, sizeof error->text - (size_t)used, ": %s", old));
    return error->status;
}

void culm_error_clear(struct culm_error *error) {
    if (error) {
        error->status = CULM_OK;
        error->text[0] = '\0';
    }
}
