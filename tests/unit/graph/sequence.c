/* Operators on sequences through the graph. See check.h. */
#include "check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define BATCH 2
#define CONTEXT 5
#define WIDTH 6

static int32_t begin(struct net *net) { return net_begin(net, BATCH, CONTEXT, WIDTH, 7); }

static int32_t field(struct net *net, const char *name, int64_t length) {
    const struct culm_shape shape = {2, {BATCH, length}};
    return culm_graph_field(net->graph, name, CULM_I32, &shape);
}

/* Finishes a net that has one field besides tokens and targets. */
static void finish(struct net *net, int32_t x, const int32_t *values) {
    net_end(net, x, -1, CHECK_SEED);
    net->data.fields[2] = values;
    check_gradients(net);
}

void test_lookup(void **state) {
    (void)state;
    static const int32_t ids[BATCH * CONTEXT] = {1, 0, -1, 1, 2, 2, 2, -1, 0, 1};
    struct net net;
    int32_t x = begin(&net);
    const int32_t in[] = {field(&net, "kinds", CONTEXT), net_param(&net, 2, 3, WIDTH)};
    int32_t y = culm_graph_apply(net.graph, "lookup", in, 2, NULL);
    finish(&net, net_binary(&net, "add", net_gelu(&net, x), y, 0), ids);
}

void test_positions(void **state) {
    (void)state;
    struct net net;
    int32_t x = begin(&net);
    const int32_t in[] = {net_gelu(&net, x), net_param(&net, 2, CONTEXT, WIDTH)};
    x = culm_graph_apply(net.graph, "positions", in, 2, NULL);
    net_end(&net, net_gelu(&net, x), -1, CHECK_SEED);
    check_gradients(&net);
}

/* As many rows as before, so that there is a target for each. */
void test_gather_rows(void **state) {
    (void)state;
    static const int32_t index[BATCH * CONTEXT] = {0, 4, 4, -1, 1, 2, 2, 2, 3, 0};
    struct net net;
    int32_t x = begin(&net);
    const int32_t in[] = {net_gelu(&net, x), field(&net, "index", CONTEXT)};
    finish(&net, culm_graph_apply(net.graph, "gather_rows", in, 2, NULL), index);
}

/* Keys of another length than the queries, some hidden; then keys that are the values too. */
void test_separate_attention(void **state) {
    (void)state;
    enum { KEYS = 8 };
    static const int32_t index[BATCH * KEYS] = {0, 1, 2, 3, 4, 3, 2, 1, 4, 3, 2, 1, 0, 0, 1, 2};
    static const int32_t shown[BATCH * KEYS] = {1, 1, 0, 1, 1, 0, 0, 1, 1, 1, 1, 0, 1, 1, 0, 0};
    for (int causal = 0; causal < 2; causal++) {
        struct net net;
        const struct culm_attributes attributes = {
            .heads = 2, .causal = causal, .dropout = causal ? 0.2 : 0};
        int32_t x = begin(&net);
        const int32_t gather[] = {x, field(&net, "index", KEYS)};
        int32_t other = culm_graph_apply(net.graph, "gather_rows", gather, 2, NULL);
        /* a bias of the keys would have no gradient: it moves all scores alike */
        int32_t k = net_head(&net, other, net_param(&net, 2, WIDTH, WIDTH));
        int32_t q = net_linear(&net, x, WIDTH);
        int32_t v = causal ? k : net_linear(&net, other, WIDTH);
        const int32_t in[] = {q, k, v, field(&net, "shown", KEYS)};
        x = culm_graph_apply(net.graph, "attention", in, 4, &attributes);
        net_end(&net, net_linear(&net, x, WIDTH), -1, CHECK_SEED);
        net.data.fields[2] = index;
        net.data.fields[3] = shown;
        check_gradients(&net);
    }
}

static int32_t lstm(struct net *net, int32_t x, int64_t units, bool bias, bool first,
                    int32_t length, bool reverse) {
    int64_t in_width = culm_last_dim(&net->graph->value[x].shape);
    const struct culm_attributes attributes = {.reverse = reverse};
    int32_t in[] = {x,
                    net_param(net, 2, 4 * units, in_width),
                    net_param(net, 2, 4 * units, units),
                    -1,
                    -1,
                    -1,
                    -1,
                    length};
    for (int i = 0; i < 2; i++) {
        in[3 + i] = bias ? net_param(net, 1, 4 * units, 0) : -1;
        in[5 + i] = first ? net_param(net, 2, BATCH, units) : -1;
    }
    return culm_graph_apply(net->graph, "lstm", in, 8, &attributes);
}

void test_lstm(void **state) {
    (void)state;
    static const int32_t length[BATCH] = {3, 5};
    struct net net;
    int32_t x = begin(&net);
    x = lstm(&net, x, 4, true, false, -1, false);
    net_end(&net, lstm(&net, x, 3, false, true, -1, true), -1, CHECK_SEED);
    check_gradients(&net);
    x = begin(&net);
    int32_t lengths = field(&net, "length", 1);
    int32_t ahead = lstm(&net, x, 3, true, true, lengths, false);
    int32_t back = lstm(&net, x, 3, true, true, lengths, true);
    finish(&net, net_binary(&net, "add", ahead, back, 0), length);
}

