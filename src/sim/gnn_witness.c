/* A map of words, and what is asked of it. See gnn_witness.h. */
#include "sim/gnn_witness.h"

#include "base/rng.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSIONS_MAX 512

/* What a key is of: they share one map. */
enum { MADE = 1, COMMITTED = 2, STEPPED = 3 };

struct entry {
    uint64_t key, value; /* key 0: unused */
};

struct culm_gnn_witness {
    struct culm_gnn_disk disk;
    struct entry *entry;
    size_t count, capacity; /* a power of two */
    bool knows;
    /* [version] committed last; stepped to, by whomever. */
    uint64_t line[VERSIONS_MAX], state[VERSIONS_MAX];
    bool is_committed[VERSIONS_MAX], is_state[VERSIONS_MAX];
    const struct culm_gnn_witness *like;
    char wrong[200];
};

bool culm_gnn_disk_put(struct culm_gnn_disk *disk, const struct culm_gnn_disk_file *file) {
    int32_t at = disk->count;
    while (at > 0 && disk->file[at - 1].version >= file->version) {
        at--;
    }
    if (at < disk->count && disk->file[at].version == file->version) {
        if (disk->file[at].damaged) {
            disk->file[at] = *file;
        }
        return disk->file[at].digest == file->digest;
    }
    memmove(disk->file + at + 1, disk->file + at, (size_t)(disk->count - at) * sizeof *disk->file);
    disk->file[at] = *file;
    if (++disk->count > CULM_GNN_DISK_MOST) {
        memmove(disk->file, disk->file + 1, (size_t)--disk->count * sizeof *disk->file);
    }
    return true;
}

__attribute__((format(printf, 2, 3))) static void complain(struct culm_gnn_witness *witness,
                                                           const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (!witness->wrong[0]) {
        vsnprintf(witness->wrong, sizeof witness->wrong, format, args);
    }
    va_end(args);
}

/* --- the map --- */

static struct entry *place(struct entry *entry, size_t capacity, uint64_t key) {
    size_t at = key & (capacity - 1);
    while (entry[at].key && entry[at].key != key) {
        at = (at + 1) & (capacity - 1);
    }
    return &entry[at];
}

static void grow(struct culm_gnn_witness *witness) {
    const size_t capacity = witness->capacity ? 2 * witness->capacity : 1024;
    struct entry *entry = calloc(capacity, sizeof *entry);
    if (!entry) {
        abort();
    }
    for (size_t i = 0; i < witness->capacity; i++) {
        if (witness->entry[i].key) {
            *place(entry, capacity, witness->entry[i].key) = witness->entry[i];
        }
    }
    free(witness->entry);
    witness->entry = entry;
    witness->capacity = capacity;
}

static uint64_t key_of(int kind, uint64_t word, uint64_t of) {
    return culm_rng_mix(culm_rng_mix(word, of), (uint64_t)kind) | 1;
}

static void put(struct culm_gnn_witness *witness, uint64_t key, uint64_t value) {
    if (2 * (witness->count + 1) > witness->capacity) {
        grow(witness);
    }
    struct entry *entry = place(witness->entry, witness->capacity, key);
    witness->count += entry->key == 0;
    *entry = (struct entry){key, value};
}

/* NULL: it is not there. */
static const struct entry *get(const struct culm_gnn_witness *witness, uint64_t key) {
    const struct entry *entry =
        witness->capacity ? place(witness->entry, witness->capacity, key) : NULL;
    return entry && entry->key ? entry : NULL;
}

struct culm_gnn_witness *culm_gnn_witness_new(void) {
    return calloc(1, sizeof(struct culm_gnn_witness));
}

void culm_gnn_witness_free(struct culm_gnn_witness *witness) {
    if (witness) {
        free(witness->entry);
        free(witness);
    }
}

struct culm_gnn_disk *culm_gnn_witness_disk(struct culm_gnn_witness *witness) {
    return &witness->disk;
}

const char *culm_gnn_witness_wrong(const struct culm_gnn_witness *witness) {
    return witness->wrong[0] ? witness->wrong : NULL;
}

