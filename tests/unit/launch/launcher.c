/*
 * The launcher with a job that is not training (counter.h), on processes: it ends with the same sum
 * whoever of it dies, in whichever role and at whichever message. The program runs itself as a server
 * or an asker.
 */
#include "counter.h"

#include "../folder.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char program[4096];
static int runs;

static void set_up(struct counter *counter) {
    snprintf(counter->dir, sizeof counter->dir, "%s/%d", folder, ++runs);
    counter->program = program;
}

/* The events of a run, as "event role, event, ...". */
struct record {
    char text[4096];
    size_t events;
    int64_t faults_fired;
    json_t *start;
};

static enum culm_status note(void *context, const json_t *event, struct culm_error *error) {
    struct record *record = context;
    const char *name = culm_event_text(event, "event", "?");
    size_t len = strlen(record->text);
    (void)error;
    snprintf(record->text + len, sizeof record->text - len, " %s %s;", name,
             culm_event_text(event, "role", culm_event_text(event, "phase", "")));
    assert_true(json_is_number(json_object_get(event, "t_ms")));
    assert_true(json_is_integer(json_object_get(event, "view")));
    record->events++;
    if (!strcmp(name, "start")) {
        json_decref(record->start); /* a resumed run has several */
        record->start = json_deep_copy(event);
    } else if (!strcmp(name, "done")) {
        record->faults_fired = culm_event_int(event, "faults_fired", -1);
    }
    return CULM_OK;
}

static void read_events(const struct counter *counter, struct record *ret_record) {
    char path[128];
    *ret_record = (struct record){.faults_fired = -1};
    snprintf(path, sizeof path, "%s/events.jsonl", counter->dir);
    assert_int_equal(culm_events_read(path, note, ret_record, NULL), CULM_OK);
}

static int times(const char *text, const char *what) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, what)); at++) {
        count++;
    }
    return count;
}

static int count_fired(const struct counter *counter) {
    int fired = 0;
    for (size_t i = 0; i < counter->fault_count && counter->result.fired; i++) {
        fired += counter->result.fired[i];
    }
    return fired;
}

/* It has finished with the sum that it must have, and `lost` processes of the role were lost. */
static void finished(struct counter *counter, const char *lost, int fired) {
    struct record record;
    char text[256], path[128];
    assert_int_equal(counter->status, CULM_OK);
    if (counter->code) {
        fail_msg("ended with %d: %s", counter->code, counter->error.text);
    }
    assert_true(counter->result.summary.done);
    assert_true(
        counter->result.summary.job->lines[0].value(&counter->result.summary, text, sizeof text));
    assert_string_equal(text, "2520 of 3 askers");
    assert_int_equal(COUNTER_SUM, 2520);
    read_events(counter, &record);
    assert_non_null(record.start);
    json_decref(record.start);
    assert_int_equal(record.faults_fired, fired);
    assert_int_equal(counter->result.summary.faults, fired);
    assert_int_equal(count_fired(counter), fired);
    snprintf(text, sizeof text, " lost %s;", lost);
    assert_int_equal(times(record.text, text), counter->result.summary.losses);
    assert_int_equal(times(record.text, " joined server;"),
                     COUNTER_SERVERS +
                         (strcmp(lost, "server") ? 0 : counter->result.summary.losses));
    assert_string_equal(record.text + strlen(record.text) - 17, " closing ; done ;");
    snprintf(path, sizeof path, "%s/logs/node-0.log", counter->dir);
    assert_int_equal(access(path, F_OK), 0);
    culm_launcher_result_release(&counter->result);
}

static void a_run_begins_and_ends(void **state) {
    (void)state;
    struct counter counter = {0};
    struct record record;
    set_up(&counter);
    counter_run(&counter);
    read_events(&counter, &record);
    char *start = json_dumps(record.start, JSON_COMPACT | JSON_PRESERVE_ORDER);
    const char *run = json_string_value(json_object_get(record.start, "run"));
    assert_int_equal(strlen(run), 16);
    char expected[256];
    snprintf(expected, sizeof expected,
             "{\"event\":\"start\",\"t_ms\":0.0,\"view\":0,\"run\":\"%s\",\"config_sha256\":"
             "\"0123\",\"signature\":\"counter-1\",\"job\":\"counter\",\"askers\":3}",
             run);
    assert_string_equal(start, expected);
    free(start);
    json_decref(record.start);
    assert_memory_equal(record.text, " start ; warning ; joined", 25);
    assert_int_equal(counter.warned, 1);
    finished(&counter, "nobody", 0);
}

