/* JSON lines out and in: one line per event, torn lines, and lines that are no events. */
#include "events.h"

#include <fcntl.h>

struct seen {
    char names[256];
};

static enum culm_status see(void *context, const json_t *event, struct culm_error *error) {
    struct seen *seen = context;
    (void)error;
    strcat(seen->names, culm_event_text(event, "event", "?"));
    strcat(seen->names, " ");
    return CULM_OK;
}

static int make_path(void **state) {
    char path[] = "/tmp/culm-events-XXXXXX";
    int fd = mkstemp(path);
    *state = strdup(path);
    return fd < 0 || close(fd) ? -1 : 0;
}

static int drop_path(void **state) {
    unlink(*state);
    free(*state);
    return 0;
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
}

static char *read_text(const char *path) {
    FILE *file = fopen(path, "r");
    char *text = slurp(file);
    fclose(file);
    return text;
}

static void lines_are_appended(void **state) {
    struct culm_error error = {0};
    for (int i = 0; i < 2; i++) {
        struct culm_sink *sink;
        assert_int_equal(culm_sink_jsonl_open(*state, &sink, &error), CULM_OK);
        give(sink, "{'event':'start','t_ms':1}");
        give(sink, "{'event':'step','loss':0.1}");
        culm_sink_free(sink);
    }
    char *text = read_text(*state);
    assert_string_equal(text, "{\"event\":\"start\",\"t_ms\":1}\n"
                              "{\"event\":\"step\",\"loss\":0.10000000000000001}\n"
                              "{\"event\":\"start\",\"t_ms\":1}\n"
                              "{\"event\":\"step\",\"loss\":0.10000000000000001}\n");
    free(text);
    struct seen seen = {""};
    assert_int_equal(culm_events_read(*state, see, &seen, &error), CULM_OK);
    assert_string_equal(seen.names, "start step start step ");
}

static void torn_lines_are_ended_and_left_out(void **state) {
    struct culm_error error = {0};
    struct seen seen = {""};
    write_text(*state, "{\"event\":\"start\"}\n{\"event\":\"st");
    assert_int_equal(culm_events_read(*state, see, &seen, &error), CULM_OK);
    assert_string_equal(seen.names, "start ");

    struct culm_sink *sink;
    assert_int_equal(culm_sink_jsonl_open(*state, &sink, &error), CULM_OK);
    give(sink, "{'event':'start'}");
    give(sink, "{'event':'done'}");
    culm_sink_free(sink);
    strcpy(seen.names, "");
    assert_int_equal(culm_events_read(*state, see, &seen, &error), CULM_OK);
    assert_string_equal(seen.names, "start start done ");
}

static void what_is_no_event_is_refused(void **state) {
    struct culm_error error = {0};
    struct seen seen = {""};
    char expected[128];
    const char *const bad[] = {"garbage\n", "{}\n", "[1]\n", "{\"event\":3}\n", "\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"event\":\"start\"}\n%s{\"event\":\"step\"}\n", bad[i]);
        write_text(*state, text);
        assert_int_equal(culm_events_read(*state, see, &seen, &error), CULM_ERR_FORMAT);
        snprintf(expected, sizeof expected, "%s:2: not an event", (char *)*state);
        assert_string_equal(error.text, expected);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad;
         i++) { /* but passed over by who asks for that */
        char text[128];
        size_t line = 0;
        snprintf(text, sizeof text, "{\"event\":\"start\"}\n%s{\"event\":\"step\"}\n%s\n", bad[i],
                 bad[i]);
        write_text(*state, text);
        strcpy(seen.names, "");
        assert_int_equal(culm_events_skim(*state, see, &seen, &line, &error), CULM_OK);
        assert_string_equal(seen.names, "start step ");
        assert_int_equal(line, 2);
    }
    unlink(*state);
    assert_int_equal(culm_events_read(*state, see, &seen, &error), CULM_ERR_NOT_FOUND);
    snprintf(expected, sizeof expected, "read '%s': No such file or directory", (char *)*state);
    assert_string_equal(error.text, expected);
}

static void a_full_disk_is_an_error(void **state) {
    (void)state;
    int fd = open("/dev/full", O_WRONLY);
    if (fd < 0) {
        skip();
    }
    struct culm_sink *sink = culm_sink_jsonl_fd(fd);
    struct culm_error error = {0};
    json_t *event = json_pack("{s:s}", "event", "start");
    assert_int_equal(culm_sink_event(sink, event, &error), CULM_ERR_IO);
    assert_string_equal(error.text, "write event: No space left on device");
    json_decref(event);
    culm_sink_free(sink);
    close(fd);
}

static void a_tee_feeds_all_and_reports_the_first_failure(void **state) {
    int full = open("/dev/full", O_WRONLY);
    if (full < 0) {
        skip();
    }
    struct culm_error error = {0};
    struct culm_sink *tee = culm_sink_tee_new(), *file;
    assert_int_equal(culm_sink_jsonl_open(*state, &file, &error), CULM_OK);
    assert_int_equal(culm_sink_tee_add(tee, culm_sink_jsonl_fd(full)), CULM_OK);
    assert_int_equal(culm_sink_tee_add(tee, file), CULM_OK);
    json_t *event = json_pack("{s:s}", "event", "start");
    assert_int_equal(culm_sink_event(tee, event, &error), CULM_ERR_IO);
    json_decref(event);
    culm_sink_free(tee);
    culm_sink_free(NULL);
    close(full);
    char *text = read_text(*state);
    assert_string_equal(text, "{\"event\":\"start\"}\n");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_are_appended, make_path, drop_path),
        cmocka_unit_test_setup_teardown(torn_lines_are_ended_and_left_out, make_path, drop_path),
        cmocka_unit_test_setup_teardown(what_is_no_event_is_refused, make_path, drop_path),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test_setup_teardown(a_tee_feeds_all_and_reports_the_first_failure, make_path,
                                        drop_path),
    };
    return cmocka_run_group_tests_name("report/sink", tests, NULL, NULL);
}
