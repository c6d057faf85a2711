/* The reference of every operator, forward and backward. See support.h. */
#include "support.h"

#include "graph/ops/conv.h"
#include "graph/sparse.h"
#include "tensor/reference.h"
#include "tensor/reference_conv.h"
#include "tensor/reference_sequence.h"
#include "tensor/reference_sparse.h"
#include "tensor/reference_vision.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define IN(i) ((const float *)o->input[i])
#define IDS(i) ((const int32_t *)o->input[i])
#define OUT(i) ((float *)o->output[i])
#define AT (&o->node->attributes)

static const struct culm_shape *in_shape(const struct culm_operands *o, int i) {
    return &o->value[o->node->input[i]].shape;
}
static const struct culm_shape *out_shape(const struct culm_operands *o, int i) {
    return &o->value[o->node->output[i]].shape;
}
static int64_t count(const struct culm_shape *shape) { return culm_elements(shape); }

static double *scratch(int64_t doubles) {
    double *row = calloc((size_t)doubles, sizeof *row);
    if (!row) {
        abort();
    }
    return row;
}

/* --- products --- */

static void linear(const struct culm_operands *o) {
    const struct culm_shape *w = in_shape(o, 1);
    bool t = AT->transposed;
    culm_ref_linear_forward(OUT(0), IN(0), IN(1), IN(2), culm_row_count(in_shape(o, 0)), w->dim[t],
                            w->dim[!t], t);
}
static void linear_input(const struct culm_operands *o) {
    const struct culm_shape *w = in_shape(o, 1);
    bool t = AT->transposed;
    culm_ref_linear_backward_input(OUT(0), IN(0), IN(1), culm_row_count(in_shape(o, 0)), w->dim[t],
                                   w->dim[!t], t);
}
static void linear_weight(const struct culm_operands *o) {
    const struct culm_shape *x = in_shape(o, 0), *dy = in_shape(o, 1);
    culm_ref_linear_backward_weight(o->use[0], o->use[1], IN(0), IN(1), culm_row_count(x),
                                    culm_last_dim(x), culm_last_dim(dy), AT->transposed, o->first);
}

/* y = x w of rows of x, or of its columns, and of what dropout leaves of them. */
static void sparse_product(const struct culm_operands *o, float *y, const float *w, int64_t out,
                           bool of_columns) {
    const struct culm_sparse_rows *x = o->input[0];
    const struct culm_ref_rows rows = {x->n, x->start, x->column};
    const struct culm_ref_rows columns = {x->columns, x->column_start, x->row};
    const struct culm_ref_kept kept = {.bits = x->kept,
                                       .at = of_columns ? x->entry : NULL,
                                       .scale = (float)(1 / (1 - o->dropout.p))};
    if (o->dropout.p > 0) {
        culm_ref_sparse_dropout(x->kept, &rows, &o->dropout);
    }
    culm_ref_spmm(y, out, w, out, of_columns ? &columns : &rows,
                  of_columns ? x->column_value : x->value, NULL, NULL, out, 1, false,
                  o->dropout.p > 0 ? &kept : NULL);
}
static void turn(float *to, const float *from, int64_t rows, int64_t columns) {
    const struct culm_shape shape = {2, {rows, columns}};
    culm_ref_permute(to, from, &shape, (const int64_t[]){1, 0});
}
static void sparse_linear(const struct culm_operands *o) { /* w is [O,I] */
    int64_t out = in_shape(o, 1)->dim[0], in = in_shape(o, 1)->dim[1];
    turn(OUT(1), IN(1), out, in);
    sparse_product(o, OUT(0), OUT(1), out, false);
}
static void sparse_linear_grad(const struct culm_operands *o) {
    const struct culm_sparse_rows *x = o->input[0];
    int64_t out = in_shape(o, 1)->dim[1];
    sparse_product(o, OUT(0), IN(1), out, true);
    turn(o->use[0], OUT(0), x->columns, out);
}

