/*
 * Fuzz target: the messages of graph networks. Any bytes are refused or decoded; what was decoded is
 * written and read back as the same, and numbers that index something are in range.
 *
 * The first byte chooses the decoder.
 */
#include "messages.h"

#include "crew/pulse.h"
#include "interval/message.h"

#define INTERVALS 70 /* more than a word of a set has bits */
#define STAGES 3
#define TREE_NODES (2 * INTERVALS - 1)

static struct culm_gnn_layout layout;

static void begin(void) {
    static const size_t bytes[STAGES] = {64, 128, 64};
    if (layout.intervals == 0) {
        FUZZ_REQUIRE(culm_gnn_layout_init(&layout, INTERVALS, NULL) == CULM_OK, "no memory");
        for (int32_t i = 0; i < INTERVALS; i++) {
            layout.first[i + 1] = layout.first[i] + 1 + i % 40;
        }
        culm_gnn_layout_steps(&layout, STAGES, bytes, bytes, bytes);
        layout.block_least = layout.block_unit = 2;
        for (int32_t s = 0; s < layout.steps; s++) {
            layout.step[s].streams = s % 2 == 0;
        }
    }
}

static void require_task(const struct culm_gnn_task_key *key) {
    FUZZ_REQUIRE(key->interval >= 0 && key->interval < INTERVALS && key->step >= 0 &&
                     key->step < layout.steps && key->epoch >= 0 && key->version >= 0,
                 "%d %d", key->interval, key->step);
}

static void fuzz_slice(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_gnn_slice_key key;
    if (culm_gnn_slice_decode(data, size, &layout, &key) == CULM_OK) {
        FUZZ_REQUIRE(key.interval >= 0 && key.interval < INTERVALS && key.gather >= 0 &&
                         key.gather < layout.gathers,
                     "%d %d", key.interval, key.gather);
        FUZZ_REQUIRE(culm_set_next(&key.readers, INTERVALS) < 0, "a reader beyond");
        culm_gnn_slice_encode(&key, buf);
        culm_set_release(&key.readers);
        require_same(buf, data, size);
    }
}

static void fuzz_warm(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_set warm;
    if (culm_gnn_warm_decode(data, size, &layout, &warm) == CULM_OK) {
        culm_gnn_warm_encode(&warm, buf);
        culm_set_release(&warm);
        require_same(buf, data, size);
    }
}

