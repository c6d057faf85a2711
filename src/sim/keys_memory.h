/*
 * Keys in memory, on a clock of the owner's: for tests, and as the store of a simulated world. It can be made not to answer.
 *
 * Thread: one.
 */
#ifndef CULM_SIM_KEYS_MEMORY_H
#define CULM_SIM_KEYS_MEMORY_H

#include "net/keys.h"

#define CULM_KEYS_MEMORY_GONE 64

struct culm_keys_memory {
    struct culm_keys keys; /* first */
    /* Borrowed for life. `wait` asks for the time, and lets it pass, until something has changed or it is over. */
    uint64_t (*now_ns)(void *ctx);
    void (*pass)(void *ctx, uint64_t ns);
    void *ctx;
    bool away;                  /* nothing is done, and no answer comes */
    bool forgetful;             /* all is done, and no answer comes */
    struct culm_keys_list list; /* by key */
    struct {
        int64_t id;
        uint64_t ends_ns, for_ns;
    } lease[64];
    size_t lease_count;
    int64_t leases;
    /* What was removed last, in which revision; up to `forgotten` something else may have been. */
    struct culm_keys_gone {
        char key[CULM_KEYS_KEY_MAX];
        int64_t revision;
    } gone[CULM_KEYS_MEMORY_GONE];
    size_t gone_count;
    int64_t forgotten;
};

/* NULL: out of memory. Closed as any other. */
struct culm_keys_memory *culm_keys_memory_new(uint64_t (*now_ns)(void *ctx),
                                              void (*pass)(void *ctx, uint64_t ns), void *ctx);
/* Whether a key that begins so was changed, or removed, after that revision, or may have been. */
bool culm_keys_memory_changed(const struct culm_keys_memory *memory, const char *prefix,
                              int64_t revision);

#endif
