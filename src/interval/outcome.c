/* Outcomes of epochs, kept and encoded. See outcome.h. */
#include "interval/outcome.h"

#include <string.h>

/* --- the curve --- */

int64_t culm_gnn_curve_first(const struct culm_gnn_curve *curve) {
    return curve->count > 0 ? curve->outcome[0].epoch : 0;
}

void culm_gnn_curve_add(struct culm_gnn_curve *curve, const struct culm_gnn_outcome *outcome) {
    const int64_t next = culm_gnn_curve_first(curve) + curve->count;
    if (curve->count > 0 && outcome->epoch < next) {
        return;
    }
    if (curve->count > 0 && outcome->epoch > next) {
        curve->count = 0;
    }
    if (curve->count == CULM_GNN_CURVE_MAX) {
        culm_gnn_curve_cut(curve, curve->outcome[CULM_GNN_CURVE_MAX / 4].epoch, outcome->epoch);
    }
    curve->outcome[curve->count++] = *outcome;
}

void culm_gnn_curve_cut(struct culm_gnn_curve *curve, int64_t published, int64_t last) {
    int32_t gone = 0;
    while (curve->count > 0 && curve->outcome[curve->count - 1].epoch > last) {
        curve->count--;
    }
    while (gone < curve->count && curve->outcome[gone].epoch <= published) {
        gone++;
    }
    curve->count -= gone;
    memmove(curve->outcome, curve->outcome + gone, (size_t)curve->count * sizeof *curve->outcome);
}

/* --- as bytes --- */

static bool read_bool(struct culm_reader *in) {
    const uint8_t value = culm_read_u8(in);
    in->failed = in->failed || value > 1;
    return value == 1;
}

void culm_gnn_outcome_write(const struct culm_gnn_outcome *outcome, struct culm_buf *buf) {
    uint32_t bits;
    memcpy(&bits, &outcome->loss, sizeof bits);
    culm_buf_u64(buf, (uint64_t)outcome->epoch);
    culm_buf_u32(buf, bits);
    culm_buf_u8(buf, outcome->evaluated);
    for (int part = 0; part < CULM_GNN_SPLITS && outcome->evaluated; part++) {
        culm_buf_u64(buf, (uint64_t)outcome->correct[part]);
        culm_buf_f64(buf, outcome->area[part]);
    }
}

struct culm_gnn_outcome culm_gnn_outcome_read(struct culm_reader *in) {
    struct culm_gnn_outcome outcome = {.epoch = culm_read_count(in)};
    const uint32_t bits = culm_read_u32(in);
    memcpy(&outcome.loss, &bits, sizeof bits);
    outcome.evaluated = read_bool(in);
    for (int part = 0; part < CULM_GNN_SPLITS && outcome.evaluated; part++) {
        outcome.correct[part] = culm_read_count(in);
        outcome.area[part] = culm_read_f64(in);
    }
    return outcome;
}

void culm_gnn_balance_write(const struct culm_gnn_balance *balance, struct culm_buf *buf) {
    const struct culm_gnn_verdict *verdict = &balance->verdict;
    culm_buf_u64(buf, (uint64_t)balance->losses);
    culm_buf_u64(buf, (uint64_t)balance->rollbacks);
    culm_buf_u64(buf, (uint64_t)balance->published);
    culm_buf_u8(buf, verdict->known);
    culm_buf_f64(buf, verdict->best);
    culm_buf_f64(buf, verdict->test_at_best);
    culm_buf_u64(buf, (uint64_t)verdict->since_best);
    culm_buf_u8(buf, verdict->enough);
    culm_buf_f64(buf, balance->usd);
    culm_buf_f64(buf, balance->seconds);
}

struct culm_gnn_balance culm_gnn_balance_read(struct culm_reader *in) {
    struct culm_gnn_balance balance = {.losses = culm_read_count(in)};
    struct culm_gnn_verdict *verdict = &balance.verdict;
    balance.rollbacks = culm_read_count(in);
    balance.published = culm_read_count(in);
    verdict->known = read_bool(in);
    verdict->best = culm_read_f64(in);
    verdict->test_at_best = culm_read_f64(in);
    verdict->since_best = culm_read_count(in);
    verdict->enough = read_bool(in);
    balance.usd = culm_read_f64(in);
    balance.seconds = culm_read_f64(in);
    return balance;
}

void culm_gnn_curve_encode(const struct culm_gnn_curve *curve, struct culm_buf *buf) {
    culm_buf_i32(buf, curve->count);
    for (int32_t i = 0; i < curve->count; i++) {
        culm_gnn_outcome_write(&curve->outcome[i], buf);
    }
}

enum culm_status culm_gnn_curve_decode(const uint8_t *meta, size_t len,
                                       struct culm_gnn_curve *ret_curve) {
    struct culm_reader in = culm_reader_of(meta, len);
    const int32_t count = culm_read_i32(&in);
    if (in.failed || count < 0 || count > CULM_GNN_CURVE_MAX) {
        return CULM_ERR_FORMAT;
    }
    ret_curve->count = count;
    for (int32_t i = 0; i < count; i++) {
        ret_curve->outcome[i] = culm_gnn_outcome_read(&in);
        in.failed |= i > 0 && ret_curve->outcome[i].epoch != ret_curve->outcome[i - 1].epoch + 1;
    }
    return culm_reader_done(&in) && (count == 0 || ret_curve->outcome[0].epoch > 0)
               ? CULM_OK
               : CULM_ERR_FORMAT;
}
