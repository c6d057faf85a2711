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

static void goes_on(void **state) {
    (void)state;
    struct culm_lineage lineage = {0};
    assert_int_equal(culm_lineage_go_on(&lineage, 20, "a", "b", NULL), CULM_OK);
    is(&lineage, "0:a 20:b");
    assert_int_equal(culm_lineage_go_on(&lineage, 30, "b", "c", NULL), CULM_OK);
    is(&lineage, "0:a 20:b 30:c");
    assert_int_equal(culm_lineage_go_on(&lineage, 30, "c", "d", NULL), CULM_OK);
    is(&lineage, "0:a 20:b 30:d");
    assert_int_equal(culm_lineage_go_on(&lineage, 10, "d", "e", NULL), CULM_OK);
    is(&lineage, "0:a 10:e");
    assert_int_equal(culm_lineage_go_on(&lineage, 0, "e", "f", NULL), CULM_OK); /* all anew */
    is(&lineage, "");
    culm_lineage_release(&lineage);
}

static void notes(void **state) {
    (void)state;
    struct culm_lineage lineage = {0};
    assert_int_equal(culm_lineage_note(&lineage, 5, "inputs", NULL), CULM_OK);
    assert_int_equal(culm_lineage_note(&lineage, 5, "inputs", NULL), CULM_OK); /* once */
    assert_int_equal(culm_lineage_note(&lineage, 9, "build", NULL), CULM_OK);
    is(&lineage, " | 5:inputs 9:build");
    culm_lineage_back_to(&lineage, 9);
    is(&lineage, " | 5:inputs 9:build");
    culm_lineage_back_to(&lineage, 8); /* what came later is done again */
    is(&lineage, " | 5:inputs");
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
    assert_int_equal(culm_lineage_go_on(&lineage, 20, "a: 1\n", "a: 2\n", NULL), CULM_OK);
    assert_int_equal(culm_lineage_note(&lineage, 20, "inputs", NULL), CULM_OK);
    assert_int_equal(culm_lineage_json(&lineage, &json, NULL), CULM_OK);
    assert_int_equal(culm_lineage_read(json, &again, NULL), CULM_OK);
    is(&again, "0:a: 1\n 20:a: 2\n | 20:inputs");
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
        cmocka_unit_test(goes_on),
        cmocka_unit_test(notes),
        cmocka_unit_test(as_json),
        cmocka_unit_test(damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
