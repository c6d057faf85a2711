/*
 * Reference kernels on sequences, as reference.h. Thread: any.
 */
#ifndef CULM_TENSOR_REFERENCE_SEQUENCE_H
#define CULM_TENSOR_REFERENCE_SEQUENCE_H

#include "tensor/hyper.h"

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

/* h0 and c0 may be NULL, the biases too. scratch: 2 h doubles, and 6 h for backward. */
struct culm_ref_lstm {
    const float *w_ih, *w_hh, *b_ih, *b_hh, *h0, *c0;
};
void culm_ref_lstm_forward(float *y, float *gates, float *cells, const float *x,
                           const struct culm_ref_lstm *w, const struct culm_lstm *how,
                           double *scratch);
/* Stores all gradients; NULL: not wanted. Runs forward again into gates and cells. */
struct culm_ref_lstm_grads {
    float *dx, *dw_ih, *dw_hh, *db, *dh0, *dc0;
};
void culm_ref_lstm_backward(const struct culm_ref_lstm_grads *grads, float *y, float *gates,
                            float *cells, const float *dy, const float *x,
                            const struct culm_ref_lstm *w, const struct culm_lstm *how,
                            double *scratch);

/* scratch: s doubles, and 2 s + a for backward, which stores all gradients. */
struct culm_ref_bahdanau {
    const float *query, *key, *value, *v, *scale, *bias;
};
struct culm_ref_bahdanau_grads {
    float *dquery, *dkey, *dvalue, *dv, *dscale, *dbias;
};
void culm_ref_bahdanau_forward(float *context, float *probabilities,
                               const struct culm_ref_bahdanau *in, const struct culm_bahdanau *how,
                               double *scratch);
void culm_ref_bahdanau_backward(const struct culm_ref_bahdanau_grads *grads, const float *dcontext,
                                const struct culm_ref_bahdanau *in, const struct culm_bahdanau *how,
                                double *scratch);

#endif
