/*
 * The arithmetic of one node on a CPU: every operator's forward and backward in f32, on a team
 * of threads of our own.
 *
 * All arrays are row-major, contiguous unless a leading dimension is given, 64-byte aligned, and
 * the caller's; shapes stand beside each argument. Outputs do not overlap inputs unless stated.
 * Nothing is allocated after culm_cpu_new. Sizes are the caller's promise (checked by assert) and
 * at least 1.
 *
 * Bits: each result is one fixed sequence of operations that follows from the shapes alone: an
 * element of a matrix product is chains of 256 fused multiply-adds in the order of k, added in
 * order; a sum along a row runs in 16 interleaved lanes folded by halves; a sum over rows runs in
 * fixed blocks folded in order. Work is cut into tiles that never split such a sequence, and each
 * tile runs on one thread, so the number of threads changes no bit. Every kernel exists in one
 * 16-lane form compiled for several instruction sets, with fused multiply-add written out and tails
 * padded to whole vectors, so the instruction set changes none either; what can change bits stands
 * in culm_cpu_signature. No numerical library and no OpenMP is involved. Kernels run with
 * round-to-nearest, denormals flushed to zero, whatever the caller's control word says, and give it
 * back as it was.
 *
 * `first`: a gradient of a parameter is stored when true and added to what is there when false
 * (there is no add to zero).
 *
 * Thread: one call at a time per culm_cpu, from any thread; the calling thread takes part in the
 * work.
 */
#ifndef CULM_DEVICE_CPU_KERNELS_H
#define CULM_DEVICE_CPU_KERNELS_H

#include "base/status.h"
#include "tensor/hyper.h"
#include "tensor/tensor.h"

#define CULM_CPU_MAX_WIDTH 65536     /* features per row: in, out, C */
#define CULM_CPU_MAX_HEAD 256        /* features per attention head */
#define CULM_CPU_MAX_CONTEXT 32768   /* positions per sample */
#define CULM_CPU_MAX_ROWS (1l << 20) /* rows of logits in one call */

struct culm_cpu;

/* An array of f32 or bf16 elements that a kernel reads, and one that it writes. All arithmetic is
 * in f32: bf16 is widened when it is read and rounded to nearest even when it is written. */
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

/* threads in 1..256, the calling thread included. The instruction set is the best there is, or what
 * CULM_ISA in the environment says. Errors as below. */
enum culm_status culm_cpu_new(int threads, struct culm_cpu **ret_cpu, struct culm_error *error);
/* The same on a given instruction set, "avx512_bf16", "avx512", "avx2", "neon" or "base"
 * (NULL: the best). CULM_ERR_MACHINE when this processor has none such. */
enum culm_status culm_cpu_new_isa(int threads, const char *isa_or_null, struct culm_cpu **ret_cpu,
                                  struct culm_error *error);
void culm_cpu_free(struct culm_cpu *cpu); /* NULL is fine */
int culm_cpu_threads(const struct culm_cpu *cpu);
/* Whatever of this device can change bits (not the number of threads), as one short line without
 * spaces; valid as long as cpu. */
const char *culm_cpu_signature(const struct culm_cpu *cpu);
/* The flavour of bf16 matrix products, "amx" or "portable": the only thing about them that changes
 * bits, so it belongs to the signature of a run that uses bf16. A new device has what the processor
 * does in hardware ("amx" where it has AMX), or what CULM_BF16_FLAVOUR in the environment says. */
const char *culm_cpu_bf16_flavour(const struct culm_cpu *cpu);
/* Chooses another; between calls. Every device can do each of them, with the same bits, but only
 * one is fast. CULM_ERR_ARGUMENT: no such flavour. */
enum culm_status culm_cpu_bf16_choose(struct culm_cpu *cpu, const char *flavour,
                                      struct culm_error *error);
/* Scratch that a device of so many threads holds and may touch: for memory plans. */
size_t culm_cpu_scratch_bytes(int threads);
/* The instruction set chosen, as above. For reports; it changes no bit. */
const char *culm_cpu_isa(const struct culm_cpu *cpu);

