/*
 * Fuzz target: what a node of a run on a graph is told when it joins. Any bytes are refused with one line, or
 * are a brief that comes out the same when it is written and read again.
 */
#include "fuzz.h"

#include "run/gnn_node.h"

#include <string.h>

#define BRIEF_MAX (1u << 20)

static void require_same(const struct culm_gnn_brief *a, const struct culm_gnn_brief *b) {
    FUZZ_REQUIRE(strcmp(a->config_text, b->config_text) == 0, "configuration");
    FUZZ_REQUIRE(strcmp(a->inputs, b->inputs) == 0, "inputs");
    FUZZ_REQUIRE(strcmp(a->cut_sha256, b->cut_sha256) == 0, "hash of the cut");
    FUZZ_REQUIRE(a->payload_max == b->payload_max, "payload");
    FUZZ_REQUIRE(a->plan.vertices == b->plan.vertices && a->plan.layers == b->plan.layers, "plan");
    FUZZ_REQUIRE(!a->cut == !b->cut, "a cut");
    for (int64_t v = 0; a->cut && v < a->plan.vertices; v++) {
        FUZZ_REQUIRE(a->cut[v] == b->cut[v], "vertex %lld", (long long)v);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct culm_gnn_brief brief, again;
    struct culm_error error = {0};
    struct culm_buf out;
    if (culm_gnn_brief_read(data, size, &brief, &error) != CULM_OK) {
        FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'", error.text);
        FUZZ_REQUIRE(!brief.cut && !brief.config_text && !brief.inputs, "something is left");
        return 0;
    }
    FUZZ_REQUIRE(brief.plan.vertices >= 1 && brief.plan.layers >= 1, "plan");
    culm_buf_init(&out, BRIEF_MAX);
    if (culm_gnn_brief_write(&brief, &out)) {
        FUZZ_REQUIRE(culm_gnn_brief_read(out.data, out.len, &again, &error) == CULM_OK, "%s",
                     error.text);
        require_same(&brief, &again);
        culm_gnn_brief_release(&again);
    }
    culm_buf_release(&out);
    culm_gnn_brief_release(&brief);
    return 0;
}
