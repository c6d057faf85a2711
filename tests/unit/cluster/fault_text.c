/* Faults as people write them, of a job that is not training: roles, epochs and phases of its own. */
#include "cluster/fault_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODE, EPOCH, PHASE, FIELD_COUNT };

static const char *phase(size_t index) {
    static const char *const names[] = {"gather", "scatter", "apply"};
    return index < 3 ? names[index] : NULL;
}

/* "server:N" is N, "worker:N" is 1000 + N. */
static bool read_node(const char *text, int64_t *ret_value) {
    bool server = strncmp(text, "server:", 7) == 0;
    if ((!server && strncmp(text, "worker:", 7) != 0) || text[7] < '0' || text[7] > '9' ||
        text[8]) {
        return false;
    }
    *ret_value = (server ? 0 : 1000) + text[7] - '0';
    return true;
}

static const struct culm_fault_field fields[FIELD_COUNT + 1] = {
    [NODE] = {"node", "server:N, worker:N", .read = read_node},
    [EPOCH] = {"epoch", "an epoch, from 1", 1, 100},
    [PHASE] = {"phase", "gather, scatter, apply", .word = phase},
};

static enum culm_status read_it(const char *text, int64_t *values, bool *given,
                                struct culm_error *error) {
    return culm_fault_read(text, fields, "node=ROLE:N,epoch=E[,phase=P]", values, given, error);
}

static void what_is_given_is_read(void **state) {
    (void)state;
    int64_t values[CULM_FAULT_FIELDS_MAX] = {[PHASE] = 2};
    bool given[CULM_FAULT_FIELDS_MAX];
    assert_int_equal(read_it("epoch=3,node=worker:2", values, given, NULL), CULM_OK);
    assert_true(given[NODE] && given[EPOCH] && !given[PHASE]);
    assert_int_equal(values[NODE], 1002);
    assert_int_equal(values[EPOCH], 3);
    assert_int_equal(values[PHASE], 2); /* as it was */
    assert_int_equal(read_it("phase=scatter", values, given, NULL), CULM_OK);
    assert_true(!given[NODE] && !given[EPOCH] && given[PHASE]);
    assert_int_equal(values[PHASE], 1);
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"", "'' is not name=value; allowed: node=ROLE:N,epoch=E[,phase=P]"},
        {"epoch", "'epoch' is not name=value; allowed: node=ROLE:N,epoch=E[,phase=P]"},
        {"epoch=3,", "'' is not name=value; allowed: node=ROLE:N,epoch=E[,phase=P]"},
        {"step=3", "'step' is not known; allowed: node, epoch, phase"},
        {"epoch=3,epoch=4", "epoch is given twice"},
        {"epoch=0", "epoch: '0' is impossible; allowed: an epoch, from 1"},
        {"epoch=101", "epoch: '101' is impossible; allowed: an epoch, from 1"},
        {"epoch=-1", "epoch: '-1' is impossible; allowed: an epoch, from 1"},
        {"epoch=99999999999999999999", "epoch: '99999999999999999999' is impossible; allowed: an "
                                       "epoch, from 1"},
        {"epoch=", "epoch: '' is impossible; allowed: an epoch, from 1"},
        {"phase=forward", "phase: 'forward' is impossible; allowed: gather, scatter, apply"},
        {"node=0", "node: '0' is impossible; allowed: server:N, worker:N"},
        {"a-name-that-is-much-too-long=1",
         "'a-name-that-is-' is not known; allowed: node, epoch, phase"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t values[CULM_FAULT_FIELDS_MAX] = {0};
        bool given[CULM_FAULT_FIELDS_MAX];
        struct culm_error error = {0};
        char expected[512];
        assert_int_equal(read_it(rows[i].text, values, given, &error), CULM_ERR_CONFIG);
        snprintf(expected, sizeof expected, "--fault '%s': %s", rows[i].text, rows[i].message);
        assert_string_equal(error.text, expected);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_given_is_read),
        cmocka_unit_test(what_is_wrong_is_said),
    };
    return cmocka_run_group_tests_name("cluster/fault_text", tests, NULL, NULL);
}
