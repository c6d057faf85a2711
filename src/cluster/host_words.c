/* The host: hears on its loop what a store of keys has said on another thread. See culm_host_entered. */
#include "base/grow.h"
#include "cluster/host_internal.h"

#include <stdlib.h>
#include <string.h>

#define AWAY_MS 1000

/* Node by node, since another one may be entered meanwhile; -1: there is none. */
static int32_t next_entered(struct culm_host *host) {
    int32_t node = -1;
    pthread_mutex_lock(&host->lock);
    if (host->entered_count > 0) {
        node = host->entered[0];
        memmove(host->entered, host->entered + 1, --host->entered_count * sizeof *host->entered);
    }
    pthread_mutex_unlock(&host->lock);
    return node;
}

static bool take(struct culm_host *host, bool *flag) {
    pthread_mutex_lock(&host->lock);
    const bool was = *flag;
    *flag = false;
    pthread_mutex_unlock(&host->lock);
    return was;
}

static int64_t take_away(struct culm_host *host) {
    pthread_mutex_lock(&host->lock);
    const int64_t ms = host->away_ms;
    host->away_ms = -1;
    pthread_mutex_unlock(&host->lock);
    return ms;
}

/* A short while is nobody's business. */
static void tell_away(struct culm_host *host, int64_t ms) {
    if (ms >= AWAY_MS && host->lost_ms == 0) {
        host_publish_event(host, json_pack("{s:s, s:s}", "event", "store", "state", "lost"));
    } else if (ms == 0 && host->lost_ms > 0) {
        host_publish_event(host, json_pack("{s:s, s:s, s:I}", "event", "store", "state", "back",
                                           "for_ms", (json_int_t)host->lost_ms));
    }
    host->lost_ms = ms >= AWAY_MS ? ms : 0;
}

static void on_words(uv_async_t *async) {
    struct culm_host *host = async->data;
    const struct culm_leader_ops *leads = host->real.actor_ops ? host->real.actor_ops->leads : NULL;
    int32_t node;
    while (!host->real.left && (node = next_entered(host)) >= 0) {
        culm_roster_admit(host->roster, node);
    }
    for (int deed = 0; deed < CULM_DEEDS; deed++) {
        if (take(host, &host->written[deed]) && culm_real_listens(&host->real) && leads->written) {
            leads->written(host->real.actor, (enum culm_deed)deed);
        }
    }
    const int64_t away_ms = take_away(host);
    if (away_ms >= 0 && !host->real.left) {
        tell_away(host, away_ms);
    }
    if (away_ms >= 0 && culm_real_listens(&host->real) && leads->away) {
        leads->away(host->real.actor, away_ms);
    }
    if (take(host, &host->deposed) && culm_real_listens(&host->real) && leads->deposed) {
        leads->deposed(host->real.actor, 0);
    }
}

void culm_host_entered(struct culm_host *host, int32_t node) {
    pthread_mutex_lock(&host->lock);
    if (CULM_GROW(host->entered, host->entered_capacity, host->entered_count + 1)) {
        host->entered[host->entered_count++] =
            node; /* else it is given up when it has waited for long */
    }
    pthread_mutex_unlock(&host->lock);
    uv_async_send(&host->more_words);
}

static void set(struct culm_host *host, bool *flag) {
    pthread_mutex_lock(&host->lock);
    *flag = true;
    pthread_mutex_unlock(&host->lock);
    uv_async_send(&host->more_words);
}

void culm_host_written(struct culm_host *host, enum culm_deed deed) {
    set(host, &host->written[deed]);
}

void culm_host_deposed(struct culm_host *host) { set(host, &host->deposed); }

void culm_host_away(struct culm_host *host, int64_t ms) {
    pthread_mutex_lock(&host->lock);
    host->away_ms = ms;
    pthread_mutex_unlock(&host->lock);
    uv_async_send(&host->more_words);
}

/* After host_news_init, whose lock it shares. */
enum culm_status host_words_init(struct culm_host *host, struct culm_error *error) {
    const int failed = uv_async_init(&host->real.loop, &host->more_words, on_words);
    if (failed) {
        return culm_error_set(error, CULM_ERR_IO, "wake the loop: %s", uv_strerror(failed));
    }
    host->more_words.data = host;
    host->away_ms = -1;
    return CULM_OK;
}

void host_words_close(struct culm_host *host) {
    if (host->more_words.data) {
        uv_close((uv_handle_t *)&host->more_words, NULL);
    }
}

void host_words_free(struct culm_host *host) { free(host->entered); }
