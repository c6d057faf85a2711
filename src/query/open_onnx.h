/*
 * ONNX files as models of pictures: their graphs, weights, and what is done about sizes that they
 * leave open. Private to src/query. Thread: as vision/model.h.
 */
#ifndef CULM_QUERY_OPEN_ONNX_H
#define CULM_QUERY_OPEN_ONNX_H

#include "query/open.h"

/* As culm_query_open, of FILE.onnx. */
enum culm_status culm_query_open_onnx(const char *what,
                                      const struct culm_query_open_options *options,
                                      struct culm_vision_model **ret_model,
                                      struct culm_error *error);

#endif
