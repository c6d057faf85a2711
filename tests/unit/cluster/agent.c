/*
 * The agent alone: no links and nobody who leads, only a loop, and the test in the place of both.
 */
#include "cluster/agent_internal.h"

#include "base/clock.h"
#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

#define NODES 8
#define ROLE 5 /* of those that a trace names */
#define OTHER_ROLE 2
#define TICK_MS 2

struct test {
    /* what nodes are: a line of sh each, in turn; NULL: a program that is not there */
    const char *script[NODES];
    struct culm_trace trace;
    struct culm_agent_fault fault;
    double time_scale;
    bool over;
    bool ids_end; /* the last of all ids is in use */
    char dir[32]; /* of their logs */
    const char *vmstat;
    /* what has happened */
    uv_loop_t loop;
    uv_timer_t tick;
    int32_t ticks;
    struct culm_local_agent *agent;
    struct culm_agent *table;
    bool inside; /* of a call of the agent */
    int32_t commands, ends, removes, fired, complaints;
    bool ended[NODES];
    uint32_t role[NODES];
    int32_t index[NODES];
    const char *name[NODES];
    enum culm_status why[NODES];
    int32_t fired_node;
    int64_t step;
    char complaint[CULM_ERROR_MAX];
};

static bool on_over(void *ctx) { return ((struct test *)ctx)->over; }

static const struct culm_agent_place nowhere;

static void on_ended(void *ctx, int32_t node, const struct culm_error *why) {
    struct test *t = ctx;
    if (node < 0) {
        return; /* a newcomer without an id */
    }
    node = t->ids_end && node == CULM_NODE_IDS - 1 ? 0 : node;
    assert_false(t->inside || t->ended[node]);
    t->ended[node] = true;
    t->why[node] = why ? why->status : CULM_OK;
    t->ends++;
}

static void on_removed(void *ctx, int32_t node) {
    struct test *t = ctx;
    assert_true(culm_local_agent_has_joined(t->agent, node));
    t->removes++;
}

static void on_fired(void *ctx, const struct culm_agent_fault *fault, int32_t node, int64_t step) {
    struct test *t = ctx;
    assert_ptr_equal(fault, &t->fault);
    t->fired++;
    t->fired_node = node;
    t->step = step;
}

static void on_complaint(void *ctx, const struct culm_error *error) {
    struct test *t = ctx;
    t->complaints++;
    snprintf(t->complaint, sizeof t->complaint, "%s", error->text);
}

static void on_failed(void *ctx, const struct culm_error *error) {
    (void)ctx;
    fail_msg("%s", error->text);
}

static const struct culm_local_agent_ops ops = {on_over,  on_ended,     on_removed,
                                                on_fired, on_complaint, on_failed};

static void command(void *ctx, const struct culm_agent_starting *start, char ***ret_argv) {
    struct test *t = ctx;
    int32_t node = start->node;
    char **argv = calloc(4, sizeof *argv);
    assert_true(node == t->commands && node < NODES && start->fault_fd == 3);
    assert_string_equal(start->address, "unix:there");
    assert_true(start->name[0]);
    t->commands++;
    t->role[node] = start->role;
    t->index[node] = start->index;
    t->name[node] = start->name;
    argv[0] = strdup(t->script[node] ? "sh" : "/nonexistent/node");
    argv[1] = strdup("-c");
    argv[2] = strdup(t->script[node] ? t->script[node] : "");
    *ret_argv = argv;
}

/* So that the test looks every now and then, and not for ever. */
static void on_tick(uv_timer_t *timer) {
    struct test *t = timer->data;
    assert_true(++t->ticks < 600000 / TICK_MS);
}

