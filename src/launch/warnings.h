/*
 * What a launcher warns of: told its caller at once, and kept for events, since a run that is looked
 * at later has only those. Thread: one.
 */
#ifndef CULM_LAUNCH_WARNINGS_H
#define CULM_LAUNCH_WARNINGS_H

#include <jansson.h>
#include <stdarg.h>
#include <stddef.h>

struct culm_warnings {
    void (*say)(void *ctx, const char *text); /* NULL: nobody listens */
    void *ctx;
    char **text; /* owned; those from `told` on are not events yet */
    size_t count, capacity, told;
};

/* One line, as errors are: lower case, what, where, what to do. */
void culm_warnings_add(struct culm_warnings *warnings, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void culm_warnings_add_list(struct culm_warnings *warnings, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
/* warning{message} of the next one that was not told yet; the caller's. NULL: there is none. */
json_t *culm_warnings_event(struct culm_warnings *warnings);
void culm_warnings_release(struct culm_warnings *warnings); /* fine on a zeroed struct */

#endif
