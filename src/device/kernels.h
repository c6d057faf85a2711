/*
 * What each kernel of a device computes, and the one struct that it takes: struct culm_NAME_args
 * for the kernel NAME of the list at the end, which device.h makes a table of.
 *
 * All arrays are row-major, contiguous unless a leading dimension is given, 64-byte aligned, and
 * the caller's; shapes stand beside each argument. Outputs do not overlap inputs unless stated.
 * Nothing is allocated. Sizes are the caller's promise, at least 1 and within the device's limits.
 * A pointer that the comment calls absent may be NULL, and an array's `data` likewise.
 *
 * An array is f32 or bf16 where it is a culm_in or culm_out, each by itself; one type for all is
 * the fast case. All arithmetic is in f32: bf16 is widened when it is read and rounded to nearest
 * even when it is written. Weights, their gradients and what a norm saves are f32.
 *
 * `first`: a gradient of a parameter is stored when true and added to what is there when false
 * (there is no add to zero). Written "= or +=" below; "(=)" is always stored.
 */
#ifndef CULM_DEVICE_KERNELS_H
#define CULM_DEVICE_KERNELS_H

#include "tensor/conv.h"
#include "tensor/hyper.h"
#include "tensor/hyper_vision.h"
#include "tensor/tensor.h"

/* An array that a kernel reads, and one that it writes. */
struct culm_in {
    const void *data;
    enum culm_dtype dtype;
};
struct culm_out {
    void *data;
    enum culm_dtype dtype;
};
static inline struct culm_in culm_in_f32(const float *data) {
    return (struct culm_in){data, CULM_F32};
}
static inline struct culm_out culm_out_f32(float *data) {
    return (struct culm_out){data, CULM_F32};
}
static inline struct culm_in culm_in_of(struct culm_out out) {
    return (struct culm_in){out.data, out.dtype};
}

/* --- products --- */

/* C[M,N] = beta C + op(A) op(B); op(A) is [M,K], op(B) [K,N]; beta is 0 (C is not read) or 1. */
struct culm_gemm_args {
    bool trans_a, trans_b;
    int64_t m, n, k;
    const float *a, *b;
    int64_t lda, ldb;
    float beta, *c;
    int64_t ldc;
};

/* C[M,N] = op(A) op(B) + bias[N] (may be absent), or C + op(A) op(B) with `add` (C f32, no bias),
 * where elements of A and B are rounded to bf16 unless they are, products are exact and sums f32,
 * in the order of the device's flavour. */
struct culm_gemm_bf16_args {
    bool trans_a, trans_b;
    int64_t m, n, k;
    struct culm_in a, b;
    int64_t lda, ldb;
    const float *bias;
    bool add;
    struct culm_out c;
    int64_t ldc;
};

/* Batches of products (tensor/hyper_vision.h). Where an array is bf16, operands are rounded to
 * bf16. */
struct culm_matmul_args {
    struct culm_out c;
    struct culm_in a, b;
    const struct culm_matmul *how;
};

/* y[N,O] = x[N,I] w[I,O] + b[O]   (GPT-2's Conv1D layout; b may be absent). `transposed`: w is
 * [O,I], as in PyTorch. Here and in the gradients: when the activations are all f32, so is the
 * product; when one is bf16, the weights are rounded to bf16 on the way and the product is that of
 * gemm_bf16. */
struct culm_linear_forward_args {
    struct culm_out y;
    struct culm_in x;
    const float *w, *b;
    int64_t n, in, out;
    bool transposed;
};
/* dx[N,I] = dy[N,O] w^T */
struct culm_linear_backward_input_args {
    struct culm_out dx;
    struct culm_in dy;
    const float *w;
    int64_t n, in, out;
    bool transposed;
};
/* dw[I,O] (or [O,I]) = or += x^T dy;  db[O] = or += column sums of dy (db may be absent) */
struct culm_linear_backward_weight_args {
    float *dw, *db;
    struct culm_in x, dy;
    int64_t n, in, out;
    bool transposed, first;
};

/* --- rows of tables --- */

