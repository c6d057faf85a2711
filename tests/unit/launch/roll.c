/* The roll of a run: who is on it after launchers that ended, were killed, or were cut off in the middle of a line. */
#include "launch/roll.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/culm-roll-XXXXXX";

static int make_dir(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
    (void)state;
    return culm_tree_remove(NULL, dir, NULL) == CULM_OK ? 0 : -1;
}

static struct culm_roll read_roll(void) {
    struct culm_roll roll;
    assert_int_equal(culm_roll_read(dir, &roll, NULL), CULM_OK);
    return roll;
}

static void came(struct culm_roll *roll, int32_t node, const char *address) {
    struct culm_host_node one = {.node = node, .role = 2, .name = "node"};
    snprintf(one.address, sizeof one.address, "%s", address);
    snprintf(one.place.zone, sizeof one.place.zone, "west");
    culm_roll_came(roll, &one);
}

static void append(const struct culm_roll *roll, const char *text) {
    FILE *file = fopen(roll->path, "ae");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* A launcher that is killed: nothing is said to anyone. */
static struct culm_roll killed(struct culm_roll *roll) {
    culm_roll_release(roll);
    return read_roll();
}

static void nobody_has_led(void **state) {
    (void)state;
    struct culm_roll roll = read_roll();
    assert_int_equal(roll.term, 0);
    assert_int_equal(roll.count, 0);
    assert_int_equal(roll.next_node, 0);
    culm_roll_release(&roll);
}

static void who_took_part_is_found(void **state) {
    (void)state;
    struct culm_roll roll = read_roll();
    assert_int_equal(culm_roll_begin(&roll, false, NULL), CULM_OK);
    assert_int_equal(roll.term, 1);
    came(&roll, 0, "tcp:10.0.0.1:7000");
    came(&roll, 1, "tcp:10.0.0.2:7000");
    came(&roll, 5, ""); /* of the launcher's own */
    came(&roll, 2, "tcp:10.0.0.3:7000");
    culm_roll_went(&roll, 1);
    roll = killed(&roll);
    assert_int_equal(roll.term, 1);
    assert_int_equal(roll.count, 2);
    assert_int_equal(roll.node[0].node, 0);
    assert_int_equal(roll.node[1].node, 2);
    assert_int_equal(roll.node[1].role, 2);
    assert_string_equal(roll.node[1].address, "tcp:10.0.0.3:7000");
    assert_string_equal(roll.node[1].name, "node");
    assert_string_equal(roll.node[1].place.zone, "west");
    assert_int_equal(roll.next_node, 6); /* no id is given twice */
    assert_int_equal(culm_roll_begin(&roll, true, NULL), CULM_OK);
    assert_int_equal(roll.term, 2);
    culm_roll_went(&roll, 0);
    roll = killed(&roll);
    assert_int_equal(roll.term, 2);
    assert_int_equal(roll.count, 1);
    assert_int_equal(roll.next_node, 6);
    assert_int_equal(culm_roll_begin(&roll, false, NULL), CULM_OK); /* without them */
    roll = killed(&roll);
    assert_int_equal(roll.term, 3);
    assert_int_equal(roll.count, 0);
    assert_int_equal(roll.next_node, 6);
    culm_roll_release(&roll);
}

static void what_is_no_line_is_passed_over(void **state) {
    (void)state;
    struct culm_roll roll = read_roll();
    assert_int_equal(culm_roll_begin(&roll, false, NULL), CULM_OK);
    const uint64_t term = roll.term;
    append(&roll, "{\"node\":-4,\"address\":\"tcp:10.0.0.9:1\"}\n[1]\n\n{\"gone\":77}\n");
    append(&roll, "{\"node\":99999999999,\"address\":\"x\"}\n{\"term\":-1}\n");
    came(&roll, 7, "tcp:10.0.0.7:7000");
    append(&roll, "{\"node\":8,\"addr"); /* torn */
    roll = killed(&roll);
    assert_int_equal(roll.term, term);
    assert_int_equal(roll.count, 1);
    assert_int_equal(roll.node[0].node, 7);
    culm_roll_release(&roll);
}

static void a_run_that_has_ended_leaves_none(void **state) {
    (void)state;
    struct culm_roll roll = read_roll();
    culm_roll_end(&roll); /* it was not kept: somebody else's stays */
    assert_true(culm_file_exists(roll.path));
    assert_int_equal(culm_roll_begin(&roll, true, NULL), CULM_OK);
    culm_roll_end(&roll);
    assert_false(culm_file_exists(roll.path));
    culm_roll_release(&roll);
    struct culm_roll zeroed = {0};
    culm_roll_release(&zeroed);
}

static void one_that_cannot_be_written(void **state) {
    (void)state;
    struct culm_roll roll;
    struct culm_error error;
    assert_int_equal(culm_roll_read("/nonexistent", &roll, &error), CULM_OK);
    assert_int_not_equal(culm_roll_begin(&roll, true, &error), CULM_OK);
    assert_non_null(strstr(error.text, "'/nonexistent/nodes.jsonl'"));
    culm_roll_release(&roll);
}

/* What cannot be written anew is still there: the term that nodes have promised, and who they are. */
static void one_that_cannot_be_written_anew(void **state) {
    (void)state;
    struct culm_roll roll = read_roll(), again;
    struct culm_error error;
    char fresh[CULM_PATH_MAX + 8];
    assert_int_equal(culm_roll_begin(&roll, false, &error), CULM_OK);
    came(&roll, 3, "unix:3");
    const uint64_t term = roll.term;
    roll = killed(&roll);
    snprintf(fresh, sizeof fresh, "%s.tmp", roll.path);
    assert_int_equal(mkdir(fresh, 0755), 0);
    assert_int_not_equal(culm_roll_begin(&roll, true, &error), CULM_OK);
    culm_roll_end(&roll); /* as a launcher that gives up */
    again = killed(&roll);
    assert_int_equal(again.term, term);
    assert_int_equal(again.count, 1);
    assert_int_equal(rmdir(fresh), 0);
    assert_int_equal(culm_roll_begin(&again, true, &error), CULM_OK);
    assert_int_not_equal(access(fresh, F_OK), 0);
    culm_roll_end(&again);
    culm_roll_release(&again);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_has_led),
        cmocka_unit_test(who_took_part_is_found),
        cmocka_unit_test(what_is_no_line_is_passed_over),
        cmocka_unit_test(a_run_that_has_ended_leaves_none),
        cmocka_unit_test(one_that_cannot_be_written),
        cmocka_unit_test(one_that_cannot_be_written_anew),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
