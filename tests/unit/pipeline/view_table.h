/*
 * Tables of who holds what, for tests of views.
 *
 * A table is one line: "p.s:holds" for each node in order of id, '-' for one that is gone. Roles
 * are written stage by stage as owner/shadow, pipelines apart by '|'.
 */
#ifndef CULM_TESTS_VIEW_TABLE_H
#define CULM_TESTS_VIEW_TABLE_H

#include "pipeline/view.h"
#include "stage_masks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define TABLES 65536

/* Views are handed out as they are; their memory is let go of by the end of the process, and can be found until then. */
static inline struct culm_view *view_kept(const struct culm_run_shape *shape) {
    static struct culm_view kept[TABLES];
    static int count;
    assert_true(count < TABLES);
    assert_true(culm_view_init(&kept[count], shape));
    assert_true(culm_view_reserve(&kept[count], 16));
    return &kept[count++];
}

static inline struct culm_view copy_of(const struct culm_view *other) {
    const struct culm_run_shape shape = {
        .pipelines = other->pipelines, .stages = other->stages, .lanes = other->lanes};
    struct culm_view copy = *other;
    const struct culm_view *own = view_kept(&shape);
    copy.role = own->role;
    copy.seat = own->seat;
    copy.lane_pipeline = own->lane_pipeline;
    copy.load = own->load;
    copy.node = own->node;
    copy.node_capacity = own->node_capacity;
    copy.refused = own->refused;
    assert_true(copy.node_count <= copy.node_capacity && copy.transfer_count == 0);
    memcpy(copy.node, other->node, (size_t)other->node_count * sizeof *copy.node);
    memcpy(copy.lane_pipeline, other->lane_pipeline,
           (size_t)other->lanes * sizeof *copy.lane_pipeline);
    for (int32_t p = 0; p < other->pipelines; p++) {
        memcpy(copy.role[p], other->role[p], (size_t)other->stages * sizeof *copy.role[p]);
    }
    culm_view_seat(&copy);
    return copy;
}

static struct culm_view view_of(const struct culm_run_shape *shape, const char *nodes) {
    struct culm_view view = *view_kept(shape);
    int32_t id = 0;
    for (const char *at = nodes; *at; id++) {
        int32_t p, s, used = 0;
        unsigned holds;
        if (sscanf(at, " %d.%d:%x%n", &p, &s, &holds, &used) == 3) {
            view.node[view.node_count++] = (struct culm_view_node){id, p, s, stages_of(holds)};
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
