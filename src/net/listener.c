/* accept until nobody waits, or for TURN of them; a timer in place of the poll while accept fails.
 */
#include "net/listener.h"

#include "net/socket.h"

#define AGAIN_MS 100
#define TURN 64

static void on_again(uv_timer_t *again);

static void on_poll(uv_poll_t *poll, int status, int events) {
    struct culm_listener *listener = poll->data;
    (void)status; /* accept says what there is to say */
    (void)events;
    for (int i = 0; i < TURN; i++) {
        int fd;
        enum culm_status accepted = culm_socket_accept(listener->fd, &fd, NULL);
        if (accepted == CULM_OK) {
            listener->accepted(listener->ctx, fd);
        } else if (accepted == CULM_ERR_AGAIN) {
            return;
        } else if (accepted != CULM_ERR_CLOSED &&
                   !(listener->full && listener->full(listener->ctx))) {
            uv_poll_stop(&listener->poll);
            uv_timer_start(&listener->again, on_again, AGAIN_MS, 0);
            return;
        }
    }
}

static void on_again(uv_timer_t *again) { culm_listener_start(again->data); }

enum culm_status culm_listener_init(struct culm_listener *listener, uv_loop_t *loop, int borrow_fd,
                                    void (*accepted)(void *ctx, int take_fd),
                                    bool (*full)(void *ctx), void *ctx, struct culm_error *error) {
    int failed = uv_poll_init(loop, &listener->poll, borrow_fd);
    if (failed) {
        return culm_error_set(error, CULM_ERR_IO, "watch a socket: %s", uv_strerror(failed));
    }
    uv_timer_init(loop, &listener->again);
    listener->poll.data = listener->again.data = listener;
    listener->fd = borrow_fd;
    listener->accepted = accepted;
    listener->full = full;
    listener->ctx = ctx;
    return CULM_OK;
}

void culm_listener_start(struct culm_listener *listener) {
    uv_poll_start(&listener->poll, UV_READABLE, on_poll);
}

void culm_listener_stop(struct culm_listener *listener) {
    uv_poll_stop(&listener->poll);
    uv_timer_stop(&listener->again);
}

void culm_listener_close(struct culm_listener *listener) {
    uv_close((uv_handle_t *)&listener->poll, NULL);
    uv_close((uv_handle_t *)&listener->again, NULL);
}
