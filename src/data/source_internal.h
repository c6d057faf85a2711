/*
 * Internal to data: what a kind of source is to source.c.
 *
 * A kind opens all of its samples; source.c takes the split off, and keeps the fields. Every kind
 * begins with a struct culm_source. Thread: as source.h.
 */
#ifndef CULM_DATA_SOURCE_INTERNAL_H
#define CULM_DATA_SOURCE_INTERNAL_H

#include "base/rng.h"
#include "data/source.h"
#include "data/tokenizer.h"

struct culm_source_ops {
    /* `item` is checked, its sample counted over both splits. */
    enum culm_status (*fill)(const struct culm_source *source, struct culm_source_item item,
                             void *const *fields, struct culm_error *error);
    void (*free)(struct culm_source *source); /* what open made, and the source itself */
};

struct culm_source {
    const struct culm_source_ops *ops;
    int64_t first, samples; /* of the split */
    struct culm_source_field field[CULM_SOURCE_FIELDS_MAX];
    int32_t field_count;
    uint64_t key;                         /* of all that is random */
    size_t resident_bytes, opening_bytes; /* source.h; 0: nothing to speak of */
};

/* How many of `total` samples are for training: the others, the last ones, are held out. With a
 * share above 0 there is at least one of each; CULM_ERR_CONFIG when there are not two. */
enum culm_status culm_source_training(const struct culm_source_options *options, int64_t total,
                                      const char *what, int64_t *ret_training,
                                      struct culm_error *error);
/* Sets the split of `total` samples, at least 1. */
enum culm_status culm_source_set_samples(struct culm_source *source,
                                         const struct culm_source_options *options, int64_t total,
                                         const char *what, struct culm_error *error);
/* A field of floats; of numbers below `below`. */
void culm_source_add_image(struct culm_source *source, const char *name, int rank,
                           const int64_t *dim);
void culm_source_add_numbers(struct culm_source *source, const char *name, int64_t count,
                             int64_t below);
/* The tokenizer of the options, or NULL when they name none. */
enum culm_status culm_source_tokenizer(const struct culm_source_options *options,
                                       struct culm_tokenizer **ret_tokenizer,
                                       struct culm_error *error);

/* The 64-bit random number `draw` of a position; uniform below `bound` up to 2^-32 relative. */
static inline uint64_t culm_source_draw(const struct culm_source *source, uint64_t position,
                                        uint64_t draw) {
    struct culm_rng_block block = culm_rng(source->key, position, draw);
    return (uint64_t)block.word[0] | (uint64_t)block.word[1] << 32;
}

enum culm_status culm_source_open_text(const struct culm_source_options *options,
                                       struct culm_source **ret_source, struct culm_error *error);
enum culm_status culm_source_open_masked(const struct culm_source_options *options,
                                         struct culm_source **ret_source, struct culm_error *error);
enum culm_status culm_source_open_images(const struct culm_source_options *options,
                                         struct culm_source **ret_source, struct culm_error *error);
enum culm_status culm_source_open_pairs(const struct culm_source_options *options,
                                        struct culm_source **ret_source, struct culm_error *error);

#endif
