/* Events by a thread of their own: who tells them waits for nobody, and what goes wrong is told. */
#include "events.h"

#include "report/relay.h"

#include <fcntl.h>
#include <sys/wait.h>

/* Numbered events. */
static void tell(struct culm_sink *sink, int first, int count) {
    for (int i = first; i < first + count; i++) {
        json_t *event = json_pack("{s:s, s:i}", "event", "step", "step", i);
        assert_int_equal(culm_sink_event(sink, event, NULL), CULM_OK);
        json_decref(event);
    }
}

static enum culm_status finish(struct culm_sink *sink, struct culm_error *error) {
    json_t *event = json_pack("{s:s}", "event", "done");
    enum culm_status status = culm_sink_event(sink, event, error);
    json_decref(event);
    return status;
}

/* The lines that come until the other end is closed. */
static void read_all(int fd, char *text, size_t size) {
    size_t len = 0;
    for (ssize_t got; len + 1 < size && (got = read(fd, text + len, size - len - 1)) > 0;) {
        len += (size_t)got;
    }
    text[len] = '\0';
}

static void a_reader_that_sleeps_holds_up_nobody(void **state) {
    enum { COUNT = 12000 }; /* more than a pipe holds */
    int ends[2];
    (void)state;
    assert_int_equal(pipe(ends), 0);
    struct culm_sink *relay = culm_sink_relay_new(culm_sink_jsonl_fd(ends[1]));
    assert_non_null(relay);
    tell(relay, 0, COUNT);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) { /* the reader wakes up: all of it, in order */
        static char text[COUNT * 40];
        close(ends[1]);
        read_all(ends[0], text, sizeof text);
        char *at = text;
        for (int i = 0; i < COUNT; i++) {
            char line[64];
            int len = snprintf(line, sizeof line, "{\"event\":\"step\",\"step\":%d}\n", i);
            if (strncmp(at, line, (size_t)len)) {
                _exit(1);
            }
            at += len;
        }
        _exit(strcmp(at, "{\"event\":\"done\"}\n") != 0);
    }
    assert_int_equal(finish(relay, NULL), CULM_OK);
    culm_sink_free(relay);
    close(ends[1]);
    int code = -1;
    assert_int_equal(waitpid(pid, &code, 0), pid);
    assert_int_equal(code, 0);
    close(ends[0]);
}

static void a_failure_is_told(void **state) {
    int full = open("/dev/full", O_WRONLY);
    (void)state;
    if (full < 0) {
        skip();
    }
    struct culm_sink *relay = culm_sink_relay_new(culm_sink_jsonl_fd(full));
    struct culm_error error = {0};
    assert_int_equal(finish(relay, &error), CULM_ERR_IO);
    assert_string_equal(error.text, "write event: No space left on device");
    culm_sink_free(relay);
    close(full);
}

/* A sink that stands still until the other end of its pipe is closed, and counts. */
struct gate {
    struct culm_sink sink;
    int ends[2];
    int *count;
};

static enum culm_status gate_event(struct culm_sink *sink, const json_t *event,
                                   struct culm_error *error) {
    struct gate *gate = (struct gate *)sink;
    char byte;
    (void)event, (void)error;
    *gate->count += read(gate->ends[0], &byte, 1) == 0;
    return CULM_OK;
}

static void gate_free(struct culm_sink *sink) {
    struct gate *gate = (struct gate *)sink;
    close(gate->ends[0]);
    free(gate);
}

static void too_many_are_left_out(void **state) {
    static const struct culm_sink_ops ops = {sizeof ops, gate_event, gate_free};
    int count = 0;
    struct gate *gate = calloc(1, sizeof *gate);
    struct culm_error error = {0};
    (void)state;
    assert_non_null(gate);
    *gate = (struct gate){.sink = {&ops}, .count = &count};
    assert_int_equal(pipe(gate->ends), 0);
    int other = gate->ends[1];
    struct culm_sink *relay = culm_sink_relay_new(&gate->sink);
    tell(relay, 0, CULM_RELAY_EVENTS);
    json_t *event = json_pack("{s:s}", "event", "step");
    enum culm_status status = CULM_OK;
    int told = 0;
    for (; status == CULM_OK && told < 2; told++) { /* the first one may be with the sink */
        status = culm_sink_event(relay, event, &error);
    }
    assert_int_equal(status, CULM_ERR_AGAIN);
    assert_non_null(strstr(error.text, "some are left out"));
    json_decref(event);
    close(other);
    assert_int_equal(finish(relay, &error), CULM_OK);
    culm_sink_free(relay);
    assert_int_equal(count, CULM_RELAY_EVENTS + told - 1 + 1); /* one was left out; done was not */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_that_sleeps_holds_up_nobody),
        cmocka_unit_test(a_failure_is_told),
        cmocka_unit_test(too_many_are_left_out),
    };
    return cmocka_run_group_tests_name("report/relay", tests, NULL, NULL);
}