/* Geometry of a convolution from the shapes of image and weights. */
static struct culm_conv conv_of(const struct culm_operands *o, const struct culm_shape *x,
                                const struct culm_shape *w) {
    struct culm_value values[2] = {{.shape = *x}, {.shape = *w}};
    struct culm_graph graph = {.value = values, .value_count = 2};
    struct culm_node_desc node = *o->node;
    node.input[0] = 0;
    node.input[1] = 1;
    return culm_conv_of(&graph, &node);
}
static void conv(const struct culm_operands *o) {
    struct culm_conv v = conv_of(o, in_shape(o, 0), in_shape(o, 1));
    culm_ref_conv_forward(&v, OUT(0), IN(0), IN(1), IN(2));
}
static void conv_data(const struct culm_operands *o) {
    struct culm_conv v = conv_of(o, out_shape(o, 0), in_shape(o, 1));
    culm_ref_conv_backward_data(&v, OUT(0), IN(0), IN(1));
}
static void conv_weight(const struct culm_operands *o) {
    struct culm_conv v = conv_of(o, in_shape(o, 0), in_shape(o, 2));
    culm_ref_conv_backward_weight(&v, o->use[0], o->use[1], IN(0), IN(1), o->first);
}

static struct culm_matmul matmul_of(const struct culm_operands *o, const struct culm_shape *a,
                                    const struct culm_shape *b) {
    struct culm_matmul how = {.batch = 1,
                              .m = a->dim[a->rank - 2 + AT->trans_a],
                              .k = a->dim[a->rank - 2 + !AT->trans_a],
                              .n = b->dim[b->rank - 2 + !AT->trans_b],
                              .trans_a = AT->trans_a,
                              .trans_b = AT->trans_b,
                              .scale = AT->scale != 0 ? AT->scale : 1};
    for (int i = 0; i + 2 < a->rank; i++) {
        *(b->rank == 2 ? &how.m : &how.batch) *= a->dim[i];
    }
    return how;
}
static void matmul(const struct culm_operands *o) {
    struct culm_matmul how = matmul_of(o, in_shape(o, 0), in_shape(o, 1));
    culm_ref_matmul(OUT(0), IN(0), IN(1), &how);
}
static void matmul_a(const struct culm_operands *o) {
    struct culm_matmul forward = matmul_of(o, out_shape(o, 0), in_shape(o, 1));
    struct culm_matmul how = culm_matmul_of_a(&forward);
    culm_ref_matmul(OUT(0), IN(AT->trans_a), IN(!AT->trans_a), &how);
}
static void matmul_b(const struct culm_operands *o) {
    struct culm_matmul forward = matmul_of(o, in_shape(o, 1), out_shape(o, 0));
    struct culm_matmul how = culm_matmul_of_b(&forward);
    culm_ref_matmul(OUT(0), IN(!AT->trans_b), IN(AT->trans_b), &how);
}

/* --- tables --- */

static void embedding(const struct culm_operands *o) {
    const struct culm_shape *y = out_shape(o, 0);
    culm_ref_embedding_forward(OUT(0), IDS(0), IN(1), IN(2), y->dim[0], y->dim[1], y->dim[2]);
}
static void embedding_grad(const struct culm_operands *o) {
    const struct culm_shape *dy = in_shape(o, 1);
    culm_ref_embedding_backward(o->use[0], o->use[1], IN(1), IDS(0), dy->dim[0], dy->dim[1],
                                dy->dim[2], in_shape(o, 2)->dim[0], o->first);
}
static void lookup(const struct culm_operands *o) {
    culm_ref_lookup_forward(OUT(0), IDS(0), IN(1), count(in_shape(o, 0)), in_shape(o, 1)->dim[1]);
}
static void lookup_grad(const struct culm_operands *o) {
    const struct culm_shape *table = in_shape(o, 2);
    culm_ref_lookup_backward(o->use[0], IN(1), IDS(0), count(in_shape(o, 0)), table->dim[1],
                             table->dim[0], o->first);
}
static void positions(const struct culm_operands *o) {
    const int64_t *d = in_shape(o, 0)->dim;
    culm_ref_positions_forward(OUT(0), IN(0), IN(1), d[0], d[1], d[2]);
}
static void positions_grad(const struct culm_operands *o) {
    const int64_t *d = in_shape(o, 0)->dim;
    culm_ref_positions_backward(o->use[0], IN(0), d[0], d[1], d[2], in_shape(o, 1)->dim[0],
                                o->first);
}
static void gather(const struct culm_operands *o) {
    const int64_t *d = in_shape(o, 0)->dim;
    culm_ref_gather_rows_forward(OUT(0), IN(0), IDS(1), d[0], d[1], in_shape(o, 1)->dim[1], d[2]);
}
static void gather_grad(const struct culm_operands *o) {
    const int64_t *d = out_shape(o, 0)->dim;
    culm_ref_gather_rows_backward(OUT(0), IN(0), IDS(1), d[0], d[1], in_shape(o, 1)->dim[1], d[2]);
}

