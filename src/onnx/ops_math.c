/* Operators that compute: element by element, along dimensions; and sequences of numbers. */
#include "onnx/ops.h"

#include "base/exact.h"

#include <math.h>
#include <string.h>

static bool is(const struct culm_onnx_call *call, const char *name) {
    return strcmp(call->node->op, name) == 0;
}

static bool alike(struct culm_onnx_call *call) {
    return culm_onnx_set(call, 0, call->in[0].type, call->in[0].rank, call->in[0].dim);
}

static bool truth(struct culm_onnx_call *call) {
    return culm_onnx_set(call, 0, CULM_ONNX_BOOL, call->in[0].rank, call->in[0].dim);
}

/* Broadcasts all inputs; the result has the type of the last. */
static bool spread(struct culm_onnx_call *call) {
    int64_t dim[CULM_ONNX_RANK_MAX];
    int rank = call->in[0].rank;
    memcpy(dim, call->in[0].dim, sizeof dim);
    for (int32_t k = 1; k < call->inputs; k++) {
        if (!call->in[k].there) {
            return culm_onnx_refuse(call, "input %d is missing", k);
        }
        if (!culm_onnx_spread(call, &rank, dim, &call->in[k])) {
            return false;
        }
    }
    return culm_onnx_set(call, 0, call->in[call->inputs - 1].type, rank, dim);
}

static bool spread_truth(struct culm_onnx_call *call) {
    if (!spread(call)) {
        return false;
    }
    call->out[0].type = CULM_ONNX_BOOL;
    return true;
}

enum math {
    ADD,
    SUB,
    MUL,
    DIV,
    MOD,
    POW,
    MIN,
    MAX,
    AND,
    OR,
    XOR,
    EQUAL,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    NEG,
    ABS,
    SQRT,
    EXP,
    LOG,
    NOT,
    FLOOR,
    CEIL,
    ROUND,
    SIGN,
    RECIPROCAL,
    SIN,
    COS,
    TANH,
    ERF,
    SIGMOID,
    IS_NAN,
    NONE
};

static const struct {
    const char *name;
    enum math math;
} names[] = {
    {"Add", ADD},
    {"Sum", ADD},
    {"Sub", SUB},
    {"Mul", MUL},
    {"Div", DIV},
    {"Mod", MOD},
    {"Pow", POW},
    {"Min", MIN},
    {"Max", MAX},
    {"And", AND},
    {"Or", OR},
    {"Xor", XOR},
    {"BitwiseAnd", AND},
    {"BitwiseOr", OR},
    {"Equal", EQUAL},
    {"Greater", GREATER},
    {"GreaterOrEqual", GREATER_EQUAL},
    {"Less", LESS},
    {"LessOrEqual", LESS_EQUAL},
    {"Neg", NEG},
    {"Abs", ABS},
    {"Sqrt", SQRT},
    {"Exp", EXP},
    {"Log", LOG},
    {"Not", NOT},
    {"Floor", FLOOR},
    {"Ceil", CEIL},
    {"Round", ROUND},
    {"Sign", SIGN},
    {"Reciprocal", RECIPROCAL},
    {"Sin", SIN},
    {"Cos", COS},
    {"Tanh", TANH},
    {"Erf", ERF},
    {"Sigmoid", SIGMOID},
    {"IsNaN", IS_NAN},
};

static enum math math_of(const char *name) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i].name, name) == 0) {
            return names[i].math;
        }
    }
    return NONE;
}

static double real_of(enum math math, double a, double b) {
    switch (math) {
    case ADD: return a + b;
    case SUB: return a - b;
    case MUL: return a * b;
    case DIV: return a / b;
    case MOD: return fmod(a, b);
    case POW: return culm_exact_pow(a, b);
    case MIN: return a < b ? a : b;
    case MAX: return a > b ? a : b;
    case AND: return a != 0 && b != 0;
    case OR: return a != 0 || b != 0;
    case XOR: return (a != 0) != (b != 0);
    case EQUAL: return a == b;
    case GREATER: return a > b;
    case GREATER_EQUAL: return a >= b;
    case LESS: return a < b;
    case LESS_EQUAL: return a <= b;
    case NEG: return -a;
    case ABS: return fabs(a);
    case SQRT: return sqrt(a);
    case EXP: return culm_exact_exp(a);
    case LOG: return culm_exact_log(a);
    case NOT: return a == 0;
    case FLOOR: return floor(a);
    case CEIL: return ceil(a);
    case ROUND: return rint(a);
    case SIGN: return (a > 0) - (a < 0);
    case RECIPROCAL: return 1 / a;
    case SIN: return culm_exact_sin(a);
    case COS: return culm_exact_cos(a);
    case TANH: return culm_exact_tanh(a);
    case ERF: return culm_exact_erf(a);
    case SIGMOID: return 1 / (1 + culm_exact_exp(-a));
    case IS_NAN: return isnan(a);
    case NONE: break;
    }
    return 0;
}

