/* A sorted list; leases end when anybody looks. See keys_memory.h. */
#include "sim/keys_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define LOOK_NS (MS)

static struct culm_keys_memory *self(struct culm_keys *keys) {
    return (struct culm_keys_memory *)keys;
}

static size_t place_of(const struct culm_keys_memory *m, const char *key) {
    size_t at = 0;
    while (at < m->list.count && strcmp(m->list.pair[at].key, key) < 0) {
        at++;
    }
    return at;
}

static struct culm_keys_pair *find(struct culm_keys_memory *m, const char *key) {
    return (struct culm_keys_pair *)culm_keys_find(&m->list, key);
}

static void take_out(struct culm_keys_memory *m, struct culm_keys_pair *pair) {
    const size_t at = (size_t)(pair - m->list.pair);
    free(pair->key);
    free(pair->value);
    memmove(pair, pair + 1, (--m->list.count - at) * sizeof *pair);
}

/* In that revision, which is remembered for those who wait as long as there is room. */
static void take_away(struct culm_keys_memory *m, struct culm_keys_pair *pair, int64_t revision) {
    struct culm_keys_gone *gone = &m->gone[m->gone_count++ % CULM_KEYS_MEMORY_GONE];
    m->forgotten = gone->revision;
    gone->revision = revision;
    snprintf(gone->key, sizeof gone->key, "%s", pair->key);
    take_out(m, pair);
}

/* --- leases --- */

static void end_lease(struct culm_keys_memory *m, size_t at) {
    const int64_t id = m->lease[at].id;
    bool any = false;
    for (size_t i = m->list.count; i-- > 0;) {
        if (m->list.pair[i].lease == id) {
            take_away(m, &m->list.pair[i], m->list.revision + 1);
            any = true;
        }
    }
    m->list.revision += any;
    m->lease[at] = m->lease[--m->lease_count];
}

static void end_leases(struct culm_keys_memory *m) {
    for (size_t i = m->lease_count; i-- > 0;) {
        if (m->lease[i].ends_ns <= m->now_ns(m->ctx)) {
            end_lease(m, i);
        }
    }
}

/* lease_count: it has ended. */
static size_t lease_of(const struct culm_keys_memory *m, int64_t id) {
    size_t at = 0;
    while (at < m->lease_count && m->lease[at].id != id) {
        at++;
    }
    return at;
}

static enum culm_status ended(int64_t lease, struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_NOT_FOUND, "lease %lld has ended", (long long)lease);
}

static enum culm_status no_answer(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_AGAIN, "the store does not answer");
}

/* What it answers, if it does. */
static enum culm_status answer(const struct culm_keys_memory *m, enum culm_status status,
                               struct culm_error *error) {
    return m->forgetful ? no_answer(error) : status;
}

/* --- the table --- */

static bool holds(struct culm_keys_memory *m, const struct culm_keys_condition *condition) {
    const struct culm_keys_pair *pair = find(m, condition->key);
    return pair ? pair->created == condition->created &&
                      (!condition->changed || pair->changed == condition->changed)
                : condition->created == 0;
}

static bool put(struct culm_keys_memory *m, const struct culm_keys_change *change) {
    struct culm_keys_pair *there = find(m, change->key);
    const int64_t created = there ? there->created : m->list.revision;
    const struct culm_keys_pair pair = {.key = (char *)change->key,
                                        .value = (char *)change->value,
                                        .len = change->len,
                                        .created = created,
                                        .changed = m->list.revision,
                                        .lease = change->lease};
    if (there) {
        take_out(m, there);
    }
    const size_t at = place_of(m, change->key);
    if (!culm_keys_list_add(&m->list, &pair)) {
        return false;
    }
    const struct culm_keys_pair last = m->list.pair[m->list.count - 1];
    memmove(&m->list.pair[at + 1], &m->list.pair[at],
            (m->list.count - 1 - at) * sizeof *m->list.pair);
    m->list.pair[at] = last;
    return true;
}