static void begin(struct test *t, int32_t max_nodes) {
    struct culm_error error = {0};
    snprintf(t->dir, sizeof t->dir, "/tmp/culm-agent-XXXXXX");
    assert_non_null(mkdtemp(t->dir));
    assert_int_equal(uv_loop_init(&t->loop), 0);
    uv_timer_init(&t->loop, &t->tick);
    t->tick.data = t;
    uv_timer_start(&t->tick, on_tick, TICK_MS, TICK_MS);
    const struct culm_local_agent_options options = {
        .loop = &t->loop,
        .token = "secret",
        .address = "unix:there",
        .command = command,
        .command_ctx = t,
        .log_dir = t->dir,
        .trace = t->trace.count ? &t->trace : NULL,
        .trace_role = ROLE,
        .time_scale = t->time_scale,
        .max_nodes = max_nodes,
        .faults = &t->fault,
        .fault_count = 1,
        .vmstat = t->vmstat,
        .ops = &ops,
        .ctx = t,
    };
    assert_int_equal(culm_local_agent_new(&options, &t->agent, &error), CULM_OK);
    t->table = culm_local_agent_table(t->agent);
    culm_local_agent_begin(t->agent);
}

static void start_as(struct test *t, uint32_t role) {
    t->inside = true;
    t->table->ops->start(t->table, role);
    t->inside = false;
}

static void start(struct test *t) { start_as(t, ROLE); }

static void until(struct test *t, const int32_t *count, int32_t wanted) {
    while (*count < wanted) {
        uv_run(&t->loop, UV_RUN_ONCE);
    }
}