/* --- sequences --- */

static struct culm_attention attention_how(const struct culm_operands *o, int at,
                                           const struct culm_shape *out) {
    int k = o->node->input[at + 1] < 0 ? at : at + 1;
    return (struct culm_attention){.b = out->dim[0],
                                   .tq = out->dim[1],
                                   .tk = in_shape(o, k)->dim[1],
                                   .c = out->dim[2],
                                   .heads = AT->heads,
                                   .causal = AT->causal,
                                   .mask = o->input[at + 3],
                                   .dropout = &o->dropout};
}
static struct culm_ref_attention attention_rows(const struct culm_operands *o, int at, int64_t c) {
    if (o->node->input[at + 1] < 0) {
        return (struct culm_ref_attention){IN(at), IN(at) + c, IN(at) + 2 * c, 3 * c, 3 * c, 3 * c};
    }
    return (struct culm_ref_attention){IN(at), IN(at + 1), IN(at + 2), c, c, c};
}
static void attention(const struct culm_operands *o) {
    struct culm_attention how = attention_how(o, 0, out_shape(o, 0));
    struct culm_ref_attention in = attention_rows(o, 0, how.c);
    double *row = scratch(how.tk);
    culm_ref_attention_forward(OUT(0), OUT(1), &in, &how, row);
    free(row);
}
static void attention_grad(const struct culm_operands *o) {
    struct culm_attention how = attention_how(o, 1, in_shape(o, 5));
    struct culm_ref_attention in = attention_rows(o, 1, how.c);
    bool packed = o->node->input[2] < 0;
    double *row = scratch(2 * how.tk);
    culm_ref_attention_backward(OUT(0), packed ? OUT(0) + how.c : OUT(1),
                                packed ? OUT(0) + 2 * how.c : OUT(2), IN(0), &in, &how, row);
    free(row);
}

static struct culm_lstm lstm_how(const struct culm_operands *o) {
    const int64_t *x = in_shape(o, 0)->dim;
    return (struct culm_lstm){.b = x[0],
                              .t = x[1],
                              .i = x[2],
                              .h = in_shape(o, 2)->dim[1],
                              .reverse = AT->reverse,
                              .length = o->input[7]};
}
static struct culm_ref_lstm lstm_in(const struct culm_operands *o) {
    return (struct culm_ref_lstm){IN(1), IN(2), IN(3), IN(4), IN(5), IN(6)};
}
static void lstm(const struct culm_operands *o) {
    struct culm_lstm how = lstm_how(o);
    struct culm_ref_lstm in = lstm_in(o);
    double *row = scratch(2 * how.h);
    culm_ref_lstm_forward(OUT(0), OUT(1), OUT(2), IN(0), &in, &how, row);
    free(row);
}
/* It runs forward again, into memory of its own, and stores the gradients. */
static void lstm_grad(const struct culm_operands *o) {
    struct culm_lstm how = lstm_how(o);
    struct culm_ref_lstm in = lstm_in(o);
    int64_t cells = how.b * how.t * how.h, units = 4 * how.h;
    float *memory = calloc((size_t)(6 * cells + units), sizeof *memory);
    float *db = memory + 6 * cells;
    double *row = scratch(6 * how.h);
    const struct culm_ref_lstm_grads grads = {.dx = OUT(0),
                                              .dw_ih = o->use[0],
                                              .dw_hh = o->use[1],
                                              .db = db,
                                              .dh0 = OUT(2),
                                              .dc0 = OUT(3)};
    culm_ref_lstm_backward(&grads, memory, memory + cells, memory + 5 * cells, IN(8), IN(0), &in,
                           &how, row);
    for (int i = 2; i < 4; i++) {
        if (o->use[i]) {
            memcpy(o->use[i], db, (size_t)units * sizeof *db);
        }
    }
    free(memory);
    free(row);
}

