/* Digests of whole inputs that are found while the run is under way. See inputs.h. */
#include "base/grow.h"
#include "train/inputs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Which pin it is of follows from what else is known of it: no path travels. */
struct whole {
    char part[CULM_SHA256_HEX], whole[CULM_SHA256_HEX];
    struct culm_stamp stamp;
};

struct culm_digest_news {
    pthread_mutex_t lock;
    struct whole *known;
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
        pthread_mutex_init(&news->lock, NULL);
    }
    return news;
}

void culm_digest_news_free(struct culm_digest_news *news) {
    if (news) {
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
    if (!culm_reader_done(&in) || strlen(whole.whole) != CULM_SHA256_HEX - 1) {
        return CULM_ERR_FORMAT;
    }
    pthread_mutex_lock(&news->lock);
    bool there = CULM_GROW(news->known, news->capacity, news->count + 1);
    if (there) {
        news->known[news->count++] = whole;
    }
    pthread_mutex_unlock(&news->lock);
    return there ? CULM_OK : CULM_ERR_MEMORY;
}

static void find(void *ctx, const struct culm_pin *pin, char *ret_hex) {
    struct culm_digest_news *news = ctx;
    pthread_mutex_lock(&news->lock);
    for (size_t i = 0; i < news->count; i++) {
        const struct whole *known = &news->known[i];
        if (strcmp(known->part, pin->part) == 0 && culm_stamp_same(&known->stamp, &pin->stamp)) {
            memcpy(ret_hex, known->whole, sizeof known->whole);
        }
    }
    pthread_mutex_unlock(&news->lock);
}

void culm_inputs_ask_news(struct culm_inputs *inputs, struct culm_digest_news *news) {
    culm_pins_ask(inputs->pins, find, news);
}
