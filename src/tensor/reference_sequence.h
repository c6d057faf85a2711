/*
 * Reference kernels on sequences, as reference.h. Thread: any.
 */
#ifndef CULM_TENSOR_REFERENCE_SEQUENCE_H
#define CULM_TENSOR_REFERENCE_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

void culm_ref_lookup_forward(float *y, const int32_t *ids, const float *table, int64_t n,
                             int64_t c);
void culm_ref_lookup_backward(float *dtable, const float *dy, const int32_t *ids, int64_t n,
                              int64_t c, int64_t v, bool first);
void culm_ref_positions_forward(float *y, const float *x, const float *wpe, int64_t b, int64_t t,
                                int64_t c);
void culm_ref_positions_backward(float *dwpe, const float *dy, int64_t b, int64_t t, int64_t c,
                                 int64_t p, bool first);
void culm_ref_gather_rows_forward(float *y, const float *x, const int32_t *index, int64_t b,
                                  int64_t t, int64_t k, int64_t c);
void culm_ref_gather_rows_backward(float *dx, const float *dy, const int32_t *index, int64_t b,
                                   int64_t t, int64_t k, int64_t c);

#endif
