/* Internals of the host, shared by host*.c only. See host.h. */
#ifndef CULM_CLUSTER_HOST_INTERNAL_H
#define CULM_CLUSTER_HOST_INTERNAL_H

#include "cluster/host.h"
#include "cluster/real.h"
#include "cluster/real_fabric.h"
#include "cluster/roster.h"
#include "net/conn.h"
#include "net/socket.h"

#include <pthread.h>

struct culm_host_news {
    size_t len;
    uint8_t data[CULM_HOST_NEWS_MAX];
};

/* What all callers in a role are told, from one place in memory. */
struct culm_host_brief {
    uint32_t role;
    bool newcomer;
    struct culm_blob *blob; /* NULL: it is empty */
};

struct culm_host {
    struct culm_real real; /* first */
    struct culm_host_options o;
    uint64_t birth_ns;
    json_int_t view; /* of the leader's last event; also put into the host's own events */
    int listen_fd;
    char address[CULM_ADDRESS_SIZE], listening[CULM_ADDRESS_SIZE];
    struct culm_local_agent *agent;
    struct culm_real_fabric fabric;
    struct culm_roster *roster;
    struct culm_host_brief *brief; /* those that were asked for */
    size_t brief_count, brief_capacity;
    uv_timer_t alive_timer, end;
    uv_poll_t stop;
    bool has_stop;
    bool stopped;         /* the leader was asked to stop */
    bool given_up;        /* processes that have not ended are left behind */
    pthread_mutex_t lock; /* protects the news */
    struct culm_host_news **news;
    size_t news_count, news_capacity;
    size_t news_told; /* so many have been sent to all workers; only used by the loop */
    uv_async_t more_news;
    /* What a store has said, and the loop has not heard yet; also protected by the lock. */
    int32_t *entered; /* [entered_count] */
    size_t entered_count, entered_capacity;
    bool written[CULM_DEEDS], deposed;
    int64_t away_ms; /* -1: nothing is new */
    /* Only used by the loop: since when it has not answered, as was told; 0: it does. */
    int64_t lost_ms;
    uv_async_t more_words;
};

static inline struct culm_host *host_of(struct culm_world *world) {
    return (struct culm_host *)world;
}

/* All of these are called on the loop thread, between culm_host_new and culm_host_free. */

/* --- host.c --- */

/* Takes the event, and passes it to options.publish with "t_ms" and "view" after "event". */
void host_publish_event(struct culm_host *host, json_t *take_event);
/* Publishes an event "error", for errors that the leader need not know of. */
void host_complain(struct culm_host *host, const struct culm_error *error);

/* --- host_news.c --- */

enum culm_status host_news_init(struct culm_host *host, struct culm_error *error);
void host_news_close(struct culm_host *host); /* before the loop is closed */
void host_news_free(struct culm_host *host);  /* fine without _init */
/* Sends a worker that has been welcomed the news that others have been sent. */
void host_news_catch_up(struct culm_host *host, int32_t node);

/* --- host_words.c --- */

enum culm_status host_words_init(struct culm_host *host, struct culm_error *error);
void host_words_close(struct culm_host *host); /* before the loop is closed */
void host_words_free(struct culm_host *host);  /* fine without _init */

/* --- host_agent.c --- */

enum culm_status host_agent_new(struct culm_host *host, struct culm_error *error);

/* --- host_link.c --- */

/* Makes the roster, and a listener on the host's socket. Nothing is accepted before the host runs.
 */
enum culm_status host_links_new(struct culm_host *host, struct culm_error *error);
void host_links_free(struct culm_host *host); /* also when _new failed */
/* Calls those who took part when another one led. */
void host_call_known(struct culm_host *host);
/* Briefs are written anew for those who ask from now on. */
void host_forget_briefs(struct culm_host *host);

#endif