static enum culm_status memory_transact(struct culm_keys *keys,
                                        const struct culm_keys_transaction *what,
                                        bool *ret_happened, int64_t *ret_revision,
                                        struct culm_error *error) {
    struct culm_keys_memory *m = self(keys);
    enum culm_status status = culm_keys_check(what, error);
    bool happens = true, room = true;
    if (status != CULM_OK || m->away) {
        return status ? status : no_answer(error);
    }
    end_leases(m);
    for (size_t i = 0; i < what->condition_count; i++) {
        happens &= holds(m, &what->condition[i]);
    }
    for (size_t i = 0; i < what->change_count && happens; i++) {
        const int64_t lease = what->change[i].value ? what->change[i].lease : 0;
        if (lease && lease_of(m, lease) == m->lease_count) {
            return answer(m, ended(lease, error), error);
        }
    }
    m->list.revision += happens && what->change_count > 0;
    for (size_t i = 0; i < what->change_count && happens && room; i++) {
        struct culm_keys_pair *there = find(m, what->change[i].key);
        if (what->change[i].value) {
            room = put(m, &what->change[i]);
        } else if (there) {
            take_away(m, there, m->list.revision);
        }
    }
    *ret_happened = happens;
    *ret_revision = m->list.revision;
    return room ? answer(m, CULM_OK, error)
                : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

static bool begins(const char *key, const char *prefix, const char *const *rest) {
    const size_t len = strlen(prefix);
    bool as_one = rest == NULL;
    if (strncmp(key, prefix, len) != 0) {
        return false;
    }
    for (size_t i = 0; rest && rest[i]; i++) {
        as_one = as_one || strncmp(key + len, rest[i], strlen(rest[i])) == 0;
    }
    return as_one;
}

static enum culm_status memory_list(struct culm_keys *keys, const char *prefix,
                                    const char *const *rest, struct culm_keys_list *ret_list,
                                    struct culm_error *error) {
    struct culm_keys_memory *m = self(keys);
    bool room = true;
    *ret_list = (struct culm_keys_list){0};
    if (m->away || m->forgetful) {
        return no_answer(error);
    }
    end_leases(m);
    ret_list->revision = m->list.revision;
    for (size_t i = 0; i < m->list.count && room; i++) {
        if (begins(m->list.pair[i].key, prefix, rest)) {
            room = culm_keys_list_add(ret_list, &m->list.pair[i]);
        }
    }
    if (!room) {
        culm_keys_list_release(ret_list);
    }
    return room ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

static enum culm_status memory_grant(struct culm_keys *keys, int64_t ms, int64_t *ret_lease,
                                     int64_t *ret_ms, struct culm_error *error) {
    struct culm_keys_memory *m = self(keys);
    if (m->away) {
        return no_answer(error);
    }
    end_leases(m);
    if (m->lease_count == sizeof m->lease / sizeof m->lease[0]) {
        return culm_error_set(error, CULM_ERR_IO, "the store has room for %zu leases",
                              m->lease_count);
    }
    const uint64_t for_ns = (uint64_t)ms * MS;
    *ret_lease = ++m->leases;
    *ret_ms = ms;
    m->lease[m->lease_count].id = *ret_lease;
    m->lease[m->lease_count].for_ns = for_ns;
    m->lease[m->lease_count++].ends_ns = m->now_ns(m->ctx) + for_ns;
    return answer(m, CULM_OK, error);
}

static enum culm_status memory_keep(struct culm_keys *keys, int64_t lease,
                                    struct culm_error *error) {
    struct culm_keys_memory *m = self(keys);
    if (m->away) {
        return no_answer(error);
    }
    end_leases(m);
    const size_t at = lease_of(m, lease);
    if (at == m->lease_count) {
        return answer(m, ended(lease, error), error);
    }
    m->lease[at].ends_ns = m->now_ns(m->ctx) + m->lease[at].for_ns;
    return answer(m, CULM_OK, error);
}

static enum culm_status memory_revoke(struct culm_keys *keys, int64_t lease,
                                      struct culm_error *error) {
    struct culm_keys_memory *m = self(keys);
    if (m->away) {
        return no_answer(error);
    }
    end_leases(m);
    const size_t at = lease_of(m, lease);
    if (at < m->lease_count) {
        end_lease(m, at);
    }
    return answer(m, CULM_OK, error);
}

bool culm_keys_memory_changed(const struct culm_keys_memory *m, const char *prefix,
                              int64_t revision) {
    bool changed = revision < m->forgotten;
    for (size_t i = 0; i < m->list.count; i++) {
        changed = changed || (m->list.pair[i].changed > revision &&
                              strncmp(m->list.pair[i].key, prefix, strlen(prefix)) == 0);
    }
    for (size_t i = 0; i < CULM_KEYS_MEMORY_GONE; i++) {
        changed = changed || (m->gone[i].revision > revision &&
                              strncmp(m->gone[i].key, prefix, strlen(prefix)) == 0);
    }
    return changed;
}

static enum culm_status memory_wait(struct culm_keys *keys, const char *prefix, int64_t revision,
                                    int64_t ms, bool *ret_changed, struct culm_error *error) {
    struct culm_keys_memory *m = self(keys);
    const uint64_t until = m->now_ns(m->ctx) + (uint64_t)ms * MS;
    for (;;) {
        if (m->away || m->forgetful) {
            return no_answer(error);
        }
        end_leases(m);
        *ret_changed = culm_keys_memory_changed(m, prefix, revision);
        if (*ret_changed || m->now_ns(m->ctx) >= until) {
            return CULM_OK;
        }
        m->pass(m->ctx, LOOK_NS);
    }
}

static void memory_close(struct culm_keys *keys) {
    culm_keys_list_release(&self(keys)->list);
    free(keys);
}

static const struct culm_keys_ops memory_ops = {
    .size = sizeof memory_ops,
    .transact = memory_transact,
    .list = memory_list,
    .grant = memory_grant,
    .keep = memory_keep,
    .revoke = memory_revoke,
    .wait = memory_wait,
    .close = memory_close,
};

struct culm_keys_memory *culm_keys_memory_new(uint64_t (*now_ns)(void *ctx),
                                              void (*pass)(void *ctx, uint64_t ns), void *ctx) {
    struct culm_keys_memory *m = calloc(1, sizeof *m);
    if (m) {
        m->keys.ops = &memory_ops;
        m->now_ns = now_ns;
        m->pass = pass;
        m->ctx = ctx;
        m->list.revision = 1;
    }
    return m;
}
