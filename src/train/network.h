/*
 * The network that a configuration names: its graph, and the weights it starts from.
 *
 * Everyone who needs the model of a run builds it here: the launcher and its workers, evaluation,
 * generation, benchmarks. The same configuration gives the same graph in every process.
 *
 * Thread: the caller's.
 */
#ifndef CULM_TRAIN_NETWORK_H
#define CULM_TRAIN_NETWORK_H

#include "data/source.h"
#include "graph/stage.h"
#include "train/config.h"

enum culm_purpose {
    CULM_FOR_TRAINING,
    CULM_FOR_LOSS,   /* no dropout, running statistics; the loss */
    CULM_FOR_OUTPUT, /* the same; the logits */
};

/* `batch` samples in a micro-batch; `precision` "f32" or "bf16". Free with culm_graph_free. */
enum culm_status culm_network_build(const struct culm_train_config *config, int64_t batch,
                                    enum culm_purpose purpose, struct culm_graph **ret_graph,
                                    struct culm_error *error);

/* Fills in the sizes of an ONNX model that are 0 in the configuration, since nobody gave them:
 * context, vocab, masked, classes, image, channels. Call it once after loading; of other models it
 * changes nothing. The errors of culm_onnx_import. */
enum culm_status culm_network_complete(struct culm_train_config *config, struct culm_error *error);

/* How many rows or classes the numbers of a field choose from, the least of all that it does: every
 * number must be below. 0: it chooses nothing. */
int64_t culm_network_below(const struct culm_graph *graph, const char *field);

/* CULM_ERR_CONFIG, naming the field, unless the source offers all that the graph reads, and every
 * number that looks a row up, or says which class is right, is below how many there are. */
enum culm_status culm_network_check_source(const struct culm_graph *graph,
                                           const struct culm_source *source,
                                           struct culm_error *error);

/* Where the first weights come from: `model.init`, or the ONNX file, else the seed. */
struct culm_initial;
enum culm_status culm_initial_open(const struct culm_train_config *config,
                                   struct culm_initial **ret_initial, struct culm_error *error);
void culm_initial_close(struct culm_initial *initial); /* NULL is fine */
/* Fills data[param->count]. A parameter that the file does not have is drawn from the seed. Names
 * match exactly, or without the first part ("transformer.", "bert.") on either side; the file may
 * call a LayerNorm's weight and bias gamma and beta. CULM_ERR_FORMAT when the file has another
 * shape. */
enum culm_status culm_initial_fill(const struct culm_initial *initial,
                                   const struct culm_param_info *param, float *data,
                                   struct culm_error *error);
#define CULM_INITIAL_NOTE_SIZE 256
/* CULM_ERR_CONFIG when the file has none of the graph's parameters, or one of another shape. When
 * it has some of them, ret_note is one line for the user: how many, and which is missing first;
 * else, and without a file, "". */
enum culm_status culm_initial_check(const struct culm_initial *initial,
                                    const struct culm_graph *graph,
                                    char ret_note[CULM_INITIAL_NOTE_SIZE],
                                    struct culm_error *error);

#endif
