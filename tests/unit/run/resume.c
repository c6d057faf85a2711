/* What a resumed run compares: events with what is there, and settings with those that it was given. */
#include "run/resume.h"
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

/* "done saved path" of a run that has told these lines. */
static void told(const char *lines, const char *unit, const char *expected) {
    char path[128], text[256];
    struct culm_told told;
    struct culm_error error = {0};
    snprintf(path, sizeof path, "%s/events.jsonl", dir);
    assert_int_equal(culm_file_replace(NULL, path, lines, strlen(lines), NULL), CULM_OK);
    if (culm_told_read(dir, unit, &told, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    snprintf(text, sizeof text, "%lld %lld %.100s", (long long)told.done, (long long)told.saved,
             told.path);
    assert_string_equal(text, expected);
}

#define STEP(n) "{\"event\":\"step\",\"step\":" #n "}\n"
#define SAVED(n) "{\"event\":\"checkpoint\",\"step\":" #n ",\"path\":\"c/" #n "\",\"ok\":true}\n"

static void events_tell(void **state) {
    (void)state;
    told("", "step", "0 0 ");
    told(STEP(1) STEP(2), "step", "2 0 ");
    told(STEP(1) STEP(2) SAVED(2) STEP(3), "step", "3 2 c/2");
    told(STEP(2) SAVED(2)
             STEP(4) "{\"event\":\"checkpoint\",\"step\":4,\"path\":\"\",\"ok\":false}\n",
         "step", "4 2 c/2");
    /* what was undone does not count, whoever undid it */
    told(STEP(4) SAVED(4) "{\"event\":\"rollback\",\"from_step\":4,\"to_step\":2}\n", "step",
         "2 2 ");
    told(STEP(4) SAVED(4) "{\"event\":\"rollback\",\"from_step\":4,\"to_step\":0}\n", "step",
         "0 0 ");
    told(STEP(9) SAVED(4) SAVED(8) "{\"event\":\"resumed\",\"step\":4,\"path\":\"c/4\"}\n", "step",
         "4 4 c/4");
    told(STEP(9) SAVED(8) "{\"event\":\"resumed\",\"step\":8,\"path\":\"d/8\"}\n" STEP(9), "step",
         "9 8 c/8");
    told(STEP(9) SAVED(8) "{\"event\":\"resumed\",\"step\":0,\"path\":\"\"}\n" STEP(1), "step",
         "1 0 ");
    /* other jobs, and a line that was torn */
    told("{\"event\":\"epoch\",\"epoch\":3}\n"
         "{\"event\":\"checkpoint\",\"epoch\":3,\"path\":\"e\",\"ok\":true}\n{\"event\":\"epo",
         "epoch", "3 3 e");
    told("{\"event\":\"try\",\"round\":1}\n{\"event\":\"merged\",\"round\":2}\n", "round", "0 2 ");
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
        assert_int_equal(culm_lineage_go_on(&lineage, 20, old, new, NULL), CULM_OK);
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
    settings("", "threads=2", "", "");                       /* others are not its business */
    settings("", "seed=2", "", "");                          /* nor are those that may not change */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(events_tell, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(events_that_cannot_be_read, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(damaged_events, make_dir, drop_dir),
        cmocka_unit_test(settings_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
