/*
 * Fuzz target: the messages of the protocol. Any bytes are refused or decoded; what was decoded is
 * written and read back as the same, and numbers that index something are in range.
 *
 * The first byte chooses the decoder.
 */
#include "messages.h"

#include "crew/pulse.h"
#include "pipeline/control.h"
#include "pipeline/report.h"
#include "pipeline/waits.h"

#define STAGES 3
#define MICROS 8
#define GRADS 11
#define LANES 4
#define PARAMS 7

static const struct culm_run_shape shape = {
    .pipelines = 2, .stages = STAGES, .lanes = LANES, .micros = MICROS};

static void fuzz_boundary(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_boundary boundary;
    if (culm_boundary_decode(data, size, &boundary) == CULM_OK) {
        FUZZ_REQUIRE(boundary.stage >= 0 && boundary.micro >= 0, "%d %d", boundary.stage,
                     boundary.micro);
        culm_boundary_encode(&boundary, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_sum(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_sum sum;
    if (culm_sum_decode(data, size, &sum) == CULM_OK) {
        FUZZ_REQUIRE(sum.grad >= 0 && sum.tree_node >= 0, "%d %d", sum.grad, sum.tree_node);
        culm_sum_encode(&sum, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_reduced(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_reduced reduced;
    if (culm_reduced_decode(data, size, &reduced) == CULM_OK) {
        FUZZ_REQUIRE(reduced.grad >= 0, "%d", reduced.grad);
        culm_reduced_encode(&reduced, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_state(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_state state;
    if (culm_state_decode(data, size, &state) == CULM_OK) {
        FUZZ_REQUIRE(state.index >= 0 && state.slice >= 0, "%d %d", state.index, state.slice);
        culm_state_encode(&state, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_want(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_want want;
    if (culm_want_decode(data, size, &want) == CULM_OK) {
        FUZZ_REQUIRE(want.index >= 0 && want.slice >= 0, "%d %d", want.index, want.slice);
        culm_want_encode(&want, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_learn(const uint8_t *data, size_t size, struct culm_buf *buf) {
    uint8_t grad[GRADS];
    struct culm_learn learn = {.grads = GRADS, .grad = grad};
    if (culm_learn_decode(data, size, &learn) == CULM_OK) {
        culm_learn_encode(&learn, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_have(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_have have;
    if (culm_have_init(&have, STAGES, MICROS, GRADS, LANES) == CULM_OK) {
        if (culm_have_decode(data, size, &have) == CULM_OK) {
            culm_have_encode(&have, buf);
            require_same(buf, data, size);
        }
        culm_have_release(&have);
    }
}

/* What changes can begin with. */
static const struct culm_view *view_known(void) {
    static struct culm_view known;
    static const struct culm_transfer copy[] = {{3, 0, 1, 2}, {5, 4, 0, 1}};
    if (known.number == 0) {
        FUZZ_REQUIRE(culm_view_init(&known, &shape), "no memory");
        known.number = 6;
        known.phase = CULM_VIEW_RUN;
        known.iteration = 4;
        for (int32_t i = 0; i < 6; i++) {
            const struct culm_view_node node = {
                2 * i, i / STAGES, i % STAGES, {{1 + 2 * (uint64_t)(i % 4)}}};
            FUZZ_REQUIRE(culm_view_add_node(&known, &node), "no memory");
        }
        for (int32_t t = 0; t < 2; t++) {
            FUZZ_REQUIRE(culm_view_add_transfer(&known, &copy[t]), "no memory");
        }
        culm_view_assign(&known, &shape, NULL);
    }
    return &known;
}

static void fuzz_view(const uint8_t *data, size_t size, struct culm_buf *buf) {
    static struct culm_view view, again;
    const struct culm_view *known = view_known();
    if (culm_view_decode(data, size, known, &shape, &view) != CULM_OK) {
        return;
    }
    FUZZ_REQUIRE(view.pipelines == 2 && view.stages == STAGES && view.lanes == 4, "shape");
    for (int32_t l = 0; l < view.lanes; l++) {
        FUZZ_REQUIRE(view.lane_pipeline[l] >= -1 && view.lane_pipeline[l] < 2, "lane %d", l);
    }
    for (int32_t i = 0; i < view.node_count; i++) {
        FUZZ_REQUIRE(view.node[i].id >= 0 && view.node[i].stage < STAGES, "node %d", i);
    }
    for (int32_t i = 0; i < view.transfer_count; i++) {
        FUZZ_REQUIRE(view.transfer[i].stage >= 0 && view.transfer[i].stage < STAGES, "copy %d", i);
    }
    struct culm_buf twice;
    culm_buf_init(&twice, CULM_META_MAX);
    for (int changes = 0; changes < 2; changes++) {
        culm_buf_clear(buf);
        culm_buf_clear(&twice);
        culm_view_encode(&view, changes ? known : NULL, &shape, buf);
        FUZZ_REQUIRE(culm_view_decode(buf->data, buf->len, known, &shape, &again) == CULM_OK,
                     "again");
        culm_view_encode(&again, changes ? known : NULL, &shape, &twice);
        require_same(&twice, buf->data, buf->len);
    }
    culm_buf_release(&twice);
}

static void fuzz_commit(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_commit commit;
    if (culm_commit_decode(data, size, &commit) == CULM_OK) {
        culm_commit_encode(&commit, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_prepared(const uint8_t *data, size_t size, struct culm_buf *buf) {
    double norm[PARAMS];
    uint64_t ids[STAGES];
    struct culm_prepared prepared = {
        .params = PARAMS, .of_stages = STAGES, .norm = norm, .ids = ids};
    if (culm_prepared_decode(data, size, &prepared) == CULM_OK) {
        culm_prepared_encode(&prepared, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_digests(const uint8_t *data, size_t size, struct culm_buf *buf) {
    uint64_t digest[PARAMS];
    struct culm_digests digests = {.params = PARAMS, .of_stages = STAGES, .digest = digest};
    if (culm_digests_decode(data, size, &digests) == CULM_OK) {
        culm_digests_encode(&digests, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_waits(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_waits *waits = culm_waits_new(STAGES, MICROS, GRADS, LANES);
    if (waits && culm_waits_decode(data, size, waits) == CULM_OK) {
        FUZZ_REQUIRE(waits->deaf_count >= 0 && waits->deaf_count <= CULM_MAX_NODES, "%d peers",
                     waits->deaf_count);
        culm_waits_encode(waits, &waits->have, buf);
        require_same(buf, data, size);
    }
    culm_waits_free(waits);
}

static void fuzz_report(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_report report = {.of_stages = STAGES};
    if (culm_report_decode(data, size, &report) == CULM_OK) {
        FUZZ_REQUIRE(culm_stage_set_last(&report.holds) < STAGES, "stages");
        culm_report_encode(&report, buf);
        struct culm_report again = {.of_stages = STAGES};
        FUZZ_REQUIRE(culm_report_decode(buf->data, buf->len, &again) == CULM_OK, "again");
    }
}

static void fuzz_curve(const uint8_t *data, size_t size, struct culm_buf *buf) {
    static struct culm_curve curve, again;
    if (culm_curve_decode(data, size, &curve) == CULM_OK) {
        FUZZ_REQUIRE(curve.count >= 0 && curve.count <= CULM_CURVE_MAX, "%d steps", curve.count);
        culm_curve_encode(&curve, buf);
        FUZZ_REQUIRE(culm_curve_decode(buf->data, buf->len, &again) == CULM_OK, "again");
    }
}

/* Small ones: text has an end, and the bytes written are those read, but for what is behind a NUL. */
#define SMALL(name)                                                                                \
    static void fuzz_##name(const uint8_t *data, size_t size, struct culm_buf *buf) {              \
        struct culm_##name one, again;                                                             \
        if (culm_##name##_decode(data, size, &one) == CULM_OK) {                                   \
            culm_##name##_encode(&one, buf);                                                       \
            FUZZ_REQUIRE(culm_##name##_decode(buf->data, buf->len, &again) == CULM_OK, "again");   \
            struct culm_buf twice;                                                                 \
            culm_buf_init(&twice, CULM_META_MAX);                                                  \
            culm_##name##_encode(&again, &twice);                                                  \
            require_same(&twice, buf->data, buf->len);                                             \
            culm_buf_release(&twice);                                                              \
        }                                                                                          \
    }
SMALL(save)
SMALL(fenced)
SMALL(ask)
SMALL(heartbeat)
SMALL(took)
SMALL(loaded)
SMALL(unloaded)
SMALL(joined)
SMALL(saved)
SMALL(taken_over)
SMALL(peer_lost)
SMALL(failed)
SMALL(damaged)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static fuzz_decoder *const decoder[] = {
        fuzz_boundary, fuzz_have,       fuzz_view,      fuzz_commit, fuzz_prepared,
        fuzz_saved,    fuzz_digests,    fuzz_waits,     fuzz_save,   fuzz_fenced,
        fuzz_ask,      fuzz_heartbeat,  fuzz_took,      fuzz_loaded, fuzz_unloaded,
        fuzz_joined,   fuzz_taken_over, fuzz_peer_lost, fuzz_failed, fuzz_damaged,
        fuzz_sum,      fuzz_reduced,    fuzz_state,     fuzz_report, fuzz_curve,     fuzz_want, fuzz_learn};
    return fuzz_message(data, size, decoder, sizeof decoder / sizeof *decoder, CULM_META_MAX);
}
