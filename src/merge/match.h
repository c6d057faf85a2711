/*
 * Which layers of several models could be shared.
 *
 * An *instance* is a set of layers with equal signatures, from at least two models. Models and
 * layers are visited in order, and each layer joins the first instance of its signature that has no
 * layer of its model yet. So the k-th layer of a signature in one model meets the k-th of that
 * signature in every other model, and each model is in an instance at most once.
 *
 * A *group* is a set of instances that GEMEL tries together: layers of the same kind, in the same
 * models. Groups that save most come first.
 *
 * Thread: any.
 */
#ifndef CULM_MERGE_MATCH_H
#define CULM_MERGE_MATCH_H

#include "vision/model.h"

struct culm_member {
    int32_t model, layer; /* layer: an index into the model's layers */
};

struct culm_instance {
    struct culm_vision_signature signature; /* of the first member */
    int64_t bytes;                          /* of one copy of weights and bias, 4 bytes a number */
    struct culm_member *member;             /* sorted by model, then by layer */
    int32_t count, capacity;
};

struct culm_match {
    struct culm_instance *instance; /* in order of their first members; two or more members each */
    int32_t count, capacity;
    int64_t total_bytes; /* of every layer of every model */
    int64_t saved_bytes; /* what is saved if each instance is stored once */
};

enum culm_match_rule {
    CULM_MATCH_EQUAL,  /* signatures must be equal */
    CULM_MATCH_FITS,   /* stride, padding and dilation may differ */
    CULM_MATCH_INSIDE, /* as FITS, and layers of one model may share, too */
};

/* Finds all instances. The caller releases the match, even after a failure. CULM_ERR_MEMORY. */
enum culm_status culm_match_find(const struct culm_vision_layers *const *models, int32_t count,
                                 enum culm_match_rule rule, struct culm_match *ret_match,
                                 struct culm_error *error);
void culm_match_release(struct culm_match *match);
/* Replaces *match by a new match in which each instance is split by group[models]; the parts that
 * have at least two members stay. total_bytes and saved_bytes are copied unchanged. The old match's
 * memory is not freed: the caller keeps a copy of the struct to release. On failure *match is
 * unchanged. */
enum culm_status culm_match_divide(struct culm_match *match, const int32_t *group, int32_t models,
                                   struct culm_error *error);

/* The number of leading layers that are equal in all models. *ret_bytes: their bytes in one
 * model. */
int32_t culm_match_prefix(const struct culm_vision_layers *const *models, int32_t count,
                          int64_t *ret_bytes);

struct culm_match_group {
    int32_t first, count; /* a range of `order` */
    int64_t saved_bytes;
};
struct culm_match_groups {
    int32_t *order; /* [instances]: indices of instances */
    int32_t instances;
    struct culm_match_group *group; /* sorted by saved_bytes, largest first */
    int32_t count;
};

/* `released`: group exactly as GEMEL's released code does, which loses the smallest kind of layer.
 * The caller releases the groups. CULM_ERR_MEMORY. */
enum culm_status culm_match_find_groups(const struct culm_match *match, bool released,
                                        struct culm_match_groups *ret_groups,
                                        struct culm_error *error);
void culm_match_groups_release(struct culm_match_groups *groups);

#endif