/* C[M,N] = beta C + op(A) op(B); op(A) is [M,K], op(B) [K,N]; beta is 0 (C is not read) or 1. */
void culm_cpu_gemm(struct culm_cpu *cpu, bool trans_a, bool trans_b, int64_t m, int64_t n,
                   int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                   float *c, int64_t ldc);

/* C[M,N] = op(A) op(B) + bias[N] (may be NULL), or C + op(A) op(B) with `add` (C f32, no bias), where
 * elements of A and B are rounded to bf16 unless they are, products are exact and sums f32, in the
 * order of the device's flavour. */
void culm_cpu_gemm_bf16(struct culm_cpu *cpu, bool trans_a, bool trans_b, int64_t m, int64_t n,
                        int64_t k, struct culm_in a, int64_t lda, struct culm_in b, int64_t ldb,
                        const float *bias_or_null, bool add, struct culm_out c, int64_t ldc);

/* y[N,O] = x[N,I] w[I,O] + b[O]   (GPT-2's Conv1D layout; b may be NULL). `transposed`: w is
 * [O,I], as in PyTorch. Here and in the gradients: when the activations are all f32, so is the
 * product; when one is bf16, the weights are rounded to bf16 on the way and the product is that of
 * culm_cpu_gemm_bf16. */
void culm_cpu_linear_forward(struct culm_cpu *cpu, struct culm_out y, struct culm_in x,
                             const float *w, const float *b_or_null, int64_t n, int64_t in,
                             int64_t out, bool transposed);
/* dx[N,I] = dy[N,O] w^T */
void culm_cpu_linear_backward_input(struct culm_cpu *cpu, struct culm_out dx, struct culm_in dy,
                                    const float *w, int64_t n, int64_t in, int64_t out,
                                    bool transposed);
/* dw[I,O] (or [O,I]) = or += x^T dy;  db[O] = or += column sums of dy (db may be NULL) */
void culm_cpu_linear_backward_weight(struct culm_cpu *cpu, float *dw, float *db_or_null,
                                     struct culm_in x, struct culm_in dy, int64_t n, int64_t in,
                                     int64_t out, bool transposed, bool first);

/* y[B,T,C] = wte[token] + wpe[t]; tokens[B,T] in [0, V) */
void culm_cpu_embedding_forward(struct culm_cpu *cpu, struct culm_out y, const int32_t *tokens,
                                const float *wte, const float *wpe, int64_t b, int64_t t, int64_t c,
                                int64_t v);
/* dwte[V,C], dwpe[T,C] = or += the rows of dy[B,T,C] that used them, in the order of positions.
 * (`first` stores zeros in rows of dwte that no token used.) */
void culm_cpu_embedding_backward(struct culm_cpu *cpu, float *dwte, float *dwpe, struct culm_in dy,
                                 const int32_t *tokens, int64_t b, int64_t t, int64_t c, int64_t v,
                                 bool first);

/* y[N,C] = (x - mean) rstd gamma + beta, per row; eps 1e-5 for GPT-2. Saves mean[N], rstd[N]. */
void culm_cpu_layernorm_forward(struct culm_cpu *cpu, struct culm_out y, float *mean, float *rstd,
                                struct culm_in x, const float *gamma, const float *beta, int64_t n,
                                int64_t c, double eps);
/* dx[N,C] (=, of the type of x; may be dy itself), dgamma[C], dbeta[C] (= or +=). add[N,C] (data
 * NULL: none) is added to dx: the gradient that passes by on the residual path; may be dx itself. */
void culm_cpu_layernorm_backward(struct culm_cpu *cpu, struct culm_out dx, float *dgamma,
                                 float *dbeta, struct culm_in dy, struct culm_in x,
                                 const float *gamma, const float *mean, const float *rstd,
                                 struct culm_in add_or_none, int64_t n, int64_t c, bool first);

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
 * probabilities: element (head Tq + query) ceil128(Tk) + key of sample b. Nothing of size Tq x Tk
 * is written. With q, k and v in bf16 the products are those of culm_cpu_gemm_bf16, and
 * probabilities are rounded on the way. */
void culm_cpu_attention_forward(struct culm_cpu *cpu, struct culm_out out, float *lse,
                                const struct culm_attention_rows *in,
                                const struct culm_attention *how);