static void finish(struct test *t) {
    culm_local_agent_end_all(t->agent, true);
    while (culm_local_agent_alive(t->agent)) {
        uv_run(&t->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&t->tick, NULL);
    culm_local_agent_close(t->agent);
    while (uv_run(&t->loop, UV_RUN_DEFAULT)) {
    }
    assert_int_equal(uv_loop_close(&t->loop), 0);
    culm_local_agent_free(t->agent);
    assert_int_equal(culm_tree_remove(NULL, t->dir, NULL), CULM_OK);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* all were reaped */
    assert_int_equal(errno, ECHILD);
}

/* Of three that are killed the system counts the second; the first and the last were killed by somebody else. */
static void who_is_killed_for_memory_is_told_so(void **state) {
    (void)state;
    static const char *const counts[] = {"pgfault 7\noom_kill 4\n", "pgfault 8\noom_kill 5\n",
                                         "pgfault 9\noom_kill 5\n"};
    struct test t = {.script = {"exec sleep 600", "exec sleep 600", "exec sleep 600"}};
    char path[64];
    snprintf(path, sizeof path, "/tmp/culm-vmstat-%d", (int)getpid());
    t.vmstat = path;
    assert_int_equal(culm_file_replace(NULL, path, counts[0], strlen(counts[0]), NULL), CULM_OK);
    begin(&t, 0);
    for (int32_t node = 0; node < 3; node++) {
        struct culm_node_info info;
        start(&t);
        culm_local_agent_heard(t.agent, node);
        culm_local_agent_joined(t.agent, node);
        culm_local_agent_info(t.agent, node, &info);
        assert_int_equal(culm_file_replace(NULL, path, counts[node], strlen(counts[node]), NULL),
                         CULM_OK);
        assert_int_equal(kill((pid_t)info.pid, SIGKILL), 0);
        until(&t, &t.ends, node + 1);
        assert_int_equal(t.why[node], node == 1 ? CULM_ERR_MEMORY : CULM_OK);
    }
    assert_int_equal(t.complaints, 1);
    assert_non_null(strstr(t.complaint, "for want of memory"));
    finish(&t);
    assert_int_equal(unlink(path), 0);
}

static void a_node_is_started_in_its_role_let_in_and_ended(void **state) {
    (void)state;
    struct test t = {.script = {"exec sleep 600"}};
    struct culm_node_info info;
    struct culm_error error;
    begin(&t, 0);
    start(&t);
    assert_int_equal(t.role[0], ROLE);
    assert_int_equal(culm_local_agent_alive(t.agent), 1);
    assert_true(culm_local_agent_awaits(t.agent, 0, 0, &error));
    assert_false(culm_local_agent_awaits(t.agent, 1, 0, &error));
    assert_string_equal(error.text, "node 1 is not expected");
    assert_false(culm_local_agent_awaits(t.agent, 0, getpid(), &error)); /* another process */
    assert_int_equal(t.complaints, 1);
    culm_local_agent_heard(t.agent, 0);
    culm_local_agent_joined(t.agent, 0);
    culm_local_agent_info(t.agent, 0, &info);
    assert_int_equal(info.role, ROLE);
    assert_false(culm_local_agent_awaits(t.agent, 0, info.pid, &error)); /* it is in */
    t.inside = true;
    t.table->ops->end(t.table, 0);
    t.table->ops->end(t.table, 7); /* never started */
    t.inside = false;
    until(&t, &t.ends, 1);
    assert_int_equal(t.complaints, 1); /* its end was ours */
    t.table->ops->end(t.table, 0);
    finish(&t);
}

static void one_that_cannot_be_started_has_ended(void **state) {
    (void)state;
    struct test t = {.script = {NULL, "echo some last words; exit 3"}};
    begin(&t, 0);
    start(&t);
    assert_int_equal(t.ends, 0);
    until(&t, &t.ends, 1);
    assert_non_null(strstr(t.complaint, "node 0: start '/nonexistent/node': "));
    start(&t);
    until(&t, &t.ends, 2);
    assert_non_null(strstr(t.complaint, "node 1: ended with exit code 3 before it joined"));
    assert_non_null(strstr(t.complaint, "ends with 'some last words'"));
    assert_int_equal(t.complaints, 2);
    assert_int_equal(t.why[0], CULM_ERR_IO); /* the leader is told, too */
    assert_int_equal(t.why[1], CULM_ERR_IO);
    finish(&t);
}

static void what_it_declined_for_is_told_with_its_end(void **state) {
    (void)state;
    struct test t = {.script = {"exit 1"}};
    struct culm_error why;
    begin(&t, 0);
    start(&t);
    culm_error_set(&why, CULM_ERR_CHANGED, "'x' is not what it was");
    culm_local_agent_declined(t.agent, 0, &why);
    assert_string_equal(t.complaint, "node 0: 'x' is not what it was");
    until(&t, &t.ends, 1);
    assert_int_equal(t.why[0], CULM_ERR_CHANGED);
    assert_int_equal(t.complaints, 1);
    finish(&t);
}

static void faults_of_nodes_are_counted_and_told(void **state) {
    (void)state;
    struct test t = {.script = {"echo nonsense >&3; echo 0 4711 >&3; echo 9 1 >&3; exec sleep 60"},
                     .fault = {.node = 0, .phase = "apply", .how = CULM_HOW_KILL}};
    begin(&t, 0);
    start(&t);
    until(&t, &t.fired, 1);
    assert_int_equal(t.step, 4711);
    assert_int_equal(culm_local_agent_fired(t.agent, 0), 1);
    finish(&t);
}

static void a_fault_may_say_a_role_in_place_of_a_node(void **state) {
    (void)state;
    struct test t = {.script = {"exec sleep 60", "exec sleep 60", "exec sleep 60",
                                "echo 0 3 >&3; exec sleep 60"},
                     .fault = {.node = -1, .role = OTHER_ROLE, .index = 1, .phase = "apply"}};
    static const uint32_t roles[] = {OTHER_ROLE, ROLE, ROLE, OTHER_ROLE};
    static const int32_t indices[] = {0, 0, 1, 1};
    begin(&t, 0);
    for (int32_t i = 0; i < 4; i++) {
        start_as(&t, roles[i]);
        assert_int_equal(t.index[i], indices[i]);
        assert_int_equal(culm_agent_fault_meets(&t.fault, i, roles[i], indices[i]), i == 3);
    }
    until(&t, &t.fired, 1);
    assert_int_equal(t.fired_node, 3);
    finish(&t);
}

static void a_record_of_a_node_that_never_was_is_nonsense(void **state) {
    (void)state;
    struct test t = {.script = {"echo 0 3 >&3; exit 0"}, .fault = {.node = 1, .phase = "apply"}};
    begin(&t, 0);
    start(&t);
    until(&t, &t.ends, 1);
    assert_int_equal(t.fired, 0);
    finish(&t);
}

/* Whether the first was removed after it had joined, and the second after it was started: where the machine stands still in between, a
 * trace this fast removes them before. */
static bool trace_has_its_way(double scale) {
    static const char text[] = "0,add,a\n0,add,b\n200,remove,a\n400,remove,b\n800,add,c\n";
    struct test t = {.script = {"exec sleep 600", "exec sleep 600", "exec sleep 600"},
                     .time_scale = scale};
    struct culm_node_info info;
    assert_int_equal(culm_trace_parse(text, strlen(text), "t", &t.trace, NULL), CULM_OK);
    begin(&t, 1);
    start(&t); /* nobody but the trace starts anybody */
    assert_int_equal(t.commands, 0);
    until(&t, &t.commands, 1);
    culm_local_agent_joined(t.agent, 0);
    culm_local_agent_info(t.agent, 0, &info);
    assert_string_equal(info.name, "a");
    assert_int_equal(info.role, ROLE);
    until(&t, &t.commands, 2);
    bool its_way = t.removes == 1 && !strcmp(t.name[1], "b"); /* in the place of the first */
    if (its_way) {
        until(&t, &t.ends, 2);
        assert_int_equal(t.removes, 1); /* b had not joined */
    }
    t.over = true;
    finish(&t);
    culm_trace_release(&t.trace);
    return its_way;
}

static void a_trace_has_its_way(void **state) {
    (void)state;
    bool its_way = false;
    for (double scale = 1; !its_way && scale > 0.001; scale /= 3) {
        its_way = trace_has_its_way(scale);
    }
    assert_true(its_way);
}

static int descriptors(void) {
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;
    assert_non_null(dir);
    while (readdir(dir)) {
        count++;
    }
    closedir(dir);
    return count;
}

static void nodes_that_have_ended_keep_no_descriptor_open(void **state) {
    (void)state;
    struct test t = {.script = {"exit 0", "exit 0", "exit 1", NULL}};
    begin(&t, 0);
    start(&t);
    until(&t, &t.ends, 1);
    int before = descriptors();
    for (int32_t node = 1; node < 4; node++) {
        start(&t);
        until(&t, &t.ends, node + 1);
    }
    assert_int_equal(descriptors(), before);
    finish(&t);
}

/* Whoever starts and ends nodes for weeks keeps only those that are there. */
static void nodes_that_have_ended_are_forgotten(void **state) {
    (void)state;
    struct test t = {.script = {"exit 0", NULL, "exit 1", "exec sleep 600"}};
    begin(&t, 0);
    for (int32_t node = 0; node < 3; node++) {
        start(&t);
        until(&t, &t.ends, node + 1);
        assert_int_equal(t.agent->children.count, 0);
        assert_int_equal(t.table->ops->role(t.table, node), CULM_NO_ROLE);
    }
    start(&t);
    assert_int_equal(t.agent->children.count, 1);
    assert_int_equal(t.index[3], 3); /* of its role, with those that have ended */
    finish(&t);
}

/* None is given twice, up to the last. */
static void ids_come_to_an_end(void **state) {
    (void)state;
    struct test t = {.script = {"exec sleep 600"}};
    struct culm_error error;
    int32_t node;
    begin(&t, 0);
    t.agent->next_node = CULM_NODE_IDS - 1;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            culm_local_agent_enroll(t.agent, ROLE, 0, "guest", &nowhere, &node, &error), CULM_OK);
        assert_true(node < CULM_NEWCOMER);
        assert_int_equal(culm_local_agent_admit(t.agent, &node, &error),
                         i ? CULM_ERR_CONFIG : CULM_OK);
        assert_true(i ? node < 0 : node == CULM_NODE_IDS - 1);
    }
    assert_non_null(strstr(error.text, "ids of nodes have been used"));
    assert_int_equal(t.agent->children.count, 2);
    t.ids_end = true;
    culm_local_agent_left(t.agent, CULM_NODE_IDS - 1);
    until(&t, &t.ends, 1);
    assert_int_equal(t.agent->children.count, 1);
    finish(&t);
}