/* y[B,T,C] = wte[token] + wpe[t]; tokens[B,T] in [0, V) */
struct culm_embedding_forward_args {
    struct culm_out y;
    const int32_t *tokens;
    const float *wte, *wpe;
    int64_t b, t, c, v;
};
/* dwte[V,C], dwpe[T,C] = or += the rows of dy[B,T,C] that used them, in the order of positions.
 * (`first` stores zeros in rows of dwte that no token used.) */
struct culm_embedding_backward_args {
    float *dwte, *dwpe;
    struct culm_in dy;
    const int32_t *tokens;
    int64_t b, t, c, v;
    bool first;
};

/* y[N,C] = table[ids], rows of table[V,C]; a negative id gives zeros. ids[N] below V. */
struct culm_lookup_forward_args {
    struct culm_out y;
    const int32_t *ids;
    struct culm_in table;
    int64_t n, c, v;
};
/* dtable[V,C] = or += the rows of dy[N,C] that used each of its rows, in the order of positions.
 * (`first` stores zeros in rows that no id used.) */
struct culm_lookup_backward_args {
    float *dtable;
    struct culm_in dy;
    const int32_t *ids;
    int64_t n, c, v;
    bool first;
};

/* y[B,T,C] = x + wpe[:T] of wpe[P,C]; y may be x. (The gradient of x is dy.) */
struct culm_positions_forward_args {
    struct culm_out y;
    struct culm_in x, wpe;
    int64_t b, t, c;
};
/* dwpe[P,C] = or += the sum of dy[B,T,C] over samples; T at most P. */
struct culm_positions_backward_args {
    float *dwpe;
    struct culm_in dy;
    int64_t b, t, c, p;
    bool first;
};

/* y[B,K,C] = the rows index[B,K] of each sample of x[B,T,C]; a negative index gives zeros. K at
 * most the limit `context`. */
struct culm_gather_rows_forward_args {
    struct culm_out y;
    struct culm_in x;
    const int32_t *index;
    int64_t b, t, k, c;
};
/* dx[B,T,C] (=): rows that were gathered several times have the sum, in the order of the index. */
struct culm_gather_rows_backward_args {
    struct culm_out dx;
    struct culm_in dy;
    const int32_t *index;
    int64_t b, t, k, c;
};

/* --- attention and recurrence --- */

/* Queries, keys and values: row r of sample s begins at element (s T + r) ld; each row holds c
 * features, head by head. */
struct culm_attention_rows {
    struct culm_in q, k, v;
    int64_t ldq, ldk, ldv;
};
struct culm_attention_grads {
    struct culm_out dq, dk, dv;
    int64_t lddq, lddk, lddv;
};
/* The same of q, k and v side by side in qkv[B,T,3C], and in its gradient. */
static inline struct culm_attention_rows culm_attention_packed(struct culm_in qkv, int64_t c) {
    const char *at = qkv.data;
    size_t bytes = (size_t)c * culm_dtype_bytes(qkv.dtype);
    return (struct culm_attention_rows){
        {at, qkv.dtype}, {at + bytes, qkv.dtype}, {at + 2 * bytes, qkv.dtype}, 3 * c, 3 * c, 3 * c};
}
static inline struct culm_attention_grads culm_attention_packed_grads(struct culm_out dqkv,
                                                                      int64_t c) {
    char *at = dqkv.data;
    size_t bytes = (size_t)c * culm_dtype_bytes(dqkv.dtype);
    return (struct culm_attention_grads){{at, dqkv.dtype},
                                         {at + bytes, dqkv.dtype},
                                         {at + 2 * bytes, dqkv.dtype},
                                         3 * c,
                                         3 * c,
                                         3 * c};
}

/* Attention (tensor/hyper.h). out[B,Tq,C]; saves lse[B,H,Tq], the log of the sum of exponentials of
 * each row of scores. A query all of whose keys are hidden gives zeros. Dropout acts on the
 * probabilities: element (head Tq + query) ceil128(Tk) + key of sample b. With q, k and v in bf16
 * the products are those of gemm_bf16, and probabilities are rounded on the way. */
struct culm_attention_forward_args {
    struct culm_out out;
    float *lse;
    const struct culm_attention_rows *in;
    const struct culm_attention *how;
};
/* dq[B,Tq,C], dk[B,Tk,C], dv[B,Tk,C] (=) from dout[B,Tq,C] and what forward read and wrote. A dq
 * in bf16 of a q in f32: Tq times C / heads is at most 2^19 then. */
