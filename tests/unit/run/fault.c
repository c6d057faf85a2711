/* --fault: what it means, and every way to get it wrong. */
#include "run/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct culm_fault_spec parse(const char *text) {
    struct culm_fault_spec spec;
    struct culm_error error = {0};
    if (culm_fault_parse(text, &spec, &error)) {
        fail_msg("%s", error.text);
    }
    return spec;
}

static void refused(const char *text, const char *message) {
    struct culm_fault_spec spec;
    struct culm_error error = {0};
    char expected[512];
    assert_int_equal(culm_fault_parse(text, &spec, &error), CULM_ERR_CONFIG);
    snprintf(expected, sizeof expected, "--fault '%s': %s", text, message);
    assert_string_equal(error.text, expected);
}

static void specs(void **state) {
    (void)state;
    struct culm_fault_spec spec = parse("worker=4,step=3");
    assert_int_equal(spec.worker, 4);
    assert_int_equal(spec.point.step, 3);
    assert_int_equal(spec.point.part, -1);
    assert_int_equal(spec.point.phase, CULM_PHASE_FORWARD);
    assert_int_equal(spec.how, CULM_HOW_KILL);
    assert_int_equal(spec.for_ms, 0);
    spec = parse("for_ms=250,how=stop,phase=backward,micro=7,step=1,worker=0");
    assert_int_equal(spec.point.part, 7);
    assert_int_equal(spec.point.phase, CULM_PHASE_BACKWARD);
    assert_int_equal(spec.how, CULM_HOW_STOP);
    assert_int_equal(spec.for_ms, 250);
    assert_int_equal(parse("worker=1,step=1,how=exit").how, CULM_HOW_EXIT);
}

static void every_phase_has_its_name(void **state) {
    (void)state;
    const char *const names[] = {"load",   "forward", "backward", "frc",      "send",
                                 "reduce", "commit",  "step",     "transfer", "checkpoint"};
    for (int i = 0; i < CULM_PHASE_COUNT; i++) {
        char text[64];
        snprintf(text, sizeof text, "worker=0,step=1,phase=%s", names[i]);
        assert_int_equal(parse(text).point.phase, i);
        assert_string_equal(culm_phase_name((size_t)i), names[i]);
    }
}

static void mistakes(void **state) {
    (void)state;
    const char *const fields = "worker=K,step=S[,micro=M][,phase=P][,how=H][,for_ms=N]";
    char text[256];
    snprintf(text, sizeof text, "'' is not name=value; allowed: %s", fields);
    refused("", text);
    refused("worker=1,step=1,", text);
    snprintf(text, sizeof text, "'worker' is not name=value; allowed: %s", fields);
    refused("worker", text);
    refused("worker=1", "step is missing; required: a step, from 1");
    refused("step=1", "worker is missing; required: a node id, from 0");
    refused("worker=1,step=1,node=2",
            "'node' is not known; allowed: worker, step, micro, phase, how, for_ms");
    refused("worker=1,worker=1,step=1", "worker is given twice");
    refused("worker=-1,step=1", "worker: '-1' is impossible; allowed: a node id, from 0");
    refused("worker=1,step=0", "step: '0' is impossible; allowed: a step, from 1");
    refused("worker=99999999999,step=1",
            "worker: '99999999999' is impossible; allowed: a node id, from 0");
    refused("worker=1,step=99999999999999999999999",
            "step: '99999999999999999999999' is impossible; allowed: a step, from 1");
    refused("worker=1,step=1,phase=lunch",
            "phase: 'lunch' is impossible; allowed: load, forward, backward, frc, send, reduce, "
            "commit, step, transfer, checkpoint");
    refused("worker=1,step=1,how=gently",
            "how: 'gently' is impossible; allowed: kill, stop, exit, stuck, flip");
    refused("worker=1,step=1,how=",
            "how: '' is impossible; allowed: kill, stop, exit, stuck, flip");
    refused("worker=1,step=1,how=flip,phase=load",
            "how=flip means nothing in phase load; allowed with forward, backward, frc, reduce, "
            "commit, step, checkpoint");
    refused("worker=1,step=1,for_ms=5", "for_ms means nothing here; allowed with how=stop");
    refused("worker=1,step=1,phase=commit,micro=1",
            "micro means nothing in phase commit; allowed with forward, backward, frc, send");
}

static void impossible_under_the_configuration(void **state) {
    (void)state;
    struct culm_train_config config = {
        .batch = {.global = 32, .micro = 4}, .pipelines = 2, .stages = 3, .steps = 5};
    const struct {
        const char *spec, *message;
        bool replaced;
        enum culm_redundancy redundancy;
    } cases[] = {
        {"worker=5,step=5,micro=7", NULL, false, CULM_REDUNDANCY_NONE},
        {"worker=6,step=5", NULL, true, CULM_REDUNDANCY_NONE},
        {"worker=6,step=5", "no worker 6, since none is replaced; allowed: 0 to 5", false,
         CULM_REDUNDANCY_NONE},
        {"worker=0,step=6", "step 6 never comes; the run has 5", true, CULM_REDUNDANCY_EAGER},
        {"worker=0,step=1,micro=8", "no micro-batch 8; allowed: 0 to 7", true,
         CULM_REDUNDANCY_EAGER},
        {"worker=0,step=1,phase=frc", NULL, true, CULM_REDUNDANCY_EAGER},
        {"worker=0,step=1,phase=frc",
         "there is no phase frc with redundancy lazy; allowed with eager", true,
         CULM_REDUNDANCY_LAZY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct culm_fault_spec spec = parse(cases[i].spec);
        struct culm_error error = {0};
        char expected[256];
        config.redundancy = cases[i].redundancy;
        enum culm_status status =
            culm_fault_check(&spec, cases[i].spec, &config, cases[i].replaced, &error);
        assert_int_equal(status, cases[i].message ? CULM_ERR_CONFIG : CULM_OK);
        snprintf(expected, sizeof expected, "--fault '%s': %s", cases[i].spec,
                 cases[i].message ? cases[i].message : "");
        assert_string_equal(error.text, cases[i].message ? expected : "");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(specs),
        cmocka_unit_test(every_phase_has_its_name),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(impossible_under_the_configuration),
    };
    return cmocka_run_group_tests_name("run/fault", tests, NULL, NULL);
}
