/*
 * Reference kernels of graphs and sparse matrices. Arguments are those of the kernels of the same
 * names in device/kernels.h; see reference.h for the rest. Thread: any.
 */
#ifndef CULM_TENSOR_REFERENCE_SPARSE_H
#define CULM_TENSOR_REFERENCE_SPARSE_H

#include "tensor/hyper.h"

/* The entries start[r] .. start[r + 1] - 1 of rows r below n. */
struct culm_ref_rows {
    int64_t n;
    const uint64_t *start;
    const uint32_t *column;
};

/* What dropout leaves: kept, kept_at and kept_scale of spmm, or kept_words and what goes with them; `at`,
 * `words` and `weight` may be NULL. */
struct culm_ref_kept {
    const uint32_t *bits, *at;
    float scale;
    const uint64_t *words;
    const float *weight;
    bool weight_of_x;
};

/* y[n,f]; value, entry, scale and kept may be NULL. */
void culm_ref_spmm(float *y, int64_t ldy, const float *x, int64_t ldx,
                   const struct culm_ref_rows *rows, const float *value, const uint64_t *entry,
                   const float *scale, int64_t f, int64_t heads, bool add,
                   const struct culm_ref_kept *kept);
void culm_ref_sddmm(float *value, const float *a, int64_t lda, const float *b, int64_t ldb,
                    const struct culm_ref_rows *rows, int64_t f, int64_t heads);
/* largest and sum may be NULL */
void culm_ref_edge_softmax_forward(float *alpha, float *largest, float *sum, const float *s,
                                   const float *t, const struct culm_ref_rows *rows, int64_t heads,
                                   double slope);
void culm_ref_edge_softmax_backward(float *dscore, float *ds, const float *alpha,
                                    const float *dalpha, const float *s, const float *t,
                                    const struct culm_ref_rows *rows, int64_t heads, double slope);
void culm_ref_edge_sum(float *y, const float *x, const uint64_t *start, const uint64_t *entry,
                       int64_t n, int64_t heads, bool add);
void culm_ref_sparse_dropout(uint32_t *kept, const struct culm_ref_rows *rows,
                             const struct culm_dropout *dropout);
void culm_ref_sparse_dropout_words(uint64_t *kept, uint64_t *turned, const uint64_t *there,
                                   int64_t n, int64_t columns, const struct culm_dropout *dropout);
void culm_ref_edge_dropout(float *y, const float *x, const struct culm_ref_rows *rows,
                           const uint32_t *column_id, int64_t heads,
                           const struct culm_dropout *dropout);
void culm_ref_argmax(int32_t *index, const float *x, int64_t n, int64_t c);

#endif
