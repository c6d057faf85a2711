/* What a run has gone on with: kept as JSON, and forgotten where it goes on from an earlier step. */
#include "store/lineage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* "0:a 20:b | 5:inputs" */
static void is(const struct culm_lineage *lineage, const char *expected) {
    char text[256] = "";
    size_t len = 0;
    for (size_t i = 0; i < lineage->part_count; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%lld:%s", i ? " " : "",
                                (long long)lineage->part[i].after, lineage->part[i].config);
    }
    for (size_t i = 0; i < lineage->note_count; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%lld:%s", i ? " " : " | ",
                                (long long)lineage->note[i].after, lineage->note[i].why);
    }
    assert_string_equal(text, expected);
}

/* Sets one letter of a configuration, which is "xy". */
struct letter {
    int at;
    char to;
};

static enum culm_status set(void *ctx, const char *config, char **ret_config,
                            struct culm_error *error) {
    const struct letter *letter = ctx;
    (void)error;
    *ret_config = strdup(config);
    assert_non_null(*ret_config);
    (*ret_config)[letter->at] = letter->to;
    return CULM_OK;
}

static void go_on(struct culm_lineage *lineage, int64_t after, int at, char to) {
    struct letter letter = {at, to};
    const struct culm_lineage_change change = {set, &letter};
    assert_int_equal(culm_lineage_go_on(lineage, after, "aa", &change, NULL), CULM_OK);
}

static void goes_on(void **state) {
    (void)state;
    struct culm_lineage lineage = {0};
    go_on(&lineage, 20, 0, 'b');
    is(&lineage, "0:aa 20:ba");
    go_on(&lineage, 30, 0, 'c');
    is(&lineage, "0:aa 20:ba 30:ca");
    go_on(&lineage, 30, 0, 'd');
    is(&lineage, "0:aa 20:ba 30:da");
    go_on(&lineage, 30, 0, 'b'); /* back to what it was */
    is(&lineage, "0:aa 20:ba");
    culm_lineage_release(&lineage);
}

/* From an earlier step, other settings of steps that are done again stay as they were. */
static void goes_on_from_before(void **state) {
    (void)state;
    struct culm_lineage lineage = {0};
    go_on(&lineage, 20, 0, 'b');
    go_on(&lineage, 10, 1, 'z');
    is(&lineage, "0:aa 10:az 20:bz");
    go_on(&lineage, 15, 1, 'y');
    is(&lineage, "0:aa 10:az 15:ay 20:by");
    go_on(&lineage, 0, 1, 'x'); /* all anew */
    is(&lineage, "0:ax 20:bx");
    go_on(&lineage, 0, 0, 'a');
    is(&lineage, "");
    culm_lineage_release(&lineage);
}

static void what_is_done(void **state) {
    (void)state;
    struct culm_lineage plan = {0}, done = {0};
    assert_true(culm_lineage_covers(&plan, &done, 30));
    go_on(&done, 20, 0, 'b');
    assert_false(culm_lineage_covers(&plan, &done, 30)); /* an older plan */
    assert_false(culm_lineage_covers(&plan, &done, 20));
    go_on(&plan, 20, 0, 'b');
    go_on(&plan, 30, 0, 'c'); /* it has gone on since */
    assert_true(culm_lineage_covers(&plan, &done, 30));
    assert_int_equal(culm_lineage_add_note(&done, 25, "inputs", NULL), CULM_OK);
    assert_false(culm_lineage_covers(&plan, &done, 30));
    assert_true(culm_lineage_covers(&plan, &done, 25)); /* nothing was done with that */
    culm_lineage_release(&plan);
    culm_lineage_release(&done);
}