/* Integers wrap around; division by zero gives 0. */
static int64_t whole_of(enum math math, bool python, int64_t a, int64_t b) {
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    int64_t rest;
    switch (math) {
    case ADD: return (int64_t)(x + y);
    case SUB: return (int64_t)(x - y);
    case MUL: return (int64_t)(x * y);
    case DIV: return b == 0 ? 0 : b == -1 ? (int64_t)(0 - x) : a / b;
    case MOD:
        rest = b == 0 || b == -1 ? 0 : a % b;
        return python && rest && (rest < 0) != (b < 0) ? rest + b : rest;
    case MIN: return a < b ? a : b;
    case MAX: return a > b ? a : b;
    case AND: return a & b;
    case OR: return a | b;
    case XOR: return a ^ b;
    case EQUAL: return a == b;
    case GREATER: return a > b;
    case GREATER_EQUAL: return a >= b;
    case LESS: return a < b;
    case LESS_EQUAL: return a <= b;
    case NEG: return (int64_t)(0 - x);
    case ABS: return a < 0 ? (int64_t)(0 - x) : a;
    case NOT: return a == 0;
    case SIGN: return (a > 0) - (a < 0);
    case IS_NAN: return 0;
    case FLOOR:
    case CEIL:
    case ROUND: return a;
    default:
        return (int64_t)real_of(math, (double)a, (double)b) *
               (fabs(real_of(math, (double)a, (double)b)) < 9e18);
    }
}

static void spread_value(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *out = &call->out[0];
    enum math math = math_of(call->node->op);
    math = math == ADD && call->inputs == 1 ? MAX : math; /* the sum of one is that one */
    bool python = culm_onnx_int(call->node, "fmod", 0) == 0;
    for (int32_t k = call->inputs > 1 ? 1 : 0; k < call->inputs; k++) {
        const struct culm_onnx_tensor *a = call->in[0].data, *b = call->in[k].data;
        int64_t index[CULM_ONNX_RANK_MAX] = {0}, of_a[CULM_ONNX_RANK_MAX], of_b[CULM_ONNX_RANK_MAX];
        bool real = culm_onnx_is_real(a->type) || culm_onnx_is_real(b->type);
        culm_onnx_strides(&call->in[0], out->rank, of_a);
        culm_onnx_strides(&call->in[k], out->rank, of_b);
        for (int64_t i = 0; i < out->data->elements; i++) {
            int64_t at_a = 0, at_b = 0;
            for (int d = 0; d < out->rank; d++) {
                at_a += index[d] * of_a[d];
                at_b += index[d] * of_b[d];
            }
            if (k > 1) { /* Min and Max of several: the result so far */
                a = out->data;
                at_a = i;
            }
            if (real) {
                culm_onnx_put_real(
                    out->data, i,
                    real_of(math, culm_onnx_get_real(a, at_a), culm_onnx_get_real(b, at_b)));
            } else {
                culm_onnx_put_int(
                    out->data, i,
                    whole_of(math, python, culm_onnx_get_int(a, at_a), culm_onnx_get_int(b, at_b)));
            }
            culm_onnx_step(out->rank, out->dim, index);
        }
    }
}

static bool two(struct culm_onnx_call *call) {
    if (call->inputs != 2) {
        return culm_onnx_refuse(call, "%d inputs instead of 2", call->inputs);
    }
    if (is(call, "Pow")) { /* the base's type */
        bool fine = spread(call);
        call->out[0].type = call->in[0].type;
        return fine;
    }
    return spread(call);
}

static bool two_truth(struct culm_onnx_call *call) { return two(call) && spread_truth(call); }

static bool where(struct culm_onnx_call *call) {
    return call->inputs == 3 ? spread(call) : culm_onnx_refuse(call, "needs 3 inputs");
}

static void where_value(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *out = &call->out[0];
    int64_t index[CULM_ONNX_RANK_MAX] = {0}, stride[3][CULM_ONNX_RANK_MAX];
    for (int k = 0; k < 3; k++) {
        culm_onnx_strides(&call->in[k], out->rank, stride[k]);
    }
    for (int64_t i = 0; i < out->data->elements; i++) {
        int64_t at[3] = {0};
        for (int d = 0; d < out->rank; d++) {
            for (int k = 0; k < 3; k++) {
                at[k] += index[d] * stride[k][d];
            }
        }
        int from = culm_onnx_get_int(call->in[0].data, at[0]) ? 1 : 2;
        culm_onnx_put_from(out->data, i, call->in[from].data, at[from]);
        culm_onnx_step(out->rank, out->dim, index);
    }
}

