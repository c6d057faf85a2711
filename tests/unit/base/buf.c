/* Buffers: their maximum, what failed stays failed, and reading back what was written. */
#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void numbers_and_texts_read_back(void **state) {
    (void)state;
    struct culm_buf buf;
    char text[8], little[4];
    culm_buf_init(&buf, 100);
    culm_buf_u8(&buf, 0xFE);
    culm_buf_u32(&buf, 0xFEDCBA98u);
    culm_buf_u64(&buf, 0xFEDCBA9876543210u);
    culm_buf_i32(&buf, INT32_MIN);
    culm_buf_f64(&buf, -0.1);
    culm_buf_string(&buf, "seven77");
    assert_false(buf.failed);
    assert_int_equal(buf.data[1], 0x98); /* little-endian */
    struct culm_reader reader = culm_reader_of(buf.data, buf.len);
    assert_int_equal(culm_read_u8(&reader), 0xFE);
    assert_int_equal(culm_read_u32(&reader), 0xFEDCBA98u);
    assert_true(culm_read_u64(&reader) == 0xFEDCBA9876543210u);
    assert_int_equal(culm_read_i32(&reader), INT32_MIN);
    assert_true(culm_read_f64(&reader) == -0.1);
    struct culm_reader again = reader;
    culm_read_string(&reader, text, sizeof text);
    assert_string_equal(text, "seven77");
    assert_true(culm_reader_done(&reader));
    culm_read_string(&again, little, sizeof little);
    assert_true(again.failed);
    assert_int_equal(culm_read_u8(&again), 0);
    assert_false(culm_reader_done(&again));
    culm_buf_release(&buf);
}

static void counts_have_a_limit(void **state) {
    static const uint64_t value[] = {0, CULM_COUNT_MAX, CULM_COUNT_MAX + 1, INT64_MAX, UINT64_MAX};
    struct culm_buf buf;
    (void)state;
    culm_buf_init(&buf, 100);
    for (size_t i = 0; i < sizeof value / sizeof *value; i++) {
        culm_buf_clear(&buf);
        culm_buf_u64(&buf, value[i]);
        struct culm_reader reader = culm_reader_of(buf.data, buf.len);
        bool right = value[i] <= CULM_COUNT_MAX;
        assert_int_equal(culm_read_count(&reader), right ? value[i] : 0);
        assert_int_equal(culm_reader_done(&reader), right);
    }
    culm_buf_release(&buf);
}

static void small_numbers_are_short(void **state) {
    static const struct {
        uint64_t value;
        size_t bytes;
    } row[] = {{0, 1},     {127, 1},       {128, 2},        {16383, 2},
               {16384, 3}, {INT64_MAX, 9}, {UINT64_MAX, 10}};
    struct culm_buf buf;
    (void)state;
    culm_buf_init(&buf, 100);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        culm_buf_clear(&buf);
        culm_buf_varint(&buf, row[i].value);
        assert_int_equal(buf.len, row[i].bytes);
        struct culm_reader reader = culm_reader_of(buf.data, buf.len);
        assert_true(culm_read_varint(&reader, row[i].value) == row[i].value);
        assert_true(culm_reader_done(&reader));
        reader = culm_reader_of(buf.data, buf.len);
        if (row[i].value > 0) {
            assert_int_equal(culm_read_varint(&reader, row[i].value - 1), 0);
            assert_true(reader.failed);
        }
        reader = culm_reader_of(buf.data, buf.len - 1); /* cut off */
        (void)culm_read_varint(&reader, UINT64_MAX);
        assert_true(reader.failed);
    }
    static const struct {
        uint8_t bytes[11];
        size_t len;
    } wrong[] = {
        {{0x80, 0x00}, 2}, /* longer than it need be */
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}, 10}, /* 65 bits */
        {{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}, 11},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct culm_reader reader = culm_reader_of(wrong[i].bytes, wrong[i].len);
        assert_int_equal(culm_read_varint(&reader, UINT64_MAX), 0);
        assert_true(reader.failed);
    }
    culm_buf_release(&buf);
}

static void too_much_fails_and_stays_so(void **state) {
    (void)state;
    struct culm_buf buf;
    culm_buf_init(&buf, 4);
    culm_buf_bytes(&buf, "abc", 3);
    culm_buf_u32(&buf, 1);
    assert_true(buf.failed);
    assert_int_equal(buf.len, 3);
    culm_buf_u8(&buf, 1); /* there would be room */
    assert_int_equal(buf.len, 3);
    assert_null(culm_buf_take_text(&buf));
    assert_null(buf.data);
    assert_false(buf.failed); /* as after init */
    culm_buf_release(&buf);
}

static void texts_are_handed_over(void **state) {
    (void)state;
    struct culm_buf buf;
    culm_buf_init(&buf, 100);
    char *none = culm_buf_take_text(&buf);
    assert_string_equal(none, "");
    culm_buf_printf(&buf, "%s %d", "number", 7);
    char *text = culm_buf_take_text(&buf);
    assert_string_equal(text, "number 7");
    assert_null(buf.data);
    assert_int_equal(buf.len, 0);
    free(none);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_texts_read_back),
        cmocka_unit_test(counts_have_a_limit),
        cmocka_unit_test(small_numbers_are_short),
        cmocka_unit_test(too_much_fails_and_stays_so),
        cmocka_unit_test(texts_are_handed_over),
    };
    return cmocka_run_group_tests_name("base/buf", tests, NULL, NULL);
}