struct culm_attention_backward_args {
    const struct culm_attention_grads *grads;
    struct culm_in dout;
    const struct culm_attention_rows *in;
    struct culm_in out;
    const float *lse;
    const struct culm_attention *how;
};

/* Additive attention: scores sum over a of vhat[a] tanh(query[b,t,a] + key[b,s,a] + bias[a]) with
 * vhat = v scale / |v|; a key past the length has probability zero, and so has all of a sample
 * without keys. */
struct culm_bahdanau_inputs {
    struct culm_in query, key, value;
    const float *v, *scale, *bias; /* [A], [1], [A] */
};
struct culm_bahdanau_grads {
    struct culm_out dquery, dkey, dvalue; /* (=) */
    float *dv, *dscale, *dbias;           /* = or += */
};
/* context[B,T,C] and probabilities[B,T,S]. */
struct culm_bahdanau_forward_args {
    struct culm_out context;
    float *probabilities;
    const struct culm_bahdanau_inputs *in;
    const struct culm_bahdanau *how;
};
/* `work`: as many floats as the device's bahdanau_backward_floats says. */
struct culm_bahdanau_backward_args {
    const struct culm_bahdanau_grads *grads;
    float *work;
    struct culm_in dcontext;
    const float *probabilities;
    const struct culm_bahdanau_inputs *in;
    const struct culm_bahdanau *how;
    bool first;
};

/* Long short-term memory, PyTorch's: gates i f g o, w_ih[4H,I], w_hh[4H,H], b_ih[4H], b_hh[4H] (may
 * be absent), h0[B,H], c0[B,H] (absent: zeros; both or none). */
struct culm_lstm_params {
    const float *w_ih, *w_hh, *b_ih, *b_hh;
    struct culm_in h0, c0;
};
struct culm_lstm_grads {
    float *dw_ih, *dw_hh, *db_ih, *db_hh; /* = or +=; the biases' may be absent */
    struct culm_out dx, dh0, dc0;         /* (=); absent: not wanted */
};
/* y[B,T,H] from x[B,T,I]; past a sample's length it is zero. Saves gates[B,T,4H], cells[B,T,H].
 * `work`: as many floats as the device's lstm_forward_floats says. */
struct culm_lstm_forward_args {
    struct culm_out y;
    float *gates, *cells, *work;
    struct culm_in x;
    const struct culm_lstm_params *params;
    const struct culm_lstm *how;
};
/* From dy[B,T,H] and what forward read and wrote. What lies in dy past a length is not used.
 * `work`: lstm_backward_floats. */
struct culm_lstm_backward_args {
    const struct culm_lstm_grads *grads;
    float *work;
    struct culm_in dy, x, y;
    const float *gates, *cells;
    const struct culm_lstm_params *params;
    const struct culm_lstm *how;
    bool first;
};

/* --- norms, softmax, losses --- */

/* y[N,C] = (x - mean) rstd gamma + beta, per row; eps 1e-5 for GPT-2. Saves mean[N], rstd[N]. */
struct culm_layernorm_forward_args {
    struct culm_out y;
    float *mean, *rstd;
    struct culm_in x;
    const float *gamma, *beta;
    int64_t n, c;
    double eps;
};
/* dx[N,C] (=, of the type of x; may be dy itself), dgamma[C], dbeta[C] (= or +=). add[N,C] (may be
 * absent) is added to dx: the gradient that passes by on the residual path; may be dx itself. */
struct culm_layernorm_backward_args {
    struct culm_out dx;
    float *dgamma, *dbeta;
    struct culm_in dy, x;
    const float *gamma, *mean, *rstd;
    struct culm_in add;
    int64_t n, c;
    bool first;
};

/* Batch norm (tensor/hyper_vision.h) of x[N,C]; residual[N,C] may be absent. Writes mean[C] and
 * variance[C] (divided by N), or reads them with `inference`. y may be the residual. */
