/*
 * Micro-batches ahead of their use; see the header.
 *
 * All state is under one lock, which is open while samples are filled. A slot that is being filled
 * belongs to whoever fills it: nobody else writes or evicts it, and who needs more of it waits.
 */
#include "data/prefetch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN 64

struct slot {
    bool used;  /* `first` is valid */
    bool asked; /* by a get since it was filled, or no longer planned: it may make room */
    bool filling;
    uint64_t first;
    uint32_t filled; /* fields */
    int32_t pins;
    uint64_t stamp;                 /* of its last use */
    uint64_t ids;                   /* of the samples it was filled with */
    struct culm_order_place *place; /* [batch] what it is filled with */
    void *field[CULM_SOURCE_FIELDS_MAX];
};

struct entry {
    struct culm_prefetch_want want;
    bool over; /* asked for, or tried in vain */
};

struct culm_prefetch {
    struct culm_prefetch_options o;
    pthread_mutex_t lock;
    pthread_cond_t work; /* the thread may have something to do */
    pthread_cond_t done; /* something was filled or put back, or the thread has nothing to do */
    pthread_t thread;
    bool has_thread, stop, idle;
    struct entry *plan;
    size_t plan_count, plan_capacity, at; /* entries below `at` are over */
    uint64_t clock;
    struct culm_prefetch_stats stats;
    int32_t slot_count;
    struct slot slot[];
};

static struct slot *find(struct culm_prefetch *p, uint64_t first) {
    for (int32_t i = 0; i < p->slot_count; i++) {
        if (p->slot[i].used && p->slot[i].first == first) {
            return &p->slot[i];
        }
    }
    return NULL;
}

/* Where another micro-batch may go: a free slot, else the least recently used of those that may
 * make room. For a get even one that nobody has asked for, the newest. */
static struct slot *victim(struct culm_prefetch *p, bool any) {
    struct slot *found = NULL, *last = NULL;
    for (int32_t i = 0; i < p->slot_count; i++) {
        struct slot *slot = &p->slot[i];
        if (slot->pins || slot->filling) {
            continue;
        }
        if (!slot->used) {
            return slot;
        }
        if (slot->asked && (!found || slot->stamp < found->stamp)) {
            found = slot;
        }
        if (!slot->asked && (!last || slot->stamp > last->stamp)) {
            last = slot;
        }
    }
    return found || !any ? found : last;
}

static void take(struct culm_prefetch *p, struct slot *slot, uint64_t first) {
    slot->used = true;
    slot->first = first;
    slot->filled = 0;
    slot->asked = false;
    slot->stamp = ++p->clock;
}

/* Fills fields of a slot that the caller owns; without the lock. */
static enum culm_status fill(const struct culm_prefetch *p, struct slot *slot, uint32_t fields,
                             uint64_t *ret_ids, struct culm_error *error) {
    const struct culm_source *source = p->o.source;
    const struct culm_source_field *field = culm_source_fields(source);
    int32_t count = culm_source_field_count(source);
    for (int32_t f = 0; f < count; f++) {
        if (!(fields >> f & 1) || slot->field[f]) {
            continue;
        }
        size_t bytes = (size_t)p->o.batch * field[f].size_bytes;
        slot->field[f] = aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN);
        if (!slot->field[f]) {
            return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for %zu bytes of samples",
                                  bytes);
        }
    }
    uint64_t ids = 0;
    for (int64_t i = 0; i < p->o.batch; i++) {
        void *to[CULM_SOURCE_FIELDS_MAX] = {NULL};
        for (int32_t f = 0; f < count; f++) {
            if (fields >> f & 1) {
                to[f] = (char *)slot->field[f] + (size_t)i * field[f].size_bytes;
            }
        }
        const struct culm_source_item item = {slot->place[i].sample, slot->place[i].position};
        enum culm_status status = culm_source_fill(source, item, to, error);
        if (status != CULM_OK) {
            return status;
        }
        ids += culm_order_id(item.position, item.sample);
    }
    *ret_ids = ids;
    return CULM_OK;
}

