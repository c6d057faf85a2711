/* What a resumed run compares: events with what is there, and settings with those that it was given. */
#include "launch/resume.h"
#include "train/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* --- events --- */

static char dir[64];

static int make_dir(void **state) {
    (void)state;
    strcpy(dir, "/tmp/culm-resume-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int drop_dir(void **state) {
    (void)state;
    return culm_tree_remove(NULL, dir, NULL);
}

/* "done saved" of a run that has told these lines. */
static void told(const char *lines, const char *unit, const char *expected) {
    char path[128], text[256];
    struct culm_told told;
    struct culm_error error = {0};
    snprintf(path, sizeof path, "%s/events.jsonl", dir);
    assert_int_equal(culm_file_replace(NULL, path, lines, strlen(lines), NULL), CULM_OK);
    if (culm_told_read(dir, unit, &told, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    snprintf(text, sizeof text, "%lld %lld", (long long)told.done, (long long)told.saved);
    assert_string_equal(text, expected);
}

#define STEP(n) "{\"event\":\"step\",\"step\":" #n "}\n"
#define SAVED(n) "{\"event\":\"checkpoint\",\"step\":" #n ",\"path\":\"c/" #n "\",\"ok\":true}\n"

static void events_tell(void **state) {
    (void)state;
    told("", "step", "0 0");
    told(STEP(1) STEP(2), "step", "2 0");
    told(STEP(1) STEP(2) SAVED(2) STEP(3), "step", "3 2");
    told(STEP(2) SAVED(2)
             STEP(4) "{\"event\":\"checkpoint\",\"step\":4,\"path\":\"\",\"ok\":false}\n",
         "step", "4 2");
    /* what was undone does not count, whoever undid it */
    told(STEP(4) SAVED(4) "{\"event\":\"rollback\",\"from_step\":4,\"to_step\":2}\n", "step",
         "2 2");
    told(STEP(4) SAVED(4) "{\"event\":\"rollback\",\"from_step\":4,\"to_step\":0}\n", "step",
         "0 0");
    told(STEP(9) SAVED(4) SAVED(8) "{\"event\":\"resumed\",\"step\":4,\"path\":\"c/4\"}\n", "step",
         "4 4");
    told(STEP(9) SAVED(8) "{\"event\":\"resumed\",\"step\":8,\"path\":\"d/8\"}\n" STEP(9), "step",
         "9 8");
    told(STEP(9) SAVED(8) "{\"event\":\"resumed\",\"step\":0,\"path\":\"\"}\n" STEP(1), "step",
         "1 0");
    /* other jobs, and a line that was torn */
    told("{\"event\":\"epoch\",\"epoch\":3}\n"
         "{\"event\":\"checkpoint\",\"epoch\":3,\"path\":\"e\",\"ok\":true}\n{\"event\":\"epo",
         "epoch", "3 3");
    told("{\"event\":\"try\",\"round\":1}\n{\"event\":\"merged\",\"round\":2}\n", "round", "0 2");
}

static void events_that_cannot_be_read(void **state) {
    (void)state;
    char path[128];
    struct culm_told told = {.done = 7};
    snprintf(path, sizeof path, "%s/events.jsonl", dir);
    (void)unlink(path);
    assert_int_equal(culm_told_read(dir, "step", &told, NULL), CULM_ERR_NOT_FOUND);
    assert_int_equal(told.done, 7);
}

/* Damaged lines are passed over, and said; of a run that was begun anew behind them they say nothing. */
static void damaged_events(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t saved;
        size_t bad;
        bool anew;
    } cases[] = {
        {STEP(1) SAVED(1), 1, 0, false},
        {STEP(1) "\1\1\1\n" SAVED(1), 1, 2, false},
        {STEP(1) SAVED(1) "{\n{}\n" STEP(2), 1, 3, false},
        {SAVED(1) "\1\n" STEP(2) "{\"event\":\"resumed\",\"step\":1}\n", 1, 2, false},
        {SAVED(1) "\1\n" STEP(2) "{\"event\":\"resumed\",\"step\":0}\n" STEP(1), 0, 0, true},
        {SAVED(1) "{\"event\":\"resumed\",\"step\":0}\n\1\n" STEP(1), 0, 3, true},
        {SAVED(1) "{\"event\":\"resumed\",\"step\":0}\n" STEP(1) SAVED(1), 1, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[128];
        struct culm_told told;
        snprintf(path, sizeof path, "%s/events.jsonl", dir);
        assert_int_equal(culm_file_replace(NULL, path, cases[i].text, strlen(cases[i].text), NULL),
                         CULM_OK);
        assert_int_equal(culm_told_read(dir, "step", &told, NULL), CULM_OK);
        if (told.saved != cases[i].saved || told.bad != cases[i].bad ||
            told.anew != cases[i].anew) {
            fail_msg("case %zu: %lld, %zu, %d", i, (long long)told.saved, told.bad, told.anew);
        }
    }
}

/* --- settings --- */

#define BASE                                                                                       \
    "data: {path: a}\nmodel: {layers: 1}\npipelines: 1\nstages: 1\nsteps: 30\nseed: 1\n"           \
    "optimizer: {lr: 0.25}\n"

static struct culm_train_config parse(const char *const *sets, size_t count) {
    struct culm_train_config config;
    struct culm_error error = {0};
    if (culm_train_config_parse(BASE, strlen(BASE), "base", sets, count, &config, &error)) {
        fail_msg("%s", error.text);
    }
    return config;
}

#define LONG                                                                                       \
    "/a/path/that/is/longer/than/what/a/message/says/of/a/value/which/is/eighty/characters/long/"  \
    "and/goes/on"

/* The lineage's configurations become this one. */
static enum culm_status become(void *ctx, const char *config, char **ret_config,
                               struct culm_error *error) {
    (void)config;
    (void)error;
    *ret_config = strdup(ctx);
    return CULM_OK;
}

/* The run was begun with BASE, and with `given` went on after step 20 ("": it did not). The
 * configuration is BASE with `edited`, `set` is set. What is kept, or the refusal. */
static void settings(const char *given, const char *edited, const char *set, const char *expected) {
    const char *both[2];
    size_t count = 0;
    struct culm_lineage lineage = {0};
    struct culm_resume_sets kept = {0};
    struct culm_error error = {0};
    char list[256] = "";
    if (*edited) {
        both[count++] = edited;
    }
    if (*set) {
        both[count++] = set;
    }
    struct culm_train_config before = parse(NULL, 0), now = parse(both, count);
    if (*given) {
        struct culm_train_config then = parse(&given, 1);
        char *old = culm_train_config_dump(&before), *new = culm_train_config_dump(&then);
        const struct culm_lineage_change change = {become, new};
        assert_int_equal(culm_lineage_go_on(&lineage, 20, old, &change, NULL), CULM_OK);
        free(old);
        free(new);
        culm_train_config_release(&then);
    }
    if (culm_resume_settings(&culm_train_config_table, &lineage, &before, &now, &set, *set ? 1 : 0,
                             "steps", &kept, &error) == CULM_OK) {
        culm_resume_sets_list(&kept, list, sizeof list);
        assert_string_equal(list, expected);
    } else {
        assert_string_equal(error.text, expected);
    }
    culm_resume_sets_release(&kept);
    culm_lineage_release(&lineage);
    culm_train_config_release(&before);
    culm_train_config_release(&now);
}

static void settings_go_on(void **state) {
    (void)state;
    settings("", "", "", "");
    settings("", "", "optimizer.lr=0.5", "");
    settings("optimizer.lr=0.5", "", "", "optimizer.lr=0.5"); /* a plain resume knows it */
    settings("optimizer.lr=0.5", "optimizer.lr=0.5", "", "");
    settings("optimizer.lr=0.5", "", "optimizer.lr=0.25", ""); /* back to it, knowingly */
    settings("optimizer.lr=0.5", "", "steps=60", "optimizer.lr=0.5");
    settings("steps=60", "", "", "steps=60");
    settings("", "threads=2", "", ""); /* others are not its business */
    /* what names inputs, whole */
    settings("data.skip=list", "", "", "data.skip=list");
    settings("data.skip=list", "", "data.skip=[]", "");
    settings("data.path=[" LONG ", 'b, c']", "", "", "data.path=[" LONG ", \"b, c\"]");
    settings("", "data.path=b", "", ""); /* others are for culm_resume_compare */
    settings("", "seed=2", "", "");      /* nor are those that may not change */
    settings("", "", "optimizer={lr: 0.5, beta1: 0.5}", ""); /* a section is set with all in it */
    settings("", "optimizer.lr=0.5", "",
             "optimizer.lr: the run has 0.25, this configuration 0.5; give --set optimizer.lr=0.5 "
             "to go on with that, or put it back");
    settings("optimizer.lr=0.5", "optimizer.lr=0.75", "",
             "optimizer.lr: the run has 0.5, this configuration 0.75; give --set optimizer.lr=0.75 "
             "to go on with that, or put it back");
    settings("", "steps=10", "",
             "steps: the run has 30, this configuration 10; put it back, or give --set steps=N, "
             "which may be more, and no less than are done");
}

/* The run was begun with BASE and has gone on with `given` after step 20 ("": it did not): whether it may
 * go on with BASE and `set`. */
static enum culm_status compared(const char *given, const char *set, bool accept_inputs) {
    struct culm_lineage lineage = {0};
    struct culm_train_config before = parse(NULL, 0), now = parse(&set, *set ? 1 : 0);
    if (*given) {
        struct culm_train_config then = parse(&given, 1);
        char *old = culm_train_config_dump(&before), *new = culm_train_config_dump(&then);
        const struct culm_lineage_change change = {become, new};
        assert_int_equal(culm_lineage_go_on(&lineage, 20, old, &change, NULL), CULM_OK);
        free(old);
        free(new);
        culm_train_config_release(&then);
    }
    enum culm_status status =
        culm_resume_compare(&culm_train_config_table, &lineage, &before, &now, accept_inputs, NULL);
    culm_lineage_release(&lineage);
    culm_train_config_release(&before);
    culm_train_config_release(&now);
    return status;
}

static void inputs_are_those_of_last(void **state) {
    (void)state;
    assert_int_equal(compared("", "", false), CULM_OK);
    assert_int_equal(compared("", "optimizer.lr=0.5", false), CULM_OK);
    assert_int_equal(compared("", "seed=2", true), CULM_ERR_CONFIG);
    assert_int_equal(compared("", "data.skip=list", false), CULM_ERR_CONFIG);
    assert_int_equal(compared("", "data.skip=list", true), CULM_OK);
    assert_int_equal(compared("data.skip=list", "data.skip=list", false), CULM_OK);
    assert_int_equal(compared("data.skip=list", "", false), CULM_ERR_CONFIG);
    assert_int_equal(compared("data.skip=list", "", true), CULM_OK);
}

/* After step 5 of a run that has gone on with another rate after step 10: what is set anew holds from
 * there, and the rate of each step stays. */
static void from_an_earlier_step(void **state) {
    (void)state;
    const char *rate = "optimizer.lr=0.5";
    const char *both[] = {rate, "steps=60"};
    struct culm_train_config before = parse(NULL, 0), then = parse(&rate, 1), now = parse(both, 2);
    char *old = culm_train_config_dump(&before), *new = culm_train_config_dump(&then),
         *text = culm_train_config_dump(&now);
    struct culm_resume resume = {.step = 5};
    const struct culm_lineage_change change = {become, new};
    assert_int_equal(culm_lineage_go_on(&resume.lineage, 10, old, &change, NULL), CULM_OK);
    assert_int_equal(culm_resume_go_on(&culm_train_config_table, &resume, old, text, NULL),
                     CULM_OK);
    static const struct {
        int64_t after, steps;
        double lr;
    } expected[] = {{0, 30, 0.25}, {5, 60, 0.25}, {10, 60, 0.5}};
    assert_int_equal(resume.lineage.part_count, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct culm_lineage_part *part = &resume.lineage.part[i];
        struct culm_train_config config;
        assert_int_equal(culm_train_config_parse(part->config, strlen(part->config), "part", NULL,
                                                 0, &config, NULL),
                         CULM_OK);
        assert_int_equal(part->after, expected[i].after);
        assert_int_equal(config.steps, expected[i].steps);
        assert_true(config.optimizer.lr == expected[i].lr);
        culm_train_config_release(&config);
    }
    assert_int_equal(json_array_size(resume.settings), 1); /* what is new */
    culm_resume_release(&resume);
    free(old);
    free(new);
    free(text);
    culm_train_config_release(&before);
    culm_train_config_release(&then);
    culm_train_config_release(&now);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(events_tell, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(events_that_cannot_be_read, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(damaged_events, make_dir, drop_dir),
        cmocka_unit_test(settings_go_on),
        cmocka_unit_test(inputs_are_those_of_last),
        cmocka_unit_test(from_an_earlier_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