static bool range(struct culm_onnx_call *call) {
    const struct culm_onnx_tensor *t[3];
    int64_t count = 0;
    call->out[0].type = call->in[0].type;
    if (call->inputs != 3) {
        return culm_onnx_refuse(call, "needs 3 inputs");
    }
    for (int k = 0; k < 3; k++) {
        t[k] = call->in[k].data;
        if (!t[k]) {
            return true;
        }
        if (t[k]->elements != 1) {
            return culm_onnx_refuse(call, "an end that is not a number");
        }
    }
    double start = culm_onnx_get_real(t[0], 0), end = culm_onnx_get_real(t[1], 0);
    double step = culm_onnx_get_real(t[2], 0), wanted = ceil((end - start) / step);
    if (!(wanted < 1e12)) {
        return culm_onnx_refuse(call, "a range without end");
    }
    count = wanted > 0 ? (int64_t)wanted : 0;
    return culm_onnx_set(call, 0, call->in[0].type, 1, &count);
}

static void range_value(struct culm_onnx_call *call) {
    const struct culm_onnx_tensor *out = call->out[0].data;
    for (int64_t i = 0; i < out->elements; i++) {
        if (culm_onnx_is_real(out->type)) {
            culm_onnx_put_real(out, i,
                               culm_onnx_get_real(call->in[0].data, 0) +
                                   (double)i * culm_onnx_get_real(call->in[2].data, 0));
        } else {
            culm_onnx_put_int(
                out, i,
                (int64_t)((uint64_t)culm_onnx_get_int(call->in[0].data, 0) +
                          (uint64_t)i * (uint64_t)culm_onnx_get_int(call->in[2].data, 0)));
        }
    }
}

static bool cumulate(struct culm_onnx_call *call) {
    int axis = 0;
    const struct culm_onnx_tensor *t = call->in[1].data;
    if (t && t->elements != 1) {
        return culm_onnx_refuse(call, "an axis that is not a number");
    }
    return (!t || culm_onnx_axis(call, culm_onnx_get_int(t, 0), call->in[0].rank, &axis)) &&
           alike(call);
}

static void cumulate_value(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0];
    bool reverse = culm_onnx_int(call->node, "reverse", 0) != 0;
    bool exclusive = culm_onnx_int(call->node, "exclusive", 0) != 0;
    int axis = 0;
    int64_t inner = 1, outer = 1;
    if (!culm_onnx_axis(call, culm_onnx_get_int(call->in[1].data, 0), x->rank, &axis)) {
        return;
    }
    for (int i = 0; i < x->rank; i++) {
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : x->dim[i];
    }
    for (int64_t o = 0; o < outer * inner; o++) {
        double sum = 0;
        for (int64_t k = 0; k < x->dim[axis]; k++) {
            int64_t row = reverse ? x->dim[axis] - 1 - k : k;
            int64_t at = (o / inner * x->dim[axis] + row) * inner + o % inner;
            double value = culm_onnx_get_real(x->data, at);
            culm_onnx_put_real(call->out[0].data, at, exclusive ? sum : sum + value);
            sum += value;
        }
    }
}

static void triangle_value(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0];
    bool upper = culm_onnx_int(call->node, "upper", 1) != 0;
    int64_t k = call->inputs > 1 && call->in[1].there && call->in[1].data->elements
                    ? culm_onnx_get_int(call->in[1].data, 0)
                    : 0;
    int64_t columns = x->dim[x->rank - 1], rows = x->dim[x->rank - 2];
    k = k > columns ? columns : k < -rows ? -rows : k;
    for (int64_t i = 0; i < x->data->elements; i++) {
        int64_t column = i % columns, row = i / columns % rows;
        if (upper ? column - row >= k : column - row <= k) {
            culm_onnx_put_from(call->out[0].data, i, x->data, i);
        }
    }
}

static bool triangle(struct culm_onnx_call *call) {
    return call->in[0].rank >= 2 ? alike(call) : culm_onnx_refuse(call, "needs a matrix");
}

/* ReduceX: which dimensions disappear. */
static bool reduced(struct culm_onnx_call *call, uint32_t *axes, bool *known) {
    int rank = call->in[0].rank;
    if (!culm_onnx_axes(call, 1, "axes", rank, axes, known)) {
        return false;
    }
    if (!*axes && culm_onnx_int(call->node, "noop_with_empty_axes", 0) == 0) {
        *axes = (1u << rank) - 1;
    }
    return true;
}

