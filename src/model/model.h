/*
 * Named architectures, built as graphs.
 *
 * A graph is of one micro-batch: all shapes are static. Parameters carry the names under which
 * others keep them (Hugging Face for GPT-2), their initialisation and whether weight decay acts on
 * them.
 *
 * Thread: the table is constant; a graph belongs to its builder.
 */
#ifndef CULM_MODEL_MODEL_H
#define CULM_MODEL_MODEL_H

#include "graph/graph.h"
#include "graph/stage.h"

struct culm_model_options {
    int64_t layers, width, heads, context, vocab;
    double dropout;
    int64_t batch;  /* samples in a micro-batch */
    bool inference; /* no loss: the last stage's output is the logits [B,T,V] */
};

/* "gpt2". CULM_ERR_CONFIG for an unknown name or options that make no model. Free with
 * culm_graph_free. */
enum culm_status culm_model_build(const char *name, const struct culm_model_options *options,
                                  struct culm_graph **ret_graph, struct culm_error *error);
/* A model with a name of its own: "gpt2" (124M), "gpt2-medium", "gpt2-large", "gpt2-xl". Its
 * options lack batch and inference. */
struct culm_model_preset {
    const char *name, *arch;
    struct culm_model_options options;
};
const struct culm_model_preset *culm_model_preset(size_t index);          /* NULL: past the last */
const struct culm_model_preset *culm_model_preset_find(const char *name); /* NULL: none */

/* Elements of all parameters, a tied one counted once. */
int64_t culm_model_parameters(const struct culm_graph *graph);

/* Fills data[info->count]. A pure function of seed and name: the same whatever the stage it is in.
 */
void culm_model_init_param(const struct culm_param_info *info, uint64_t seed, float *data);

/* GPT-2 (Radford et al. 2019): pre-norm blocks, tanh GELU, layer norm eps 1e-5, tied head, learned
 * positions. */
enum culm_status culm_model_gpt2(const struct culm_model_options *options,
                                 struct culm_graph *graph);

#endif