void test_bahdanau(void **state) {
    (void)state;
    static const int32_t length[BATCH] = {2, 5};
    for (int bounded = 0; bounded < 2; bounded++) {
        struct net net;
        int32_t x = begin(&net);
        const int32_t in[] = {net_linear(&net, x, 4),
                              net_linear(&net, x, 4),
                              x,
                              bounded ? field(&net, "length", 1) : -1,
                              net_param(&net, 1, 4, 0),
                              net_param(&net, 1, 1, 0),
                              net_param(&net, 1, 4, 0)};
        finish(&net, culm_graph_apply(net.graph, "bahdanau", in, 7, NULL), length);
    }
}

void test_ignored_targets(void **state) {
    (void)state;
    static const int32_t wanted[BATCH * CONTEXT] = {1, -1, -1, 6, 2, -100, 3, 0, 5, -1};
    struct net net;
    int32_t x = begin(&net);
    const struct culm_attributes smooth = {.smoothing = 0.1};
    const int32_t in[] = {net_head(&net, net_gelu(&net, x), net_param(&net, 2, 7, WIDTH)),
                          field(&net, "wanted", CONTEXT)};
    culm_graph_apply(net.graph, "cross_entropy", in, 2, &smooth);
    finish(&net, x, wanted); /* with a second loss */
}

/* --- what does not fit --- */

static int32_t bad_lookup(struct net *net, int32_t x) {
    const int32_t in[] = {x, net_param(net, 2, 3, WIDTH)};
    return culm_graph_apply(net->graph, "lookup", in, 2, NULL);
}
static int32_t bad_positions(struct net *net, int32_t x) {
    const int32_t in[] = {x, net_param(net, 2, 4, WIDTH)};
    return culm_graph_apply(net->graph, "positions", in, 2, NULL);
}
static int32_t bad_gather(struct net *net, int32_t x) {
    const struct culm_shape shape = {2, {BATCH + 1, 3}};
    const int32_t in[] = {x, culm_graph_field(net->graph, "index", CULM_I32, &shape)};
    return culm_graph_apply(net->graph, "gather_rows", in, 2, NULL);
}
static int32_t bad_mask(struct net *net, int32_t x) {
    const struct culm_attributes attributes = {.heads = 2};
    const int32_t in[] = {x, x, x, field(net, "shown", 4)};
    return culm_graph_apply(net->graph, "attention", in, 4, &attributes);
}
static int32_t bad_values(struct net *net, int32_t x) {
    const struct culm_attributes attributes = {.heads = 2};
    const int32_t in[] = {x, x, -1, -1};
    return culm_graph_apply(net->graph, "attention", in, 4, &attributes);
}
static int32_t bad_gates(struct net *net, int32_t x) {
    const int32_t in[] = {x, net_param(net, 2, 12, WIDTH), net_param(net, 2, 12, 4), -1, -1, -1, -1,
                          -1};
    return culm_graph_apply(net->graph, "lstm", in, 8, NULL);
}
static int32_t bad_cell(struct net *net, int32_t x) {
    const int32_t in[] = {x,  net_param(net, 2, 12, WIDTH), net_param(net, 2, 12, 3),    -1,
                          -1, net_param(net, 2, BATCH, 3),  net_param(net, 2, BATCH, 4), -1};
    return culm_graph_apply(net->graph, "lstm", in, 8, NULL);
}
static int32_t bad_score(struct net *net, int32_t x) {
    const int32_t in[] = {
        x, x, x, -1, net_param(net, 1, WIDTH, 0), net_param(net, 1, 2, 0), net_param(net, 1, 6, 0)};
    return culm_graph_apply(net->graph, "bahdanau", in, 7, NULL);
}
static int32_t bad_smoothing(struct net *net, int32_t x) {
    const struct culm_attributes attributes = {.smoothing = 1.5};
    const int32_t in[] = {x, net->targets};
    return culm_graph_apply(net->graph, "cross_entropy", in, 2, &attributes);
}

static const struct {
    int32_t (*build)(struct net *net, int32_t x);
    const char *op, *says;
} wrong[] = {
    {bad_lookup, "'lookup'", "i32 ids"},
    {bad_positions, "'positions'", "[4,6]"},
    {bad_gather, "'gather_rows'", "[3,3]"},
    {bad_mask, "'attention'", "[2,4]"},
    {bad_values, "'attention'", "q, k and v"},
    {bad_gates, "'lstm'", "[12,4]"},
    {bad_cell, "'lstm'", "[2,4]"},
    {bad_score, "'bahdanau'", "parameters"},
    {bad_smoothing, "'cross_entropy'", "1.5"},
};

void test_sequence_shape_errors(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct net net;
        struct culm_error error = {0};
        int32_t x = begin(&net);
        assert_int_equal(wrong[i].build(&net, x), -1);
        assert_int_equal(culm_graph_check(net.graph, &error), CULM_ERR_CONFIG);
        if (!strstr(error.text, wrong[i].op) || !strstr(error.text, wrong[i].says)) {
            fail_msg("'%s' does not name %s and %s", error.text, wrong[i].op, wrong[i].says);
        }
        culm_graph_free(net.graph);
    }
}
