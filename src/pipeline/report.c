/* REPORT and CURVE. See report.h. */
#include "pipeline/report.h"

#include <string.h>

void culm_report_encode(const struct culm_report *report, struct culm_buf *buf) {
    culm_buf_u64(buf, report->view);
    culm_buf_u64(buf, (uint64_t)report->iteration);
    culm_stage_set_write(buf, &report->holds);
    culm_stage_set_write(buf, &report->whole);
    culm_content_write(buf, &report->commit);
    culm_buf_u64(buf, (uint64_t)report->curve_first);
    culm_totals_write(buf, &report->totals);
}

enum culm_status culm_report_decode(const uint8_t *meta, size_t len,
                                    struct culm_report *ret_report) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_report report = {.view = culm_read_u64(&in), .of_stages = ret_report->of_stages};
    report.iteration = culm_read_count(&in);
    report.holds = culm_stage_set_read(&in, report.of_stages);
    report.whole = culm_stage_set_read(&in, report.of_stages);
    report.commit = culm_content_read(&in);
    report.curve_first = culm_read_count(&in);
    report.totals = culm_totals_read(&in);
    const bool right = report.commit.iteration == 0 || report.commit.iteration < report.iteration;
    if (!culm_reader_done(&in) || !right) {
        return CULM_ERR_FORMAT;
    }
    *ret_report = report;
    return CULM_OK;
}

void culm_curve_add(struct culm_curve *curve, int64_t step, double loss, double norm) {
    if (curve->count > 0 && step >= curve->first && step < curve->first + curve->count) {
        curve->count = (int32_t)(step - curve->first); /* it is told again */
    } else if (curve->count > 0 && curve->first + curve->count != step) {
        curve->count = 0;
    }
    if (curve->count == CULM_CURVE_MAX) {
        culm_curve_cut(curve, curve->first + CULM_CURVE_MAX / 4, step);
    }
    curve->first = curve->count > 0 ? curve->first : step;
    curve->step[curve->count++] = (struct culm_curve_step){loss, norm};
}

void culm_curve_cut(struct culm_curve *curve, int64_t published, int64_t last) {
    const int64_t old = published - curve->first, kept = last - curve->first; /* from 0 on */
    if (kept < curve->count) {
        curve->count = kept < 0 ? 0 : kept < curve->count - 1 ? (int32_t)kept + 1 : curve->count;
    }
    if (old >= 0 && curve->count > 0) {
        const int32_t gone = old < curve->count ? (int32_t)old + 1 : curve->count;
        curve->count -= gone;
        curve->first += gone;
        memmove(curve->step, curve->step + gone, (size_t)curve->count * sizeof *curve->step);
    }
}

void culm_curve_encode(const struct culm_curve *curve, struct culm_buf *buf) {
    culm_buf_u64(buf, (uint64_t)curve->first);
    culm_buf_varint(buf, (uint64_t)curve->count);
    for (int32_t i = 0; i < curve->count; i++) {
        culm_buf_f64(buf, curve->step[i].loss);
        culm_buf_f64(buf, curve->step[i].norm);
    }
}

enum culm_status culm_curve_decode(const uint8_t *meta, size_t len, struct culm_curve *ret_curve) {
    struct culm_reader in = culm_reader_of(meta, len);
    const int64_t first = culm_read_count(&in);
    const int32_t count = (int32_t)culm_read_varint(&in, CULM_CURVE_MAX);
    const struct culm_reader steps = in;
    for (int32_t i = 0; i < 2 * count; i++) {
        (void)culm_read_f64(&in);
    }
    if (!culm_reader_done(&in)) {
        return CULM_ERR_FORMAT;
    }
    in = steps;
    ret_curve->first = first;
    ret_curve->count = count;
    for (int32_t i = 0; i < count; i++) {
        ret_curve->step[i].loss = culm_read_f64(&in);
        ret_curve->step[i].norm = culm_read_f64(&in);
    }
    return CULM_OK;
}
