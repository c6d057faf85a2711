/*
 * The thread that reads tensors into the arena, and what it keeps of them.
 *
 * Thread: the I/O thread's, unless a function or a member says otherwise.
 */
#ifndef CULM_LIVE_LOADER_H
#define CULM_LIVE_LOADER_H

#include "base/file.h"
#include "query/package.h"

#include <sys/types.h>

struct culm_live;

/* A tensor whose numbers have another order in memory than in its file is read in pieces of this
 * size. */
#define CULM_LIVE_PART ((size_t)1 << 18)

/* Tells whether a file has changed or been replaced by another. */
struct live_stamp {
    uint64_t device, inode, size;
    int64_t modified_ns, changed_ns;
};

/* A source as it lies in a package. */
struct live_tensor {
    struct culm_package_tensor of;
    bool turned; /* in memory it has the order that culm_graph_turn makes */
    /* The digest was right when the file had this stamp. Guarded by the run's lock. */
    bool verified;
    struct live_stamp stamp;
};

/* An unnamed file that holds units of many small tensors, each in one piece. Only the thread that
 * reads units uses it. */
struct live_spool {
    int file;  /* descriptor + 1; 0: none yet */
    off_t *at; /* [count] where each unit begins; -1: it is not there */
    int32_t count, capacity;
    bool failed; /* a write has failed: nothing more is written */
};

/* Reads a unit to its address, no faster than the rate, and sets run->read_again. One thread at a
 * time. */
enum culm_status live_read(struct culm_live *run, int32_t unit, struct culm_error *error);
/* Whether the file of a source is still the one whose digest was found right. Any thread; the
 * caller must not hold run->lock. */
bool live_intact(struct culm_live *run, int32_t source);
/* Copies each unit of several small tensors in the layout in force to the spool, so that it can be
 * read in one piece. To be called before anything runs; evicts each unit again. */
enum culm_status live_gather(struct culm_live *run, struct culm_error *error);
/* How long loads take: as edge.load_mb_per_s says, else as measured, else as the profile says; the
 * loop's thread. 0 MB/s: bytes take no time. */
void live_loading(const struct culm_live *run, double *ret_ms, double *ret_mb_per_s);

#endif