static struct culm_bahdanau bahdanau_how(const struct culm_operands *o) {
    const int64_t *query = in_shape(o, 0)->dim, *value = in_shape(o, 2)->dim;
    return (struct culm_bahdanau){query[0], query[1], value[1], query[2], value[2], o->input[3]};
}
static struct culm_ref_bahdanau bahdanau_in(const struct culm_operands *o) {
    return (struct culm_ref_bahdanau){IN(0), IN(1), IN(2), IN(4), IN(5), IN(6)};
}
static void bahdanau(const struct culm_operands *o) {
    struct culm_bahdanau how = bahdanau_how(o);
    struct culm_ref_bahdanau in = bahdanau_in(o);
    double *row = scratch(how.s);
    culm_ref_bahdanau_forward(OUT(0), OUT(1), &in, &how, row);
    free(row);
}
static void bahdanau_grad(const struct culm_operands *o) {
    struct culm_bahdanau how = bahdanau_how(o);
    struct culm_ref_bahdanau in = bahdanau_in(o);
    const struct culm_ref_bahdanau_grads grads = {OUT(0),    OUT(1),    OUT(2),
                                                  o->use[0], o->use[1], o->use[2]};
    double *row = scratch(2 * how.s + how.a);
    culm_ref_bahdanau_backward(&grads, IN(7), &in, &how, row);
    free(row);
}

/* --- norms and losses --- */

static void layernorm(const struct culm_operands *o) {
    const struct culm_shape *x = in_shape(o, 0);
    culm_ref_layernorm_forward(OUT(0), OUT(1), OUT(2), IN(0), IN(1), IN(2), culm_row_count(x),
                               culm_last_dim(x), AT->eps);
}
static void layernorm_grad(const struct culm_operands *o) {
    const struct culm_shape *x = in_shape(o, 1);
    culm_ref_layernorm_backward(OUT(0), o->use[0], o->use[1], IN(0), IN(1), IN(2), IN(3), IN(4),
                                IN(5), culm_row_count(x), culm_last_dim(x), o->first);
}
static struct culm_batchnorm batchnorm_how(const struct culm_operands *o, int x) {
    return (struct culm_batchnorm){.n = culm_row_count(in_shape(o, x)),
                                   .c = culm_last_dim(in_shape(o, x)),
                                   .eps = AT->eps,
                                   .function = AT->function,
                                   .alpha = AT->alpha,
                                   .inference = AT->inference};
}
static void batchnorm(const struct culm_operands *o) {
    struct culm_batchnorm how = batchnorm_how(o, 0);
    float *mean = how.inference ? o->input[3] : OUT(1);
    float *variance = how.inference ? o->input[4] : OUT(2);
    culm_ref_batchnorm_forward(OUT(0), mean, variance, IN(0), IN(1), IN(2), IN(5), &how);
}
static void batchnorm_grad(const struct culm_operands *o) {
    struct culm_batchnorm how = batchnorm_how(o, 1);
    culm_ref_batchnorm_backward(OUT(0), OUT(1), o->use[0], o->use[1], o->use[2], o->use[3], IN(0),
                                IN(1), IN(2), IN(3), IN(4), IN(5), IN(6), &how, o->first);
}
static void cross_entropy(const struct culm_operands *o) {
    const struct culm_shape *logits = in_shape(o, 0);
    int64_t rows = culm_row_count(logits), classes = culm_last_dim(logits);
    double rows_per_sample = (double)(rows / logits->dim[0]);
    size_t bytes = (size_t)(rows * classes) * sizeof(float);
    float *copy = malloc(bytes);
    memcpy(copy, o->input[0], bytes);
    struct culm_loss loss = culm_ref_cross_entropy(o->input[0], copy, IDS(1), rows, classes,
                                                   o->loss_scale / rows_per_sample, AT->smoothing);
    o->loss->loss += loss.loss / rows_per_sample;
    free(copy);
}

/* The weight has one number a channel, or is absent. */
static void squared_error(const struct culm_operands *o) {
    const struct culm_shape *x = in_shape(o, 0);
    int64_t rows = culm_row_count(x), c = culm_last_dim(x);
    double rows_per_sample = (double)(rows / x->dim[0]), loss = 0;
    const float *weight = o->node->input[2] < 0 ? NULL : IN(2);
    for (int64_t i = 0; i < rows * c; i++) {
        double w = weight ? (double)weight[i / (rows / x->dim[0] * c) * c + i % c] : 1;
        double gap = w * ((double)IN(0)[i] - (double)IN(1)[i]);
        loss += gap * gap;
        OUT(0)[i] = (float)(2 * w * gap * o->loss_scale / rows_per_sample);
    }
    o->loss->loss += loss / rows_per_sample;
}