static bool reduce(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0];
    int64_t dim[CULM_ONNX_RANK_MAX];
    bool known, keep = culm_onnx_int(call->node, "keepdims", 1) != 0;
    uint32_t axes;
    int rank = 0;
    call->out[0].type = x->type;
    if (!reduced(call, &axes, &known)) {
        return false;
    }
    for (int i = 0; i < x->rank; i++) {
        if (!(axes >> i & 1) || keep) {
            dim[rank++] = axes >> i & 1 ? 1 : x->dim[i];
        }
    }
    return !known || culm_onnx_set(call, 0, x->type, rank, dim);
}

static void reduce_value(struct culm_onnx_call *call) {
    const struct culm_onnx_operand *x = &call->in[0];
    const struct culm_onnx_tensor *out = call->out[0].data;
    int64_t index[CULM_ONNX_RANK_MAX] = {0}, stride[CULM_ONNX_RANK_MAX], step = 1;
    bool known;
    uint32_t axes;
    if (!reduced(call, &axes, &known)) {
        return;
    }
    for (int i = x->rank - 1; i >= 0; i--) {
        stride[i] = axes >> i & 1 ? 0 : step;
        step *= axes >> i & 1 ? 1 : x->dim[i];
    }
    bool most = is(call, "ReduceMax"), least = is(call, "ReduceMin"), prod = is(call, "ReduceProd");
    int64_t share = out->elements ? x->data->elements / out->elements : 0;
    for (int64_t i = 0; i < out->elements; i++) {
        culm_onnx_put_real(out, i, most ? -INFINITY : least ? INFINITY : prod ? 1 : 0);
    }
    for (int64_t i = 0; i < x->data->elements; i++) {
        int64_t at = 0;
        for (int d = 0; d < x->rank; d++) {
            at += index[d] * stride[d];
        }
        double a = culm_onnx_get_real(out, at), b = culm_onnx_get_real(x->data, i);
        culm_onnx_put_real(out, at,
                           most    ? (b > a ? b : a)
                           : least ? (b < a ? b : a)
                           : prod  ? a * b
                                   : a + b);
        culm_onnx_step(x->rank, x->dim, index);
    }
    for (int64_t i = 0; i < out->elements && is(call, "ReduceMean"); i++) {
        culm_onnx_put_real(out, i, culm_onnx_get_real(out, i) / (double)share);
    }
}

static bool several(struct culm_onnx_call *call) { return spread(call); }

const struct culm_onnx_op culm_onnx_ops_math[] = {
    {"Add", 2, two, spread_value},
    {"Sub", 2, two, spread_value},
    {"Mul", 2, two, spread_value},
    {"Div", 2, two, spread_value},
    {"Mod", 2, two, spread_value},
    {"Pow", 2, two, spread_value},
    {"Sum", 1, several, spread_value},
    {"Min", 1, several, spread_value},
    {"Max", 1, several, spread_value},
    {"And", 2, two_truth, spread_value},
    {"Or", 2, two_truth, spread_value},
    {"Xor", 2, two_truth, spread_value},
    {"BitwiseAnd", 2, two, spread_value},
    {"BitwiseOr", 2, two, spread_value},
    {"Equal", 2, two_truth, spread_value},
    {"Greater", 2, two_truth, spread_value},
    {"GreaterOrEqual", 2, two_truth, spread_value},
    {"Less", 2, two_truth, spread_value},
    {"LessOrEqual", 2, two_truth, spread_value},
    {"Neg", 1, alike, spread_value},
    {"Abs", 1, alike, spread_value},
    {"Sqrt", 1, alike, spread_value},
    {"Exp", 1, alike, spread_value},
    {"Log", 1, alike, spread_value},
    {"Not", 1, truth, spread_value},
    {"Floor", 1, alike, spread_value},
    {"Ceil", 1, alike, spread_value},
    {"Round", 1, alike, spread_value},
    {"Sign", 1, alike, spread_value},
    {"Reciprocal", 1, alike, spread_value},
    {"Sin", 1, alike, spread_value},
    {"Cos", 1, alike, spread_value},
    {"Tanh", 1, alike, spread_value},
    {"Erf", 1, alike, spread_value},
    {"Sigmoid", 1, alike, spread_value},
    {"IsNaN", 1, truth, spread_value},
    {"Where", 3, where, where_value},
    {"Range", 3, range, range_value},
    {"CumSum", 2, cumulate, cumulate_value},
    {"Trilu", 1, triangle, triangle_value},
    {"ReduceMean", 1, reduce, reduce_value},
    {"ReduceSum", 1, reduce, reduce_value},
    {"ReduceMax", 1, reduce, reduce_value},
    {"ReduceMin", 1, reduce, reduce_value},
    {"ReduceProd", 1, reduce, reduce_value},
    {NULL, 0, NULL, NULL},
};
