/* The parts of weights, shared by their files. Not for others. */
#ifndef CULM_STORE_WEIGHTS_INTERNAL_H
#define CULM_STORE_WEIGHTS_INTERNAL_H

#include "store/weights.h"

struct culm_weights {
    struct culm_weights_place where;
    struct culm_checkpoint *checkpoint; /* or NULL */
    struct culm_safetensors **file;     /* [files]; none of a checkpoint */
    size_t files;
    const struct culm_safetensors_entry **entry; /* sorted by name */
    size_t count;
    size_t front; /* bytes that all names begin with, up to a '.' */
};

/* The index of the entry with this one's name; -1: there is none. */
int64_t weights_index(const struct culm_weights *weights,
                      const struct culm_safetensors_entry *entry);

/* What published files have beside their weights. */
enum weights_beside {
    WEIGHTS_NOTHING, /* it is a weight, for all that can be told */
    WEIGHTS_MASK,    /* ones on and below the diagonal: what causal attention sees */
    WEIGHTS_FILL,    /* what such a mask puts in place of the rest */
    WEIGHTS_NUMBERS, /* 0, 1, 2, ...: positions; or all 0: segments */
    WEIGHTS_COUNTER, /* of batches */
    WEIGHTS_STATE,   /* of an optimizer */
    WEIGHTS_COPY,    /* of a tensor that is used */
    WEIGHTS_BESIDE_COUNT
};
/* `used` is by index. Looks at name, shape, dtype and content. */
enum culm_status weights_find_beside(const struct culm_weights *weights, const bool *used,
                                     size_t index, enum weights_beside *ret_beside,
                                     struct culm_error *error);

#endif