/* --- elements --- */

static void dropout(const struct culm_operands *o) {
    culm_ref_dropout(OUT(0), IN(0), count(out_shape(o, 0)), &o->dropout);
}
static void residual(const struct culm_operands *o) {
    culm_ref_residual_dropout_forward(OUT(0), IN(0), IN(1), count(out_shape(o, 0)), &o->dropout);
}
static void add(const struct culm_operands *o) {
    const struct culm_shape *shape = out_shape(o, 0);
    culm_ref_binary(OUT(0), IN(0), IN(1), shape, shape, CULM_FUNCTION_ADD);
}
static void activation(const struct culm_operands *o) {
    culm_ref_activation_forward(OUT(0), IN(0), count(out_shape(o, 0)), AT->function, AT->alpha);
}
static void activation_grad(const struct culm_operands *o) {
    culm_ref_activation_backward(OUT(0), IN(0), IN(1), count(out_shape(o, 0)), AT->function,
                                 AT->alpha);
}
static void affine(const struct culm_operands *o) {
    culm_ref_affine(OUT(0), IN(0), count(out_shape(o, 0)), AT->scale, AT->shift);
}
static void affine_grad(const struct culm_operands *o) {
    culm_ref_affine(OUT(0), IN(0), count(out_shape(o, 0)), AT->scale, 0);
}
static void accumulate(const struct culm_operands *o) {
    for (int64_t i = 0; i < count(in_shape(o, 0)); i++) {
        o->use[0][i] = IN(0)[i] + (o->first ? 0 : o->use[0][i]);
    }
}
static void binary(const struct culm_operands *o) {
    culm_ref_binary(OUT(0), IN(0), IN(1), in_shape(o, 0), in_shape(o, 1), AT->function);
}
/* d(a / b) / db = -y / b, and a = y b. */
static void binary_b(const struct culm_operands *o) {
    const struct culm_shape *a = in_shape(o, 0), *b = out_shape(o, 0);
    int64_t n = count(a);
    float *da = calloc((size_t)n, sizeof *da), *first = calloc((size_t)n, sizeof *first);
    float *second = calloc((size_t)count(b), sizeof *second);
    memcpy(first, o->node->input[1] < 0 ? o->input[0] : o->input[1], (size_t)n * sizeof *first);
    if (AT->function == CULM_FUNCTION_DIV) {
        memcpy(second, o->input[2], (size_t)count(b) * sizeof *second);
        culm_ref_binary(first, first, second, a, b, CULM_FUNCTION_MUL);
    }
    culm_ref_binary_backward(da, OUT(0), IN(0), first, second, a, b, AT->function);
    free(da);
    free(first);
    free(second);
}
static void reduce(const struct culm_operands *o) {
    culm_ref_reduce(OUT(0), IN(0), in_shape(o, 0), AT->axes, AT->function);
}
static void reduce_grad(const struct culm_operands *o) {
    culm_ref_reduce_backward(OUT(0), IN(0), IN(1), IN(2), out_shape(o, 0), AT->axes, AT->function);
}
static void softmax(const struct culm_operands *o) {
    const struct culm_shape *x = in_shape(o, 0);
    culm_ref_softmax_forward(OUT(0), IN(0), culm_row_count(x), culm_last_dim(x));
}
static void softmax_grad(const struct culm_operands *o) {
    const struct culm_shape *x = out_shape(o, 0);
    culm_ref_softmax_backward(OUT(0), IN(0), IN(1), culm_row_count(x), culm_last_dim(x));
}

/* --- shapes --- */

static void nothing(const struct culm_operands *o) { (void)o; }
static void permute(const struct culm_operands *o) {
    culm_ref_permute(OUT(0), IN(0), in_shape(o, 0), AT->dims);
}
static void permute_grad(const struct culm_operands *o) {
    int64_t inverse[CULM_MAX_RANK];
    for (int i = 0; i < in_shape(o, 0)->rank; i++) {
        inverse[AT->dims[i]] = i;
    }
    culm_ref_permute(OUT(0), IN(0), in_shape(o, 0), inverse);
}
static int64_t product_of(const struct culm_shape *shape, int64_t from, int64_t to) {
    int64_t product = 1;
    for (int64_t i = from; i < to; i++) {
        product *= shape->dim[i];
    }
    return product;
}
/* The piece of `large` from start on, as long as `small` on the axis; or back, with zeros around.
 */
