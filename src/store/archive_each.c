/* A few threads that share the parts of a checkpoint, since one connection to a storage seldom fills the link. */
#include "store/archive_internal.h"

#include <pthread.h>
#include <stdlib.h>

#define THREADS 4

struct each {
    size_t count, room_bytes;
    archive_work work;
    void *ctx;
    atomic_size_t next;
    atomic_bool failed;
    pthread_mutex_t lock;
    enum culm_status status;
    struct culm_error error;
};

static void fail(struct each *each, enum culm_status status, const struct culm_error *error) {
    pthread_mutex_lock(&each->lock);
    if (each->status == CULM_OK) {
        each->status = status;
        each->error = *error;
    }
    pthread_mutex_unlock(&each->lock);
    atomic_store(&each->failed, true);
}

static void *run(void *ctx) {
    struct each *each = ctx;
    struct culm_error error;
    char *room = malloc(each->room_bytes + 1);
    if (!room) {
        fail(each, culm_error_set(&error, CULM_ERR_MEMORY, "out of memory"), &error);
    }
    size_t index;
    while (room && !atomic_load(&each->failed) &&
           (index = atomic_fetch_add(&each->next, 1)) < each->count) {
        enum culm_status status = each->work(each->ctx, index, room, &error);
        if (status != CULM_OK) {
            fail(each, status, &error);
        }
    }
    free(room);
    return NULL;
}

enum culm_status archive_each(size_t count, size_t room_bytes, archive_work work, void *ctx,
                              struct culm_error *error) {
    struct each each = {.count = count,
                        .room_bytes = room_bytes,
                        .work = work,
                        .ctx = ctx,
                        .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread[THREADS - 1];
    size_t started = 0;
    while (started < THREADS - 1 && started + 1 < count &&
           pthread_create(&thread[started], NULL, run, &each) == 0) {
        started++; /* without them it takes longer */
    }
    if (count > 0) {
        run(&each);
    }
    for (size_t i = 0; i < started; i++) {
        pthread_join(thread[i], NULL);
    }
    pthread_mutex_destroy(&each.lock);
    return each.status == CULM_OK ? CULM_OK
                                  : culm_error_set(error, each.status, "%s", each.error.text);
}
