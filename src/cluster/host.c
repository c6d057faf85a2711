/* The host: its world table, and its run from the start until all processes are reaped. See
 * host.h. */
#include "cluster/host_internal.h"

#include "base/json.h"
#include "cluster/advertise.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define END_MS 2000
#define NUMBERS_MAX 8 /* addresses of a name to listen at that are tried, at most */
#define REAP_MS 5000  /* a process that has not ended so long after its kill is left behind */

void host_publish_event(struct culm_host *host, json_t *take_event) {
    double t_ms = (double)host->o.start_ms + (double)(culm_clock_ns() - host->birth_ns) / 1e6;
    json_t *event = json_object();
    if (take_event && event) {
        const json_t *view = json_object_get(take_event, "view");
        host->view = json_is_integer(view) ? json_integer_value(view) : host->view;
        json_object_set(event, "event", json_object_get(take_event, "event"));
        json_object_set_new(event, "t_ms", json_real(t_ms));
        json_object_set_new(event, "view", json_integer(host->view));
        json_object_update_missing(event, take_event);
        host->o.publish(host->o.ctx, event);
    }
    json_decref(event);
    json_decref(take_event);
}

void host_complain(struct culm_host *host, const struct culm_error *error) {
    host_publish_event(host, json_pack("{s:s, s:s, s:o}", "event", "error", "code",
                                       culm_status_name(error->status), "message",
                                       culm_json_text(error->text)));
}

/* What ends the run is an event, as what the leader ends it for is. */
static void on_failing(struct culm_real *real, const struct culm_error *error) {
    host_complain((struct culm_host *)real, error);
}

/* --- the table --- */

static void host_send(struct culm_world *world, int32_t node, const struct culm_message *message) {
    struct culm_host *host = host_of(world);
    assert(message->type < CULM_WIRE_FIRST);
    if (!host->real.left) {
        culm_roster_send(host->roster, node, message);
    }
}

static void host_fault(struct culm_world *world, const struct culm_fault_point *point) {
    (void)world;
    (void)point;
}

static void host_publish(struct culm_world *world, json_t *take_event) {
    culm_local_agent_hear_faults(
        host_of(world)->agent); /* a fault is reported before its consequences */
    host_publish_event(host_of(world), take_event);
}

static const struct culm_world_ops host_ops = {
    .size = sizeof host_ops,
    .now_ns = culm_real_now_ns,
    .send = host_send,
    .timer = culm_real_set_timer,
    .run = culm_real_run,
    .io = culm_real_io,
    .fault = host_fault,
    .publish = host_publish,
    .leave = culm_real_leave,
};

/* --- running --- */

static void on_alive(uv_timer_t *timer) {
    struct culm_host *host = timer->data;
    culm_roster_say_alive(host->roster);
}

static void on_stop(uv_poll_t *poll, int status, int events) {
    struct culm_host *host = poll->data;
    uint64_t asked;
    (void)status;
    (void)events;
    if (read(host->o.stop_fd, &asked, sizeof asked) != sizeof asked) {
        return; /* spurious: there is nothing to read */
    }
    if (asked >= CULM_HOST_ABORT) {
        culm_real_leave(&host->real.world, 75, NULL);
        host->real.exit_code = 75;
        culm_local_agent_end_all(host->agent, true);
        return;
    }
    const struct culm_leader_ops *leads = host->real.actor_ops->leads;
    if (asked >= CULM_HOST_RESIGN && leads->resign && culm_real_listens(&host->real)) {
        leads->resign(host->real.actor);
    }
    if (asked % CULM_HOST_RESIGN > 0 && !host->stopped && culm_real_listens(&host->real)) {
        host->stopped = true;
        leads->stop(host->real.actor);
    }
}

static void on_give_up(uv_timer_t *timer) { ((struct culm_host *)timer->data)->given_up = true; }

static void on_end(uv_timer_t *timer) {
    struct culm_host *host = timer->data;
    culm_local_agent_end_all(host->agent, true);
    uv_timer_start(timer, on_give_up, REAP_MS, 0);
}

static void watch(struct culm_host *host) {
    culm_listener_start(&host->fabric.listener);
    culm_local_agent_begin(host->agent);
    uint64_t alive_ms = host->o.alive_ms ? (uint64_t)host->o.alive_ms : 1000;
    uv_timer_start(&host->alive_timer, on_alive, alive_ms, alive_ms);
    if (host->o.stop_fd > 0) {
        uv_poll_start(&host->stop, UV_READABLE, on_stop);
    }
}

/* Workers get what was sent to them, then the end of the stream; those that have not joined, or do
 * not end in time, are killed; one that even so does not end (in a system call that does not
 * return) is left behind. */
static void finish(struct culm_host *host) {
    culm_listener_stop(&host->fabric.listener);
    culm_local_agent_end_all(host->agent, false);
    culm_roster_finish(host->roster);
    uv_update_time(&host->real.loop);
    uv_timer_start(&host->end, on_end, END_MS, 0);
    while (culm_local_agent_alive(host->agent) > 0 && !host->given_up) {
        uv_run(&host->real.loop, UV_RUN_ONCE);
    }
    culm_local_agent_leave_rest(host->agent);
    culm_local_agent_hear_faults(host->agent);
    if (host->o.stop_fd > 0) {
        uv_poll_stop(&host->stop);
    }
}

int culm_host_run(struct culm_host *host, const struct culm_actor_ops *ops, void *actor,
                  struct culm_error *ret_error) {
    struct culm_real *real = &host->real;
    real->actor_ops = ops;
    real->actor = actor;
    watch(host);
    ops->start(actor);
    host_call_known(host);
    while (!real->left) {
        uv_run(&real->loop, UV_RUN_DEFAULT);
    }
    finish(host);
    (void)culm_jobs_stop(real->compute, CULM_NEVER);
    (void)culm_jobs_stop(real->io, CULM_NEVER);
    if (ret_error) {
        *ret_error = real->error;
    }
    return real->exit_code;
}

