/*
 * A model being merged: its structure, its original parameters and their current values.
 *
 * A shared layer has equal values in every model that shares it. Models do not point at one copy;
 * that they store it only once is the package's doing (package.h).
 *
 * Thread: the caller's.
 */
#ifndef CULM_MERGE_MODEL_H
#define CULM_MERGE_MODEL_H

#include "merge/match.h"
#include "vision/model.h"

struct culm_merge_model {
    struct culm_vision_model *vision; /* borrowed */
    struct culm_graph *graph;         /* for one picture; only its structure is used */
    struct culm_vision_layers layers;
    int32_t param_count;
    float **original; /* [param_count][elements] */
    /* The original with its channels permuted to match another model's (align.h); the same as
     * `original` until culm_align has run. */
    float **aligned;
    float **value; /* [param_count][elements]: the current values */
    /* `aligned` is what an earlier search has made of the model: its channels stay, and those of
     * other models follow. */
    bool fixed;
};

/* `look` fills in graph and layers only, without reading weights; `init` fills in everything. The
 * caller releases the model, even after a failure. */
enum culm_status culm_merge_model_look(struct culm_merge_model *model,
                                       struct culm_vision_model *vision, struct culm_error *error);
enum culm_status culm_merge_model_init(struct culm_merge_model *model,
                                       struct culm_vision_model *vision, struct culm_error *error);
void culm_merge_model_release(struct culm_merge_model *model); /* fine on a zeroed struct */

int64_t culm_merge_param_elements(const struct culm_merge_model *model, int32_t param);
/* The index of a batch norm's parameter. `norm` is a node; `which` is 0 to 3 for scale, shift,
 * running mean and running variance. */
#define CULM_MERGE_NORM_PARAMS 4
int32_t culm_merge_norm_param(const struct culm_graph *graph, int32_t norm, int32_t which);
/* Sets the current values back to the original ones. */
void culm_merge_model_revert(struct culm_merge_model *model);
/* A copy of all current values, which the caller frees, and the way back to it. NULL: out of
 * memory. */
float *culm_merge_model_save(const struct culm_merge_model *model);
void culm_merge_model_restore(struct culm_merge_model *model, const float *saved);

/* Which layers share a tensor now. There are two ways to share, which add up:
 *
 * Instances (match.h): a member of an instance may be in or out, and an instance is active while at
 * least two of its members are in. The members that are in share one tensor.
 *
 * Ties: any layers whose weights have the same shape may be tied, whatever instances they belong
 * to: several of one model, or layers whose stride and padding differ. */
struct culm_share {
    struct culm_match match;
    bool **in;    /* [match.count][members]: whether the member is in */
    int32_t **of; /* [models][layers]: the layer's instance, shared or not; -1: none */
    int32_t models;
    int32_t *layers; /* [models]: number of layers */
    /* [models][layers]: layers with the same number, counted from 1, are tied; 0: not tied. */
    int32_t **tie;
    int64_t **bytes; /* [models][layers] */
};
/* Takes ownership of the match, even on failure. Nothing is shared at first. */
enum culm_status culm_share_init(struct culm_share *share, const struct culm_match *take_match,
                                 struct culm_merge_model *const *models, int32_t count,
                                 struct culm_error *error);
void culm_share_release(struct culm_share *share); /* fine on a zeroed struct */
/* Splits every instance by group[models]: members whose models are in the same group form an
 * instance of their own if there are at least two. Nothing is shared or tied afterwards.
 * match.saved_bytes stays as it was. On failure nothing has changed. */
enum culm_status culm_share_divide(struct culm_share *share, const int32_t *group,
                                   struct culm_error *error);

void culm_share_set(struct culm_share *share, int32_t instance, bool shared); /* all members */
/* Takes the model out of every instance and unties all its layers. */
void culm_share_leave(struct culm_share *share, int32_t model);
/* Puts one layer into its instance, or takes it out and unties it. A layer that enters an instance
 * whose members are tied is tied with them. */
void culm_share_enter(struct culm_share *share, struct culm_member layer);
void culm_share_exit(struct culm_share *share, struct culm_member layer);
/* Makes two layers, and all layers that share a tensor with either, share one tensor. Only the
 * record changes: the caller copies the values with culm_share_give. */
void culm_share_tie(struct culm_share *share, struct culm_member layer, struct culm_member other);
void culm_share_untie(struct culm_share *share); /* unties every layer */
/* The record of what is in and what is tied, as text that begins with a 0 or 1 for each member; the
 * caller frees it. NULL: out of memory. culm_share_put restores it; culm_share_put_others restores
 * it only for the models that are not in inside[models], none of whose layers may be tied to a
 * layer of the others. */
char *culm_share_text(const struct culm_share *share);
void culm_share_put(struct culm_share *share, const char *text);
void culm_share_put_others(struct culm_share *share, const bool *inside, const char *text);

int32_t culm_share_count(const struct culm_share *share, int32_t instance); /* how many are in */
/* The first member that is in. The instance must be active. */
const struct culm_member *culm_share_first(const struct culm_share *share, int32_t instance);
/* The active instance that a layer is in; -1: none. */
int32_t culm_share_of(const struct culm_share *share, int32_t model, int32_t layer);
/* The layer whose tensor stands for all that share it: the first of them, or the layer itself if it
 * shares with none. */
struct culm_member culm_share_holder(const struct culm_share *share, struct culm_member layer);
/* Whether the layer shares its tensor with any other layer. */
bool culm_share_with(const struct culm_share *share, struct culm_member layer);
/* Whether the model shares any layer, if only with another layer of its own. */
bool culm_share_any(const struct culm_share *share, int32_t model);
int64_t culm_share_saved(const struct culm_share *share); /* bytes */
/* For joint training: the address of each parameter of a model, [param_count]. A shared layer's
 * weights and bias are those of its holder (culm_share_holder). The caller frees the list, not what
 * it points to. NULL: out of memory. */
float **culm_share_addresses(const struct culm_share *share, struct culm_merge_model *const *models,
                             int32_t model);
/* Copies the weights and bias of an instance's first member to its other members that are in. */
void culm_share_copy(const struct culm_share *share, struct culm_merge_model *const *models,
                     int32_t instance);
/* Copies every holder's weights and bias to all layers that share with it. */
void culm_share_spread(const struct culm_share *share, struct culm_merge_model *const *models);
/* Copies a layer's weights and bias to all layers that are tied with it. */
void culm_share_give(const struct culm_share *share, struct culm_merge_model *const *models,
                     struct culm_member from);

#endif