static void piece(const struct culm_operands *o, const struct culm_shape *large,
                  const struct culm_shape *small, bool back) {
    int64_t axis = AT->axis, before = product_of(large, 0, axis);
    int64_t after = product_of(large, axis + 1, large->rank), length = small->dim[axis];
    const int64_t pad[4] = {AT->start, 0, large->dim[axis] - AT->start - length, 0};
    if (back) {
        culm_ref_pad(OUT(0), IN(0), before, length, 1, after, pad, 0);
    } else {
        culm_ref_crop(OUT(0), IN(0), before, length, 1, after, pad);
    }
}
static void slice(const struct culm_operands *o) {
    piece(o, in_shape(o, 0), out_shape(o, 0), false);
}
static void slice_grad(const struct culm_operands *o) {
    const struct culm_shape *dx = out_shape(o, 0);
    if (o->node->input[1] >= 0) { /* added to what is there */
        float *sum = calloc((size_t)count(dx), sizeof *sum);
        struct culm_operands own = *o;
        own.output[0] = sum;
        piece(&own, dx, in_shape(o, 0), true);
        culm_ref_binary(OUT(0), OUT(0), sum, dx, dx, CULM_FUNCTION_ADD);
        free(sum);
        return;
    }
    piece(o, out_shape(o, 0), in_shape(o, 0), true);
}
static void concat(const struct culm_operands *o) {
    const struct culm_shape *y = out_shape(o, 0);
    int64_t after = product_of(y, AT->axis + 1, y->rank), offset = 0;
    for (int i = 0; i < 8 && o->node->input[i] >= 0; i++) {
        int64_t row = in_shape(o, i)->dim[AT->axis] * after;
        culm_ref_place(OUT(0), IN(i), product_of(y, 0, AT->axis), row, y->dim[AT->axis] * after,
                       offset, false);
        offset += row;
    }
}
static void pad(const struct culm_operands *o) {
    const int64_t *d = in_shape(o, 0)->dim;
    culm_ref_pad(OUT(0), IN(0), d[0], d[1], d[2], d[3], AT->pad, AT->value);
}
static void pad_grad(const struct culm_operands *o) {
    const int64_t *d = out_shape(o, 0)->dim;
    culm_ref_crop(OUT(0), IN(0), d[0], d[1], d[2], d[3], AT->pad);
}
static struct culm_resize resize_how(const struct culm_operands *o, const struct culm_shape *x,
                                     const struct culm_shape *y) {
    return (struct culm_resize){.n = x->dim[0],
                                .c = x->dim[3],
                                .in = {x->dim[1], x->dim[2]},
                                .out = {y->dim[1], y->dim[2]},
                                .bilinear = AT->function == CULM_FUNCTION_MEAN,
                                .corners = AT->align_corners};
}
static void resize(const struct culm_operands *o) {
    struct culm_resize how = resize_how(o, in_shape(o, 0), out_shape(o, 0));
    culm_ref_resize_forward(OUT(0), IN(0), &how);
}
static void resize_grad(const struct culm_operands *o) {
    struct culm_resize how = resize_how(o, out_shape(o, 0), in_shape(o, 0));
    culm_ref_resize_backward(OUT(0), IN(0), &how);
}

/* --- pooling --- */

