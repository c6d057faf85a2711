/* Shared by the files of the host; nobody else includes it. See host.h. */
#ifndef CULM_CLUSTER_HOST_INTERNAL_H
#define CULM_CLUSTER_HOST_INTERNAL_H

#include "cluster/host.h"
#include "cluster/real.h"
#include "cluster/real_network.h"
#include "cluster/roster.h"
#include "net/conn.h"
#include "net/socket.h"

#include <pthread.h>

struct culm_host_news {
    size_t len;
    uint8_t data[CULM_HOST_NEWS_MAX];
};

struct culm_host {
    struct culm_real real; /* first */
    struct culm_host_options o;
    uint64_t birth_ns;
    json_int_t view; /* of the actor's last event: the host's own events are in it */
    int listen_fd;
    char address[CULM_ADDRESS_SIZE];
    struct culm_local_agent *agent;
    struct culm_real_network network;
    struct culm_roster *roster;
    uv_timer_t alive_timer, end;
    uv_poll_t stop;
    bool has_stop;
    int stops;
    bool given_up;        /* what has not ended is left behind */
    pthread_mutex_t lock; /* of what follows */
    struct culm_host_news **news;
    size_t news_count, news_capacity;
    size_t news_told; /* those before were told to all who were ready; the loop's */
    uv_async_t more_news;
};

static inline struct culm_host *culm_host_of(struct culm_world *world) {
    return (struct culm_host *)world;
}

/* All of these are called on the loop thread, between culm_host_new and culm_host_free. */

/* --- host.c --- */

/* Takes the event, and gives it to the host's user with "t_ms" and "view" behind "event". */
void culm_host_publish(struct culm_host *host, json_t *take_event);
/* An "error" event: something that the actor need not hear of. */
void culm_host_complain(struct culm_host *host, const struct culm_error *error);

/* --- host_news.c --- */

enum culm_status culm_host_news_init(struct culm_host *host, struct culm_error *error);
void culm_host_news_close(struct culm_host *host); /* after _init; the loop still is there */
void culm_host_news_free(struct culm_host *host);  /* fine without _init */
/* All that others were told. */
void culm_host_news_catch_up(struct culm_host *host, int32_t node);

/* --- host_agent.c --- */

enum culm_status culm_host_agent_new(struct culm_host *host, struct culm_error *error);

/* --- host_link.c --- */

/* The roster and the listener on the host's socket; nothing is accepted before the host runs. */
enum culm_status culm_host_links_new(struct culm_host *host, struct culm_error *error);
void culm_host_links_free(struct culm_host *host); /* also when _new failed */

#endif
