/* A thread, a candidate, and a queue of what it is to write. See candidate.h. */
#include "launch/candidate.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/hex.h"
#include "base/secret.h"
#include "crew/lead.h"
#include "launch/roll.h"
#include "launch/sentry.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull
_Static_assert(CULM_CANDIDATE_RUN_MAX == CULM_LEAD_RUN_MAX, "names of runs");

#define LOOK_MS 100 /* how soon somebody who waits here notices that it is to stop */

struct entry {
    int32_t node;
    char *value; /* NULL: it is gone */
};

struct culm_candidate {
    struct culm_record record; /* first */
    struct culm_candidate_options o;
    char id[18];
    pthread_t thread;
    pthread_mutex_t lock; /* protects all that follows */
    pthread_cond_t more;  /* something is to be done; the state has changed */
    struct culm_sentry *sentry;
    struct culm_lead *lead;
    struct culm_lead_question *question; /* to be answered; NULL: none */
    uint64_t due_ns;                     /* of the tick; CULM_NEVER: none */
    bool quits, leads, fell, over, asked;
    enum culm_deed how; /* over */
    struct culm_reign reign;
    bool no_memory; /* for the reign */
    const struct culm_candidate_ops *ops;
    void *ctx;
    /* What is to be written. */
    bool deed_due, deed_busy, commits, saves, gives_up;
    int64_t saved;
    enum culm_deed deed;
    int64_t deed_step;
    char deed_about[CULM_DEED_ABOUT_MAX];
    struct entry *entry; /* [count]; the first is being written, if entry_busy */
    size_t count, capacity;
    bool entry_busy;
};

/* --- what the candidate asks for; the lock is held --- */

