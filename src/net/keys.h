/*
 * A store of keys that several machines share, and that decides one thing after another: who leads a run, and what cannot be
 * taken back. Implementations: etcd (cloud/etcd.h), and one in memory (sim/keys_memory.h) for tests and the simulated world.
 *
 * All changes have one order. Each has a *revision*, which only rises; a key remembers in which one it was created, and in
 * which it was changed last. A *lease* is a number that ends unless it is kept; keys that hang on it end with it.
 *
 * Errors of every operation:
 *   CULM_ERR_AGAIN     no answer in time, from anywhere: a change may have been made or not. Whoever asks looks, and asks again
 *   CULM_ERR_CONFIG    refused: the user, the password, a certificate, an address
 *   CULM_ERR_IO        the store is full, or broken; the text says what it said
 *   CULM_ERR_FORMAT    the answer is none of such a store
 *   CULM_ERR_MEMORY
 *
 * Thread: one at a time for each handle; operations wait for their answers. Handles are independent.
 */
#ifndef CULM_NET_KEYS_H
#define CULM_NET_KEYS_H

#include "base/status.h"

#define CULM_KEYS_VALUE_MAX ((size_t)1 << 20)
#define CULM_KEYS_KEY_MAX 512
#define CULM_KEYS_PARTS_MAX 32 /* conditions, and changes, of a transaction */

struct culm_keys;

struct culm_keys_pair {
    char *key, *value; /* the value may have any bytes, and a NUL behind them */
    size_t len;
    int64_t created, changed; /* revisions */
    int64_t lease;            /* 0: none */
};

/* What there was at one revision, by key. */
struct culm_keys_list {
    struct culm_keys_pair *pair; /* [count] */
    size_t count, capacity;
    int64_t revision;
};

/* What must be so for a transaction to happen. */
struct culm_keys_condition {
    const char *key;
    int64_t created; /* it is there since that revision; 0: it is not there */
    int64_t changed; /* and was changed last in that one; 0: in any */
};

struct culm_keys_change {
    const char *key;
    const char *value; /* NULL: it is removed, if it is there */
    size_t len;
    int64_t lease; /* on which it hangs; 0: on none */
};

/* All or nothing. */
struct culm_keys_transaction {
    const struct culm_keys_condition *condition; /* [condition_count] */
    size_t condition_count;
    const struct culm_keys_change *change; /* [change_count], of different keys */
    size_t change_count;
};

struct culm_keys_ops {
    size_t size; /* sizeof(struct culm_keys_ops), for versioning */
    /* *ret_happened: all conditions were met, and all changes are made, in *ret_revision. CULM_ERR_NOT_FOUND: a lease has
     * ended. CULM_ERR_ARGUMENT: a value or a key is too long, or there are too many parts. */
    enum culm_status (*transact)(struct culm_keys *keys, const struct culm_keys_transaction *what,
                                 bool *ret_happened, int64_t *ret_revision,
                                 struct culm_error *error);
    /* All keys that begin so, and go on as one of `rest` does: fewer than CULM_KEYS_PARTS_MAX texts in their order, of which none
     * begins as another, and a NULL; instead of them, NULL: however they go on. Release it. */
    enum culm_status (*list)(struct culm_keys *keys, const char *prefix, const char *const *rest,
                             struct culm_keys_list *ret_list, struct culm_error *error);
    /* A lease that ends after so many milliseconds without being kept, or later: *ret_ms says what was granted. */
    enum culm_status (*grant)(struct culm_keys *keys, int64_t ms, int64_t *ret_lease,
                              int64_t *ret_ms, struct culm_error *error);
    /* CULM_ERR_NOT_FOUND: it has ended. */
    enum culm_status (*keep)(struct culm_keys *keys, int64_t lease, struct culm_error *error);
    /* Ends it, with all that hangs on it; fine if it has ended. */
    enum culm_status (*revoke)(struct culm_keys *keys, int64_t lease, struct culm_error *error);
    /* Waits until a key that begins so was changed after that revision, or may have been; *ret_changed: else so many
     * milliseconds have passed. */
    enum culm_status (*wait)(struct culm_keys *keys, const char *prefix, int64_t revision,
                             int64_t ms, bool *ret_changed, struct culm_error *error);
    void (*close)(struct culm_keys *keys);
};

struct culm_keys { /* first member of an implementation */
    const struct culm_keys_ops *ops;
};

/* NULL is fine. */
void culm_keys_close(struct culm_keys *keys);
void culm_keys_list_release(struct culm_keys_list *list); /* fine on a zeroed one */
/* The pair of that key; NULL: it is not in the list. */
const struct culm_keys_pair *culm_keys_find(const struct culm_keys_list *list, const char *key);
/* For implementations: adds a copy at the end. False: out of memory. */
bool culm_keys_list_add(struct culm_keys_list *list, const struct culm_keys_pair *pair);
/* For implementations: CULM_ERR_ARGUMENT if it is none that every store takes. */
enum culm_status culm_keys_check(const struct culm_keys_transaction *what,
                                 struct culm_error *error);

#endif
