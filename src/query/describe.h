/*
 * What a model of pictures reads and answers, worked out from its graph and from what is said of it.
 *
 * Private to src/query. Thread: as vision/model.h.
 */
#ifndef CULM_QUERY_DESCRIBE_H
#define CULM_QUERY_DESCRIBE_H

#include "query/reading.h"

struct culm_query_about {
    const char *what;               /* the file */
    const char *names;              /* a file of names; NULL: the model's own */
    const struct culm_names *known; /* the model's own */
    enum culm_query_decode decode;  /* AUTO, DARKNET, CLASSES or POINTS */
};

/* The model's name: "cifar10-resnet20" for "../cifar10-resnet20.onnx". */
void culm_query_name_of(const char *what, char ret_name[64]);
/* Sets the input from the field "image" of the graph; false: the graph reads something else. */
bool culm_query_input(struct culm_vision_model *model, const struct culm_graph *graph);
/* Sets input, kind, classes, names and heads of a model with classes, points or maps. CULM_ERR_CONFIG:
 * it is none of these. */
enum culm_status culm_query_describe(struct culm_vision_model *model,
                                     const struct culm_query_about *about,
                                     struct culm_error *error);
/* Sets the names of classes, from the file of names or from those that are known, which may be fewer. */
enum culm_status culm_query_names(struct culm_vision_model *model,
                                  const struct culm_query_about *about, struct culm_error *error);

#endif