/* dq[B,Tq,C], dk[B,Tk,C], dv[B,Tk,C] (=) from dout[B,Tq,C] and what forward read and wrote. A dq
 * in bf16 of a q in f32 is summed in scratch: Tq times C / heads is at most 2^19 then. */
void culm_cpu_attention_backward(struct culm_cpu *cpu, const struct culm_attention_grads *grads,
                                 struct culm_in dout, const struct culm_attention_rows *in,
                                 struct culm_in out, const float *lse,
                                 const struct culm_attention *how);

/* y = x + dropout(h). y may be x or h. (The gradient of x is dy; that of h is dropout of dy.) */
void culm_cpu_residual_dropout_forward(struct culm_cpu *cpu, struct culm_out y, struct culm_in x,
                                       struct culm_in h, int64_t count,
                                       const struct culm_dropout *dropout);
/* y = dropout(x), which is also its gradient: dx = mask dy / (1 - p). In place is fine. */
void culm_cpu_dropout(struct culm_cpu *cpu, struct culm_out y, struct culm_in x, int64_t count,
                      const struct culm_dropout *dropout);

/* y = a + b; y may be a or b */
void culm_cpu_add(struct culm_cpu *cpu, struct culm_out y, struct culm_in a, struct culm_in b,
                  int64_t count);

/* The loss of rows of logits[N,V] against targets[N], each below V; a row whose target is negative
 * is ignored: no loss, and a gradient of zero. The sum over rows is in order and in float64. Label
 * smoothing a in [0, 1) as in PyTorch: the wanted distribution is (1 - a) onehot + a / V. With
 * want_gradient, the logits become (softmax - wanted) * scale; else they stay. N at most
 * CULM_CPU_MAX_ROWS. */
void culm_cpu_cross_entropy(struct culm_cpu *cpu, struct culm_out logits, const int32_t *targets,
                            int64_t n, int64_t v, double scale, double smoothing,
                            bool want_gradient, struct culm_loss *ret_loss);

/* One step of AdamW (tensor/hyper.h) on flat vectors. */
void culm_cpu_adamw(struct culm_cpu *cpu, float *p, float *m, float *v, const float *g,
                    int64_t count, const struct culm_adamw *hyper);

/* Sum of squares in float64 over a fixed tree of blocks. */
double culm_cpu_sum_squares(struct culm_cpu *cpu, const float *x, int64_t count);
/* The same, with the digest of x on the way. */
double culm_cpu_sum_squares_digest(struct culm_cpu *cpu, const float *x, int64_t count,
                                   uint64_t *ret_digest);

/* Sets the control word of the calling thread to what a new thread has: round to nearest, nothing
 * flushed, nothing trapped. For arithmetic outside of kernels, whatever a library has left. */
void culm_cpu_control_reset(void);

/* A digest of the bits of x[count], the same on every instruction set: one flipped bit always
 * changes it, elements in another order do. `here`: by the calling thread alone, which may be any,
 * while others use cpu. */
uint64_t culm_cpu_digest(struct culm_cpu *cpu, const float *x, int64_t count);
uint64_t culm_cpu_digest_here(struct culm_cpu *cpu, const float *x, int64_t count);

/* --- sequences --- */

/* y[N,C] = table[ids], rows of table[V,C]; a negative id gives zeros. ids[N] below V. */
void culm_cpu_lookup_forward(struct culm_cpu *cpu, struct culm_out y, const int32_t *ids,
                             struct culm_in table, int64_t n, int64_t c, int64_t v);
/* dtable[V,C] = or += the rows of dy[N,C] that used each of its rows, in the order of positions.
 * (`first` stores zeros in rows that no id used.) */
void culm_cpu_lookup_backward(struct culm_cpu *cpu, float *dtable, struct culm_in dy,
                              const int32_t *ids, int64_t n, int64_t c, int64_t v, bool first);

/* y[B,T,C] = x + wpe[:T] of wpe[P,C]; y may be x. (The gradient of x is dy.) */
void culm_cpu_positions_forward(struct culm_cpu *cpu, struct culm_out y, struct culm_in x,
                                struct culm_in wpe, int64_t b, int64_t t, int64_t c);
/* dwpe[P,C] = or += the sum of dy[B,T,C] over samples; T at most P. */
void culm_cpu_positions_backward(struct culm_cpu *cpu, float *dwpe, struct culm_in dy, int64_t b,
                                 int64_t t, int64_t c, int64_t p, bool first);

