/* Figures as Prometheus reads them: what is in names, what is not known, what has no frames yet. */
#include "live/metrics.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
// clang-format off
#include <cmocka.h>
// clang-format on

static char *text_of(const char *look) {
    json_t *object = json_loads(look, 0, NULL);
    assert_non_null(object);
    char *text = culm_live_metrics(object);
    assert_non_null(text);
    json_decref(object);
    return text;
}

static void expect(const char *text, const char *line, bool there) {
    const char *at = strstr(text, line);
    assert_int_equal(at && (at == text || at[-1] == '\n'), there);
}

static void names_are_escaped(void **state) {
    (void)state;
    char *text =
        text_of("{\"feeds\":[{\"feed\":\"a\\\"b\\\\c\\nd\",\"state\":\"down\",\"frames\":7}],"
                "\"queries\":[{\"query\":\"q\",\"why\":{\"no \\\"time\\\"\":3,\"x\":4},"
                "\"state\":\"merged\",\"bytes\":1500000}]}");
    expect(text, "culm_edge_feed_up{feed=\"a\\\"b\\\\c\\nd\"} 0\n", true);
    expect(text, "culm_edge_feed_frames_total{feed=\"a\\\"b\\\\c\\nd\"} 7\n", true);
    expect(text, "culm_edge_query_dropped_total{query=\"q\",reason=\"no \\\"time\\\"\"} 3\n", true);
    expect(text, "culm_edge_query_dropped_total{query=\"q\",reason=\"x\"} 4\n", true);
    expect(text, "culm_edge_query_merged{query=\"q\"} 1\n", true);
    expect(text, "culm_edge_query_reverted{query=\"q\"} 0\n", true);
    expect(text, "culm_edge_query_weights_bytes{query=\"q\"} 1500000\n", true);
    free(text);
}

static void what_is_not_known_is_left_out(void **state) {
    (void)state;
    char *text =
        text_of("{\"round\":null,\"uptime_s\":1.5,\"feeds\":[{\"feed\":\"a\",\"state\":\"up\","
                "\"lag_ms\":null}],\"queries\":[{\"query\":\"q\",\"accuracy\":null}]}");
    expect(text, "culm_edge_uptime_seconds 1.5\n", true);
    expect(text, "culm_edge_package_round", false);
    expect(text, "culm_edge_feed_up{feed=\"a\"} 1\n", true);
    expect(text, "culm_edge_feed_lag_seconds", false);
    expect(text, "culm_edge_query_accuracy_ratio", false);
    expect(text, "# TYPE culm_edge_query_processed_total counter\n", true);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_escaped),
        cmocka_unit_test(what_is_not_known_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
