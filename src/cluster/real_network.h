/*
 * The network of a real process (net/network.h): sockets on a libuv loop, and a listener. Internal
 * to the room. Thread: the loop's.
 */
#ifndef CULM_CLUSTER_REAL_NETWORK_H
#define CULM_CLUSTER_REAL_NETWORK_H

#include "net/listener.h"
#include "net/network.h"

struct culm_real_network_ops {
    void (*rang)(void *ctx); /* the alarm */
    /* A connection has come in, from process `pid` (0: not known). */
    void (*accepted)(void *ctx, struct culm_stream *take_stream, int64_t pid);
    bool (*evict)(void *ctx); /* see net/listener.h */
};

struct culm_real_network {
    struct culm_network network; /* first */
    uv_loop_t *loop;
    uv_timer_t alarm;
    struct culm_listener listener;
    bool has_listener;
    const struct culm_real_network_ops *ops;
    void *ctx;
};

void culm_real_network_init(struct culm_real_network *network, uv_loop_t *loop,
                            const struct culm_real_network_ops *ops, void *ctx);
/* Borrows the socket until _close; `accepted` is called only once the listener is started. */
enum culm_status culm_real_network_listen(struct culm_real_network *network, int borrow_fd,
                                          struct culm_error *error);
/* The struct is in use until the loop has run once more. */
void culm_real_network_close(struct culm_real_network *network);

#endif
