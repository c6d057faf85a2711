/*
 * A listening socket on a libuv loop.
 *
 * If the system has no descriptor left for the next connection, `full` may free one. If it does not,
 * the socket is left alone for a while, since the loop would otherwise turn without a rest; whoever
 * waits is accepted once there is room again. One turn of the loop accepts a bounded number, so that
 * a crowd outside does not keep those inside from their work. Thread: the loop's.
 */
#ifndef CULM_NET_LISTENER_H
#define CULM_NET_LISTENER_H

#include "base/status.h"

#include <uv.h>

struct culm_listener {
    uv_poll_t poll;
    uv_timer_t again;
    int fd;
    void (*accepted)(void *ctx, int take_fd);
    bool (*full)(void *ctx); /* true: a descriptor was freed; NULL: never */
    void *ctx;
};

/* Borrows the socket until _close. `accepted` and `full` are called from the loop only. */
enum culm_status culm_listener_init(struct culm_listener *listener, uv_loop_t *loop, int borrow_fd,
                                    void (*accepted)(void *ctx, int take_fd),
                                    bool (*full)(void *ctx), void *ctx, struct culm_error *error);
void culm_listener_start(struct culm_listener *listener);
void culm_listener_stop(struct culm_listener *listener);
/* The struct is in use until the loop has run once more. */
void culm_listener_close(struct culm_listener *listener);

#endif