int32_t culm_host_fired(const struct culm_host *host, size_t index) {
    return culm_local_agent_fired(host->agent, index);
}

/* --- life --- */

struct culm_world *culm_host_world(struct culm_host *host) {
    return &host->real.world;
}

struct culm_agent *culm_host_agent(struct culm_host *host) {
    return culm_local_agent_table(host->agent);
}

const char *culm_host_address(const struct culm_host *host) { return host->address; }

const char *culm_host_listening(const struct culm_host *host) { return host->listening; }

/* Of a host that listens at all addresses: processes of its own call it by the loopback one, others by whichever they know. */
static enum culm_status call_near(const char *listening, char ret_address[CULM_ADDRESS_SIZE],
                                  struct culm_error *error) {
    struct culm_address address;
    enum culm_status status = culm_address_parse(listening, &address, error);
    if (status == CULM_OK) {
        strcpy(address.host, address.kind == CULM_ADDRESS_IPV6 ? "::1" : "127.0.0.1");
        culm_address_print(&address, ret_address);
    }
    return status;
}

/* At the address that was reserved for it. */
static enum culm_status listen_there(struct culm_host *host, struct culm_error *error) {
    struct culm_address address;
    host->listen_fd = host->o.reserved_fd;
    enum culm_status status = culm_socket_listen_there(host->listen_fd, error);
    status = status ? status : culm_socket_local(host->listen_fd, &address, error);
    if (status != CULM_OK) {
        return status;
    }
    culm_address_print(&address, host->listening);
    return culm_advertise(host->o.advertise, host->listening, host->address, error);
}

/* A name is looked up: the first of its numbers that this machine has is where workers call. */
static enum culm_status open_listener(struct culm_host *host, struct culm_error *error) {
    struct culm_address address, number[NUMBERS_MAX];
    struct culm_error why;
    char text[CULM_ADDRESS_SIZE];
    size_t count;
    enum culm_status status;
    if (host->o.reserved_fd > 0) {
        return listen_there(host, error);
    }
    if ((status = culm_address_parse(host->o.listen ? host->o.listen : "unix:", &address, error)) ||
        (status = culm_address_resolve(&address, number, NUMBERS_MAX, &count, error))) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        culm_address_print(&number[i], text);
        enum culm_status one =
            culm_socket_listen(text, &host->listen_fd, host->address, i ? &why : error);
        if (one == CULM_OK) {
            memcpy(text, host->address, sizeof text);
            memcpy(host->listening, text, sizeof text);
            return host->o.advertise || !culm_address_is_any(&number[i])
                       ? culm_advertise(host->o.advertise, text, host->address, error)
                       : call_near(text, host->address, error);
        }
        status = i ? status : one;
    }
    return status;
}

static void init_timers(struct culm_host *host) {
    uv_timer_t *timers[] = {&host->alive_timer, &host->end};
    for (size_t i = 0; i < sizeof timers / sizeof timers[0]; i++) {
        uv_timer_init(&host->real.loop, timers[i]);
        timers[i]->data = host;
    }
}

static enum culm_status watch_stops(struct culm_host *host, struct culm_error *error) {
    if (host->o.stop_fd <= 0) {
        return CULM_OK;
    }
    int failed = uv_poll_init(&host->real.loop, &host->stop, host->o.stop_fd);
    host->stop.data = host;
    host->has_stop = !failed;
    return failed ? culm_error_set(error, CULM_ERR_IO, "watch for a stop: %s", uv_strerror(failed))
                  : CULM_OK;
}

/* Closes everything in the loop, which must have been made; other parts may be missing. */
static void close_loop(struct culm_host *host) {
    (void)culm_jobs_stop(host->real.compute, CULM_NEVER);
    (void)culm_jobs_stop(host->real.io, CULM_NEVER);
    host_links_free(host);
    if (host->agent) {
        culm_local_agent_close(host->agent);
    }
    if (host->has_stop) {
        uv_close((uv_handle_t *)&host->stop, NULL);
    }
    uv_close((uv_handle_t *)&host->alive_timer, NULL);
    uv_close((uv_handle_t *)&host->end, NULL);
    host_news_close(host);
    host_words_close(host);
    culm_real_release(&host->real);
}

static void free_memory(struct culm_host *host) {
    culm_local_agent_free(host->agent);
    host_words_free(host);
    host_news_free(host);
    if (host->listen_fd >= 0) {
        culm_socket_close_listener(host->listen_fd);
    }
    free(host);
}

enum culm_status culm_host_new(const struct culm_host_options *options, struct culm_host **ret_host,
                               struct culm_error *error) {
    struct culm_host *host = calloc(1, sizeof *host);
    if (!host) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a host");
    }
    host->o = *options;
    host->birth_ns = culm_clock_ns();
    host->listen_fd = -1;
    enum culm_status status = open_listener(host, error);
    if (status == CULM_OK) {
        status = culm_real_init(&host->real, &host_ops, error);
    }
    if (status != CULM_OK) {
        free_memory(host);
        return status;
    }
    host->real.failing = on_failing;
    init_timers(host);
    if ((status = host_news_init(host, error)) || (status = host_words_init(host, error)) ||
        (status = host_links_new(host, error)) || (status = host_agent_new(host, error)) ||
        (status = watch_stops(host, error))) {
        close_loop(host);
        free_memory(host);
        return status;
    }
    *ret_host = host;
    return CULM_OK;
}

void culm_host_free(struct culm_host *host) {
    if (host) {
        close_loop(host);
        free_memory(host);
    }
}