struct culm_batchnorm_forward_args {
    struct culm_out y;
    float *mean, *variance;
    struct culm_in x;
    const float *gamma, *beta;
    struct culm_in residual;
    const struct culm_batchnorm *how;
};
/* dx[N,C] (=; absent: not wanted), dresidual[N,C] (=; likewise), and = or += dgamma[C], dbeta[C],
 * the mean into sum_mean[C] and the unbiased variance, of N - 1, into sum_variance[C] (with
 * `inference` the given ones), each of which may be absent. y is given if there was a residual and
 * a function. */
struct culm_batchnorm_backward_args {
    struct culm_out dx, dresidual;
    float *dgamma, *dbeta, *sum_mean, *sum_variance;
    struct culm_in dy, x, y;
    const float *gamma, *beta, *mean, *variance;
    const struct culm_batchnorm *how;
    bool first;
};

/* y[N,C] = softmax of each row of x, C at most the limit `softmax`; and dx (may be dy). */
struct culm_softmax_forward_args {
    struct culm_out y;
    struct culm_in x;
    int64_t n, c;
};
struct culm_softmax_backward_args {
    struct culm_out dx;
    struct culm_in dy, y;
    int64_t n, c;
};

/* The loss of rows of logits[N,V] against targets[N], each below V; a row whose target is negative
 * is ignored: no loss, and a gradient of zero. The sum over rows is in order and in float64. Label
 * smoothing a in [0, 1) as in PyTorch: the wanted distribution is (1 - a) onehot + a / V. With
 * want_gradient, the logits become (softmax - wanted) * scale; else they stay. N at most the limit
 * `rows`. */
struct culm_cross_entropy_args {
    struct culm_out logits;
    const int32_t *targets;
    int64_t n, v;
    double scale, smoothing;
    bool want_gradient;
    struct culm_loss *ret_loss;
};

/* --- rows of neighbours: graphs and sparse matrices ---
 *
 * Row r of n has the entries e = start[r] .. start[r + 1] - 1, each of which names row column[e] of a
 * table. start[0] may be above zero: a stretch of a larger matrix. E, in a shape, counts entries, and
 * e indexes such an array as it is. These arrays need no alignment.
 *
 * A sum over the entries of a row begins with the first term and adds the others one after the other;
 * a row of more than CULM_SPMM_BLOCK entries is summed in blocks of so many, which are then added
 * in order. */
#define CULM_SPMM_BLOCK 4096
#define CULM_EDGE_HEADS_MAX 64 /* of softmax */

/* y[n,f] = scale[r] times the sum over the entries of row r of value x[column, :], or y + that
 * (`add`). A row without entries gives zeros, or leaves y as it is. The value is value[entry[e],h],
 * or value[e,h] where entry is absent; head h weighs columns h f / heads .. (h + 1) f / heads - 1.
 * Terms are added by fused multiply-add; plainly where value is absent, which stands for ones.
 *
 * With `kept` (one head; no `entry`) values, or ones, are multiplied by kept_scale (not 0). A term is left out
 * where bit i % 32 of kept[i / 32] is not set, i being kept_at[e], or e where that is absent, or where its
 * value is 0; and a sum begins with 0. One more word of `kept` may be read than bits are in.
 *
 * `kept_words` says the same of matrices with many entries (one head; no `value`, no `kept`): it has one bit
 * for every element [r, c], which is bit c % 64 of kept_words[c / 64 n + r]. A bit is set where there is an
 * entry that dropout keeps. The columns of a row rise, and `rows` must be known. */
struct culm_spmm_args {
    struct culm_out y;     /* rows ldy apart */
    struct culm_in x;      /* rows ldx apart */
    const uint64_t *start; /* [n+1] */
    const uint32_t *column;
    const float *value;    /* [E,heads]; may be absent */
    const uint64_t *entry; /* [E]; may be absent */
    const float *scale;    /* [n]; may be absent */
    int64_t n, f, ldx, ldy;
    int64_t heads; /* divides f; 0 stands for 1 */
    int64_t rows;  /* of x: helps to use caches, changes no bit; 0: not known */
    bool add;
    const uint32_t *kept;    /* what is left by dropout; may be absent */
    const uint32_t *kept_at; /* [E]; may be absent */
    float kept_scale;
    const uint64_t *kept_words; /* [(rows + 63) / 64,n]; may be absent */
    /* With these, a value: of the row [n], or of the row of x [rows]; not 0. NULL: 1. */
    const float *kept_weight;
    bool weight_of_x;
};

