/*
 * A package: the weights of several models, each tensor stored once, and which model uses which.
 *
 *     DIR/tensors/DIGEST     float32, little-endian; DIGEST is the SHA-256 of
 *                            "f32 [64, 32, 3, 3]\n" and these bytes
 *     DIR/rounds/N.json      the share map of round N: query -> parameter -> DIGEST
 *     DIR/current            "N SHA256\n": the current round, and the digest of its file
 *
 * Round 0 is the originals. Every later round gives for each parameter the tensor it has now and
 * the one it had originally, so the originals can be reached from any round. A round is published
 * by replacing `current` as the last step: a reader, or a restart after a crash, finds the old
 * round or the new one, complete. Tensors and the current round never change, so copying a package
 * again (`current` last) transfers only what is new.
 *
 * Packages come from outside and are not trusted: names, shapes, sizes and sums are checked when a
 * round is read, digests when a tensor is read. CULM_ERR_FORMAT: `package 'DIR': what is wrong`.
 *
 * Thread: constant after reading; one writer a package.
 */
#ifndef CULM_QUERY_PACKAGE_H
#define CULM_QUERY_PACKAGE_H

#include "base/file.h"
#include "base/sha256.h"

#define CULM_PACKAGE_FORMAT "culm-package-1"
#define CULM_PACKAGE_STRUCTURE_MAX 128
#define CULM_PACKAGE_READING_MAX 96
#define CULM_PACKAGE_RANK_MAX 8
#define CULM_PACKAGE_QUERIES_MAX 4096
#define CULM_PACKAGE_NAME_SIZE 96

struct culm_package_tensor {
    char digest[CULM_SHA256_HEX];
    int32_t rank;
    int64_t shape[CULM_PACKAGE_RANK_MAX];
    int64_t count; /* elements; the file has 4 * count bytes */
};

struct culm_package_param {
    char name[CULM_PACKAGE_NAME_SIZE]; /* in the model's graph */
    int32_t tensor;                    /* the tensor it has now: index in the round */
    int32_t original;                  /* the tensor it had originally */
    int32_t layer; /* the layer whose weights or bias it is (vision/model.h); -1: none */
};

/* How the merged model's answer to a frame differs from the original's, or from labels: boxes (or
 * 1, for a best class) that were wanted, missed among these, and answered too many. */
struct culm_package_sample {
    int32_t wanted, missed, added;
};
#define CULM_PACKAGE_SAMPLES_MAX 512
#define CULM_PACKAGE_COUNT_MAX 1000000 /* limit on each number of a sample */

struct culm_package_query {
    char name[65];
    char *model;   /* as the workload named it; owned */
    char *weights; /* owned; NULL: the model's own */
    char *names;   /* file with names of classes; owned; NULL: the model's own */
    /* How the model is read where its file does not say it (query/reading.h); "": as that says. */
    char reading[CULM_PACKAGE_READING_MAX];
    bool normalized;                /* mean and deviation are given; else the model's own */
    float mean[3], deviation[3];    /* value = (x / 255 - mean) / deviation */
    char identity[CULM_SHA256_HEX]; /* equal if two queries use the same files */
    /* What the model is apart from its numbers, as the writer describes that (vision/model.h); "":
     * not said, as in packages of older versions. */
    char structure[CULM_PACKAGE_STRUCTURE_MAX];
    double target;           /* share of the original's accuracy to keep */
    double original, merged; /* accuracies on held-out frames; negative: not measured */
    double agreement; /* share of the original's answers there that it gives, too; likewise */
    /* How much its boxes there overlap those of its original that they are, on average; negative: not
     * measured, as by older versions, or it has none. */
    double overlap;
    /* On held-out frames, in their order, against the original's answers, boxes at `sample_score`;
     * `sample_step` frames of the feed from one to the next. NULL: none, as before measurement and
     * in packages of older versions; owned. */
    struct culm_package_sample *sample;
    int32_t sample_count;
    double sample_score, sample_step;
    struct culm_package_param *param;
    int32_t param_count, param_capacity;
};

struct culm_package_round {
    int64_t number;
    /* Of its file. A package that was made afresh may have the same number again. */
    char digest[CULM_SHA256_HEX];
    struct culm_package_query *query;
    int32_t query_count, query_capacity;
    struct culm_package_tensor *tensor; /* no two are equal */
    int32_t tensor_count, tensor_capacity;
};

/* --- reading --- */

/* Reads the current round. CULM_ERR_NOT_FOUND: there is no package. The caller releases the
 * round. */
enum culm_status culm_package_open(const char *dir, struct culm_package_round *ret_round,
                                   struct culm_error *error);
