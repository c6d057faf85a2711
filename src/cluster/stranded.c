/* See stranded.h. */
#include "cluster/stranded.h"

#include "base/clock.h"

#include <stddef.h>
#include <sys/mman.h>

#define MS 1000000ull

struct culm_stranded {
    uint64_t until_ns; /* some process misses a leader */
    bool cut;
};

struct culm_stranded *culm_stranded_new(void) {
    void *memory = mmap(NULL, sizeof(struct culm_stranded), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

bool culm_stranded_miss(struct culm_stranded *s, int64_t for_ms) {
    __atomic_store_n(&s->until_ns, culm_clock_ns() + (uint64_t)for_ms * MS, __ATOMIC_RELAXED);
    return __atomic_load_n(&s->cut, __ATOMIC_RELAXED);
}

bool culm_stranded_is_missed(const struct culm_stranded *s) {
    return culm_clock_ns() < __atomic_load_n(&s->until_ns, __ATOMIC_RELAXED);
}

void culm_stranded_say(struct culm_stranded *s, bool cut) {
    __atomic_store_n(&s->cut, cut, __ATOMIC_RELAXED);
}