static uint64_t now_ns(void *ctx) {
    struct timespec now;
    (void)ctx;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void ask(void *ctx, struct culm_lead_question *question) {
    ((struct culm_candidate *)ctx)->question = question;
}

static void set_timer(void *ctx, int64_t ms) {
    ((struct culm_candidate *)ctx)->due_ns = culm_clock_ns() + (uint64_t)(ms > 0 ? ms : 0) * MS;
}

static bool take_node(struct culm_candidate *c, const struct culm_keys_pair *pair,
                      int32_t *capacity) {
    json_t *json = json_loadb(pair->value, pair->len, 0, NULL);
    struct culm_host_node node;
    bool room = true;
    const bool read = culm_roll_node_read(json, &node);
    if (read && !node.address[0]) { /* nobody can call it, and so it has ended with who led */
        room = CULM_GROW(c->entry, c->capacity, c->count + 1);
        if (room) {
            c->entry[c->count++] = (struct entry){node.node, NULL};
        }
    } else if (read) {
        room = CULM_GROW(c->reign.node, *capacity, c->reign.count + 1);
        if (room) {
            c->reign.node[c->reign.count++] = node;
        }
    }
    json_decref(json);
    return room;
}

static void take_reign(struct culm_candidate *c, uint64_t term, const struct culm_keys_list *list) {
    char nodes[CULM_LEAD_RUN_MAX + 16], ids[CULM_LEAD_RUN_MAX + 16];
    char saved[CULM_LEAD_RUN_MAX + 16];
    const size_t len = (size_t)snprintf(nodes, sizeof nodes, "%s/node/", c->o.run);
    int32_t capacity = 0;
    snprintf(ids, sizeof ids, "%s/ids", c->o.run);
    snprintf(saved, sizeof saved, "%s/saved", c->o.run);
    const struct culm_keys_pair *newest = culm_keys_find(list, saved);
    json_t *json = newest ? json_loadb(newest->value, newest->len, 0, NULL) : NULL;
    c->reign.saved = json_integer_value(json_object_get(json, "step"));
    json_decref(json);
    culm_lead_about(list, c->o.run, CULM_DEED_COMMIT, c->reign.committed);
    c->reign.term = term;
    for (size_t i = 0; i < list->count; i++) {
        if (strncmp(list->pair[i].key, nodes, len) == 0 &&
            !take_node(c, &list->pair[i], &capacity)) {
            c->no_memory = true;
        }
    }
    const struct culm_keys_pair *given = culm_keys_find(list, ids);
    const long long next = given ? atoll(given->value) : 0;
    c->reign.first_node = next > 0 && next < CULM_NODE_IDS ? (int32_t)next : 0;
}

static void led(void *ctx, const char *value_or_null) {
    struct culm_candidate *c = ctx;
    json_t *json = value_or_null ? json_loads(value_or_null, 0, NULL) : NULL;
    const json_int_t term = json_integer_value(json_object_get(json, "term"));
    const char *address = json_string_value(json_object_get(json, "address"));
    culm_sentry_watch(c->sentry, term > 0 && address ? (uint64_t)term : 0, address ? address : "");
    json_decref(json);
}

static void leads(void *ctx, uint64_t term, const struct culm_keys_list *list) {
    struct culm_candidate *c = ctx;
    culm_sentry_watch(c->sentry, 0, "");
    take_reign(c, term, list);
    c->leads = true;
    pthread_cond_broadcast(&c->more);
}

static void written(void *ctx, enum culm_deed deed) {
    struct culm_candidate *c = ctx;
    c->deed_busy = false;
    if (c->ops) {
        c->ops->written(c->ctx, deed);
    }
}

static void entered(void *ctx, int32_t node) {
    struct culm_candidate *c = ctx;
    const bool came = c->entry[0].value != NULL;
    c->entry_busy = false;
    free(c->entry[0].value);
    memmove(&c->entry[0], &c->entry[1], --c->count * sizeof *c->entry);
    if (came && c->ops) {
        c->ops->entered(c->ctx, node);
    }
}

static void asked(void *ctx) {
    struct culm_candidate *c = ctx;
    c->asked = true;
    if (c->ops) {
        c->ops->asked(c->ctx);
    }
}

/* It may never have led: then it stands again. */
static void deposed(void *ctx) {
    struct culm_candidate *c = ctx;
    if (!c->leads) {
        culm_lead_stand(c->lead);
        return;
    }
    c->fell = true;
    if (c->ops) {
        c->ops->deposed(c->ctx);
    }
    pthread_cond_broadcast(&c->more);
}

static void over(void *ctx, enum culm_deed how) {
    struct culm_candidate *c = ctx;
    c->over = true;
    c->how = how;
    pthread_cond_broadcast(&c->more);
}

static void away(void *ctx, int64_t ms) {
    struct culm_candidate *c = ctx;
    if (c->ops) {
        c->ops->away(c->ctx, ms);
    }
    if (c->o.away) {
        c->o.away(c->o.ctx, ms, ms ? culm_lead_problem(c->lead) : "");
    }
}

static const struct culm_lead_ops lead_ops = {sizeof lead_ops, now_ns,  ask,     set_timer,
                                              leads,           led,     written, entered,
                                              asked,           deposed, over,    away};

/* --- the thread --- */

/* Hands on what is to be written; the lock is held. */
static void feed(struct culm_candidate *c) {
    if (!culm_lead_leads(c->lead)) {
        return;
    }
    if (c->commits) {
        c->commits = false;
        culm_lead_committed(c->lead);
    }
    if (c->saves) {
        c->saves = false;
        culm_lead_saved(c->lead, c->saved);
    }
    if (c->gives_up) { /* ahead of what is to be written, if it does not */
        c->gives_up = false;
        culm_lead_give_up(c->lead);
    }
    if (c->deed_due && !c->deed_busy) {
        c->deed_due = false;
        c->deed_busy = true;
        culm_lead_write(c->lead, c->deed, c->deed_step, c->deed_about);
    }
    if (c->count > 0 && !c->entry_busy) {
        c->entry_busy = culm_lead_enter(c->lead, c->entry[0].node, c->entry[0].value);
    }
}

static void wait_until(struct culm_candidate *c, uint64_t due_ns) {
    if (due_ns == CULM_NEVER) {
        pthread_cond_wait(&c->more, &c->lock);
        return;
    }
    const struct timespec until = {.tv_sec = (time_t)(due_ns / 1000000000u),
                                   .tv_nsec = (long)(due_ns % 1000000000u)};
    (void)pthread_cond_timedwait(&c->more, &c->lock, &until);
}

static void step(struct culm_candidate *c) {
    struct culm_lead_question *question = c->question;
    if (question) {
        c->question = NULL;
        pthread_mutex_unlock(&c->lock);
        culm_lead_question_answer(question, c->o.keys);
        pthread_mutex_lock(&c->lock);
        culm_lead_answered(c->lead);
        return;
    }
    feed(c);
    if (c->question) {
        return;
    }
    if (culm_clock_ns() >= c->due_ns) {
        c->due_ns = CULM_NEVER;
        culm_lead_tick(c->lead);
        return;
    }
    wait_until(c, c->due_ns);
}

static void *work(void *ctx) {
    struct culm_candidate *c = ctx;
    pthread_mutex_lock(&c->lock);
    culm_lead_stand(c->lead);
    while (!c->quits) {
        step(c);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* --- for the owner --- */

static void record_write(struct culm_record *record, enum culm_deed deed, int64_t step,
                         const char *about) {
    struct culm_candidate *c = (struct culm_candidate *)record;
    pthread_mutex_lock(&c->lock);
    c->deed_due = true;
    c->deed = deed;
    c->deed_step = step;
    snprintf(c->deed_about, sizeof c->deed_about, "%s", about);
    pthread_cond_broadcast(&c->more);
    pthread_mutex_unlock(&c->lock);
}

static void record_give_up(struct culm_record *record) {
    struct culm_candidate *c = (struct culm_candidate *)record;
    pthread_mutex_lock(&c->lock);
    c->gives_up = true;
    pthread_cond_broadcast(&c->more);
    pthread_mutex_unlock(&c->lock);
}

static const struct culm_record_ops record_ops = {sizeof record_ops, record_write, record_give_up};

struct culm_record *culm_candidate_record(struct culm_candidate *c) {
    return &c->record;
}

/* Takes the value. */
static bool add_entry(struct culm_candidate *c, int32_t node, char *take_value) {
    pthread_mutex_lock(&c->lock);
    const bool room = CULM_GROW(c->entry, c->capacity, c->count + 1);
    if (room) {
        c->entry[c->count++] = (struct entry){node, take_value};
        pthread_cond_broadcast(&c->more);
    }
    pthread_mutex_unlock(&c->lock);
    if (!room) {
        free(take_value);
    }
    return room;
}

bool culm_candidate_enter(struct culm_candidate *c, const struct culm_host_node *node) {
    json_t *json = culm_roll_node_json(node);
    char *value = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return value && add_entry(c, node->node, value);
}

/* Without memory it stays, and is called in vain. */
void culm_candidate_gone(struct culm_candidate *c, int32_t node) { (void)add_entry(c, node, NULL); }

void culm_candidate_saved(struct culm_candidate *c, int64_t step) {
    pthread_mutex_lock(&c->lock);
    c->saves = true;
    c->saved = step;
    pthread_cond_broadcast(&c->more);
    pthread_mutex_unlock(&c->lock);
}

void culm_candidate_committed(struct culm_candidate *c) {
    pthread_mutex_lock(&c->lock);
    c->commits = true;
    pthread_cond_broadcast(&c->more);
    pthread_mutex_unlock(&c->lock);
}

static bool can_be_read(int fd) {
    struct pollfd stop = {.fd = fd, .events = POLLIN};
    return fd > 0 && poll(&stop, 1, 0) > 0;
}

enum culm_status culm_candidate_await(struct culm_candidate *c, int stop_fd,
                                      enum culm_deed *ret_how) {
    enum culm_status status = CULM_OK;
    pthread_mutex_lock(&c->lock);
    while (!c->leads && !c->over && status == CULM_OK) {
        wait_until(c, culm_clock_ns() + LOOK_MS * MS);
        status = can_be_read(stop_fd) ? CULM_ERR_CLOSED : CULM_OK;
    }
    if (c->leads) {
        status = c->no_memory ? CULM_ERR_MEMORY : CULM_OK;
    } else if (c->over) {
        *ret_how = c->how;
        status = CULM_ERR_STOPPED;
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

const struct culm_reign *culm_candidate_reign(const struct culm_candidate *c) { return &c->reign; }

void culm_candidate_serve(struct culm_candidate *c, const struct culm_candidate_ops *ops,
                          void *ctx) {
    pthread_mutex_lock(&c->lock);
    c->ops = ops;
    c->ctx = ctx;
    if (c->fell) {
        ops->deposed(ctx);
    } else if (c->asked) {
        ops->asked(ctx);
    }
    pthread_mutex_unlock(&c->lock);
}

/* --- life --- */

static void free_memory(struct culm_candidate *c) {
    for (size_t i = 0; i < c->count; i++) {
        free(c->entry[i].value);
    }
    culm_sentry_free(c->sentry);
    free(c->entry);
    free(c->reign.node);
    culm_lead_free(c->lead);
    culm_keys_close(c->o.keys);
    free(c);
}

static enum culm_status draw_id(const char *agent, char ret_id[18], struct culm_error *error) {
    unsigned char bytes[8];
    char text[17];
    const enum culm_status status = culm_secret_random(bytes, sizeof bytes, error);
    if (status == CULM_OK) {
        culm_hex(bytes, sizeof bytes, text);
        snprintf(ret_id, 18, agent ? "%.8s-%.8s" : "%.0s%.16s", agent ? agent : "", text);
    }
    return status;
}

static enum culm_status start(struct culm_candidate *c, struct culm_error *error) {
    pthread_condattr_t attr;
    enum culm_status status = draw_id(c->o.agent, c->id, error);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_lead_options options = {.run = c->o.run,
                                              .id = c->id,
                                              .address = c->o.address,
                                              .lease_ms = c->o.lease_ms,
                                              .most = c->o.most,
                                              .end_ms = c->o.end_ms,
                                              .random = now_ns(NULL) ^ (uint64_t)getpid() << 40,
                                              .ops = &lead_ops,
                                              .ctx = c};
    c->lead = culm_lead_new(&options);
    if (!c->lead) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&c->more, &attr);
    pthread_condattr_destroy(&attr);
    const int failed = pthread_create(&c->thread, NULL, work, c);
    if (failed) {
        pthread_cond_destroy(&c->more);
        pthread_mutex_destroy(&c->lock);
        return culm_error_set(error, CULM_ERR_MEMORY, "start a thread: %s", strerror(failed));
    }
    return CULM_OK;
}

enum culm_status culm_candidate_new(const struct culm_candidate_options *options,
                                    struct culm_candidate **ret_candidate,
                                    struct culm_error *error) {
    struct culm_candidate *c = calloc(1, sizeof *c);
    if (!c) {
        culm_keys_close(options->keys);
        culm_keys_close(options->more_keys);
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    c->record.ops = &record_ops;
    c->o = *options;
    c->due_ns = CULM_NEVER;
    enum culm_status status = culm_sentry_new(c->o.more_keys, c->o.run, &c->sentry, error);
    if (status == CULM_OK) {
        status = start(c, error);
    }
    if (status != CULM_OK) {
        free_memory(c);
        return status;
    }
    *ret_candidate = c;
    return CULM_OK;
}

void culm_candidate_free(struct culm_candidate *c) {
    if (!c) {
        return;
    }
    pthread_mutex_lock(&c->lock);
    c->quits = true;
    c->ops = NULL;
    pthread_cond_broadcast(&c->more);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    const int64_t lease = culm_lead_lease(c->lead);
    struct culm_error ignored;
    if (lease) {
        (void)c->o.keys->ops->revoke(c->o.keys, lease, &ignored);
    }
    pthread_cond_destroy(&c->more);
    pthread_mutex_destroy(&c->lock);
    free_memory(c);
}
