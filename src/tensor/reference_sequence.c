/* Reference kernels on sequences. See reference_sequence.h. */
#include "tensor/reference_sequence.h"

#include <math.h>

/* ---- rows of tables ---- */

void culm_ref_lookup_forward(float *y, const int32_t *ids, const float *table, int64_t n,
                             int64_t c) {
    for (int64_t i = 0; i < n * c; i++)
        y[i] = ids[i / c] < 0 ? 0 : table[ids[i / c] * c + i % c];
}

void culm_ref_lookup_backward(float *dtable, const float *dy, const int32_t *ids, int64_t n,
                              int64_t c, int64_t v, bool first) {
    for (int64_t i = 0; i < v * c; i++) {
        double sum = first ? 0 : (double)dtable[i];
        for (int64_t row = 0; row < n; row++)
            if (ids[row] == i / c)
                sum += (double)dy[row * c + i % c];
        dtable[i] = (float)sum;
    }
}

void culm_ref_positions_forward(float *y, const float *x, const float *wpe, int64_t b, int64_t t,
                                int64_t c) {
    for (int64_t i = 0; i < b * t * c; i++)
        y[i] = x[i] + wpe[i % (t * c)];
}

void culm_ref_positions_backward(float *dwpe, const float *dy, int64_t b, int64_t t, int64_t c,
                                 int64_t p, bool first) {
    for (int64_t i = 0; i < p * c; i++) {
        double sum = first ? 0 : (double)dwpe[i];
        for (int64_t sample = 0; sample < b && i < t * c; sample++)
            sum += (double)dy[sample * t * c + i];
        dwpe[i] = (float)sum;
    }
}

void culm_ref_gather_rows_forward(float *y, const float *x, const int32_t *index, int64_t b,
                                  int64_t t, int64_t k, int64_t c) {
    for (int64_t i = 0; i < b * k * c; i++) {
        int64_t row = i / c;
        y[i] = index[row] < 0 ? 0 : x[(row / k * t + index[row]) * c + i % c];
    }
}

void culm_ref_gather_rows_backward(float *dx, const float *dy, const int32_t *index, int64_t b,
                                   int64_t t, int64_t k, int64_t c) {
    for (int64_t i = 0; i < b * t * c; i++) {
        int64_t sample = i / c / t, row = i / c % t;
        double sum = 0;
        for (int64_t j = sample * k; j < (sample + 1) * k; j++)
            if (index[j] == row)
                sum += (double)dy[j * c + i % c];
        dx[i] = (float)sum;
    }
}
