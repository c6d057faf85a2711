/* Which batch norms of a darknet network are the ends of residual branches. */
#include "merge/residual.h"

#include "darknet/net.h"
#include "graph/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NET "[net]\nwidth=32\nheight=32\nchannels=3\n"
#define CONV(function)                                                                             \
    "[convolutional]\nbatch_normalize=1\nfilters=4\nsize=3\nstride=1\npad=1\n"                     \
    "activation=" function "\n"
#define SHORTCUT "[shortcut]\nfrom=-3\nactivation=linear\n"
#define HEAD                                                                                       \
    "[convolutional]\nfilters=18\nsize=1\nstride=1\nactivation=linear\n"                           \
    "[yolo]\nmask=0,1,2\nanchors=1,1,2,2,3,3\nclasses=1\nnum=3\n"

/* `wanted`: a letter for each batch norm, r where it ends a residual branch. */
static void expect(const char *text, const char *wanted) {
    struct culm_darknet_net net;
    struct culm_graph *graph;
    struct culm_error error = {0};
    char found[16];
    size_t norms = 0;
    if (culm_darknet_parse(text, strlen(text), "net", &net, &error) != CULM_OK ||
        culm_darknet_build(&net, 1, &graph, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        if (graph->node[i].op == &culm_op_batchnorm) {
            assert_true(norms + 1 < sizeof found);
            found[norms++] = culm_merge_residual(graph, i) ? 'r' : '-';
        }
    }
    found[norms] = '\0';
    assert_string_equal(found, wanted);
    culm_graph_free(graph);
    culm_darknet_net_release(&net);
}

static void test_what_is_added(void **state) {
    (void)state;
    expect(NET CONV("leaky") CONV("leaky") CONV("leaky") HEAD, "---");
    expect(NET CONV("leaky") CONV("leaky") CONV("leaky") SHORTCUT HEAD, "--r");
    expect(NET CONV("leaky") CONV("leaky") CONV("linear") SHORTCUT HEAD, "--r");
    expect(NET CONV("leaky") CONV("leaky") CONV("leaky") SHORTCUT CONV("leaky") CONV("relu")
               SHORTCUT HEAD,
           "--r-r");
}

/* Functions that are several nodes, or none that leaves 0 as it is. */
static void test_functions(void **state) {
    (void)state;
    expect(NET CONV("mish") CONV("mish") CONV("mish") SHORTCUT HEAD, "--r");
    expect(NET CONV("swish") CONV("swish") CONV("swish") SHORTCUT HEAD, "--r");
    expect(NET CONV("logistic") CONV("logistic") CONV("logistic") SHORTCUT HEAD, "---");
}

/* What something else reads, too; what is added to a value that it does not read. */
static void test_others(void **state) {
    (void)state;
    expect(NET CONV("leaky") CONV("leaky") CONV("leaky") SHORTCUT "[route]\nlayers=-2\n" HEAD,
           "---");
    expect(NET CONV("leaky") CONV("leaky") "[route]\nlayers=-2\n" CONV("leaky") SHORTCUT HEAD,
           "---");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_added),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_others),
    };
    return cmocka_run_group_tests_name("merge/residual", tests, NULL, NULL);
}
