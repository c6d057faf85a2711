/* Internal to pins: the list, and what pins of files (pins.c) and of folders (pins_folder.c) both do. The lock is
 * held by whoever calls, but for what takes no pins. */
#ifndef CULM_BASE_PINS_INTERNAL_H
#define CULM_BASE_PINS_INTERNAL_H

#include "base/pins.h"

#include <pthread.h>

#define CULM_PINS_CHUNK ((size_t)1 << 20) /* bytes of a buffer that files are read into */
#define CULM_PINS_TRIES 3                 /* at a file that is being written to */

struct culm_pins_entry {
    struct culm_pin pin;
    struct culm_stamp seen; /* the last stamp that was found to go with the pinned content */
    bool shown;
    uint64_t *file_stamp,
        *file_sum; /* of a folder that was shown: of each file; sum 0: not known */
};

struct culm_pins {
    struct culm_pins_entry *entry;
    size_t count, capacity;
    bool sealed;
    culm_pins_teller *teller;
    void *teller_ctx;
    pthread_mutex_t lock;
};

struct culm_pins_entry *pins_find(const struct culm_pins *pins, const char *path); /* or NULL */
/* Copies it. NULL: out of memory. */
struct culm_pins_entry *pins_put(struct culm_pins *pins, const struct culm_pin *pin);

/* CULM_ERR_CHANGED: "'PATH' is not what it was when the run began: ...", and what to do. */
enum culm_status pins_differs(struct culm_error *error, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
enum culm_status pins_no_memory(struct culm_error *error);
/* Adds blocks of a large file at even distances, the first and the last ones included. `stop` may be
 * set by another thread. */
enum culm_status pins_add_blocks(struct culm_sha256 *hash, uint8_t *buffer, const char *path,
                                 int fd, uint64_t bytes, const bool *stop,
                                 struct culm_error *error);
uint64_t pins_hash_stamp(const struct culm_stamp *stamp);
/* Whether another write gives another stamp: the tick of the clock in which the last one fell is over.
 * And waits for that. */
bool pins_settled(const struct culm_stamp *stamp);
void pins_settle(const struct culm_stamp *stamp);

#endif
