/* Which settings a step is done with, where a run was given others on the way; and whether that has
 * changed anything. */
#include "train/spans.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BASE                                                                                       \
    "data: {path: a}\nmodel: {layers: 1}\npipelines: 1\nstages: 1\nsteps: 30\nseed: 1\n"           \
    "schedule: {name: cosine, warmup: 10, min_lr: 0.0001}\n"

struct run {
    struct culm_lineage lineage;
    struct culm_train_spans spans;
    struct culm_train_config config;
};

static struct culm_train_config parse(const char *set) {
    struct culm_train_config config;
    struct culm_error error = {0};
    if (culm_train_config_parse(BASE, strlen(BASE), "base", &set, set ? 1 : 0, &config, &error)) {
        fail_msg("%s", error.text);
    }
    return config;
}

/* The lineage's configurations become this one. */
static enum culm_status become(void *ctx, const char *config, char **ret_config,
                               struct culm_error *error) {
    (void)config;
    (void)error;
    *ret_config = strdup(ctx);
    return CULM_OK;
}

/* A run that was begun with `was` and has gone on with `now` after that step. */
static void begin(struct run *run, const char *was, const char *now, int64_t after) {
    struct culm_train_config before = parse(was);
    *run = (struct run){.config = parse(now)};
    char *old = culm_train_config_dump(&before), *new = culm_train_config_dump(&run->config);
    const struct culm_lineage_change change = {become, new};
    assert_int_equal(culm_lineage_go_on(&run->lineage, after, old, &change, NULL), CULM_OK);
    assert_int_equal(culm_train_spans_read(&run->lineage, &run->spans, NULL), CULM_OK);
    run->config.spans = &run->spans;
    free(old);
    free(new);
    culm_train_config_release(&before);
}

static void end(struct run *run) {
    culm_train_config_release(&run->config);
    culm_train_spans_release(&run->spans);
    culm_lineage_release(&run->lineage);
}

static double rate(const struct culm_train_config *config, int64_t step) {
    const struct culm_train_span span = culm_train_span_of(config, step);
    return culm_train_span_lr(&span, step);
}

static void steps_keep_their_rates(void **state) {
    (void)state;
    struct run run;
    struct culm_train_config was = parse("optimizer.lr=0.25"), now = parse("optimizer.lr=0.5");
    begin(&run, "optimizer.lr=0.25", "optimizer.lr=0.5", 20);
    for (int64_t step = 1; step <= 30; step++) {
        assert_true(rate(&run.config, step) == rate(step <= 20 ? &was : &now, step));
    }
    assert_true(culm_train_span_of(&run.config, 20).optimizer.lr == 0.25);
    assert_true(culm_train_span_of(&run.config, 21).optimizer.lr == 0.5);
    end(&run);
    culm_train_config_release(&was);
    culm_train_config_release(&now);
}

static void more_steps_change_later_rates_alone(void **state) {
    (void)state;
    struct run run;
    struct culm_train_config was = parse("steps=30"), now = parse("steps=60");
    begin(&run, "steps=30", "steps=60", 30);
    assert_true(rate(&run.config, 30) == rate(&was, 30));
    assert_true(rate(&was, 30) == 0.0001);
    assert_true(rate(&run.config, 31) == rate(&now, 31));
    assert_true(rate(&run.config, 60) == 0.0001);
    end(&run);
    culm_train_config_release(&was);
    culm_train_config_release(&now);
}

static void what_is_exact(void **state) {
    (void)state;
    static const struct {
        const char *was, *now;
        int64_t after;
        const char *why; /* NULL: exact */
    } cases[] = {
        {"steps=30", "steps=60", 30, "steps"},
        {"steps=30", "steps=60", 10, NULL}, /* within the warm-up, which does not look at them */
        {"steps=30", "steps=60", 11, "steps"},
        {"schedule={name: constant}", "schedule={name: constant}", 30, NULL},
        {"optimizer.lr=0.1", "optimizer.lr=0.2", 20, "optimizer"},
        {"optimizer.clip_norm=1", "optimizer.clip_norm=2", 20, "optimizer"},
        {"schedule.min_lr=0.1", "schedule.min_lr=0.2", 20, "schedule"},
        {"threads=1", "threads=2", 20, NULL},
        {"optimizer.lr=0.1", "optimizer.lr=0.2", 30, NULL}, /* no step is done with the second */
        {"optimizer.lr=0.1", "optimizer={lr: 0.2}", 29, "optimizer"},
        {"steps=40", "steps=30", 30, "steps"},             /* nor with that, but with the first */
        {"optimizer.lr=0.1", "optimizer.lr=0.2", 0, NULL}, /* nothing was done with the first */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run run;
        const char *why = NULL;
        begin(&run, cases[i].was, cases[i].now, cases[i].after);
        bool exact = culm_train_spans_exact(&run.config, &why);
        if (exact != (cases[i].why == NULL) || (why && strcmp(why, cases[i].why))) {
            fail_msg("%s to %s after %lld: %s", cases[i].was, cases[i].now,
                     (long long)cases[i].after, why ? why : "exact");
        }
        end(&run);
    }
}

/* Where rates do not depend on how many steps there are, more of them change nothing. */
static void constant_rates(void **state) {
    (void)state;
    static const char *const schedules[] = {"{name: constant}", "{name: step, every: 5}",
                                            "{name: linear}"};
    for (size_t i = 0; i < 3; i++) {
        struct run run;
        const char *why = NULL;
        char set[64];
        snprintf(set, sizeof set, "schedule=%s", schedules[i]);
        struct culm_train_config other = parse(set);
        begin(&run, "steps=30", "steps=60", 30);
        run.config.schedule = other.schedule;
        run.spans.span[0].schedule = run.spans.span[1].schedule = other.schedule;
        assert_int_equal(culm_train_spans_exact(&run.config, &why), i < 2);
        culm_train_config_release(&other);
        end(&run);
    }
}

static void without_a_change(void **state) {
    (void)state;
    struct culm_train_config config = parse(NULL);
    const char *why;
    assert_true(culm_train_spans_exact(&config, &why));
    assert_true(culm_train_span_of(&config, 7).steps == 30);
    culm_train_config_release(&config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_keep_their_rates),
        cmocka_unit_test(more_steps_change_later_rates_alone),
        cmocka_unit_test(what_is_exact),
        cmocka_unit_test(constant_rates),
        cmocka_unit_test(without_a_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