/* y[B,K,C] = the rows index[B,K] of each sample of x[B,T,C]; a negative index gives zeros. K at
 * most CULM_CPU_MAX_CONTEXT. */
void culm_cpu_gather_rows_forward(struct culm_cpu *cpu, struct culm_out y, struct culm_in x,
                                  const int32_t *index, int64_t b, int64_t t, int64_t k, int64_t c);
/* dx[B,T,C] (=): rows that were gathered several times have the sum, in the order of the index. */
void culm_cpu_gather_rows_backward(struct culm_cpu *cpu, struct culm_out dx, struct culm_in dy,
                                   const int32_t *index, int64_t b, int64_t t, int64_t k,
                                   int64_t c);

/* --- vision, and what any model may need --- */
#include "device/cpu/kernels_vision.h"

/* Long short-term memory, PyTorch's: gates i f g o, w_ih[4H,I], w_hh[4H,H], b_ih[4H], b_hh[4H] (may
 * be NULL), h0[B,H], c0[B,H] (data NULL: zeros; both or none). */
struct culm_lstm_params {
    const float *w_ih, *w_hh, *b_ih, *b_hh;
    struct culm_in h0, c0;
};
struct culm_lstm_grads {
    float *dw_ih, *dw_hh, *db_ih, *db_hh; /* = or +=; the biases' may be NULL */
    struct culm_out dx, dh0, dc0;         /* (=); data NULL: not wanted */
};
#define CULM_CPU_MAX_LSTM_BATCH 4096
/* Floats of `work`, which the caller lends. */
static inline int64_t culm_cpu_lstm_state_floats(const struct culm_lstm *how, int64_t terms) {
    return 2 * ((terms + 255) / 256 * how->b * 272) + 2 * (how->t + how->b + 64);
}
static inline int64_t culm_cpu_lstm_forward_floats(const struct culm_lstm *how) {
    int64_t h = (how->h + 31) / 32 * 32;
    return 4 * h * h + 4 * h + culm_cpu_lstm_state_floats(how, h) + 256;
}
static inline int64_t culm_cpu_lstm_backward_floats(const struct culm_lstm *how) {
    int64_t h = (how->h + 31) / 32 * 32;
    return 4 * h * h + 4 * h + how->b * h + (how->t + 1) * how->b * 4 * h +
           culm_cpu_lstm_state_floats(how, 4 * h) + 256;
}
/* y[B,T,H] from x[B,T,I]; past a sample's length it is zero. Saves gates[B,T,4H], cells[B,T,H]. */
void culm_cpu_lstm_forward(struct culm_cpu *cpu, struct culm_out y, float *gates, float *cells,
                           float *work, struct culm_in x, const struct culm_lstm_params *params,
                           const struct culm_lstm *how);
/* From dy[B,T,H] and what forward read and wrote. What lies in dy past a length is not used. */
void culm_cpu_lstm_backward(struct culm_cpu *cpu, const struct culm_lstm_grads *grads, float *work,
                            struct culm_in dy, struct culm_in x, struct culm_in y,
                            const float *gates, const float *cells,
                            const struct culm_lstm_params *params, const struct culm_lstm *how,
                            bool first);

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
#define CULM_CPU_MAX_BAHDANAU_KEYS 2048
/* Floats of `work`, which the caller lends. */
static inline int64_t culm_cpu_bahdanau_backward_floats(const struct culm_bahdanau *how) {
    int64_t width = (how->a + 63) / 64 * 64;
    return width + how->b * how->t * how->s + how->b * 2 * width + 64;
}
/* context[B,T,C] and probabilities[B,T,S]. */
void culm_cpu_bahdanau_forward(struct culm_cpu *cpu, struct culm_out context, float *probabilities,
                               const struct culm_bahdanau_inputs *in,
                               const struct culm_bahdanau *how);
void culm_cpu_bahdanau_backward(struct culm_cpu *cpu, const struct culm_bahdanau_grads *grads,
                                float *work, struct culm_in dcontext, const float *probabilities,
                                const struct culm_bahdanau_inputs *in,
                                const struct culm_bahdanau *how, bool first);

#endif
