/*
 * Tables of who holds what, for tests of views.
 *
 * A table is one line: "p.s:holds" for each node in order of id, '-' for one that is gone. Roles
 * are written stage by stage as owner/shadow, pipelines apart by '|'.
 */
#ifndef CULM_TESTS_VIEW_TABLE_H
#define CULM_TESTS_VIEW_TABLE_H

#include "pipeline/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct culm_view view_of(const struct culm_run_shape *shape, const char *nodes) {
    struct culm_view view = {
        .pipelines = shape->pipelines, .stages = shape->stages, .lanes = shape->lanes};
    int32_t id = 0;
    for (const char *at = nodes; *at; id++) {
        int32_t p, s, used = 0;
        unsigned holds;
        if (sscanf(at, " %d.%d:%x%n", &p, &s, &holds, &used) == 3) {
            view.node[view.node_count++] = (struct culm_view_node){id, p, s, holds};
        } else {
            sscanf(at, " -%n", &used);
            assert_true(used > 0);
        }
        at += used;
    }
    return view;
}

static void check(const struct culm_view *view, const char *roles, const char *lanes) {
    char text[512] = "", dealt[256] = "";
    size_t used = 0;
    for (int32_t p = 0; p < view->pipelines; p++) {
        for (int32_t s = 0; s < view->stages; s++) {
            const struct culm_role *role = &view->role[p][s];
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%d/%d",
                                     s   ? " "
                                     : p ? " | "
                                         : "",
                                     role->owner, role->shadow);
        }
    }
    used = 0;
    for (int32_t l = 0; l < view->lanes; l++) {
        used += (size_t)snprintf(dealt + used, sizeof dealt - used, "%s%d", l ? " " : "",
                                 view->lane_pipeline[l]);
    }
    assert_string_equal(text, roles);
    assert_string_equal(dealt, lanes);
}

#endif
