/* Control messages: what is written is read again; any cut and any noise is refused or harmless. */
#include "decoders.h"

#include "crew/pulse.h"
#include "pipeline/control.h"

/* One test each: read again, written again, the bytes are the same. `...`: a message. */
#define TEST(name, ...)                                                                            \
    static enum culm_status decode_##name(const uint8_t *meta, size_t len) {                       \
        struct culm_##name room;                                                                   \
        return culm_##name##_decode(meta, len, &room);                                             \
    }                                                                                              \
    static void test_##name(void **state) {                                                        \
        (void)state;                                                                               \
        const struct culm_##name message = __VA_ARGS__;                                            \
        struct culm_##name again;                                                                  \
        struct culm_buf buf, twice;                                                                \
        culm_buf_init(&buf, 4096);                                                                 \
        culm_buf_init(&twice, 4096);                                                               \
        culm_##name##_encode(&message, &buf);                                                      \
        assert_int_equal(culm_##name##_decode(buf.data, buf.len, &again), CULM_OK);                \
        culm_##name##_encode(&again, &twice);                                                      \
        assert_int_equal(buf.len, twice.len);                                                      \
        assert_memory_equal(buf.data, twice.data, buf.len);                                        \
        check_cuts(&buf, decode_##name);                                                           \
        check_noise(&buf, decode_##name, 6);                                                       \
        culm_buf_release(&buf);                                                                    \
        culm_buf_release(&twice);                                                                  \
    }

TEST(save, {2, 3, -4, true, "/another/folder"})
TEST(fenced, {"why it is out"})
TEST(ask, {UINT64_MAX})
TEST(heartbeat, {CULM_COUNT_MAX, -1, 2, 0})
TEST(took, {10, 2, CULM_COUNT_MAX})
TEST(loaded, {1, 2})
TEST(unloaded, {1, CULM_ERR_FORMAT, "a piece is damaged"})
TEST(joined, {2, UINT32_MAX, 1ull << 40, 77})
TEST(saved, {2, 3, -4, CULM_OK, "a piece of text", ""})
TEST(taken_over, {1, -4, CULM_ORIGIN_CHECKPOINT, CULM_COUNT_MAX})
TEST(peer_lost, {5})
TEST(failed, {CULM_ERR_INTERNAL, "no more"})
TEST(damaged, {2, -4, "a digest differs"})

static void test_fields_come_back_where_they_were(void **state) {
    (void)state;
    const struct culm_saved saved = {2, 3, -4, CULM_ERR_IO, "", "no space left"};
    struct culm_saved again;
    struct culm_buf buf;
    culm_buf_init(&buf, 4096);
    culm_saved_encode(&saved, &buf);
    assert_int_equal(culm_saved_decode(buf.data, buf.len, &again), CULM_OK);
    assert_int_equal(again.version, 2);
    assert_int_equal(again.attempt, 3);
    assert_int_equal(again.stage, -4);
    assert_int_equal(again.status, CULM_ERR_IO);
    assert_string_equal(again.piece, "");
    assert_string_equal(again.why, "no space left");
    const struct culm_heartbeat beat = {9, -1, 2, 300};
    struct culm_heartbeat beats;
    culm_buf_clear(&buf);
    culm_heartbeat_encode(&beat, &buf);
    assert_int_equal(culm_heartbeat_decode(buf.data, buf.len, &beats), CULM_OK);
    assert_true(beats.progress == 9 && beats.kind == -1 && beats.part == 2);
    assert_int_equal(beats.task_ms, 300);
    culm_buf_release(&buf);
}

/* Whoever reads these adds to them. */
static void test_counts_that_nobody_counts_to(void **state) {
    static const int64_t bad[] = {-1, INT64_MIN, (int64_t)CULM_COUNT_MAX + 1, INT64_MAX};
    struct culm_buf buf;
    (void)state;
    culm_buf_init(&buf, 4096);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct culm_heartbeat beats[] = {{.progress = bad[i]}, {.task_ms = bad[i]}};
        const struct culm_took took = {.task_ms = bad[i]};
        const struct culm_taken_over over = {.redone = bad[i]};
        struct culm_heartbeat beat;
        struct culm_took again;
        struct culm_taken_over over_again;
        for (int b = 0; b < 2; b++) {
            culm_buf_clear(&buf);
            culm_heartbeat_encode(&beats[b], &buf);
            assert_int_equal(culm_heartbeat_decode(buf.data, buf.len, &beat), CULM_ERR_FORMAT);
        }
        culm_buf_clear(&buf);
        culm_took_encode(&took, &buf);
        assert_int_equal(culm_took_decode(buf.data, buf.len, &again), CULM_ERR_FORMAT);
        culm_buf_clear(&buf);
        culm_taken_over_encode(&over, &buf);
        assert_int_equal(culm_taken_over_decode(buf.data, buf.len, &over_again), CULM_ERR_FORMAT);
    }
    culm_buf_release(&buf);
}

static void test_the_longest_text_there_can_be(void **state) {
    (void)state;
    struct culm_fenced fenced, again;
    struct culm_buf buf;
    culm_buf_init(&buf, 4096);
    memset(fenced.why, 'x', sizeof fenced.why - 1);
    fenced.why[sizeof fenced.why - 1] = '\0';
    culm_fenced_encode(&fenced, &buf);
    assert_int_equal(culm_fenced_decode(buf.data, buf.len, &again), CULM_OK);
    assert_string_equal(again.why, fenced.why);
    culm_buf_release(&buf);
}

/* A number that is not of its enumeration, or that says that nothing is wrong where something is. */
static void test_words_that_do_not_exist_are_refused(void **state) {
    (void)state;
    const struct culm_failed failed[] = {{CULM_OK, ""}, {CULM_ERR_STOPPED + 1, ""}};
    const struct culm_unloaded unloaded[] = {{1, CULM_OK, ""}, {1, CULM_ERR_STOPPED + 1, ""}};
    const struct culm_saved saved = {1, 1, 1, CULM_ERR_STOPPED + 1, "", ""};
    const struct culm_taken_over over = {1, 1, CULM_ORIGIN_CHECKPOINT + 1, 0};
    struct culm_buf buf;
    culm_buf_init(&buf, 4096);
    for (int i = 0; i < 2; i++) {
        culm_buf_clear(&buf);
        culm_failed_encode(&failed[i], &buf);
        assert_int_equal(decode_failed(buf.data, buf.len), CULM_ERR_FORMAT);
        culm_buf_clear(&buf);
        culm_unloaded_encode(&unloaded[i], &buf);
        assert_int_equal(decode_unloaded(buf.data, buf.len), CULM_ERR_FORMAT);
    }
    culm_buf_clear(&buf);
    culm_saved_encode(&saved, &buf);
    assert_int_equal(decode_saved(buf.data, buf.len), CULM_ERR_FORMAT);
    culm_buf_clear(&buf);
    culm_taken_over_encode(&over, &buf);
    assert_int_equal(decode_taken_over(buf.data, buf.len), CULM_ERR_FORMAT);
    culm_buf_release(&buf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_save),
        cmocka_unit_test(test_fenced),
        cmocka_unit_test(test_ask),
        cmocka_unit_test(test_heartbeat),
        cmocka_unit_test(test_took),
        cmocka_unit_test(test_loaded),
        cmocka_unit_test(test_unloaded),
        cmocka_unit_test(test_joined),
        cmocka_unit_test(test_saved),
        cmocka_unit_test(test_taken_over),
        cmocka_unit_test(test_peer_lost),
        cmocka_unit_test(test_failed),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_fields_come_back_where_they_were),
        cmocka_unit_test(test_counts_that_nobody_counts_to),
        cmocka_unit_test(test_the_longest_text_there_can_be),
        cmocka_unit_test(test_words_that_do_not_exist_are_refused),
    };
    return cmocka_run_group_tests_name("pipeline/control", tests, NULL, NULL);
}