/* Its READY was on its way when it was ended: nobody would know of a node whose end is about to be reported. */
static void one_that_is_ended_gets_no_id(void **state) {
    (void)state;
    struct test t = {.script = {"exec sleep 600"}};
    struct culm_error error;
    int32_t node, guest;
    begin(&t, 0);
    assert_int_equal(culm_local_agent_enroll(t.agent, ROLE, 0, "guest", &nowhere, &guest, &error),
                     CULM_OK);
    culm_local_agent_end_all(t.agent, false);
    node = guest;
    assert_int_equal(culm_local_agent_admit(t.agent, &node, &error), CULM_ERR_CONFIG);
    assert_int_equal(node, guest);
    assert_non_null(strstr(error.text, "too late"));
    start(&t); /* which gets the first id */
    culm_local_agent_end_all(t.agent, false);
    until(&t, &t.ends, 1);
    assert_true(t.ended[0]);
    assert_int_equal(t.agent->children.count, 0);
    finish(&t);
}

static void a_trace_is_of_one_role(void **state) {
    (void)state;
    static const char text[] = "0,add,a\n0,add,b\n";
    struct test t = {
        .script = {"exec sleep 60", "exec sleep 60", "exec sleep 60", "exec sleep 60"}};
    assert_int_equal(culm_trace_parse(text, strlen(text), "t", &t.trace, NULL), CULM_OK);
    begin(&t, 2);
    start(&t);
    assert_int_equal(t.commands, 0);
    start_as(&t,
             OTHER_ROLE); /* what the trace does not name is started, and takes no place of its */
    start_as(&t, OTHER_ROLE);
    assert_int_equal(t.commands, 2);
    until(&t, &t.commands, 4);
    assert_int_equal(t.role[1], OTHER_ROLE);
    assert_int_equal(t.role[2], ROLE);
    assert_int_equal(t.index[3], 1);
    finish(&t);
    culm_trace_release(&t.trace);
}