/* Reads another round of the package, likewise. */
enum culm_status culm_package_open_round(const char *dir, int64_t number,
                                         struct culm_package_round *ret_round,
                                         struct culm_error *error);
/* Whether the current round is another one than this by now; cheap. True if that cannot be read:
 * culm_package_open says why. */
bool culm_package_moved(const char *dir, int64_t number, const char *digest);
void culm_package_round_release(struct culm_package_round *round); /* fine on a zeroed struct */

int32_t culm_package_query_find(const struct culm_package_round *round,
                                const char *name); /* or -1 */
int32_t culm_package_param_find(const struct culm_package_query *query,
                                const char *name); /* or -1 */

enum culm_status culm_package_tensor_path(const char *dir, const char *digest,
                                          char ret_path[CULM_PATH_MAX], struct culm_error *error);
/* Reads a tensor into ret_data[count] and verifies its digest. */
enum culm_status culm_package_read(const char *dir, const struct culm_package_tensor *tensor,
                                   float *ret_data, struct culm_error *error);
/* Reads and verifies every tensor of a round. */
enum culm_status culm_package_check(const char *dir, const struct culm_package_round *round,
                                    struct culm_error *error);
/* Parses the text of a round; does not look at the files of its tensors. */
enum culm_status culm_package_parse(const char *text, size_t len, const char *name,
                                    struct culm_package_round *ret_round, struct culm_error *error);

/* The sizes of a round. Layers are the weights and biases of convolutions and linear layers.
 * Queries with the same identity count as one model. */
struct culm_package_sums {
    int64_t total_bytes, distinct_bytes;   /* of layers: over all models; each tensor once */
    int64_t tensor_bytes, tensor_distinct; /* likewise, of all parameters */
};
enum culm_status culm_package_sum(const struct culm_package_round *round,
                                  struct culm_package_sums *ret_sums, struct culm_error *error);
/* The bytes of the query's layers whose tensors another model has, too. */
int64_t culm_package_shared_bytes(const struct culm_package_round *round, int32_t query);

/* --- writing --- */

/* Adds a query without parameters; copies the texts. Valid until the next call. NULL: out of
 * memory. */
struct culm_package_query *culm_package_add_query(struct culm_package_round *round,
                                                  const char *name, const char *model,
                                                  const char *weights, const char *identity);
/* The index of a tensor with this digest, added if it is new; -1: out of memory. */
int32_t culm_package_add_tensor(struct culm_package_round *round,
                                const struct culm_package_tensor *tensor);
/* Adds a parameter. CULM_ERR_ARGUMENT: the name is too long. */
enum culm_status culm_package_add_param(struct culm_package_query *query, const char *name,
                                        int32_t tensor, int32_t original, int32_t layer,
                                        struct culm_error *error);

/* Fills in the digest of a tensor whose rank and shape are set. */
enum culm_status culm_package_digest(struct culm_package_tensor *tensor, const float *data,
                                     struct culm_error *error);
/* Starts the digest of a tensor whose numbers come piece by piece: add them to *ret_hash, and
 * finish it. */
enum culm_status culm_package_digest_begin(const struct culm_package_tensor *tensor,
                                           struct culm_sha256 *ret_hash);
/* Creates the folders of a package that are missing. */
enum culm_status culm_package_make(struct culm_fs *fs, const char *dir, struct culm_error *error);
/* Writes a tensor unless its file is there and intact. *ret_bytes (may be NULL): the bytes
 * written. */
enum culm_status culm_package_put(struct culm_fs *fs, const char *dir,
                                  const struct culm_package_tensor *tensor, const float *data,
                                  uint64_t *ret_bytes, struct culm_error *error);
/* Makes a round durable and current. All its tensors must have been put. Publishing the current
 * round once more is fine and changes nothing; CULM_ERR_ARGUMENT for a different one with the
 * current round's number. */
enum culm_status culm_package_publish(struct culm_fs *fs, const char *dir,
                                      const struct culm_package_round *round,
                                      struct culm_error *error);
/* Removes all rounds but the current one and those in keep[count], of which those that are not there
 * do not matter, and then all tensors that none of these has. Only the package's one writer may do
 * that. One that is killed leaves what the next call removes; readers of a kept round notice
 * nothing. Untouched if a kept round cannot be read. */
struct culm_package_pruned {
    int64_t rounds, tensors;
    uint64_t bytes;
};
enum culm_status culm_package_prune(struct culm_fs *fs, const char *dir, const int64_t *keep,
                                    size_t count, struct culm_package_pruned *ret_pruned,
                                    struct culm_error *error);
/* Whether exactly this round is stored under its number. */
bool culm_package_holds(struct culm_fs *fs, const char *dir,
                        const struct culm_package_round *round);

#endif
