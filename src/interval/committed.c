/* A commit as text: hexadecimal digits. See committed.h. */
#include "interval/committed.h"

#include "base/hex.h"

#include <string.h>

#define MOST ((CULM_DEED_ABOUT_MAX - 1) / 2) /* bytes */
#define COMMIT_BYTES 149                     /* of an epoch that is evaluated */
_Static_assert(COMMIT_BYTES + 8 + 1 + 4 + 12 * CULM_GNN_BRANCHES_MAX <= MOST, "it fits");

static void past_write(const struct culm_gnn_past *past, struct culm_buf *buf) {
    culm_buf_u8(buf, past->cut);
    culm_buf_i32(buf, past->count);
    for (int32_t b = 0; b < past->count; b++) {
        culm_buf_u32(buf, past->branch[b].attempt);
        culm_buf_u64(buf, (uint64_t)past->branch[b].version);
    }
}

static struct culm_gnn_past past_read(struct culm_reader *in) {
    struct culm_gnn_past past = {.cut = culm_read_u8(in) != 0, .count = culm_read_i32(in)};
    in->failed |= past.count < 1 || past.count > CULM_GNN_BRANCHES_MAX;
    for (int32_t b = 0; b < past.count && !in->failed; b++) {
        past.branch[b].attempt = culm_read_u32(in);
        past.branch[b].version = culm_read_count(in);
    }
    return past;
}

bool culm_gnn_committed_write(const struct culm_gnn_committed *committed,
                              char ret_about[CULM_DEED_ABOUT_MAX]) {
    struct culm_buf buf;
    culm_buf_init(&buf, MOST);
    culm_buf_u64(&buf, committed->digest);
    past_write(&committed->past, &buf);
    culm_gnn_commit_encode(&committed->commit, &buf);
    const bool fits = !buf.failed;
    if (fits) {
        culm_hex(buf.data, buf.len, ret_about);
    }
    culm_buf_release(&buf);
    return fits;
}

enum culm_status culm_gnn_committed_read(const char *about,
                                         struct culm_gnn_committed *ret_committed) {
    uint8_t bytes[MOST];
    const size_t len = strlen(about) / 2;
    if (len > MOST || !culm_hex_read(about, len, bytes)) {
        return CULM_ERR_FORMAT;
    }
    struct culm_reader in = culm_reader_of(bytes, len);
    struct culm_gnn_committed committed = {.digest = culm_read_u64(&in)};
    committed.past = past_read(&in);
    if (in.failed ||
        culm_gnn_commit_decode(bytes + in.at, len - in.at, &committed.commit) != CULM_OK) {
        return CULM_ERR_FORMAT;
    }
    *ret_committed = committed;
    return CULM_OK;
}