static void nobody_is_missed_because_all_stood_still(void **state) {
    (void)state;
    const uint64_t second = 1000000000, limit = 60 * second; /* as it is if nobody says */
    struct test t = {.script = {"exec sleep 600"}};
    begin(&t, 0);
    start(&t);
    uint64_t now = culm_clock_ns();
    agent_starts_sweep(t.agent, now);
    for (int i = 0; i < 2; i++) {
        now += 10 * limit;
        agent_starts_sweep(t.agent, now);
    }
    for (uint64_t end = now + limit; now < end; now += second) {
        agent_starts_sweep(t.agent, now);
    }
    assert_int_equal(t.complaints, 0);
    agent_starts_sweep(t.agent, now + second);
    assert_int_equal(t.complaints, 1);
    assert_non_null(strstr(t.complaint, "did not join within 60000 ms"));
    until(&t, &t.ends, 1);
    finish(&t);
}

static void nobody_is_started_when_it_is_over(void **state) {
    (void)state;
    struct test t = {.over = true};
    begin(&t, 0);
    start(&t);
    assert_int_equal(t.commands, 0);
    finish(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_killed_for_memory_is_told_so),
        cmocka_unit_test(a_node_is_started_in_its_role_let_in_and_ended),
        cmocka_unit_test(one_that_cannot_be_started_has_ended),
        cmocka_unit_test(what_it_declined_for_is_told_with_its_end),
        cmocka_unit_test(faults_of_nodes_are_counted_and_told),
        cmocka_unit_test(a_fault_may_say_a_role_in_place_of_a_node),
        cmocka_unit_test(a_record_of_a_node_that_never_was_is_nonsense),
        cmocka_unit_test(nodes_that_have_ended_keep_no_descriptor_open),
        cmocka_unit_test(nodes_that_have_ended_are_forgotten),
        cmocka_unit_test(ids_come_to_an_end),
        cmocka_unit_test(one_that_is_ended_gets_no_id),
        cmocka_unit_test(a_trace_has_its_way),
        cmocka_unit_test(a_trace_is_of_one_role),
        cmocka_unit_test(nobody_is_missed_because_all_stood_still),
        cmocka_unit_test(nobody_is_started_when_it_is_over),
    };
    return cmocka_run_group_tests_name("cluster/agent", tests, NULL, NULL);
}
