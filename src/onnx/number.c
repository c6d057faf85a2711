/* Single elements of tensors, whatever their type. See ops.h. */
#include "onnx/ops.h"

#include <math.h>
#include <string.h>

static float half_to_float(uint16_t half) {
    uint32_t exponent = half >> 10 & 31, mantissa = half & 1023;
    float magnitude = exponent == 31  ? (mantissa ? NAN : INFINITY)
                      : exponent == 0 ? ldexpf((float)mantissa, -24)
                                      : ldexpf((float)(mantissa | 1024), (int)exponent - 25);
    return half & 0x8000 ? -magnitude : magnitude;
}

/* To the nearest, ties to even. */
static uint16_t float_to_half(double value) {
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double magnitude = fabs(value);
    if (isnan(value)) {
        return sign | 0x7e00;
    }
    if (magnitude >= 65520) {
        return sign | 0x7c00;
    }
    int exponent;
    frexp(magnitude, &exponent); /* magnitude in [2^(e-1), 2^e) */
    int shift = exponent - 1 < -14 ? -24 : exponent - 11;
    uint32_t bits = (uint32_t)nearbyint(ldexp(magnitude, -shift));
    return (uint16_t)(sign | (bits + ((uint32_t)(shift + 24) << 10)));
}

static uint16_t float_to_bfloat(double value) {
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if (isnan(f)) {
        return 0x7fc0;
    }
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

bool culm_onnx_is_real(int type) {
    return type == CULM_ONNX_FLOAT || type == CULM_ONNX_DOUBLE || type == CULM_ONNX_FLOAT16 ||
           type == CULM_ONNX_BFLOAT16;
}

static uint64_t load(const struct culm_onnx_tensor *tensor, int64_t i) {
    uint64_t bits = 0;
    size_t size = culm_onnx_type_bytes(tensor->type);
    memcpy(&bits, (const uint8_t *)tensor->data + (size_t)i * size, size);
    return bits;
}

static void store(const struct culm_onnx_tensor *tensor, int64_t i, uint64_t bits) {
    size_t size = culm_onnx_type_bytes(tensor->type);
    memcpy((uint8_t *)(uintptr_t)tensor->data + (size_t)i * size, &bits, size);
}

double culm_onnx_get_real(const struct culm_onnx_tensor *tensor, int64_t i) {
    uint64_t bits = load(tensor, i);
    uint32_t low = (uint32_t)bits;
    float f;
    double d;
    switch (tensor->type) {
    case CULM_ONNX_BFLOAT16: low <<= 16; /* fall through */
    case CULM_ONNX_FLOAT: memcpy(&f, &low, 4); return (double)f;
    case CULM_ONNX_DOUBLE: memcpy(&d, &bits, 8); return d;
    case CULM_ONNX_FLOAT16: return (double)half_to_float((uint16_t)bits);
    default: return (double)culm_onnx_get_int(tensor, i);
    }
}

/* Towards zero; out of range becomes the nearest possible number. */
static int64_t whole(double value) {
    return isnan(value)       ? 0
           : value >= 9.2e18  ? INT64_MAX
           : value <= -9.2e18 ? INT64_MIN
                              : (int64_t)value;
}

int64_t culm_onnx_get_int(const struct culm_onnx_tensor *tensor, int64_t i) {
    uint64_t bits;
    if (culm_onnx_is_real(tensor->type)) {
        return whole(culm_onnx_get_real(tensor, i));
    }
    bits = load(tensor, i);
    switch (tensor->type) {
    case CULM_ONNX_INT8: return (int8_t)bits;
    case CULM_ONNX_INT16: return (int16_t)bits;
    case CULM_ONNX_INT32: return (int32_t)bits;
    case CULM_ONNX_BOOL: return bits != 0;
    default: return (int64_t)bits;
    }
}

void culm_onnx_put_int(const struct culm_onnx_tensor *tensor, int64_t i, int64_t value) {
    if (culm_onnx_is_real(tensor->type)) {
        culm_onnx_put_real(tensor, i, (double)value);
    } else {
        store(tensor, i, tensor->type == CULM_ONNX_BOOL ? value != 0 : (uint64_t)value);
    }
}

void culm_onnx_put_real(const struct culm_onnx_tensor *tensor, int64_t i, double value) {
    float f = (float)value;
    uint32_t low;
    uint64_t bits;
    switch (tensor->type) {
    case CULM_ONNX_FLOAT:
        memcpy(&low, &f, 4);
        store(tensor, i, low);
        break;
    case CULM_ONNX_DOUBLE:
        memcpy(&bits, &value, 8);
        store(tensor, i, bits);
        break;
    case CULM_ONNX_FLOAT16: store(tensor, i, float_to_half(value)); break;
    case CULM_ONNX_BFLOAT16: store(tensor, i, float_to_bfloat(value)); break;
    case CULM_ONNX_BOOL: store(tensor, i, value != 0); break;
    default: store(tensor, i, (uint64_t)whole(value)); break;
    }
}

void culm_onnx_put_from(const struct culm_onnx_tensor *tensor, int64_t i,
                        const struct culm_onnx_tensor *from, int64_t k) {
    if (culm_onnx_is_real(from->type)) {
        culm_onnx_put_real(tensor, i, culm_onnx_get_real(from, k));
    } else {
        culm_onnx_put_int(tensor, i, culm_onnx_get_int(from, k));
    }
}
