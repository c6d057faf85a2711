/*
 * Hyper-parameters that reference kernels and device kernels share. Plain data; thread: any.
 */
#ifndef CULM_TENSOR_HYPER_H
#define CULM_TENSOR_HYPER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Which elements are dropped: element e of sample j of the call is a pure function of key, the
 * sample's id and e, whatever the micro-batch it is computed in. The id is sample_id[j] where the
 * samples have ids, else first_sample + j. With g = e / 128, l = e % 16 and s = e / 16 % 8, the
 * element's 16 random bits are half s % 2 (0: the low one) of word s / 2 of culm_rng(key, id,
 * 16 * g + l); it is dropped when they are below round(p * 65536). What is kept is multiplied by
 * 1 / (1 - p).
 */
struct culm_dropout {
    double p;                  /* in [0, 1); 0: exact identity, at no cost */
    uint64_t key;              /* from seed, iteration and operator id */
    uint64_t first_sample;     /* position in the global order of the call's first sample */
    const uint32_t *sample_id; /* [samples]; NULL: first_sample, first_sample + 1, ... */
    int64_t samples;           /* in this call; divides the number of elements */
};
static inline uint64_t culm_dropout_sample(const struct culm_dropout *dropout, int64_t sample) {
    return dropout->sample_id ? dropout->sample_id[sample]
                              : dropout->first_sample + (uint64_t)sample;
}

/* Whether element `element` of the call's sample `sample` is dropped. NULL drops nothing. */
bool culm_dropout_drops(const struct culm_dropout *dropout, int64_t sample, int64_t element);

/* Attention of `heads` heads of c / heads features: tq queries and tk keys a sample. Scores are
 * scaled by 1 / sqrt(c / heads). */
struct culm_attention {
    int64_t b, tq, tk, c, heads;
    bool causal;                        /* query i sees keys 0..i only */
    const int32_t *mask;                /* [b,tk]: 0 hides the key; NULL: none is hidden */
    const struct culm_dropout *dropout; /* of probabilities; NULL: none */
};

/* One direction of one layer of long short-term memory: b samples of t steps, i inputs and h units.
 * `reverse`: from the last step to the first. */
struct culm_lstm {
    int64_t b, t, i, h;
    bool reverse;
    const int32_t *length; /* [b]: how many steps each sample has; NULL: t */
};
static inline int64_t culm_lstm_length(const struct culm_lstm *how, int64_t sample) {
    if (!how->length || how->length[sample] > how->t) {
        return how->t;
    }
    return how->length[sample] > 0 ? how->length[sample] : 0;
}

/* Additive attention: t queries of a features, s keys of a features with values of c. */
struct culm_bahdanau {
    int64_t b, t, s, a, c;
    const int32_t *length; /* [b]: how many keys each sample has; NULL: s */
};

/* What a loss gives back: its sum over the rows that count, how many count, and in how many of them
 * the wanted class has the first largest logit. */
struct culm_loss {
    double loss;
    int64_t counted, correct;
};

/* PyTorch's AdamW, with g = grad_scale * gradient:
 *   p *= 1 - lr weight_decay;  m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2;
 *   p -= lr / bias_correction1 * m / (sqrt(v) / sqrt(bias_correction2) + eps)
 * The scalars are formed in float64 and rounded once. */
struct culm_adamw {
    double lr, beta1, beta2, eps;
    double weight_decay;                       /* 0: none */
    double grad_scale;                         /* 1, or what clipping says */
    double bias_correction1, bias_correction2; /* 1 - beta^t, t = 1, 2, ... */
    struct culm_step_digest *digest;           /* out; NULL: not wanted */
};

/* Digests (culm_device_digest) of what a step read and wrote: the gradient; the parameter and the
 * optimizer's one or two vectors, before it and after. 0 for a vector that there is not. */
struct culm_step_digest {
    uint64_t grad, before[3], after[3];
};

/* What an element-wise operator computes. */
enum culm_function {
    CULM_FUNCTION_NONE, /* the identity */
    CULM_FUNCTION_RELU,
    CULM_FUNCTION_LEAKY_RELU, /* x < 0: alpha x */
    CULM_FUNCTION_RELU6,
    CULM_FUNCTION_GELU_TANH,
    CULM_FUNCTION_GELU_ERF,
    CULM_FUNCTION_TANH,
    CULM_FUNCTION_SIGMOID,
    CULM_FUNCTION_SILU,
    CULM_FUNCTION_ELU, /* x < 0: alpha (e^x - 1); alpha at least 0 */
    CULM_FUNCTION_EXP,
    CULM_FUNCTION_LOG,
    CULM_FUNCTION_SQRT,
    CULM_FUNCTION_RECIPROCAL,
    CULM_FUNCTION_ADD, /* of two operands, from here */
    CULM_FUNCTION_SUB,
    CULM_FUNCTION_MUL,
    CULM_FUNCTION_DIV,
    CULM_FUNCTION_MEAN, /* over dimensions, from here */
    CULM_FUNCTION_SUM,
    CULM_FUNCTION_MAX,
    CULM_FUNCTION_SOFTMAX, /* of rows, from here: what a model ends in, in no kernel */
    CULM_FUNCTION_LOG_SOFTMAX,
    CULM_FUNCTION_COUNT
};

/* Whether the slope of a function of one operand follows from its result alone; else its backward
 * needs the operand. */
static inline bool culm_function_keeps_output(enum culm_function function, double alpha) {
    switch (function) {
    case CULM_FUNCTION_LEAKY_RELU: return alpha >= 0;
    case CULM_FUNCTION_GELU_TANH:
    case CULM_FUNCTION_GELU_ERF:
    case CULM_FUNCTION_SILU:
    case CULM_FUNCTION_LOG: return false;
    default: return true;
    }
}

/* PyTorch's SGD, with g = grad_scale * gradient + weight_decay p:
 *   buffer = first ? g : momentum buffer + (1 - dampening) g;
 *   p -= lr (nesterov ? g + momentum buffer : buffer)
 * momentum 0: p -= lr g, and there is no buffer. */
struct culm_sgd {
    double lr, momentum, dampening;
    double weight_decay; /* 0: none */
    double grad_scale;   /* 1, or what clipping says */
    bool nesterov;
    bool first;                      /* step: what the buffer holds is not read */
    struct culm_step_digest *digest; /* out; NULL: not wanted */
};

#endif
