/*
 * What the executors of a simulated run on a graph have in common: the *disk* on which checkpoints lie, of whichever leader, and a
 * *witness* that sees what each of them makes of what.
 *
 * The disk is as a storage of checkpoints is (store/archive.h): a version that is there is not published again; with the same state it
 * is taken as it is, with another one it stays.
 *
 * The witness knows in which attempts a row or a sum was made; from which state each state was stepped to; and, if it is told, which
 * states were committed. So it sees a sum of one attempt that counts in another, also where its bits look like any others; and whether
 * what is committed, saved or loaded is what a history of commits led to.
 *
 * Thread: none of its own.
 */
#ifndef CULM_SIM_GNN_WITNESS_H
#define CULM_SIM_GNN_WITNESS_H

#include "interval/verdict.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CULM_GNN_DISK_MOST 3

struct culm_gnn_disk_file {
    int64_t version;
    uint64_t digest;
    struct culm_gnn_verdict verdict;
    uint32_t branch;
    bool damaged; /* it is as if it were not there, and is published again */
};

/* The oldest first. Zeroed: there are none. */
struct culm_gnn_disk {
    struct culm_gnn_disk_file file[CULM_GNN_DISK_MOST + 1];
    int32_t count;
};

/* False: there is one of that version, of another state, which stays. The oldest gives way. */
bool culm_gnn_disk_put(struct culm_gnn_disk *disk, const struct culm_gnn_disk_file *file);

struct culm_gnn_witness;

struct culm_gnn_witness *culm_gnn_witness_new(void); /* NULL: out of memory */
void culm_gnn_witness_free(struct culm_gnn_witness *witness);
struct culm_gnn_disk *culm_gnn_witness_disk(struct culm_gnn_witness *witness);
/* The first thing that was wrong; NULL: nothing was. */
const char *culm_gnn_witness_wrong(const struct culm_gnn_witness *witness);

/* --- of executors --- */

/* Rows, or a sum, each of one word. */
void culm_gnn_witness_made(struct culm_gnn_witness *witness, uint64_t word, uint32_t attempt);
/* It is read in that attempt: what was made in others alone is wrong there. */
void culm_gnn_witness_read(struct culm_gnn_witness *witness, uint64_t word, uint32_t attempt,
                           const char *what);
/* Somebody has stepped to that state before. Who repeats that, with sums that were handed on, makes nothing new of them, in whatever
 * attempt: what the first holder has stepped to decides. */
bool culm_gnn_witness_knows_step(const struct culm_gnn_witness *witness, uint64_t to);
void culm_gnn_witness_stepped(struct culm_gnn_witness *witness, int64_t version, uint64_t from,
                              uint64_t to);
void culm_gnn_witness_loads(struct culm_gnn_witness *witness, int64_t version, uint64_t digest);
void culm_gnn_witness_saves(struct culm_gnn_witness *witness, int64_t version, uint64_t digest);

/* --- of whoever judges the run --- */

/* All states of it come from this one, of version 0. */
void culm_gnn_witness_begin(struct culm_gnn_witness *witness, uint64_t digest);
/* From now on only what was committed may be saved, or loaded. */
void culm_gnn_witness_knows(struct culm_gnn_witness *witness);
/* That version is committed, with that state: which has to follow on that of the version before, as it was committed last. */
void culm_gnn_witness_committed(struct culm_gnn_witness *witness, int64_t version, uint64_t digest);
/* What all that have come to a version have come to, once; false: nobody has. Where they differ it is any of them. */
bool culm_gnn_witness_state(const struct culm_gnn_witness *witness, int64_t version,
                            uint64_t *ret_digest);
/* Nothing that is done again has other bits: each state is to be the other run's of that version, as far as that one has come. NULL is
 * fine; borrowed for life. */
void culm_gnn_witness_like(struct culm_gnn_witness *witness, const struct culm_gnn_witness *other);

#endif