static void notes(void **state) {
    (void)state;
    struct culm_lineage lineage = {0};
    assert_int_equal(culm_lineage_add_note(&lineage, 5, "inputs", NULL), CULM_OK);
    assert_int_equal(culm_lineage_add_note(&lineage, 5, "inputs", NULL), CULM_OK); /* once */
    assert_int_equal(culm_lineage_add_note(&lineage, 9, "build", NULL), CULM_OK);
    is(&lineage, " | 5:inputs 9:build");
    culm_lineage_back_to(&lineage, 9);
    is(&lineage, " | 5:inputs 9:build");
    culm_lineage_back_to(&lineage, 8); /* what came later is done again */
    is(&lineage, " | 5:inputs");
    assert_true(culm_lineage_noted(&lineage, 5, "inputs"));
    assert_false(culm_lineage_noted(&lineage, 5, "build"));
    culm_lineage_forget(&lineage, 4, "inputs");
    culm_lineage_forget(&lineage, 5, "build");
    is(&lineage, " | 5:inputs");
    culm_lineage_forget(&lineage, 5, "inputs");
    is(&lineage, "");
    culm_lineage_release(&lineage);
}

static void as_json(void **state) {
    (void)state;
    struct culm_lineage lineage = {0}, again = {0};
    json_t *json = NULL, *progress = NULL;
    assert_int_equal(culm_lineage_json(&lineage, &json, NULL), CULM_OK);
    assert_null(json); /* nothing: checkpoints stay as they were */
    assert_int_equal(culm_lineage_progress(&lineage, &progress, NULL), CULM_OK);
    assert_null(progress);
    go_on(&lineage, 20, 0, 'b');
    assert_int_equal(culm_lineage_add_note(&lineage, 20, "inputs", NULL), CULM_OK);
    assert_int_equal(culm_lineage_json(&lineage, &json, NULL), CULM_OK);
    assert_int_equal(culm_lineage_read(json, &again, NULL), CULM_OK);
    is(&again, "0:aa 20:ba | 20:inputs");
    progress = json_pack("{s:i}", "best", 1); /* beside what else there is */
    assert_int_equal(culm_lineage_progress(&lineage, &progress, NULL), CULM_OK);
    assert_int_equal(json_integer_value(json_object_get(progress, "best")), 1);
    assert_true(json_equal(json_object_get(progress, "lineage"), json));
    json_decref(progress);
    json_decref(json);
    culm_lineage_release(&lineage);
    culm_lineage_release(&again);
    assert_int_equal(culm_lineage_read(NULL, &again, NULL), CULM_OK);
    is(&again, "");
}

static void damaged(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{}",
        "{\"settings\": [], \"inexact\": 3}",
        "{\"settings\": [{\"after\": 0, \"config\": \"a\"}], \"inexact\": []}",
        "{\"settings\": [{\"after\": 1, \"config\": \"a\"}, {\"after\": 2, \"config\": \"b\"}], "
        "\"inexact\": []}",
        "{\"settings\": [{\"after\": 0, \"config\": \"a\"}, {\"after\": 0, \"config\": \"b\"}], "
        "\"inexact\": []}",
        "{\"settings\": [{\"after\": 0, \"config\": \"a\"}, {\"after\": 2}], \"inexact\": []}",
        "{\"settings\": [], \"inexact\": [{\"after\": -1, \"why\": \"inputs\"}]}",
        "{\"settings\": [], \"inexact\": [{\"after\": 1, \"why\": \"\"}]}",
        "{\"settings\": [], \"inexact\": [{\"after\": 1, \"why\": \"012345678901234567890123\"}]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct culm_lineage lineage = {0};
        json_t *json = json_loads(texts[i], 0, NULL);
        assert_non_null(json);
        if (culm_lineage_read(json, &lineage, NULL) != CULM_ERR_FORMAT) {
            fail_msg("accepted: %s", texts[i]);
        }
        is(&lineage, ""); /* untouched */
        json_decref(json);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on),      cmocka_unit_test(goes_on_from_before),
        cmocka_unit_test(what_is_done), cmocka_unit_test(notes),
        cmocka_unit_test(as_json),      cmocka_unit_test(damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
