/* Digests of whole inputs that are found while the run is under way. See inputs.h. */
#include "base/grow.h"
#include "store/inputs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Which pin it is of follows from what else is known of it: no path travels. */
struct whole {
    char part[CULM_SHA256_HEX], whole[CULM_SHA256_HEX];
    struct culm_stamp stamp;
};

struct culm_digest_news {
    pthread_mutex_t lock;
    pthread_cond_t more;
    bool no_waits;
    struct whole *known; /* a digest "": none will be found */
    size_t count, capacity;
};

void culm_digest_news_encode(const struct culm_pin *pin, struct culm_buf *buf) {
    culm_buf_string(buf, pin->part);
    culm_buf_string(buf, pin->whole);
    culm_buf_u64(buf, pin->stamp.inode);
    culm_buf_u64(buf, pin->stamp.bytes);
    culm_buf_u64(buf, (uint64_t)pin->stamp.mtime_ns);
    culm_buf_u64(buf, (uint64_t)pin->stamp.ctime_ns);
}

struct culm_digest_news *culm_digest_news_new(void) {
    struct culm_digest_news *news = calloc(1, sizeof *news);
    if (news) {
        pthread_condattr_t monotonic;
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&news->more, &monotonic);
        pthread_condattr_destroy(&monotonic);
        pthread_mutex_init(&news->lock, NULL);
    }
    return news;
}

void culm_digest_news_free(struct culm_digest_news *news) {
    if (news) {
        pthread_cond_destroy(&news->more);
        pthread_mutex_destroy(&news->lock);
        free(news->known);
        free(news);
    }
}

enum culm_status culm_digest_news_hear(struct culm_digest_news *news, const void *data,
                                       size_t len) {
    struct culm_reader in = culm_reader_of(data, len);
    struct whole whole;
    culm_read_string(&in, whole.part, sizeof whole.part);
    culm_read_string(&in, whole.whole, sizeof whole.whole);
    whole.stamp.inode = culm_read_u64(&in);
    whole.stamp.bytes = culm_read_u64(&in);
    whole.stamp.mtime_ns = (int64_t)culm_read_u64(&in);
    whole.stamp.ctime_ns = (int64_t)culm_read_u64(&in);
    if (!culm_reader_done(&in) || (whole.whole[0] && strlen(whole.whole) != CULM_SHA256_HEX - 1)) {
        return CULM_ERR_FORMAT;
    }
    pthread_mutex_lock(&news->lock);
    bool there = CULM_GROW(news->known, news->capacity, news->count + 1);
    if (there) {
        news->known[news->count++] = whole;
        pthread_cond_broadcast(&news->more);
    }
    pthread_mutex_unlock(&news->lock);
    return there ? CULM_OK : CULM_ERR_MEMORY;
}

void culm_digest_news_end_waits(struct culm_digest_news *news) {
    if (news) {
        pthread_mutex_lock(&news->lock);
        news->no_waits = true;
        pthread_cond_broadcast(&news->more);
        pthread_mutex_unlock(&news->lock);
    }
}

/* Under the lock. NULL: nothing was told of it. */
static const struct whole *told(const struct culm_digest_news *news, const struct culm_pin *pin) {
    for (size_t i = 0; i < news->count; i++) {
        const struct whole *known = &news->known[i];
        if (strcmp(known->part, pin->part) == 0 && culm_stamp_same(&known->stamp, &pin->stamp)) {
            return known;
        }
    }
    return NULL;
}

/* Wakes up now and then: a thread that uses no processor time counts as one that is stuck
 * (cluster/preparing.h). */
static void rest(struct culm_digest_news *news) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 50000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&news->more, &news->lock, &until);
}

static bool find(void *ctx, const struct culm_pin *pin, bool wait, char *ret_hex) {
    struct culm_digest_news *news = ctx;
    pthread_mutex_lock(&news->lock);
    const struct whole *known = told(news, pin);
    while (!known && wait && !news->no_waits) {
        rest(news);
        known = told(news, pin);
    }
    if (known) {
        memcpy(ret_hex, known->whole, sizeof known->whole);
    }
    bool later = !known && !news->no_waits;
    pthread_mutex_unlock(&news->lock);
    return later;
}

void culm_inputs_ask_news(struct culm_inputs *inputs, struct culm_digest_news *news) {
    culm_pins_ask(inputs->pins, find, news);
}
