/*
 * Status codes and the caller-owned error record.
 *
 * A function that can fail returns `enum culm_status` and, where a person will want to know why,
 * takes a `struct culm_error *` (which may be NULL). The callee fills it; callers put context in
 * front while it climbs:
 *
 *     stage 3: load checkpoint 'x': truncated at byte 4096 of 8192
 *
 * The codes and the record are those of the public <culm/status.h>, a header of its own so that
 * what changes in culm.h does not recompile the whole tree. Messages are in lower case, without a
 * full stop, with strings quoted; they end with what the user can do. Library code never prints;
 * only `cli` does, once. Thread: an error record belongs to whoever owns it; nothing here is
 * shared.
 */
#ifndef CULM_BASE_STATUS_H
#define CULM_BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <culm/status.h> /* enum culm_status, struct culm_error */

/* Fills `error` (if not NULL) and returns `status`, so that `return culm_error_set(...)` reads
 * well. */
enum culm_status culm_error_set(struct culm_error *error, enum culm_status status,
                                const char *format, ...) __attribute__((format(printf, 3, 4)));
enum culm_status culm_error_setv(struct culm_error *error, enum culm_status status,
                                 const char *format, va_list args);
/* Appends ": strerror(errno_value)", and how to raise a limit of the system that was met. */
enum culm_status culm_error_errno(struct culm_error *error, int errno_value, const char *format,
                                  ...) __attribute__((format(printf, 3, 4)));
/* The same of an input that could not be opened, "WHAT 'PATH'": CULM_ERR_NOT_FOUND if it is not there,
 * CULM_ERR_IO if it may not be read or a limit was met, else CULM_ERR_CONFIG. */
enum culm_status culm_error_open(struct culm_error *error, int errno_value, const char *what,
                                 const char *path);
/* Puts "context: " in front of what is there; returns error's status (CULM_ERR_INTERNAL when error
 * is NULL). */
enum culm_status culm_error_prefix(struct culm_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void culm_error_clear(struct culm_error *error);

#endif
