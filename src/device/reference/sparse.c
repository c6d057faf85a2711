/* The reference device: graphs and sparse matrices. */
#include "device/reference/internal.h"
#include "tensor/reference_sparse.h"

#define KERNEL(name)                                                                               \
    void culm_reference_##name(struct reference *r, const struct culm_##name##_args *a)

/* The elements of a table of rows `ld` apart, as far as the entries name them. */
static int64_t table_size(const struct culm_ref_rows *rows, int64_t f, int64_t ld) {
    int64_t last = 0;
    for (uint64_t e = rows->start[0]; e < rows->start[rows->n]; e++) {
        last = rows->column[e] > last ? rows->column[e] : last;
    }
    return last * ld + f;
}

static struct culm_ref_rows rows_of(int64_t n, const uint64_t *start, const uint32_t *column) {
    return (struct culm_ref_rows){.n = n, .start = start, .column = column};
}

KERNEL(spmm) {
    struct culm_ref_rows rows = rows_of(a->n, a->start, a->column);
    float *y = culm_reference_floats(r, a->n * a->f);
    for (int64_t i = 0; i < a->n * a->f; i++) {
        y[i] = culm_reference_load(culm_in_of(a->y), i / a->f * a->ldy + i % a->f);
    }
    culm_ref_spmm(y, a->f, culm_reference_get(r, a->x, table_size(&rows, a->f, a->ldx)), a->ldx,
                  &rows, a->value, a->entry, a->scale, a->f, a->heads ? a->heads : 1, a->add);
    for (int64_t i = 0; i < a->n * a->f; i++) {
        culm_reference_store(a->y, i / a->f * a->ldy + i % a->f, y[i]);
    }
}

KERNEL(sddmm) {
    struct culm_ref_rows rows = rows_of(a->n, a->start, a->column);
    culm_ref_sddmm(a->value, culm_reference_get(r, a->a, (a->n - 1) * a->lda + a->f), a->lda,
                   culm_reference_get(r, a->b, table_size(&rows, a->f, a->ldb)), a->ldb, &rows,
                   a->f, a->heads);
}

KERNEL(edge_softmax_forward) {
    struct culm_ref_rows rows = rows_of(a->n, a->start, a->column);
    (void)r;
    culm_ref_edge_softmax_forward(a->alpha, a->largest, a->sum, a->s, a->t, &rows, a->heads,
                                  a->slope);
}

KERNEL(edge_softmax_backward) {
    struct culm_ref_rows rows = rows_of(a->n, a->start, a->column);
    (void)r;
    culm_ref_edge_softmax_backward(a->dscore, a->ds, a->alpha, a->dalpha, a->s, a->t, &rows,
                                   a->heads, a->slope);
}

KERNEL(edge_sum) {
    (void)r;
    culm_ref_edge_sum(a->y, a->x, a->start, a->entry, a->n, a->heads, a->add);
}

KERNEL(sparse_dropout) {
    struct culm_ref_rows rows = rows_of(a->n, a->start, a->column);
    (void)r;
    culm_ref_sparse_dropout(a->y, a->value, &rows, a->dropout);
}

KERNEL(edge_dropout) {
    struct culm_ref_rows rows = rows_of(a->n, a->start, a->column);
    (void)r;
    culm_ref_edge_dropout(a->y, a->x, &rows, a->column_id, a->heads, a->dropout);
}

KERNEL(argmax) { culm_ref_argmax(a->index, culm_reference_get(r, a->x, a->n * a->c), a->n, a->c); }