/* value[e,h] = the dot product of a[r] and b[column[e]] over the f / heads columns of head h: in 16
 * lanes folded by halves, or in 8 where f / heads is 8. */
struct culm_sddmm_args {
    float *value;        /* [E,heads] */
    struct culm_in a, b; /* rows lda and ldb apart */
    const uint64_t *start;
    const uint32_t *column;
    int64_t n, f, lda, ldb, heads;
};

/* alpha[e,h] = the softmax, over the entries of row r, of the scores
 * leaky_relu(s[r,h] + t[column[e],h]) with `slope` below zero. Also the largest score of each row and
 * the sum of e^(score - largest); of a row without entries -infinity and 0. */
struct culm_edge_softmax_forward_args {
    float *alpha;         /* [E,heads] */
    float *largest, *sum; /* [n,heads]; may be absent */
    const float *s, *t;   /* [n,heads], [rows of the table,heads] */
    const uint64_t *start;
    const uint32_t *column;
    int64_t n, heads;
    double slope;
};
/* dscore[E,heads] (=; may be dalpha): the gradient of s + t, of each entry; ds[n,heads] (=): its sums
 * over the rows. (dt is their edge_sum over the transposed matrix.) */
struct culm_edge_softmax_backward_args {
    float *dscore, *ds;
    const float *alpha, *dalpha; /* [E,heads] */
    const float *s, *t;
    const uint64_t *start;
    const uint32_t *column;
    int64_t n, heads;
    double slope;
};
/* y[n,heads] = or += the sums over rows of x[entry[e],:]. */
struct culm_edge_sum_args {
    float *y;
    const float *x; /* [E of the other matrix,heads] */
    const uint64_t *start, *entry;
    int64_t n, heads;
    bool add;
};

/* Bit e % 32 of kept[e / 32] says whether dropout keeps entry e, which is element column[e] of sample r: as
 * if the row were dense. All words that have a bit of an entry are written.
 *
 * With `there`, bits of all elements take their place: bit i of there[w n + r] says whether row r has an
 * entry in column 64 w + i, of kept_words[w n + r] whether dropout keeps it too. turned_words, which may
 * be absent, has the same by columns: bit i of turned_words[w columns + c] is that of row 64 w + i. */
struct culm_sparse_dropout_args {
    uint32_t *kept; /* [E] bits */
    const uint64_t *start;
    const uint32_t *column; /* those of a row rise */
    int64_t n;
    const struct culm_dropout *dropout; /* p above 0; samples = n */
    const uint64_t *there;              /* [(columns + 63) / 64,n]; may be absent */
    uint64_t *kept_words;               /* as large */
    uint64_t *turned_words;             /* [(n + 63) / 64,columns] */
    int64_t columns;
};
/* y[e,h] = dropout of x[e,h], keyed by what the edge connects: the id of row r, which is the id of
 * sample r, and column_id[column[e]]. Element h has half h % 2 of word h / 2 % 4 of
 * culm_rng(key, row's id << 32 | column's id, h / 8). y may be x. */
struct culm_edge_dropout_args {
    float *y;
    const float *x; /* [E,heads] */
    const uint64_t *start;
    const uint32_t *column;
    const uint32_t *column_id; /* [rows of the table]; absent: the column itself */
    int64_t n, heads;
    const struct culm_dropout *dropout; /* p above 0; samples = n */
};

/* Attention over the entries of rows, all of it at once, for H heads of f / H columns. alpha[e,h] is the
 * softmax of edge_softmax_forward, g its slope at the score (1 above zero), d what edge_dropout makes of
 * a one. y[n,f] = the sums of alpha d x. Beside it, where wanted, rows of: the sums of alpha d g x [f];
 * of alpha g [H]; the logarithm of the sum of e^score [H]. A row without entries gives zeros, and
 * -infinity there. Sums of x are as spmm's; the others are of 16 lanes folded by halves where H divides
 * 16. Rows of more entries than 4096, or 1024 where H is above 16, are summed in blocks of so many. */
