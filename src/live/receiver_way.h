/*
 * How lines travel to a receiver [receiver.h]: of each kind of address a table.
 *
 * Thread: the receiver's own, except for `make`, which is called by who opens it. Nothing waits beyond its
 * deadline, but for a name that the system looks up.
 */
#ifndef CULM_LIVE_RECEIVER_WAY_H
#define CULM_LIVE_RECEIVER_WAY_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct culm_line {
    char *text; /* [len] with a line end behind it, which counts */
    size_t len;
};

struct culm_way {
    const struct culm_way_ops *ops;
};

struct culm_way_ops {
    size_t size; /* sizeof(struct culm_way_ops) */
    /* Connects. CULM_ERR_*: it cannot be done now. NULL: there is nothing to connect. */
    enum culm_status (*connect)(struct culm_way *way, uint64_t until_ns, struct culm_error *error);
    /* Sends lines, in order. *ret_taken: how many have arrived, which on success is one at least.
     * CULM_ERR_FORMAT: the receiver does not want them, and they are not to be sent again. CULM_ERR_AGAIN: it takes no more
     * for now, and the connection stays; the rest is to be sent again, beginning with what has been begun. Others: the connection
     * is gone. */
    enum culm_status (*send)(struct culm_way *way, const struct culm_line *lines, size_t count,
                             uint64_t until_ns, size_t *ret_taken, struct culm_error *error);
    /* Called at least once a second while there is nothing to send; NULL: nothing is to be done. Fails as send. */
    enum culm_status (*idle)(struct culm_way *way, struct culm_error *error);
    void (*hang_up)(struct culm_way *way); /* if it is connected; NULL: nothing to do */
    void (*free)(struct culm_way *way);
};

/* stop: atomic; set when all is to end soon, at which nobody waits any longer. */
enum culm_status culm_way_unix(const char *path, const int *stop, struct culm_way **ret_way,
                               struct culm_error *error);
enum culm_status culm_way_http(const char *url, const int *stop, struct culm_way **ret_way,
                               struct culm_error *error);
enum culm_status culm_way_mqtt(const char *url, const int *stop, struct culm_way **ret_way,
                               struct culm_error *error);
/* Whether the address is one. CULM_ERR_CONFIG. */
enum culm_status culm_way_mqtt_check(const char *url, struct culm_error *error);

#endif
