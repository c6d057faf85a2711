/*
 * Opens whatever a command or a workload names as a model of pictures: FILE.cfg (darknet),
 * FILE.onnx, the directory of a run, a checkpoint, a configuration, a published name, or
 * PACKAGE:QUERY.
 *
 * How a model answers follows from the file, or from `reading`. A darknet file answers with boxes. A
 * model that ends in one row of numbers a picture answers with classes, or with points if these are
 * 136 or 196 numbers, as for the landmarks of a face, and no names of classes are given. Names are
 * those of the options, else of the run (the folders that it was trained on) or of the metadata of
 * the ONNX file. An ONNX file that ends in maps answers with boxes, as described by the darknet
 * configuration of the same name beside it; one that ends in a table of candidates (open_table.h)
 * likewise. What cannot be told apart is refused.
 *
 * Thread: as vision/model.h.
 */
#ifndef CULM_QUERY_OPEN_H
#define CULM_QUERY_OPEN_H

#include "query/reading.h"

struct culm_query_normalize {
    float mean[3], deviation[3]; /* value = (x / 255 - mean) / deviation */
};
/* "none", "imagenet", "bytes" (0 to 255 as they are), or six numbers separated by commas: three means, three deviations. */
enum culm_status culm_query_normalize_parse(const char *text,
                                            struct culm_query_normalize *ret_normalize,
                                            struct culm_error *error);

struct culm_query_open_options {
    const char *weights; /* of darknet, or as in query/subject.h; NULL: its own */
    const char *names;   /* file with names of classes, one a line; NULL: the model's own */
    const struct culm_query_normalize *normalize; /* NULL: as the model says */
    const struct culm_query_reading *reading;     /* NULL: as the file says */
    bool structure; /* only its graph and layers: no weights are needed, and none can be read */
    int depth;      /* how many packages it is nested in; 0 for callers */
};

/* Names the files that a model and its weights come from, so that two texts are equal if the files
 * are the same, whatever paths or links lead to them. weights: as in the options. */
#define CULM_QUERY_FILES_TEXT 8200
void culm_query_files(const char *what, const char *weights, char ret_text[CULM_QUERY_FILES_TEXT]);

/* The caller frees the model with culm_vision_model_free. options NULL: the defaults.
 * CULM_ERR_CONFIG: none of the above, or not a model of pictures; otherwise the errors of the
 * readers. */
enum culm_status culm_query_open(const char *what, const struct culm_query_open_options *options,
                                 struct culm_vision_model **ret_model, struct culm_error *error);

#endif
