/* The kernels on sequences, for the table in ops.h. */
#ifndef CULM_DEVICE_CPU_OPS_SEQUENCE_H
#define CULM_DEVICE_CPU_OPS_SEQUENCE_H

/* clang-format off */
#define CULM_CPU_SEQUENCE_OPS(X)                                                                   \
    X(lookup_forward, (struct culm_cpu *cpu, struct culm_out y, const int32_t *ids,                \
                       struct culm_in table, int64_t n, int64_t c, int64_t v),                     \
      (cpu, y, ids, table, n, c, v))                                                               \
    X(lookup_backward, (struct culm_cpu *cpu, float *dtable, struct culm_in dy,                    \
                        const int32_t *ids, int64_t n, int64_t c, int64_t v, bool first),          \
      (cpu, dtable, dy, ids, n, c, v, first))                                                      \
    X(positions_forward, (struct culm_cpu *cpu, struct culm_out y, struct culm_in x,               \
                          struct culm_in wpe, int64_t b, int64_t t, int64_t c),                    \
      (cpu, y, x, wpe, b, t, c))                                                                   \
    X(positions_backward, (struct culm_cpu *cpu, float *dwpe, struct culm_in dy, int64_t b,        \
                           int64_t t, int64_t c, int64_t p, bool first),                           \
      (cpu, dwpe, dy, b, t, c, p, first))                                                          \
    X(gather_rows_forward, (struct culm_cpu *cpu, struct culm_out y, struct culm_in x,             \
                            const int32_t *index, int64_t b, int64_t t, int64_t k, int64_t c),     \
      (cpu, y, x, index, b, t, k, c))                                                              \
    X(gather_rows_backward, (struct culm_cpu *cpu, struct culm_out dx, struct culm_in dy,          \
                             const int32_t *index, int64_t b, int64_t t, int64_t k, int64_t c),    \
      (cpu, dx, dy, index, b, t, k, c))                                                            \
    X(lstm_forward, (struct culm_cpu *cpu, struct culm_out y, float *gates, float *cells,          \
                     float *work, struct culm_in x, const struct culm_lstm_params *params,         \
                     const struct culm_lstm *how),                                                 \
      (cpu, y, gates, cells, work, x, params, how))                                                \
    X(lstm_backward, (struct culm_cpu *cpu, const struct culm_lstm_grads *grads, float *work,      \
                      struct culm_in dy, struct culm_in x, struct culm_in y, const float *gates,   \
                      const float *cells, const struct culm_lstm_params *params,                   \
                      const struct culm_lstm *how, bool first),                                    \
      (cpu, grads, work, dy, x, y, gates, cells, params, how, first))                              \
    X(bahdanau_forward, (struct culm_cpu *cpu, struct culm_out context, float *probabilities,      \
                         const struct culm_bahdanau_inputs *in, const struct culm_bahdanau *how),  \
      (cpu, context, probabilities, in, how))                                                      \
    X(bahdanau_backward, (struct culm_cpu *cpu, const struct culm_bahdanau_grads *grads,           \
                          float *work, struct culm_in dcontext, const float *probabilities,        \
                          const struct culm_bahdanau_inputs *in, const struct culm_bahdanau *how,  \
                          bool first),                                                             \
      (cpu, grads, work, dcontext, probabilities, in, how, first))
/* clang-format on */

#endif
