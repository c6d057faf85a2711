/*
 * The fabric of a real process (net/fabric.h): sockets on a libuv loop, and a listener. Internal
 * to the room. Thread: the loop's.
 */
#ifndef CULM_CLUSTER_REAL_FABRIC_H
#define CULM_CLUSTER_REAL_FABRIC_H

#include "net/fabric.h"
#include "net/listener.h"

struct culm_real_fabric_ops {
    void (*rang)(void *ctx); /* the alarm */
    /* A connection has come in, from process `pid` (0: not known) of the host `origin` ("": this
     * machine, or not known). */
    void (*accepted)(void *ctx, struct culm_stream *take_stream, int64_t pid, const char *origin);
    bool (*evict)(void *ctx); /* see net/listener.h */
};

struct culm_real_fabric {
    struct culm_fabric fabric; /* first */
    uv_loop_t *loop;
    uv_timer_t alarm;
    struct culm_listener listener;
    bool has_listener;
    /* Between machines: TLS with this key, unless it is plain. token NULL: plain. */
    struct culm_stream_door door;
    const struct culm_real_fabric_ops *ops;
    void *ctx;
};

void culm_real_fabric_init(struct culm_real_fabric *fabric, uv_loop_t *loop,
                           const struct culm_real_fabric_ops *ops, void *ctx);
/* Borrows the socket until _close; `accepted` is called only once the listener is started. */
enum culm_status culm_real_fabric_listen(struct culm_real_fabric *fabric, int borrow_fd,
                                         struct culm_error *error);
/* The key of connections from and to other machines, before there are any; borrowed. plain: they are not encrypted, and those
 * that come in may be. */
void culm_real_fabric_guard(struct culm_real_fabric *fabric, const char *token, bool plain);
/* The struct is in use until the loop has run once more. */
void culm_real_fabric_close(struct culm_real_fabric *fabric);

#endif