/* Fills what is missing; the lock is held before and after, and open meanwhile. */
static enum culm_status fill_missing(struct culm_prefetch *p, struct slot *slot, uint32_t fields,
                                     struct culm_error *error) {
    uint32_t missing = fields & ~slot->filled;
    slot->filling = true;
    for (int64_t i = 0; i < p->o.batch; i++) { /* turns are for one at a time */
        slot->place[i] = culm_order_turn(&p->o.order, slot->first + (uint64_t)i);
    }
    pthread_mutex_unlock(&p->lock);
    uint64_t ids = 0;
    enum culm_status status = fill(p, slot, missing, &ids, error);
    pthread_mutex_lock(&p->lock);
    slot->filling = false;
    if (status == CULM_OK) {
        slot->ids = ids; /* others may be reading the fields that were there */
        slot->filled |= missing;
    } else if (!slot->filled) {
        slot->asked = true; /* it holds nothing */
    }
    pthread_cond_broadcast(&p->done);
    pthread_cond_signal(&p->work);
    return status;
}

/* --- the thread --- */

/* The next entry that is worth a fill; moves over those that are not. */
static struct entry *next_entry(struct culm_prefetch *p) {
    for (; p->at < p->plan_count; p->at++) {
        struct entry *entry = &p->plan[p->at];
        const struct slot *slot = find(p, entry->want.first);
        bool there = slot && (slot->filling || !(entry->want.fields & ~slot->filled));
        if (!entry->over && !there) {
            return entry;
        }
    }
    return NULL;
}

static int32_t waiting(const struct culm_prefetch *p) {
    int32_t count = 0;
    for (int32_t i = 0; i < p->slot_count; i++) {
        count += p->slot[i].used && !p->slot[i].asked;
    }
    return count;
}

static void *run(void *argument) {
    struct culm_prefetch *p = argument;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        struct entry *entry = next_entry(p);
        struct slot *slot = entry ? find(p, entry->want.first) : NULL;
        if (entry && !slot && waiting(p) < p->o.ahead && (slot = victim(p, false))) {
            take(p, slot, entry->want.first);
        }
        if (!entry || !slot) {
            p->idle = true;
            pthread_cond_broadcast(&p->done);
            pthread_cond_wait(&p->work, &p->lock);
            p->idle = false;
            continue;
        }
        entry->over = true; /* should it fail, who asks will meet the same error */
        (void)fill_missing(p, slot, entry->want.fields, NULL);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* --- for the caller --- */

enum culm_status culm_prefetch_new(const struct culm_prefetch_options *options,
                                   struct culm_prefetch **ret_prefetch, struct culm_error *error) {
    if (options->batch < 1 || options->ahead < 0 || options->keep < 1 || options->ahead > 1 << 16 ||
        options->keep > 1 << 16) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "samples: batches of %lld, %d ahead, %d kept",
                              (long long)options->batch, options->ahead, options->keep);
    }
    int32_t slots = options->ahead + options->keep;
    struct culm_prefetch *p = calloc(1, sizeof *p + (size_t)slots * sizeof p->slot[0]);
    struct culm_order_place *places =
        p ? calloc((size_t)slots, (size_t)options->batch * sizeof *places) : NULL;
    if (!places) {
        free(p);
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for samples");
    }
    p->o = *options;
    p->slot_count = slots;
    for (int32_t i = 0; i < slots; i++) {
        p->slot[i].place = places + i * options->batch;
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    /* Without the thread everything is filled when asked for. */
    p->has_thread = options->ahead > 0 && pthread_create(&p->thread, NULL, run, p) == 0;
    *ret_prefetch = p;
    return CULM_OK;
}

void culm_prefetch_free(struct culm_prefetch *p) {
    if (!p) {
        return;
    }
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
    if (p->has_thread) {
        pthread_join(p->thread, NULL);
    }
    for (int32_t i = 0; i < p->slot_count; i++) {
        for (int32_t f = 0; f < CULM_SOURCE_FIELDS_MAX; f++) {
            free(p->slot[i].field[f]);
        }
    }
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->done);
    pthread_mutex_destroy(&p->lock);
    free(p->plan);
    free(p->slot[0].place);
    free(p);
}

static bool is_planned(const struct culm_prefetch *p, uint64_t first) {
    for (size_t i = 0; i < p->plan_count; i++) {
        if (p->plan[i].want.first == first) {
            return true;
        }
    }
    return false;
}