struct culm_attend_forward_args {
    float *y, *beside;  /* rows ldy and ldb apart; beside: may be absent */
    struct culm_in x;   /* rows ldx apart */
    const float *s, *t; /* [n,H], [rows of the table,H] */
    const uint64_t *start;
    const uint32_t *column;
    const uint32_t *column_id; /* of dropout: [rows of the table]; absent: the column itself */
    int64_t n, f, ldx, ldy, ldb, heads;
    double slope;
    const struct culm_dropout *dropout; /* p above 0; samples = n; absent: none */
};
/* The other way: row r was read by its entries' columns i, with scores s[i,h] + t[r,h]; alpha = e^(leaky
 * ReLU of the score - l[i,h]), and dropout is keyed by (id of i, id of r), as it was for i.
 * y[n,f] = the sums of alpha d dy[i,:]; dt[n,H] = the sums of alpha g (d <x[r], dy[i]> - c[i,h]). */
struct culm_attend_backward_args {
    float *y, *dt;           /* rows ldy and ldt apart */
    struct culm_in x, dy;    /* rows ldx and ldd apart */
    const float *t, *reader; /* [n,H]; [rows of the table,3H]: s, l, c */
    const uint64_t *start;
    const uint32_t *column;
    const uint32_t *column_id;
    int64_t n, f, ldx, ldy, ldd, ldt, heads;
    double slope;
    const struct culm_dropout *dropout;
};

/* What rows say to those that attend to them: y[n,c+2H] = dropout(t[n,c]), then <t, a> of each of H
 * heads of c / H columns, then <t, b>. Column i of row r is kept where bit i % 32 of word
 * r ceil(c / 32) + i / 32 of `kept` is 1. */
struct culm_heads_forward_args {
    struct culm_out y;
    struct culm_in t;
    const float *a, *b; /* [c] */
    int64_t n, c, heads;
    const struct culm_dropout *dropout; /* p above 0; samples = n; absent: none, and no `kept` */
    uint32_t *kept;
};
/* The gradients: dt[n,c]; da[c] and db[c] = or += sums over rows. */
struct culm_heads_backward_args {
    struct culm_out dt;
    float *da, *db;
    struct culm_in dy, t; /* dy: [n,c+2H] */
    const float *a, *b;
    const uint32_t *kept; /* absent: all */
    int64_t n, c, heads;
    double p; /* of the dropout */
    bool first;
};

/* y[n,c] = dropout(function(x + bias)) of the first c columns of rows ldx apart; `saved`, which may be
 * absent, is the function's result where culm_function_keeps_output, else its operand; `kept` as
 * above. */
struct culm_hidden_forward_args {
    struct culm_out y, saved;
    struct culm_in x;
    const float *bias; /* may be absent */
    int64_t n, c, ldx;
    enum culm_function function;
    double alpha;
    const struct culm_dropout *dropout;
    uint32_t *kept;
};
/* dx[n,ldx], zeros behind c columns; dbias[c], which may be absent, = or += the sum over rows. */
struct culm_hidden_backward_args {
    struct culm_out dx;
    float *dbias;
    struct culm_in dy, saved;
    const uint32_t *kept;
    int64_t n, c, ldx;
    enum culm_function function;
    double alpha, p;
    bool first;
};

/* index[n] = where each row of x[n,c] is largest: the first of equals. */
struct culm_argmax_args {
    int32_t *index;
    struct culm_in x;
    int64_t n, c;
};

/* --- elements --- */

/* y = a + b; y may be a or b */
struct culm_add_args {
    struct culm_out y;
    struct culm_in a, b;
    int64_t count;
};

/* y = dropout(x), which is also its gradient: dx = mask dy / (1 - p). In place is fine. */
struct culm_dropout_args {
    struct culm_out y;
    struct culm_in x;
    int64_t count;
    const struct culm_dropout *dropout;
};
/* y = x + dropout(h). y may be x or h. (The gradient of x is dy; that of h is dropout of dy.) */
struct culm_residual_dropout_forward_args {
    struct culm_out y;
    struct culm_in x, h;
    int64_t count;
    const struct culm_dropout *dropout;
};