/* Each dies, or stands still for a while, where it was told to. */
static void whoever_dies_is_replaced_in_its_role(void **state) {
    (void)state;
    static const struct {
        const char *fault, *lost;
        int losses;
    } cases[] = {
        {"node=server:0,step=1", "server", 1},
        {"node=server:1,step=30,phase=send", "server", 1},
        {"node=server:1,step=7,how=exit", "server", 1},
        {"node=asker:0,step=1,phase=hear", "asker", 1},
        {"node=asker:2,step=20,phase=hear", "asker", 1},
        {"node=asker:1,step=3,phase=hear,how=stop,for_ms=30", "asker", 0},
        {"node=server:0,step=9,how=stop,for_ms=30", "server", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct counter counter = {.faults = {cases[i].fault}, .fault_count = 1};
        set_up(&counter);
        counter_run(&counter);
        if (counter.code || !count_fired(&counter) ||
            counter.result.summary.losses != cases[i].losses) {
            struct record record;
            read_events(&counter, &record);
            fail_msg("%s: exit %d: %s:%s", cases[i].fault, counter.code, counter.error.text,
                     record.text);
        }
        finished(&counter, cases[i].lost, 1);
    }
}

/* The first is server 0; the one in its place is server 2, since 1 was there from the start. */
static void a_replacement_has_an_index_of_its_own(void **state) {
    (void)state;
    struct counter counter = {.faults = {"node=server:0,step=3", "node=server:2,step=3"},
                              .fault_count = 2};
    set_up(&counter);
    counter_run(&counter);
    assert_int_equal(counter.result.summary.losses, 2);
    finished(&counter, "server", 2);
}

/* Askers come as the trace says, the fourth in the place of the second; servers as before. */
static void a_trace_is_of_one_role(void **state) {
    (void)state;
    static const char text[] = "0,add,a\n0,add,b\n0,add,c\n0,add,d\n";
    char path[64];
    snprintf(path, sizeof path, "%s/trace.csv", folder);
    assert_int_equal(culm_file_replace(NULL, path, text, strlen(text), NULL), CULM_OK);
    struct counter counter = {
        .trace_path = path, .faults = {"node=asker:1,step=5,phase=hear"}, .fault_count = 1};
    set_up(&counter);
    counter_run(&counter);
    assert_int_equal(counter.result.summary.losses, 1);
    finished(&counter, "asker", 1);
}

static void newcomers_may_come_in_their_role(void **state) {
    (void)state;
    struct counter counter = {.newcomers = true};
    char path[96];
    set_up(&counter);
    counter_run(&counter);
    assert_int_equal(counter.admitted, 1);
    assert_int_equal(counter.refused, 1);
    finished(&counter, "nobody", 0);
    snprintf(path, sizeof path, "%s/token", counter.dir);
    assert_int_equal(access(path, F_OK), -1); /* it opens nothing any more */
}

static void places_are_read(void **state) {
    (void)state;
    static const char *const wrong[] = {"",         "server",    "server:",          "server:x",
                                        "serve:0",  ":0",        "server:0x",        "asker:-1",
                                        "asker: 1", "server0:1", "asker:99999999999"};
    int64_t value = 77;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(culm_launcher_read_place(counter_roles, COUNTER_ASKER + 1, wrong[i], &value));
    }
    assert_int_equal(value, 77);
    assert_true(culm_launcher_read_place(counter_roles, COUNTER_ASKER + 1, "asker:12", &value));
    assert_int_equal(value, (int64_t)COUNTER_ASKER << 32 | 12);
}

static void each_role_is_told_its_own(void **state) {
    (void)state;
    struct counter counter = {.unwanted = true};
    set_up(&counter);
    counter_run(&counter);
    assert_int_equal(counter.status, CULM_OK);
    assert_int_equal(counter.code, 1);
    assert_non_null(strstr(counter.error.text, "started as 'asker', and told 'server'"));
    assert_false(counter.result.summary.done);
    culm_launcher_result_release(&counter.result);
}

static void a_run_that_is_there_is_refused_or_continued(void **state) {
    (void)state;
    struct counter counter = {.stop = true};
    struct record record;
    set_up(&counter);
    counter_run(&counter); /* asked to stop before it began */
    assert_int_equal(counter.code, 75);
    assert_false(counter.result.summary.done);
    culm_launcher_result_release(&counter.result);

    struct counter again = {0};
    set_up(&again);
    strcpy(again.dir, counter.dir);
    counter_run(&again);
    assert_int_equal(again.status, CULM_ERR_EXISTS);
    culm_launcher_result_release(&again.result);

    again.resume = true;
    counter_run(&again);
    read_events(&again, &record);
    json_decref(record.start);
    assert_int_equal(times(record.text, " start ;"), 2);
    assert_int_equal(again.status, CULM_OK);
    assert_int_equal(again.code, 0);
    assert_true(again.result.summary.done);
    culm_launcher_result_release(&again.result);
}

static void a_trace_that_cannot_be_read_leaves_nothing_behind(void **state) {
    (void)state;
    struct counter counter = {.trace_path = "/nonexistent/trace.csv"};
    set_up(&counter);
    counter_run(&counter);
    assert_int_equal(counter.status, CULM_ERR_NOT_FOUND);
    assert_int_equal(access(counter.dir, F_OK), -1);
    culm_launcher_result_release(&counter.result);
}

int main(int argc, char **argv) {
    int code = counter_main(argc, argv);
    if (code >= 0) {
        return code;
    }
    ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);
    if (len < 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_begins_and_ends),
        cmocka_unit_test(whoever_dies_is_replaced_in_its_role),
        cmocka_unit_test(a_replacement_has_an_index_of_its_own),
        cmocka_unit_test(a_trace_is_of_one_role),
        cmocka_unit_test(newcomers_may_come_in_their_role),
        cmocka_unit_test(places_are_read),
        cmocka_unit_test(each_role_is_told_its_own),
        cmocka_unit_test(a_run_that_is_there_is_refused_or_continued),
        cmocka_unit_test(a_trace_that_cannot_be_read_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("launch/launcher", tests, make_folder, drop_folder);
}
