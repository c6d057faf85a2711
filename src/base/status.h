/*
 * Status codes and the caller-owned error record.
 *
 * A function that can fail returns `enum culm_status` and, where a person will want to know why,
 * takes a `struct culm_error *` (which may be NULL). The callee fills it; callers put context in
 * front while it climbs:
 *
 *     stage 3: load checkpoint 'x': truncated at byte 4096 of 8192
 *
 * Lower case, no full stop, strings quoted, then what the user can do. Library code never prints;
 * only `cli` does, once. Thread: an error record belongs to whoever owns it; nothing here is
 * shared.
 */
#ifndef CULM_BASE_STATUS_H
#define CULM_BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Grouped by what is lost. */
enum culm_status {
    CULM_OK = 0,
    /* the call: nothing changed, the caller may try again or otherwise */
    CULM_ERR_ARGUMENT,    /* impossible argument of our own API or command line */
    CULM_ERR_CONFIG,      /* configuration or input is wrong: exit 3 */
    CULM_ERR_FORMAT,      /* a file or message does not have the form it should: exit 3 */
    CULM_ERR_NOT_FOUND,   /* no such thing */
    CULM_ERR_EXISTS,      /* it is already there and is not overwritten */
    CULM_ERR_UNSUPPORTED, /* what is asked for is right, but nothing here can do it: exit 3 */
    CULM_ERR_AGAIN,       /* not now: queue full, yielded, would block */
    /* the link or the machine */
    CULM_ERR_CLOSED, /* the other side is gone */
    CULM_ERR_IO,     /* the system refused: disk full, permission, ... : exit 4 */
    CULM_ERR_MEMORY, /* out of memory or over a stated limit: exit 4 */
    CULM_ERR_TIMEOUT,
    CULM_ERR_MACHINE, /* this processor or build lacks something: exit 4 */
    /* the job */
    CULM_ERR_CHANGED,  /* an input is no longer what the run began with */
    CULM_ERR_INTERNAL, /* a promise of our own was broken */
};

const char *culm_status_name(enum culm_status status); /* "ok", "config", ...; never NULL */
int culm_status_exit_code(enum culm_status status);    /* 0, 1, 2, 3 or 4, see cli/command.h */

#define CULM_ERROR_MAX 512

struct culm_error {
    enum culm_status status;
    char text[CULM_ERROR_MAX]; /* NUL-terminated; over-long text is cut with "..." */
};

/* Fills `error` (if not NULL) and returns `status`, so that `return culm_error_set(...)` reads
 * well. */
enum culm_status culm_error_set(struct culm_error *error, enum culm_status status,
                                const char *format, ...) __attribute__((format(printf, 3, 4)));
enum culm_status culm_error_setv(struct culm_error *error, enum culm_status status,
                                 const char *format, va_list args);
/* Appends ": strerror(errno_value)". */
enum culm_status culm_error_errno(struct culm_error *error, int errno_value, const char *format,
                                  ...) __attribute__((format(printf, 3, 4)));
/* Puts "context: " in front of what is there; returns error's status (CULM_ERR_INTERNAL when error
 * is NULL). */
enum culm_status culm_error_prefix(struct culm_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void culm_error_clear(struct culm_error *error);

#endif