static struct culm_window window_how(const struct culm_operands *o, const struct culm_shape *x,
                                     const struct culm_shape *y) {
    struct culm_window window = {.n = x->dim[0],
                                 .c = x->dim[3],
                                 .count_pad = AT->count_pad,
                                 .adaptive = o->node->op == &culm_op_adaptive_avgpool ||
                                             o->node->op == &culm_op_adaptive_avgpool_grad};
    for (int d = 0; d < 2; d++) {
        window.in[d] = x->dim[1 + d];
        window.out[d] = y->dim[1 + d];
        window.kernel[d] = AT->kernel[d];
        window.stride[d] = AT->stride[d];
        window.dilation[d] = AT->dilation[d] ? AT->dilation[d] : 1;
        window.pad[d] = AT->pad[d];
        window.pad_end[d] = AT->pad[2 + d];
    }
    return window;
}
/* The places of maxima are kept as the device keeps them, in its type; here they are f32 beside. */
static void maxpool(const struct culm_operands *o) {
    struct culm_window window = window_how(o, in_shape(o, 0), out_shape(o, 0));
    int64_t n = count(out_shape(o, 0));
    float *index = calloc((size_t)n, sizeof *index);
    culm_ref_maxpool_forward(OUT(0), index, IN(0), &window);
    for (int64_t i = 0; i < n; i++) { /* bf16: whole numbers up to 256 are exact */
        uint32_t bits;
        memcpy(&bits, &index[i], sizeof bits);
        ((uint16_t *)o->output[1])[i] = (uint16_t)(bits >> 16);
    }
    free(index);
}
static void maxpool_grad(const struct culm_operands *o) {
    struct culm_window window = window_how(o, out_shape(o, 0), in_shape(o, 0));
    int64_t n = count(in_shape(o, 0));
    float *index = calloc((size_t)n, sizeof *index);
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)((const uint16_t *)o->input[1])[i] << 16;
        memcpy(&index[i], &bits, sizeof bits);
    }
    culm_ref_maxpool_backward(OUT(0), IN(0), index, &window);
    free(index);
}
static void avgpool(const struct culm_operands *o) {
    struct culm_window window = window_how(o, in_shape(o, 0), out_shape(o, 0));
    culm_ref_avgpool_forward(OUT(0), IN(0), &window);
}
static void avgpool_grad(const struct culm_operands *o) {
    struct culm_window window = window_how(o, out_shape(o, 0), in_shape(o, 0));
    culm_ref_avgpool_backward(OUT(0), IN(0), &window);
}

/* A bit for each element of [n,c]. */
static void keep(const struct culm_operands *o, uint32_t *kept, int64_t n, int64_t c) {
    int64_t words = (c + 31) / 32;
    memset(kept, 0, (size_t)(n * words) * sizeof *kept);
    for (int64_t i = 0; i < n * c; i++) {
        uint32_t bit = !culm_dropout_drops(&o->dropout, i / c, i % c);
        kept[i / c * words + i % c / 32] |= bit << i % c % 32;
    }
}
static float left(const struct culm_operands *o, const uint32_t *kept, int64_t c, int64_t i,
                  float x) {
    uint32_t word = kept[i / c * ((c + 31) / 32) + i % c / 32];
    return word >> i % c % 32 & 1 ? (float)((double)x / (1 - o->dropout.p)) : 0;
}
static void heads(const struct culm_operands *o) {
    int64_t n = in_shape(o, 0)->dim[0], c = in_shape(o, 0)->dim[1];
    int64_t h = in_shape(o, 1)->dim[1], width = c / h, row = c + 2 * h;
    keep(o, o->output[1], n, c);
    for (int64_t i = 0; i < n * c; i++) {
        float *y = OUT(0) + i / c * row, *score = y + c + i % c / width;
        y[i % c] = left(o, o->output[1], c, i, IN(0)[i]);
        score[0] = (i % width ? score[0] : 0) + IN(0)[i] * IN(1)[i % c];
        score[h] = (i % width ? score[h] : 0) + IN(0)[i] * IN(2)[i % c];
    }
}
static void heads_grad(const struct culm_operands *o) {
    int64_t n = in_shape(o, 0)->dim[0], c = in_shape(o, 0)->dim[1];
    int64_t h = in_shape(o, 1)->dim[1], width = c / h, row = c + 2 * h;
    for (int64_t i = 0; i < n * c; i++) {
        const float *dy = IN(3) + i / c * row, *score = dy + c + i % c / width;
        OUT(0)
        [i] = left(o, o->input[4], c, i, dy[i % c]) + score[0] * IN(1)[i % c] +
              score[h] * IN(2)[i % c];
        o->use[0][i % c] = (i < c ? 0 : o->use[0][i % c]) + score[0] * IN(0)[i];
        o->use[1][i % c] = (i < c ? 0 : o->use[1][i % c]) + score[h] * IN(0)[i];
    }
}
static void hidden(const struct culm_operands *o) { /* ELU */
    int64_t n = out_shape(o, 0)->dim[0], c = out_shape(o, 0)->dim[1], w = in_shape(o, 0)->dim[1];
    keep(o, o->output[2], n, c);
    for (int64_t i = 0; i < n * c; i++) {
        float x = IN(0)[i / c * w + i % c] + IN(1)[i % c];
        OUT(1)[i] = x > 0 ? x : expm1f(x);
        OUT(0)[i] = left(o, o->output[2], c, i, OUT(1)[i]);
    }
}
static void hidden_grad(const struct culm_operands *o) {
    int64_t n = in_shape(o, 0)->dim[0], c = in_shape(o, 0)->dim[1], w = out_shape(o, 0)->dim[1];
    memset(OUT(0), 0, (size_t)(n * w) * sizeof(float));
    for (int64_t i = 0; i < n * c; i++) {
        float y = IN(1)[i], d = left(o, o->input[2], c, i, IN(0)[i]) * (y > 0 ? 1 : y + 1);
        OUT(0)[i / c * w + i % c] = d;
        o->use[0][i % c] = (i < c ? 0 : o->use[0][i % c]) + d;
    }
}