/* y = function(x), of one operand; y may be x. alpha: the slope of LEAKY_RELU below zero, the bound of
 * ELU. */
struct culm_activation_forward_args {
    struct culm_out y;
    struct culm_in x;
    int64_t count;
    enum culm_function function;
    double alpha;
};
/* dx (may be dy) from dy and `kept`: y where culm_function_keeps_output, else x. */
struct culm_activation_backward_args {
    struct culm_out dx;
    struct culm_in dy, kept;
    int64_t count;
    enum culm_function function;
    double alpha;
};

/* y = scale x + shift; y may be x. Its gradient is dy scaled. */
struct culm_affine_args {
    struct culm_out y;
    struct culm_in x;
    int64_t count;
    double scale, shift;
};

/* sum += x */
struct culm_accumulate_args {
    float *sum;
    struct culm_in x;
    int64_t count;
};

/* y = a + - * / b, elements of a_shape; b is spread over a: its dimensions, aligned to the right,
 * are those of a or 1. y may be a. */
struct culm_binary_args {
    struct culm_out y;
    struct culm_in a, b;
    const struct culm_shape *a_shape, *b_shape;
    enum culm_function function;
};
/* y = scale b, spread over y likewise. */
struct culm_spread_args {
    struct culm_out y;
    struct culm_in b;
    const struct culm_shape *y_shape, *b_shape;
    double scale;
};
/* y = scale times the sum over the dimensions in axes (bit i: dimension i) of x factor, or their
 * largest (function SUM or MAX; scale 1 with MAX). factor, of x's shape, may be absent. */
struct culm_reduce_args {
    struct culm_out y;
    struct culm_in x, factor;
    const struct culm_shape *x_shape;
    int64_t axes;
    enum culm_function function;
    double scale;
};
/* dx = dy where x is the largest, in equal shares where several are. */
struct culm_reduce_max_backward_args {
    struct culm_out dx;
    struct culm_in dy, x, y;
    const struct culm_shape *x_shape;
    int64_t axes;
};

/* --- moving elements: i32 arrays count as f32 --- */

/* y = x with its dimensions in another order: dimension i of y is order[i] of x. */
struct culm_permute_args {
    struct culm_out y;
    struct culm_in x;
    const struct culm_shape *x_shape;
    const int64_t *order;
};
/* y = x[n,h,w,c] with pad[4] (top, left, bottom, right) pixels of `value` around. */
struct culm_pad_args {
    struct culm_out y;
    struct culm_in x;
    int64_t n, h, w, c;
    const int64_t *pad;
    double value;
};
/* The reverse: y[n,h,w,c] = x without its border. */
struct culm_crop_args {
    struct culm_out y;
    struct culm_in x;
    int64_t n, h, w, c;
    const int64_t *pad;
};
/* Row i of x[rows,row] becomes, or is added to, elements [offset, offset + row) of row i of
 * y[rows,pitch]. */
struct culm_place_args {
    struct culm_out y;
    struct culm_in x;
    int64_t rows, row, pitch, offset;
    bool add;
};

/* --- images --- */

/* Convolutions; geometry and layouts: tensor/conv.h. x[N,H,W,C], y[N,OH,OW,O]. `algorithm` must be
 * possible for the geometry (culm_conv_algorithm_possible) and is part of what makes the bits.
 * Taps, kh kw, are at most the limit `conv_taps`, culm_conv_scattered_terms at most `conv_terms`.
 * b may be absent. */
struct culm_conv_forward_args {
    const struct culm_conv *conv;
    enum culm_conv_algorithm algorithm;
    struct culm_out y;
    struct culm_in x;
    const float *w, *b;
};
/* dx (=) */
struct culm_conv_backward_data_args {
    const struct culm_conv *conv;
    enum culm_conv_algorithm algorithm;
    struct culm_out dx;
    struct culm_in dy;
    const float *w;
};
/* dw, db (= or +=; db may be absent) */
struct culm_conv_backward_weight_args {
    const struct culm_conv *conv;
    enum culm_conv_algorithm algorithm;
    float *dw, *db;
    struct culm_in x, dy;
    bool first;
};

/* y[N,h,w,C] = the largest of each window of x[N,H,W,C], and index (may be absent) the place of its
 * first occurrence. Not NaN unless the first tap is. */
