/*
 * A package: the weights of several models, each tensor once, and who uses which.
 *
 *     DIR/tensors/DIGEST     float32, little-endian; DIGEST is the SHA-256 of "f32 [64, 32, 3, 3]\n"
 *                            and these bytes
 *     DIR/rounds/N.json      the share map of round N: query -> parameter -> DIGEST
 *     DIR/current            "N SHA256\n": the round that counts, and what its file holds
 *
 * Round 0 is the originals. Each later round says for every parameter what it is now and what it was,
 * so originals stay addressable in every round. A round is published by replacing `current`, last of
 * all: who reads, or a crash, finds the old round or the new one, whole. Tensors, and the round that
 * counts, are never changed, so what is copied elsewhere (current last) is what is new.
 *
 * Packages come from outside: names, shapes, sizes and sums are checked when a round is read, digests
 * when a tensor is read. CULM_ERR_FORMAT: `package 'DIR': what is wrong`.
 * Thread: constant after reading; one writer a package.
 */
#ifndef CULM_MERGE_PACKAGE_H
#define CULM_MERGE_PACKAGE_H

#include "base/file.h"
#include "base/sha256.h"

#define CULM_PACKAGE_FORMAT "culm-package-1"
#define CULM_PACKAGE_RANK_MAX 8
#define CULM_PACKAGE_QUERIES_MAX 4096
#define CULM_PACKAGE_NAME_SIZE 96

struct culm_package_tensor {
    char digest[CULM_SHA256_HEX];
    int32_t rank;
    int64_t shape[CULM_PACKAGE_RANK_MAX];
    int64_t count; /* elements; a file of 4 count bytes */
};

struct culm_package_param {
    char name[CULM_PACKAGE_NAME_SIZE]; /* in the model's graph */
    int32_t tensor;                    /* what it is now */
    int32_t original;                  /* what it was */
    int32_t layer; /* whose weights or bias it is, among the model's layers (vision/model.h); -1: of
                      none */
};

struct culm_package_query {
    char name[65];
    char *model;                    /* MODEL, as the workload named it; owned */
    char *weights;                  /* owned; NULL: the model's own */
    char *names;                    /* of classes; owned; NULL: those that the model brings */
    bool normalized;                /* mean and deviation are given; else as the model says */
    float mean[3], deviation[3];    /* value = (x / 255 - mean) / deviation */
    char identity[CULM_SHA256_HEX]; /* equal where two queries use the same files */
    double target;                  /* share of the original's accuracy */
    double original, merged; /* accuracies on what merging has not seen; negative: not measured */
    double agreement;        /* share of the original's answers there that it gives; likewise */
    struct culm_package_param *param;
    int32_t param_count, param_capacity;
};

struct culm_package_round {
    int64_t number;
    /* Of its file: a package that is made anew may have the number again. */
    char digest[CULM_SHA256_HEX];
    struct culm_package_query *query;
    int32_t query_count, query_capacity;
    struct culm_package_tensor *tensor; /* each once */
    int32_t tensor_count, tensor_capacity;
};

/* --- reading --- */

/* The round that counts: CULM_ERR_NOT_FOUND when there is no package. The caller releases it. */
enum culm_status culm_package_open(const char *dir, struct culm_package_round *ret_round,
                                   struct culm_error *error);
/* Another round that is there. */
enum culm_status culm_package_open_round(const char *dir, int64_t number,
                                         struct culm_package_round *ret_round,
                                         struct culm_error *error);
/* Whether another round than that counts by now; cheap. False also when that cannot be read. */
bool culm_package_moved(const char *dir, int64_t number, const char *digest);
void culm_package_round_release(struct culm_package_round *round); /* fine on a zeroed struct */

int32_t culm_package_query_find(const struct culm_package_round *round,
                                const char *name); /* or -1 */
int32_t culm_package_param_find(const struct culm_package_query *query,
                                const char *name); /* or -1 */

enum culm_status culm_package_tensor_path(const char *dir, const char *digest,
                                          char ret_path[CULM_PATH_MAX], struct culm_error *error);
/* Fills ret_data[count] and compares the digest. */
enum culm_status culm_package_read(const char *dir, const struct culm_package_tensor *tensor,
                                   float *ret_data, struct culm_error *error);
/* Reads every tensor of a round. */
enum culm_status culm_package_check(const char *dir, const struct culm_package_round *round,
                                    struct culm_error *error);
/* A round from its text; sizes of files are not looked at. */
enum culm_status culm_package_parse(const char *text, size_t len, const char *name,
                                    struct culm_package_round *ret_round, struct culm_error *error);

/* What a round comes to, counted anew. Layers: weights and biases of convolutions and linear layers.
 * Queries with one identity count as one model. */
struct culm_package_sums {
    int64_t total_bytes, distinct_bytes;   /* of layers: of every model; each tensor once */
    int64_t tensor_bytes, tensor_distinct; /* of everything */
};
enum culm_status culm_package_sum(const struct culm_package_round *round,
                                  struct culm_package_sums *ret_sums, struct culm_error *error);
/* Bytes of the layers that a query has in common with another model. */
int64_t culm_package_shared_bytes(const struct culm_package_round *round, int32_t query);

/* --- writing --- */

/* A query is added empty; its texts are copied. NULL: out of memory. */
struct culm_package_query *culm_package_add_query(struct culm_package_round *round,
                                                  const char *name, const char *model,
                                                  const char *weights, const char *identity);
/* The tensor of that digest in the round, added if it is new; -1: out of memory. */
int32_t culm_package_add_tensor(struct culm_package_round *round,
                                const struct culm_package_tensor *tensor);
/* CULM_ERR_ARGUMENT for a name that is too long. */
enum culm_status culm_package_add_param(struct culm_package_query *query, const char *name,
                                        int32_t tensor, int32_t original, int32_t layer,
                                        struct culm_error *error);

/* Fills in the digest of what has that rank and shape. */
enum culm_status culm_package_digest(struct culm_package_tensor *tensor, const float *data,
                                     struct culm_error *error);
/* The same of numbers that come one after the other: they are added to *ret_hash, whose end is
 * the digest. */
enum culm_status culm_package_digest_begin(const struct culm_package_tensor *tensor,
                                           struct culm_sha256 *ret_hash);
/* Makes the folders of a package, where they are missing. */
enum culm_status culm_package_make(struct culm_fs *fs, const char *dir, struct culm_error *error);
/* Writes a tensor unless it is there; what was altered meanwhile is written again. ret_bytes (may be
 * NULL): what was written. */
enum culm_status culm_package_put(struct culm_fs *fs, const char *dir,
                                  const struct culm_package_tensor *tensor, const float *data,
                                  uint64_t *ret_bytes, struct culm_error *error);
/* Makes the round durable and the one that counts. All of its tensors have been put. The round that
 * counts may be published again, and stays as it is; CULM_ERR_ARGUMENT for another one under its
 * number. */
enum culm_status culm_package_publish(struct culm_fs *fs, const char *dir,
                                      const struct culm_package_round *round,
                                      struct culm_error *error);
/* Whether this very round is there under its number. */
bool culm_package_holds(struct culm_fs *fs, const char *dir,
                        const struct culm_package_round *round);

#endif