const struct support_reference support_references[] = {
    {&culm_op_linear, linear},
    {&culm_op_linear_grad_input, linear_input},
    {&culm_op_linear_grad_weight, linear_weight},
    {&culm_op_sparse_linear, sparse_linear},
    {&culm_op_sparse_linear_grad, sparse_linear_grad},
    {&culm_op_heads, heads},
    {&culm_op_heads_grad, heads_grad},
    {&culm_op_hidden, hidden},
    {&culm_op_hidden_grad, hidden_grad},
    {&culm_op_conv, conv},
    {&culm_op_conv_grad_data, conv_data},
    {&culm_op_conv_grad_weight, conv_weight},
    {&culm_op_matmul, matmul},
    {&culm_op_matmul_grad_a, matmul_a},
    {&culm_op_matmul_grad_b, matmul_b},
    {&culm_op_embedding, embedding},
    {&culm_op_embedding_grad, embedding_grad},
    {&culm_op_lookup, lookup},
    {&culm_op_lookup_grad, lookup_grad},
    {&culm_op_positions, positions},
    {&culm_op_positions_grad, positions_grad},
    {&culm_op_gather_rows, gather},
    {&culm_op_gather_rows_grad, gather_grad},
    {&culm_op_attention, attention},
    {&culm_op_attention_grad, attention_grad},
    {&culm_op_lstm, lstm},
    {&culm_op_lstm_grad, lstm_grad},
    {&culm_op_bahdanau, bahdanau},
    {&culm_op_bahdanau_grad, bahdanau_grad},
    {&culm_op_layernorm, layernorm},
    {&culm_op_layernorm_grad, layernorm_grad},
    {&culm_op_batchnorm, batchnorm},
    {&culm_op_batchnorm_grad, batchnorm_grad},
    {&culm_op_cross_entropy, cross_entropy},
    {&culm_op_squared_error, squared_error},
    {&culm_op_dropout, dropout},
    {&culm_op_dropout_grad, dropout},
    {&culm_op_residual, residual},
    {&culm_op_add, add},
    {&culm_op_activation, activation},
    {&culm_op_activation_grad, activation_grad},
    {&culm_op_affine, affine},
    {&culm_op_affine_grad, affine_grad},
    {&culm_op_accumulate, accumulate},
    {&culm_op_binary, binary},
    {&culm_op_binary_grad_a, binary},
    {&culm_op_binary_grad_b, binary_b},
    {&culm_op_reduce, reduce},
    {&culm_op_reduce_grad, reduce_grad},
    {&culm_op_softmax, softmax},
    {&culm_op_softmax_grad, softmax_grad},
    {&culm_op_reshape, nothing},
    {&culm_op_reshape_grad, nothing},
    {&culm_op_permute, permute},
    {&culm_op_permute_grad, permute_grad},
    {&culm_op_slice, slice},
    {&culm_op_slice_grad, slice_grad},
    {&culm_op_concat, concat},
    {&culm_op_concat_grad, slice},
    {&culm_op_pad, pad},
    {&culm_op_pad_grad, pad_grad},
    {&culm_op_resize, resize},
    {&culm_op_resize_grad, resize_grad},
    {&culm_op_maxpool, maxpool},
    {&culm_op_maxpool_grad, maxpool_grad},
    {&culm_op_avgpool, avgpool},
    {&culm_op_avgpool_grad, avgpool_grad},
    {&culm_op_adaptive_avgpool, avgpool},
    {&culm_op_adaptive_avgpool_grad, avgpool_grad},
    {NULL, NULL},
};
