/* Time and streams from libuv. See real_fabric.h. */
#include "cluster/real_fabric.h"

#include "base/secret.h"
#include "net/socket.h"
#include "net/tls.h"
#include "net/world.h"

#include <unistd.h>

static struct culm_real_fabric *self(struct culm_fabric *fabric) {
    return (struct culm_real_fabric *)fabric;
}

static uint64_t fabric_now(struct culm_fabric *fabric) {
    (void)fabric;
    return culm_clock_ns();
}

static enum culm_status fabric_connect(struct culm_fabric *fabric, const char *address,
                                       struct culm_stream **ret_stream, struct culm_error *error) {
    const struct culm_real_fabric *own = self(fabric);
    int fd;
    struct culm_address peer;
    struct culm_tls *tls = NULL;
    enum culm_status status = culm_address_parse(address, &peer, error);
    if (status == CULM_OK) {
        status = culm_socket_connect(address, &fd, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    if (own->door.token && !own->door.plain && !culm_socket_stays(fd, &peer)) {
        status = culm_tls_new(fd, own->door.token, true, &tls, error);
    }
    if (status != CULM_OK) {
        close(fd);
        return status;
    }
    return culm_stream_socket_new(own->loop, fd, tls, ret_stream, error);
}

static enum culm_status fabric_random(struct culm_fabric *fabric, void *ret_bytes, size_t len) {
    (void)fabric;
    return culm_secret_random(ret_bytes, len, NULL);
}

static void on_alarm(uv_timer_t *timer) {
    struct culm_real_fabric *fabric = timer->data;
    fabric->ops->rang(fabric->ctx);
}

static void fabric_alarm(struct culm_fabric *base, uint64_t delay_ns) {
    struct culm_real_fabric *fabric = self(base);
    if (delay_ns == CULM_NEVER) {
        uv_timer_stop(&fabric->alarm);
        return;
    }
    uv_update_time(fabric->loop);
    uv_timer_start(&fabric->alarm, on_alarm, (delay_ns + 999999) / 1000000, 0);
}

static const struct culm_fabric_ops real_ops = {
    .size = sizeof real_ops,
    .now_ns = fabric_now,
    .connect = fabric_connect,
    .random = fabric_random,
    .alarm = fabric_alarm,
};

void culm_real_fabric_init(struct culm_real_fabric *fabric, uv_loop_t *loop,
                           const struct culm_real_fabric_ops *ops, void *ctx) {
    *fabric = (struct culm_real_fabric){
        .fabric = {.ops = &real_ops}, .loop = loop, .ops = ops, .ctx = ctx};
    uv_timer_init(loop, &fabric->alarm);
    fabric->alarm.data = fabric;
}

void culm_real_fabric_guard(struct culm_real_fabric *fabric, const char *token, bool plain) {
    fabric->door = (struct culm_stream_door){.token = token, .plain = plain || !token};
}

static void on_accepted(void *ctx, int take_fd) {
    struct culm_real_fabric *fabric = ctx;
    int64_t pid = culm_socket_peer_pid(take_fd);
    char origin[CULM_ADDRESS_HOST_SIZE];
    struct culm_stream *stream;
    culm_socket_peer_host(take_fd, origin);
    if (culm_stream_socket_accepted(fabric->loop, take_fd, &fabric->door, &stream, NULL) ==
        CULM_OK) {
        fabric->ops->accepted(fabric->ctx, stream, pid, origin);
    }
}

static bool on_evict(void *ctx) {
    struct culm_real_fabric *fabric = ctx;
    return fabric->ops->evict(fabric->ctx);
}

enum culm_status culm_real_fabric_listen(struct culm_real_fabric *fabric, int borrow_fd,
                                         struct culm_error *error) {
    enum culm_status status = culm_listener_init(&fabric->listener, fabric->loop, borrow_fd,
                                                 on_accepted, on_evict, fabric, error);
    fabric->has_listener = status == CULM_OK;
    return status;
}

void culm_real_fabric_close(struct culm_real_fabric *fabric) {
    if (fabric->has_listener) {
        culm_listener_close(&fabric->listener);
    }
    uv_close((uv_handle_t *)&fabric->alarm, NULL);
}