struct culm_maxpool_forward_args {
    struct culm_out y, index;
    struct culm_in x;
    const struct culm_window *window;
};
/* dx[N,H,W,C] (=): each element's windows in order. */
struct culm_maxpool_backward_args {
    struct culm_out dx;
    struct culm_in dy, index;
    const struct culm_window *window;
};
/* y = the mean of each window, and its gradient. */
struct culm_avgpool_forward_args {
    struct culm_out y;
    struct culm_in x;
    const struct culm_window *window;
};
struct culm_avgpool_backward_args {
    struct culm_out dx;
    struct culm_in dy;
    const struct culm_window *window;
};

/* y[N,h,w,C] = x[N,H,W,C] at another size, as torch's interpolate; and its gradient dx (=). */
struct culm_resize_forward_args {
    struct culm_out y;
    struct culm_in x;
    const struct culm_resize *how;
};
struct culm_resize_backward_args {
    struct culm_out dx;
    struct culm_in dy;
    const struct culm_resize *how;
};

/* --- optimizers and digests, on flat vectors --- */

/* One step of AdamW (tensor/hyper.h). */
struct culm_adamw_args {
    float *p, *m, *v;
    const float *g;
    int64_t count;
    const struct culm_adamw *hyper;
};
/* One step of SGD (tensor/hyper.h); buffer may be absent without momentum. */
struct culm_sgd_args {
    float *p, *buffer;
    const float *g;
    int64_t count;
    const struct culm_sgd *hyper;
};

/* Sum of squares in float64 over a fixed tree of blocks, and the digest of x on the way
 * (ret_digest may be absent). */
struct culm_sum_squares_args {
    const float *x;
    int64_t count;
    double *ret_sum;
    uint64_t *ret_digest;
};
/* A digest of the bits of x[count], the same on every device: one flipped bit always changes it,
 * elements in another order do. `digest_here`: by the calling thread alone, which may be any, while
 * others use the device. */
struct culm_digest_args {
    const float *x;
    int64_t count;
    uint64_t *ret_digest;
};
struct culm_digest_here_args {
    const float *x;
    int64_t count;
    uint64_t *ret_digest;
};

/* clang-format off */
#define CULM_KERNELS(X)                                                                            \
    X(gemm) X(gemm_bf16) X(matmul)                                                                 \
    X(linear_forward) X(linear_backward_input) X(linear_backward_weight)                           \
    X(embedding_forward) X(embedding_backward)                                                     \
    X(lookup_forward) X(lookup_backward)                                                           \
    X(positions_forward) X(positions_backward)                                                     \
    X(gather_rows_forward) X(gather_rows_backward)                                                 \
    X(attention_forward) X(attention_backward)                                                     \
    X(bahdanau_forward) X(bahdanau_backward)                                                       \
    X(lstm_forward) X(lstm_backward)                                                               \
    X(layernorm_forward) X(layernorm_backward)                                                     \
    X(batchnorm_forward) X(batchnorm_backward)                                                     \
    X(softmax_forward) X(softmax_backward)                                                         \
    X(cross_entropy)                                                                               \
    X(spmm) X(sddmm) X(edge_softmax_forward) X(edge_softmax_backward) X(edge_sum)                  \
    X(sparse_dropout) X(edge_dropout) X(attend_forward) X(attend_backward) X(argmax)               \
    X(heads_forward) X(heads_backward) X(hidden_forward) X(hidden_backward)                        \
    X(add) X(dropout) X(residual_dropout_forward)                                                  \
    X(activation_forward) X(activation_backward)                                                   \
    X(affine) X(accumulate) X(binary) X(spread) X(reduce) X(reduce_max_backward)                   \
    X(permute) X(pad) X(crop) X(place)                                                             \
    X(conv_forward) X(conv_backward_data) X(conv_backward_weight)                                  \
    X(maxpool_forward) X(maxpool_backward)                                                         \
    X(avgpool_forward) X(avgpool_backward)                                                         \
    X(resize_forward) X(resize_backward)                                                           \
    X(adamw) X(sgd) X(sum_squares) X(digest) X(digest_here)
/* clang-format on */

#endif
