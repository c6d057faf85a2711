/*
 * Fuzz target: darknet configurations. Any text makes a network or is refused in one line that names the
 * line of the file; what makes one has sizes that go together, and a graph unless the device's limits
 * are in the way.
 */
#include "fuzz.h"

#include "darknet/net.h"

#include <string.h>

static void check(const struct culm_darknet_net *net) {
    int64_t numbers = 0;
    for (int32_t i = 0; i < net->count; i++) {
        const struct culm_darknet_section *s = &net->section[i];
        int64_t in = culm_darknet_channels_before(net, i);
        FUZZ_REQUIRE(s->h > 0 && s->w > 0 && s->c > 0 && s->groups > 0, "section %d", (int)i);
        for (int32_t k = 0; k < s->from_count; k++) {
            FUZZ_REQUIRE(s->from[k] >= 0 && s->from[k] < i, "section %d", (int)i);
        }
        if (s->kind == CULM_DARKNET_CONV) {
            FUZZ_REQUIRE(s->first == numbers && in % s->groups == 0, "section %d", (int)i);
            numbers += s->c * (in / s->groups) * s->size * s->size + s->c * (s->batch_norm ? 4 : 1);
        }
    }
    FUZZ_REQUIRE(numbers == net->numbers && numbers <= CULM_DARKNET_NUMBERS_MAX, "%lld of %lld",
                 (long long)numbers, (long long)net->numbers);
    FUZZ_REQUIRE(net->heads >= 1 && net->heads <= CULM_VISION_HEADS_MAX, "%d", (int)net->heads);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct culm_error error = {0};
    struct culm_darknet_net net = {0};
    struct culm_graph *graph = NULL;
    char *exact = malloc(size ? size : 1);
    memcpy(exact, data, size);
    if (culm_darknet_parse(exact, size, "fuzz", &net, &error) == CULM_OK) {
        check(&net);
        if (culm_darknet_build(&net, 2, &graph, &error) == CULM_OK) {
            FUZZ_REQUIRE(graph->output_count == net.heads, "%d outputs", (int)graph->output_count);
            culm_graph_free(graph);
        } else {
            FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'", error.text);
        }
        culm_darknet_net_release(&net);
    } else {
        FUZZ_REQUIRE(strncmp(error.text, "darknet 'fuzz': ", 16) == 0 && !strchr(error.text, '\n'),
                     "message: '%s'", error.text);
    }
    free(exact);
    return 0;
}