enum culm_status culm_prefetch_plan(struct culm_prefetch *p, const struct culm_prefetch_want *wants,
                                    size_t count, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    pthread_mutex_lock(&p->lock);
    p->plan_count = p->at = 0;
    if (count > p->plan_capacity) {
        struct entry *larger = realloc(p->plan, count * sizeof *larger);
        if (larger) {
            p->plan = larger;
            p->plan_capacity = count;
        } else {
            status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory for samples");
        }
    }
    for (size_t i = 0; status == CULM_OK && i < count; i++) {
        p->plan[p->plan_count++] = (struct entry){.want = wants[i]};
    }
    for (int32_t i = 0; i < p->slot_count; i++) {
        struct slot *slot = &p->slot[i];
        slot->asked = slot->asked || !is_planned(p, slot->first);
    }
    pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
    return status;
}

static void cross_off(struct culm_prefetch *p, const struct culm_prefetch_want *want) {
    for (size_t i = p->at; i < p->plan_count; i++) {
        if (p->plan[i].want.first == want->first && !(p->plan[i].want.fields & ~want->fields)) {
            p->plan[i].over = true;
            return;
        }
    }
}

/* The slot of a micro-batch, an old one or a new one, that nobody is filling; NULL: all are pinned.
 */
static struct slot *slot_for(struct culm_prefetch *p, const struct culm_prefetch_want *want,
                             bool *ret_waited) {
    for (;;) {
        bool filling = false;
        struct slot *slot = find(p, want->first);
        if (slot && (!slot->filling || !(want->fields & ~slot->filled))) {
            return slot;
        }
        if (!slot && (slot = victim(p, true))) {
            take(p, slot, want->first);
            return slot;
        }
        for (int32_t i = 0; i < p->slot_count; i++) {
            filling |= p->slot[i].filling && (slot || !p->slot[i].pins);
        }
        if (!filling) {
            return NULL;
        }
        *ret_waited = true;
        pthread_cond_wait(&p->done, &p->lock);
    }
}

enum culm_status culm_prefetch_get(struct culm_prefetch *p, struct culm_prefetch_want want,
                                   struct culm_prefetch_batch *ret_batch,
                                   struct culm_error *error) {
    enum culm_status status = CULM_OK;
    bool waited = false;
    pthread_mutex_lock(&p->lock);
    struct slot *slot = slot_for(p, &want, &waited);
    if (!slot) {
        status = culm_error_set(error, CULM_ERR_INTERNAL,
                                "all %d micro-batches of samples are in use", p->slot_count);
        pthread_mutex_unlock(&p->lock);
        return status;
    }
    cross_off(p, &want);
    slot->pins++;
    slot->asked = true;
    slot->stamp = ++p->clock;
    if (want.fields & ~slot->filled) {
        p->stats.filled++;
        status = fill_missing(p, slot, want.fields, error);
    } else if (waited) {
        p->stats.waited++;
    } else {
        p->stats.ready++;
    }
    if (status == CULM_OK) {
        *ret_batch = (struct culm_prefetch_batch){
            .first = want.first, .ids = slot->ids, .slot = (int32_t)(slot - p->slot)};
        for (int32_t f = 0; f < CULM_SOURCE_FIELDS_MAX; f++) {
            ret_batch->field[f] = want.fields >> f & 1 ? slot->field[f] : NULL;
        }
    } else {
        slot->pins--;
    }
    pthread_cond_signal(&p->work); /* one more may go ahead */
    pthread_mutex_unlock(&p->lock);
    return status;
}

void culm_prefetch_put(struct culm_prefetch *p, const struct culm_prefetch_batch *batch) {
    pthread_mutex_lock(&p->lock);
    p->slot[batch->slot].pins--;
    pthread_cond_broadcast(&p->done);
    pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
}

void culm_prefetch_settle(struct culm_prefetch *p) {
    pthread_mutex_lock(&p->lock);
    if (p->has_thread) {
        p->idle = false;
        pthread_cond_signal(&p->work);
    }
    while (p->has_thread && !p->idle) {
        pthread_cond_wait(&p->done, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
}

struct culm_prefetch_stats culm_prefetch_stats_of(struct culm_prefetch *p) {
    pthread_mutex_lock(&p->lock);
    struct culm_prefetch_stats stats = p->stats;
    pthread_mutex_unlock(&p->lock);
    return stats;
}
