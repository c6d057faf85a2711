/* A question that long work asks from time to time: is it to stop, and make do with what it has? */
#ifndef CULM_BASE_STOP_H
#define CULM_BASE_STOP_H

#include <stdbool.h>
#include <stddef.h>

/* Asked on the thread that works. */
struct culm_stop {
    bool (*asked)(const void *ctx);
    const void *ctx;
};

/* False where stop is NULL: nobody will ask for it. */
static inline bool culm_stop_asked(const struct culm_stop *stop) {
    return stop && stop->asked(stop->ctx);
}

#endif
