/* Reference kernels: element-wise functions and SGD. See reference_vision.h. */
#include "tensor/reference_vision.h"

#include <math.h>

#define PI 3.14159265358979323846

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double normal(double x) { return 0.5 * erfc(-x * sqrt(0.5)); }

static double value_of(enum culm_function function, double x, double alpha) {
    switch (function) {
    case CULM_FUNCTION_RELU: return x > 0 ? x : 0;
    case CULM_FUNCTION_LEAKY_RELU: return x < 0 ? alpha * x : x;
    case CULM_FUNCTION_RELU6: return x > 6 ? 6 : x > 0 ? x : 0;
    case CULM_FUNCTION_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / PI) * (x + 0.044715 * x * x * x)));
    case CULM_FUNCTION_GELU_ERF: return x * normal(x);
    case CULM_FUNCTION_TANH: return tanh(x);
    case CULM_FUNCTION_SIGMOID: return sigmoid(x);
    case CULM_FUNCTION_SILU: return x * sigmoid(x);
    case CULM_FUNCTION_ELU: return x < 0 ? alpha * expm1(x) : x;
    case CULM_FUNCTION_EXP: return exp(x);
    case CULM_FUNCTION_LOG: return log(x);
    case CULM_FUNCTION_SQRT: return sqrt(x);
    case CULM_FUNCTION_RECIPROCAL: return 1 / x;
    default: return x;
    }
}

/* `kept` is the result where culm_function_keeps_output, else the operand. */
static double slope_of(enum culm_function function, double kept, double alpha) {
    double inner, s;
    switch (function) {
    case CULM_FUNCTION_RELU: return kept > 0 ? 1 : 0;
    case CULM_FUNCTION_LEAKY_RELU: return kept > 0 ? 1 : alpha;
    case CULM_FUNCTION_RELU6: return kept > 0 && kept < 6 ? 1 : 0;
    case CULM_FUNCTION_GELU_TANH:
        inner = tanh(sqrt(2 / PI) * (kept + 0.044715 * kept * kept * kept));
        return 0.5 * (1 + inner) +
               0.5 * kept * (1 - inner * inner) * sqrt(2 / PI) * (1 + 3 * 0.044715 * kept * kept);
    case CULM_FUNCTION_GELU_ERF:
        return normal(kept) + kept * exp(-0.5 * kept * kept) / sqrt(2 * PI);
    case CULM_FUNCTION_TANH: return 1 - kept * kept;
    case CULM_FUNCTION_SIGMOID: return kept * (1 - kept);
    case CULM_FUNCTION_SILU: s = sigmoid(kept); return s + kept * s * (1 - s);
    case CULM_FUNCTION_ELU: return kept > 0 ? 1 : kept + alpha;
    case CULM_FUNCTION_EXP: return kept;
    case CULM_FUNCTION_LOG: return 1 / kept;
    case CULM_FUNCTION_SQRT: return 0.5 / kept;
    case CULM_FUNCTION_RECIPROCAL: return -kept * kept;
    default: return 1;
    }
}

void culm_ref_activation_forward(float *y, const float *x, int64_t count,
                                 enum culm_function function, double alpha) {
    for (int64_t i = 0; i < count; i++) {
        y[i] = (float)value_of(function, (double)x[i], alpha);
    }
}

void culm_ref_activation_backward(float *dx, const float *dy, const float *kept, int64_t count,
                                  enum culm_function function, double alpha) {
    for (int64_t i = 0; i < count; i++) {
        dx[i] = (float)((double)dy[i] * slope_of(function, (double)kept[i], alpha));
    }
}

void culm_ref_affine(float *y, const float *x, int64_t count, double scale, double shift) {
    for (int64_t i = 0; i < count; i++) {
        y[i] = (float)(scale * (double)x[i] + shift);
    }
}

void culm_ref_sgd(float *p, float *buffer, const float *g, int64_t count,
                  const struct culm_sgd *hyper) {
    for (int64_t i = 0; i < count; i++) {
        double d = hyper->grad_scale * (double)g[i] + hyper->weight_decay * (double)p[i];
        if (hyper->momentum != 0) {
            double b =
                hyper->first ? d : hyper->momentum * (double)buffer[i] + (1 - hyper->dampening) * d;
            buffer[i] = (float)b;
            d = hyper->nesterov ? d + hyper->momentum * b : b;
        }
        p[i] = (float)((double)p[i] - hyper->lr * d);
    }
}

/* ---- batch norm ---- */

void culm_ref_batchnorm_forward(float *y, float *mean, float *variance, const float *x,
                                const float *gamma, const float *beta, const float *residual,
                                const struct culm_batchnorm *how) {
    for (int64_t j = 0; j < how->c; j++) {
        double sum = 0, square = 0;
        for (int64_t i = 0; i < how->n; i++) {
            sum += (double)x[i * how->c + j];
        }
        for (int64_t i = 0; i < how->n; i++) {
            double d = (double)x[i * how->c + j] - sum / (double)how->n;
            square += d * d;
        }
        double m = how->inference ? (double)mean[j] : sum / (double)how->n;
        double v = how->inference ? (double)variance[j] : square / (double)how->n;
        mean[j] = (float)m;
        variance[j] = (float)v;
        for (int64_t i = 0; i < how->n; i++) {
            double z = ((double)x[i * how->c + j] - m) / sqrt(v + how->eps) * (double)gamma[j] +
                       (double)beta[j];
            z += residual ? (double)residual[i * how->c + j] : 0;
            y[i * how->c + j] = (float)value_of(how->function, z, how->alpha);
        }
    }
}

void culm_ref_batchnorm_backward(float *dx, float *dresidual, float *dgamma, float *dbeta,
                                 float *sum_mean, float *sum_variance, const float *dy,
                                 const float *x, const float *y, const float *gamma,
                                 const float *beta, const float *mean, const float *variance,
                                 const struct culm_batchnorm *how, bool first) {
    double n = (double)how->n;
    for (int64_t j = 0; j < how->c; j++) {
        double m = (double)mean[j], v = (double)variance[j], rstd = 1 / sqrt(v + how->eps);
        double sum = 0, product = 0;
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t i = 0; i < how->n; i++) {
                double xhat = ((double)x[i * how->c + j] - m) * rstd;
                double z = xhat * (double)gamma[j] + (double)beta[j];
                double d = (double)dy[i * how->c + j] *
                           slope_of(how->function, y ? (double)y[i * how->c + j] : z, how->alpha);
                if (pass == 0) {
                    sum += d;
                    product += d * xhat;
                    continue;
                }
                if (dresidual) {
                    dresidual[i * how->c + j] = (float)d;
                }
                if (!how->inference) {
                    d -= sum / n + xhat * product / n;
                }
                if (dx) {
                    dx[i * how->c + j] = (float)(d * rstd * (double)gamma[j]);
                }
            }
        }
        dgamma[j] = (float)(product + (first ? 0 : (double)dgamma[j]));
        dbeta[j] = (float)(sum + (first ? 0 : (double)dbeta[j]));
        if (!how->inference && how->n > 1) {
            v *= n / (n - 1);
        }
        sum_mean[j] = (float)(m + (first ? 0 : (double)sum_mean[j]));
        sum_variance[j] = (float)(v + (first ? 0 : (double)sum_variance[j]));
    }
}
