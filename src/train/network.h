/*
 * The network that a configuration names: opened once, and then asked for graphs, for training or
 * without, and for the weights it starts from.
 *
 * Everyone who needs the model of a run opens it here: the launcher and its workers, evaluation,
 * generation, benchmarks. The same configuration gives the same graph in every process. An ONNX file
 * is read once, when it is opened; each graph is made from what was read.
 *
 * Thread: one at a time.
 */
#ifndef CULM_TRAIN_NETWORK_H
#define CULM_TRAIN_NETWORK_H

#include "data/source.h"
#include "graph/stage.h"
#include "store/weights.h"
#include "train/config.h"

enum culm_purpose {
    CULM_FOR_TRAINING,
    CULM_FOR_LOSS,   /* no dropout, running statistics; the loss */
    CULM_FOR_OUTPUT, /* the same; the logits, and which end they have (struct culm_output) */
    CULM_FOR_ANSWER, /* the same; what the model answers with: a softmax that it ends in is there */
};

struct culm_network;

/* The configuration is borrowed. Of an ONNX model the sizes that are 0 in it, since nobody gave them
 * (context, vocab, masked, classes, image, channels), become those of the file. Other keys may be
 * changed later, by whoever wants other graphs than the configuration says. The errors of
 * culm_onnx_import. */
enum culm_status culm_network_open(struct culm_train_config *config,
                                   struct culm_network **ret_network, struct culm_error *error);
void culm_network_close(struct culm_network *network); /* NULL is fine */
const struct culm_train_config *culm_network_config(const struct culm_network *network);
/* Gives back the memory of files, which may be large. Whoever asks for more reads them again. */
void culm_network_let_go(struct culm_network *network);

/* `batch` samples in a micro-batch. The caller frees it with culm_graph_free. */
enum culm_status culm_network_graph(struct culm_network *network, int64_t batch,
                                    enum culm_purpose purpose, struct culm_graph **ret_graph,
                                    struct culm_error *error);

/* The first weights: of `model.init`, or the ONNX file, else drawn from the seed. Fills
 * data[param->count]. A parameter that no file has is drawn from the seed. Names, formats and places
 * are those of store/weights.h. CULM_ERR_FORMAT when a file has another shape, unless
 * `model.init_unused` is `ignore`; CULM_ERR_CONFIG when a number is not finite. */
enum culm_status culm_network_weights(struct culm_network *network,
                                      const struct culm_param_info *param, float *data,
                                      struct culm_error *error);
#define CULM_NETWORK_NOTE_SIZE CULM_WEIGHTS_NOTE_SIZE
/* CULM_ERR_CONFIG when model.init has none of the graph's parameters, one of another shape, or
 * tensors that the network has no place for, in training or without. ret_note is one line for the
 * user: which parameters it lacks, and what was done to read it; "": nothing to say, or no
 * model.init. */
enum culm_status culm_network_check_weights(struct culm_network *network,
                                            const struct culm_graph *graph,
                                            char ret_note[CULM_NETWORK_NOTE_SIZE],
                                            struct culm_error *error);
/* Reads the first weights of all the graph's parameters, as whoever trains it will. */
enum culm_status culm_network_try_weights(struct culm_network *network,
                                          const struct culm_graph *graph, struct culm_error *error);
/* The same as culm_network_check_weights for other weights, which must have all parameters. `leave`:
 * what a user does to leave out what has no place, as in store/weights.h. */
enum culm_status culm_network_check_file(struct culm_network *network,
                                         const struct culm_graph *graph,
                                         const struct culm_weights *weights, const char *leave,
                                         char ret_note[CULM_NETWORK_NOTE_SIZE],
                                         struct culm_error *error);

/* How many rows or classes the numbers of a field choose from, the least of all that it does: every
 * number must be below. 0: it chooses nothing. */
int64_t culm_network_below(const struct culm_graph *graph, const char *field);

/* What a model with a loss applies to its logits elsewhere: of an ONNX file that ends in a softmax,
 * log-softmax or sigmoid. */
enum culm_function culm_network_end(const struct culm_graph *graph);

/* CULM_ERR_CONFIG when there is no loss for the model, whatever the samples are. Before a source is
 * opened, which might complain of less. */
enum culm_status culm_network_check_trainable(const struct culm_graph *graph,
                                              struct culm_error *error);

/* CULM_ERR_CONFIG, naming the field, unless the source offers all that the graph reads, and every
 * number that looks a row up, or says which class is right, is below how many there are. */
enum culm_status culm_network_check_source(const struct culm_graph *graph,
                                           const struct culm_source *source,
                                           struct culm_error *error);

#endif