/* --- rows and sums --- */

void culm_gnn_witness_made(struct culm_gnn_witness *witness, uint64_t word, uint32_t attempt) {
    put(witness, key_of(MADE, word, attempt), 0);
}

void culm_gnn_witness_read(struct culm_gnn_witness *witness, uint64_t word, uint32_t attempt,
                           const char *what) {
    if (!get(witness, key_of(MADE, word, attempt))) {
        complain(witness, "%s of another attempt counts in attempt %" PRIu32, what, attempt);
    }
}

/* --- states --- */

static bool fits(const struct culm_gnn_witness *witness, int64_t version) {
    return version >= 0 && version < VERSIONS_MAX && witness;
}

static bool was_committed(const struct culm_gnn_witness *witness, int64_t version,
                          uint64_t digest) {
    return get(witness, key_of(COMMITTED, digest, (uint64_t)version)) != NULL;
}

void culm_gnn_witness_begin(struct culm_gnn_witness *witness, uint64_t digest) {
    witness->line[0] = witness->state[0] = digest;
    witness->is_committed[0] = witness->is_state[0] = true;
    put(witness, key_of(COMMITTED, digest, 0), 0);
}

void culm_gnn_witness_knows(struct culm_gnn_witness *witness) { witness->knows = true; }

void culm_gnn_witness_like(struct culm_gnn_witness *witness, const struct culm_gnn_witness *other) {
    witness->like = other;
}

bool culm_gnn_witness_state(const struct culm_gnn_witness *witness, int64_t version,
                            uint64_t *ret_digest) {
    if (!fits(witness, version) || !witness->is_state[version]) {
        return false;
    }
    *ret_digest = witness->state[version];
    return true;
}

static void compare(struct culm_gnn_witness *witness, int64_t version, uint64_t digest,
                    const char *what) {
    uint64_t other;
    if (witness->like && culm_gnn_witness_state(witness->like, version, &other) &&
        other != digest) {
        complain(witness, "%s version %" PRId64 " with another state than an undisturbed run", what,
                 version);
    }
}

bool culm_gnn_witness_knows_step(const struct culm_gnn_witness *witness, uint64_t to) {
    return get(witness, key_of(STEPPED, to, 0)) != NULL;
}

void culm_gnn_witness_stepped(struct culm_gnn_witness *witness, int64_t version, uint64_t from,
                              uint64_t to) {
    put(witness, key_of(STEPPED, to, 0), from);
    if (fits(witness, version)) {
        witness->state[version] = to;
        witness->is_state[version] = true;
    }
    compare(witness, version, to, "stepped to");
}

void culm_gnn_witness_loads(struct culm_gnn_witness *witness, int64_t version, uint64_t digest) {
    if (witness->knows && !was_committed(witness, version, digest)) {
        complain(witness, "loaded version %" PRId64 ", of which no commit is written down",
                 version);
    }
    compare(witness, version, digest, "loaded");
}

void culm_gnn_witness_saves(struct culm_gnn_witness *witness, int64_t version, uint64_t digest) {
    if (witness->knows && !was_committed(witness, version, digest)) {
        complain(witness, "published version %" PRId64 ", of which no commit is written down",
                 version);
    }
    compare(witness, version, digest, "published");
}

void culm_gnn_witness_committed(struct culm_gnn_witness *witness, int64_t version,
                                uint64_t digest) {
    const struct entry *from = get(witness, key_of(STEPPED, digest, 0));
    if (version < 1 || version >= VERSIONS_MAX || !from) {
        complain(witness, "committed version %" PRId64 " with a state that nobody has stepped to",
                 version);
        return;
    }
    if (!witness->is_committed[version - 1] || witness->line[version - 1] != from->value) {
        complain(witness,
                 "committed version %" PRId64 ", which follows on another state than was committed "
                 "of the version before",
                 version);
    }
    witness->line[version] = digest;
    put(witness, key_of(COMMITTED, digest, (uint64_t)version), 0);
    for (int64_t v = version; v < VERSIONS_MAX; v++) {
        witness->is_committed[v] = v == version;
    }
}
