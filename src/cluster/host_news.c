/* The host: sends additions to the brief. See culm_host_add_news. */
#include "base/grow.h"
#include "cluster/host_internal.h"

#include <stdlib.h>
#include <string.h>

/* Called on the loop. Other threads may add news at any time, but none are ever removed. */
static const struct culm_host_news *news_at(struct culm_host *host, size_t index) {
    const struct culm_host_news *news = NULL;
    pthread_mutex_lock(&host->lock);
    if (index < host->news_count) {
        news = host->news[index];
    }
    pthread_mutex_unlock(&host->lock);
    return news;
}

static void on_more(uv_async_t *async) {
    struct culm_host *host = async->data;
    const struct culm_host_news *news;
    host_forget_briefs(host); /* new ones may have it already */
    while ((news = news_at(host, host->news_told))) {
        culm_roster_news_all(host->roster, news->data, news->len);
        host->news_told++;
    }
}

void host_news_catch_up(struct culm_host *host, int32_t node) {
    for (size_t i = 0; i < host->news_told; i++) {
        const struct culm_host_news *news = news_at(host, i);
        culm_roster_news(host->roster, node, news->data, news->len);
    }
}

enum culm_status culm_host_add_news(struct culm_host *host, const void *news, size_t len) {
    struct culm_host_news *copy = len <= CULM_HOST_NEWS_MAX ? malloc(sizeof *copy) : NULL;
    if (!copy) {
        return len <= CULM_HOST_NEWS_MAX ? CULM_ERR_MEMORY : CULM_ERR_ARGUMENT;
    }
    copy->len = len;
    memcpy(copy->data, news, len);
    pthread_mutex_lock(&host->lock);
    bool there = CULM_GROW(host->news, host->news_capacity, host->news_count + 1);
    if (there) {
        host->news[host->news_count++] = copy;
    }
    pthread_mutex_unlock(&host->lock);
    if (!there) {
        free(copy);
        return CULM_ERR_MEMORY;
    }
    uv_async_send(&host->more_news);
    return CULM_OK;
}

enum culm_status host_news_init(struct culm_host *host, struct culm_error *error) {
    int failed = uv_async_init(&host->real.loop, &host->more_news, on_more);
    if (failed) {
        return culm_error_set(error, CULM_ERR_IO, "wake the loop: %s", uv_strerror(failed));
    }
    pthread_mutex_init(&host->lock, NULL);
    host->more_news.data = host;
    return CULM_OK;
}

void host_news_close(struct culm_host *host) {
    if (host->more_news.data) {
        uv_close((uv_handle_t *)&host->more_news, NULL);
    }
}

void host_news_free(struct culm_host *host) {
    for (size_t i = 0; i < host->news_count; i++) {
        free(host->news[i]);
    }
    free(host->news);
    if (host->more_news.data) {
        pthread_mutex_destroy(&host->lock);
    }
}