static void fuzz_gradient(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_gnn_gradient_key key;
    if (culm_gnn_gradient_decode(data, size, &layout, TREE_NODES, &key) == CULM_OK) {
        FUZZ_REQUIRE(key.stage >= 0 && key.stage < STAGES && key.tree_node >= 0 &&
                         key.tree_node < TREE_NODES,
                     "%d %d", key.stage, key.tree_node);
        culm_gnn_gradient_encode(&key, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_version(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_gnn_version version;
    if (culm_gnn_version_decode(data, size, &version) == CULM_OK) {
        FUZZ_REQUIRE(version.version >= version.oldest && version.oldest >= 0, "%lld",
                     (long long)version.oldest);
        culm_gnn_version_encode(&version, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_held(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_gnn_held held;
    if (culm_gnn_held_decode(data, size, &held) == CULM_OK) {
        culm_gnn_held_encode(&held, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_task(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_gnn_task_key key;
    if (culm_gnn_task_key_decode(data, size, &layout, &key) == CULM_OK) {
        require_task(&key);
        culm_gnn_task_key_encode(&key, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_part(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_gnn_part part;
    if (culm_gnn_part_decode(data, size, &layout, &part) == CULM_OK) {
        require_task(&part.key);
        FUZZ_REQUIRE(part.block >= 0 && part.block < part.blocks &&
                         part.blocks <= CULM_GNN_BLOCKS_MAX,
                     "block %d of %d", part.block, part.blocks);
        culm_gnn_part_encode(&part, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_result(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_gnn_result result;
    if (culm_gnn_result_decode(data, size, &layout, &result) == CULM_OK) {
        require_task(&result.key);
        culm_gnn_result_encode(&result, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_done(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_gnn_done done;
    if (culm_gnn_done_decode(data, size, &layout, &done) == CULM_OK) {
        FUZZ_REQUIRE(done.interval >= 0 && done.interval < INTERVALS, "%d", done.interval);
        culm_gnn_done_encode(&done, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_saved(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_gnn_saved saved;
    if (culm_gnn_saved_decode(data, size, &saved) == CULM_OK) {
        FUZZ_REQUIRE(memchr(saved.piece, 0, sizeof saved.piece), "no end");
        culm_gnn_saved_encode(&saved, buf);
    }
}

static void fuzz_save(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_gnn_save save;
    if (culm_gnn_save_decode(data, size, &save) == CULM_OK) {
        FUZZ_REQUIRE(memchr(save.to, 0, sizeof save.to), "no end");
        culm_gnn_save_encode(&save, buf);
    }
}

static void fuzz_failed(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_failed failed;
    if (culm_failed_decode(data, size, &failed) == CULM_OK) {
        FUZZ_REQUIRE(failed.status > CULM_OK && failed.status <= CULM_ERR_STOPPED &&
                         memchr(failed.why, 0, sizeof failed.why),
                     "%d", (int)failed.status);
        culm_failed_encode(&failed, buf);
    }
}

static void fuzz_peer(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_peer_lost lost;
    if (culm_peer_lost_decode(data, size, &lost) == CULM_OK) {
        FUZZ_REQUIRE(lost.node >= 0, "%d", lost.node);
        culm_peer_lost_encode(&lost, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_view(const uint8_t *data, size_t size, struct culm_buf *buf) {
    static int32_t owner[INTERVALS];
    static struct culm_gnn_view view = {.owner = owner};
    if (culm_gnn_view_decode(data, size, &layout, &view) == CULM_OK) {
        FUZZ_REQUIRE(view.holder_count >= 0 && view.holder_count <= CULM_GNN_HOLDERS_MAX, "%d",
                     view.holder_count);
        culm_gnn_view_encode(&view, INTERVALS, buf);
    }
}

static void fuzz_commit(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_gnn_commit commit;
    if (culm_gnn_commit_decode(data, size, &commit) == CULM_OK) {
        culm_gnn_commit_encode(&commit, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_report(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_gnn_report report;
    if (culm_gnn_report_decode(data, size, &report) == CULM_OK) {
        FUZZ_REQUIRE((report.view > 0) == (report.course.epoch > 0), "%lld",
                     (long long)report.course.epoch);
        culm_gnn_report_encode(&report, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_curve(const uint8_t *data, size_t size, struct culm_buf *buf) {
    static struct culm_gnn_curve curve;
    if (culm_gnn_curve_decode(data, size, &curve) == CULM_OK) {
        FUZZ_REQUIRE(curve.count >= 0 && curve.count <= CULM_GNN_CURVE_MAX, "%d", curve.count);
        culm_gnn_curve_encode(&curve, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_ask(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_ask ask;
    if (culm_ask_decode(data, size, &ask) == CULM_OK) {
        culm_ask_encode(&ask, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_notice(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_notice notice;
    if (culm_notice_decode(data, size, &notice) == CULM_OK) {
        FUZZ_REQUIRE(notice.within_ms >= 0, "%lld", (long long)notice.within_ms);
        culm_notice_encode(&notice, buf);
        require_same(buf, data, size);
    }
}

static void fuzz_answer(const uint8_t *data, size_t size, struct culm_buf *buf) {
    struct culm_gnn_answer *answer;
    if (culm_gnn_answer_decode(data, size, &answer) == CULM_OK) {
        FUZZ_REQUIRE(answer->count >= 0 && answer->count <= CULM_GNN_NODES_MAX, "%d",
                     answer->count);
        culm_gnn_answer_encode(answer, buf);
        free(answer);
        require_same(buf, data, size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static fuzz_decoder *const decoder[] = {
        fuzz_slice,  fuzz_warm,   fuzz_gradient, fuzz_version, fuzz_held,  fuzz_task,  fuzz_part,
        fuzz_result, fuzz_done,   fuzz_saved,    fuzz_failed,  fuzz_peer,  fuzz_view,  fuzz_commit,
        fuzz_ask,    fuzz_answer, fuzz_save,     fuzz_report,  fuzz_curve, fuzz_notice};
    begin();
    return fuzz_message(data, size, decoder, sizeof decoder / sizeof *decoder, CULM_GNN_META_MAX);
}
