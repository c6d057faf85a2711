/*
 * Internal to data: the interface between source.c, which opens one of the kinds of sources, the
 * kinds, and source_kind.c, which they use.
 *
 * A kind opens all of its samples; source_kind.c divides them by split, and keeps the fields. The
 * struct of every kind begins with a struct culm_source. Thread: see source.h.
 */
#ifndef CULM_DATA_SOURCE_INTERNAL_H
#define CULM_DATA_SOURCE_INTERNAL_H

#include "base/rng.h"
#include "data/source.h"
#include "data/stream.h"
#include "data/tokenizer.h"

struct culm_source_ops {
    /* `item` has been checked; item.sample is counted over both splits. */
    enum culm_status (*fill)(const struct culm_source *source, struct culm_source_item item,
                             void *const *fields, struct culm_error *error);
    void (*free)(struct culm_source *source); /* frees what open made, and the source itself */
    /* What the sample is made of, as far as is known; `sample` is counted over both splits. */
    struct culm_data_place (*place)(const struct culm_source *source, int64_t sample);
};

struct culm_source {
    const struct culm_source_ops *ops;
    int64_t first, samples; /* of the split */
    struct culm_source_field field[CULM_SOURCE_FIELDS_MAX];
    int32_t field_count;
    uint64_t key;                         /* of all random numbers */
    size_t resident_bytes, opening_bytes; /* see source.h; 0: negligible */
    char note[CULM_SOURCE_NOTE];          /* see source.h */
    struct culm_strings class_name;       /* with their NULs; freed by whoever fills it */
    bool unseen;                          /* see source.h */
    struct culm_order_left_out *left_out; /* of the split; NULL: none */
};

/* Samples that are left out while a source is opened; counted over both splits. */
struct culm_leaving {
    struct culm_skip *skip; /* NULL: none */
    culm_data_bad_fn *bad;  /* NULL: what is bad and not on the list ends opening */
    void *ctx;
    int64_t *sample;
    size_t count, capacity;
    bool failed; /* out of memory */
};
/* The sample of that place is bad: true where it can be left out, then the caller adds it. */
bool leaving_bad(struct culm_leaving *leaving, const struct culm_data_place *place,
                 const char *why);
void leaving_add(struct culm_leaving *leaving, int64_t sample);

/* The number of samples for training, out of `total`; the remaining ones, at the end, are held out.
 * With a share above 0 there is at least one of each; CULM_ERR_CONFIG if total is below 2 then. */
enum culm_status source_training(const struct culm_source_options *options, int64_t total,
                                 const char *what, int64_t *ret_training, struct culm_error *error);
/* Sets first and samples of the options' split; `total` must be at least 1. */
enum culm_status source_set_samples(struct culm_source *source,
                                    const struct culm_source_options *options, int64_t total,
                                    const char *what, struct culm_error *error);
/* Add a field of floats; one of integers below `below`. */
void source_add_image(struct culm_source *source, const char *name, int rank, const int64_t *dim);
void source_add_numbers(struct culm_source *source, const char *name, int64_t count, int64_t below);
/* What a stream of tokens is opened with. */
struct culm_stream_options source_stream(const struct culm_source_options *options,
                                         const struct culm_leaving *leaving,
                                         const struct culm_tokenizer *tokenizer);
/* Opens the tokenizer that the options name; NULL if they name none. */
enum culm_status source_tokenizer(const struct culm_source_options *options,
                                  struct culm_tokenizer **ret_tokenizer, struct culm_error *error);

/* The 64-bit random number `draw` of a position; uniform below `bound` up to 2^-32 relative. */
static inline uint64_t source_draw(const struct culm_source *source, uint64_t position,
                                   uint64_t draw) {
    struct culm_rng_block block = culm_rng(source->key, position, draw);
    return (uint64_t)block.word[0] | (uint64_t)block.word[1] << 32;
}

enum culm_status source_open_text(const struct culm_source_options *options,
                                  struct culm_leaving *leaving, struct culm_source **ret_source,
                                  struct culm_error *error);
enum culm_status source_open_masked(const struct culm_source_options *options,
                                    struct culm_leaving *leaving, struct culm_source **ret_source,
                                    struct culm_error *error);
enum culm_status source_open_images(const struct culm_source_options *options,
                                    struct culm_leaving *leaving, struct culm_source **ret_source,
                                    struct culm_error *error);
enum culm_status source_open_pairs(const struct culm_source_options *options,
                                   struct culm_leaving *leaving, struct culm_source **ret_source,
                                   struct culm_error *error);

#endif
