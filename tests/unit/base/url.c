/* What is shown of addresses that have secrets in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/url.h"

#include <string.h>

static void shown(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"rtsp://user:secret@camera:554/1", "rtsp://***@camera:554/1"},
        {"rtsp://me@home:p@ss@camera/1", "rtsp://***@camera/1"},
        {"http://camera/video?user=a&pwd=secret", "http://camera/video?***"},
        {"http://camera/video@2", "http://camera/video@2"},
        {"tcp://127.0.0.1:9401", "tcp://127.0.0.1:9401"},
        {"hall.mp4", "hall.mp4"},
        {"rtsp://u:it's@cam/1", "rtsp://***@cam/1"},
        {"open 'rtsp://u:it's@cam/1': refused", "open 'rtsp://***@cam/1': refused"},
        {"open 'http://cam/1?pwd=s', or 'x'", "open 'http://cam/1?***', or 'x'"},
        {"rtsp://u:a|b<c>d@cam/1", "rtsp://***@cam/1"},
        {"rtsp://u:Pass#1@cam/1", "rtsp://***@cam/1"},
        {"rtsp://u:a/b@cam/1?c=d", "rtsp://***@cam/1?***"},
        {"rtsp://u:a?b@cam/1?c=d", "rtsp://***@cam/1?***"},
        {"http://cam:80/video@2", "http://cam:80/video@2"},
        {"http://cam:80/video?mail=a@b", "http://cam:80/video?***"},
        {"[in#0] Error opening input file rtsp://u:secret@c/1: refused, and 'http://v:secret@d' "
         "too",
         "[in#0] Error opening input file rtsp://***@c/1: refused, and 'http://***@d' too"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char text[300];
        culm_url_show(pairs[i][0], text, sizeof text);
        assert_string_equal(text, pairs[i][1]);
        for (size_t size = 1; size <= strlen(pairs[i][1]) + 1; size++) {
            culm_url_show(pairs[i][0], text, size);
            assert_int_equal(strlen(text), size - 1);
            assert_memory_equal(text, pairs[i][1], size - 1);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(shown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
