/*
 * What models could share: layers that are equal in everything but their place.
 *
 * An *instance* is a layer that several models have: walking models and layers in order, a layer joins
 * the first instance of its signature that does not have its model yet. So the k-th layer of a
 * signature in one model meets the k-th in every other, and a model is in an instance once.
 *
 * *Groups* are instances that are tried together: of one kind of layer, in the same models; those that
 * save most come first. Thread: any.
 */
#ifndef CULM_MERGE_MATCH_H
#define CULM_MERGE_MATCH_H

#include "vision/model.h"

struct culm_member {
    int32_t model, layer; /* layer: index in the model's layers */
};

struct culm_instance {
    struct culm_vision_signature signature; /* of the first member */
    int64_t bytes;                          /* of one copy: weights and bias, 4 a number */
    struct culm_member *member;             /* by model, then layer */
    int32_t count, capacity;
};

struct culm_match {
    struct culm_instance *instance; /* two members or more each, in the order in which they began */
    int32_t count, capacity;
    int64_t total_bytes; /* of all layers of all models */
    int64_t saved_bytes; /* if each instance were there once */
};

enum culm_match_rule {
    CULM_MATCH_EQUAL,  /* signatures are equal */
    CULM_MATCH_FITS,   /* stride, padding and dilation may differ */
    CULM_MATCH_INSIDE, /* and layers of one model may share */
};

/* The caller releases it, which is fine after a failure too. */
enum culm_status culm_match(const struct culm_vision_layers *const *models, int32_t count,
                            enum culm_match_rule rule, struct culm_match *ret_match,
                            struct culm_error *error);
void culm_match_release(struct culm_match *match);
/* A match of its own in place of `match`, which stays as it is: of each instance the members of each
 * group[models] are one, where they are two or more. total_bytes and saved_bytes are those of `match`. */
enum culm_status culm_match_divide(struct culm_match *match, const int32_t *group, int32_t models,
                                   struct culm_error *error);

/* How many layers, from the first on, all models have equal; their bytes in one model go to
 * *ret_bytes. */
int32_t culm_match_prefix(const struct culm_vision_layers *const *models, int32_t count,
                          int64_t *ret_bytes);

struct culm_match_group {
    int32_t first, count; /* in `order` */
    int64_t saved_bytes;
};
struct culm_match_groups {
    int32_t *order; /* [instances]: indices of instances */
    int32_t instances;
    struct culm_match_group *group; /* most saved first */
    int32_t count;
};

/* `released`: as GEMEL's released code has it, which loses the smallest kind of layer. The caller
 * releases it. */
enum culm_status culm_match_groups(const struct culm_match *match, bool released,
                                   struct culm_match_groups *ret_groups, struct culm_error *error);
void culm_match_groups_release(struct culm_match_groups *groups);

#endif
