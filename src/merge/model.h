/*
 * A model that is being merged: its structure, what its numbers were, and what they are now.
 *
 * Layers that are shared have equal numbers in each of their models; what makes them one is the
 * package, which holds each tensor once. Thread: the caller's.
 */
#ifndef CULM_MERGE_MODEL_H
#define CULM_MERGE_MODEL_H

#include "merge/match.h"
#include "vision/model.h"

struct culm_merge_model {
    struct culm_vision_model *vision; /* borrowed */
    struct culm_graph *graph;         /* of one sample: for structure */
    struct culm_vision_layers layers;
    int32_t param_count;
    float **original; /* [param_count][elements] */
    /* The same network with its channels in another order (align.h); at first the original. */
    float **aligned;
    float **value; /* [param_count][elements]: now */
};

/* The caller releases it, even after a failure. `look` fills in graph and layers alone. */
enum culm_status culm_merge_model_look(struct culm_merge_model *model,
                                       struct culm_vision_model *vision, struct culm_error *error);
enum culm_status culm_merge_model_init(struct culm_merge_model *model,
                                       struct culm_vision_model *vision, struct culm_error *error);
void culm_merge_model_release(struct culm_merge_model *model); /* fine on a zeroed struct */

int64_t culm_merge_param_elements(const struct culm_merge_model *model, int32_t param);
/* The parameters of a batch norm: node `norm`, `which` of scale, shift, mean and variance. */
#define CULM_MERGE_NORM_PARAMS 4
int32_t culm_merge_norm_param(const struct culm_graph *graph, int32_t norm, int32_t which);
/* The numbers are those of the original again. */
void culm_merge_model_revert(struct culm_merge_model *model);
/* Copies of all numbers, to go back to: restore copies them in. NULL: out of memory. */
float *culm_merge_model_save(const struct culm_merge_model *model);
void culm_merge_model_restore(struct culm_merge_model *model, const float *saved);

/* Which members of which instances are shared now. An instance is active while two or more of its members are in. Beyond
 * that, layers may be tied, whatever instances they belong to: several of one model, or some whose stride and padding differ. */
struct culm_share {
    struct culm_match match;
    bool **in;    /* [match.count][members] */
    int32_t **of; /* [models][layers]: the instance of a layer, whether shared or not; -1: none */
    int32_t models;
    int32_t *layers; /* [models]: how many */
    /* [models][layers]: those with one number, from 1, share one tensor; 0: not tied. */
    int32_t **tie;
    int64_t **bytes; /* [models][layers] */
};
/* Takes the match over, also after a failure; nothing is shared. */
enum culm_status culm_share_init(struct culm_share *share, const struct culm_match *take_match,
                                 struct culm_merge_model *const *models, int32_t count,
                                 struct culm_error *error);
void culm_share_release(struct culm_share *share); /* fine on a zeroed struct */
/* Each instance becomes one of its members of each group[models], those with two or more; nothing is shared.
 * What the match could save (saved_bytes) stays as it was. After a failure nothing has changed. */
enum culm_status culm_share_divide(struct culm_share *share, const int32_t *group,
                                   struct culm_error *error);

void culm_share_set(struct culm_share *share, int32_t instance, bool shared); /* all members */
/* The model leaves every instance, and none of its layers is tied any more. */
void culm_share_leave(struct culm_share *share, int32_t model);
/* One layer: into the instance that it could share, and out of whatever it shares. */
void culm_share_enter(struct culm_share *share, struct culm_member layer);
void culm_share_exit(struct culm_share *share, struct culm_member layer);
/* Two layers, and whichever share a tensor with them, share one from now on. The caller copies the numbers
 * (culm_share_give). */
void culm_share_tie(struct culm_share *share, struct culm_member layer, struct culm_member other);
void culm_share_untie(struct culm_share *share); /* everything */
/* Which members are in and what is tied, as one text, which begins with 0 or 1 for each member; the caller frees
 * it. NULL: out of memory. culm_share_put restores what such a text says; culm_share_put_others does so only for
 * models that are not in inside[models], and no layer of these may be tied to one of the others. */
char *culm_share_text(const struct culm_share *share);
void culm_share_put(struct culm_share *share, const char *text);
void culm_share_put_others(struct culm_share *share, const bool *inside, const char *text);

int32_t culm_share_count(const struct culm_share *share,
                         int32_t instance); /* members that are in */
/* The first member that is in, of an active instance. */
const struct culm_member *culm_share_first(const struct culm_share *share, int32_t instance);
/* The active instance that a layer shares, or -1. */
int32_t culm_share_of(const struct culm_share *share, int32_t model, int32_t layer);
/* Whose tensor a layer has: the first that shares it; the layer itself if none does. */
struct culm_member culm_share_holder(const struct culm_share *share, struct culm_member layer);
/* Whether a layer shares its tensor with any other. */
bool culm_share_with(const struct culm_share *share, struct culm_member layer);
/* Whether a model shares anything, if only with itself. */
bool culm_share_any(const struct culm_share *share, int32_t model);
int64_t culm_share_saved(const struct culm_share *share); /* bytes */
/* Where the numbers of each parameter of a model are, for models that are trained together: those of a
 * shared layer are in its first member. The caller frees the list. NULL: out of memory. */
float **culm_share_addresses(const struct culm_share *share, struct culm_merge_model *const *models,
                             int32_t model);
/* Copies the weights and biases of the first member to the others that are in. */
void culm_share_copy(const struct culm_share *share, struct culm_merge_model *const *models,
                     int32_t instance);
/* Copies those of every holder to all that have its tensor. */
void culm_share_spread(const struct culm_share *share, struct culm_merge_model *const *models);
/* Copies those of a layer to all that are tied with it. */
void culm_share_give(const struct culm_share *share, struct culm_merge_model *const *models,
                     struct culm_member from);

#endif
