/* Time and streams from libuv. See real_network.h. */
#include "cluster/real_network.h"

#include "base/secret.h"
#include "net/socket.h"
#include "net/world.h"

static struct culm_real_network *self(struct culm_network *network) {
    return (struct culm_real_network *)network;
}

static uint64_t network_now(struct culm_network *network) {
    (void)network;
    return culm_clock_ns();
}

static enum culm_status network_connect(struct culm_network *network, const char *address,
                                        struct culm_stream **ret_stream, struct culm_error *error) {
    int fd;
    enum culm_status status = culm_socket_connect(address, &fd, error);
    return status == CULM_OK ? culm_stream_socket_new(self(network)->loop, fd, ret_stream, error)
                             : status;
}

static enum culm_status network_random(struct culm_network *network, void *ret_bytes, size_t len) {
    (void)network;
    return culm_secret_random(ret_bytes, len, NULL);
}

static void on_alarm(uv_timer_t *timer) {
    struct culm_real_network *network = timer->data;
    network->ops->rang(network->ctx);
}

static void network_alarm(struct culm_network *base, uint64_t delay_ns) {
    struct culm_real_network *network = self(base);
    if (delay_ns == CULM_NEVER) {
        uv_timer_stop(&network->alarm);
        return;
    }
    uv_update_time(network->loop);
    uv_timer_start(&network->alarm, on_alarm, (delay_ns + 999999) / 1000000, 0);
}

static const struct culm_network_ops real_ops = {
    .size = sizeof real_ops,
    .now_ns = network_now,
    .connect = network_connect,
    .random = network_random,
    .alarm = network_alarm,
};

void culm_real_network_init(struct culm_real_network *network, uv_loop_t *loop,
                            const struct culm_real_network_ops *ops, void *ctx) {
    *network = (struct culm_real_network){
        .network = {.ops = &real_ops}, .loop = loop, .ops = ops, .ctx = ctx};
    uv_timer_init(loop, &network->alarm);
    network->alarm.data = network;
}

static void on_accepted(void *ctx, int take_fd) {
    struct culm_real_network *network = ctx;
    int64_t pid = culm_socket_peer_pid(take_fd);
    struct culm_stream *stream;
    if (culm_stream_socket_new(network->loop, take_fd, &stream, NULL) == CULM_OK) {
        network->ops->accepted(network->ctx, stream, pid);
    }
}

static bool on_evict(void *ctx) {
    struct culm_real_network *network = ctx;
    return network->ops->evict(network->ctx);
}

enum culm_status culm_real_network_listen(struct culm_real_network *network, int borrow_fd,
                                          struct culm_error *error) {
    enum culm_status status = culm_listener_init(&network->listener, network->loop, borrow_fd,
                                                 on_accepted, on_evict, network, error);
    network->has_listener = status == CULM_OK;
    return status;
}

void culm_real_network_close(struct culm_real_network *network) {
    if (network->has_listener) {
        culm_listener_close(&network->listener);
    }
    uv_close((uv_handle_t *)&network->alarm, NULL);
}
