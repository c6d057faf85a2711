/* The toy leader actor, and a host for it. */
#include "toy_test.h"

#include "base/file.h"
#include "net/socket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define WATCHDOG 15

/* --- the leader's toy actor --- */

void test_order(struct test *t, int32_t node, uint16_t type, struct toy_order what) {
    const struct culm_message message = {
        .type = type, .meta = (const uint8_t *)&what, .meta_bytes = sizeof what};
    t->world->ops->send(t->world, node, &message);
}

void test_finish(struct test *t) { t->world->ops->leave(t->world, 0, NULL); }

static void on_start(void *actor) {
    struct test *t = actor;
    if (t->leave_at_start) {
        t->world->ops->leave(t->world, t->leave_at_start, NULL);
        return;
    }
    t->world->ops->timer(t->world, WATCHDOG, WATCHDOG_S * SECOND);
    for (int32_t i = 0; i < t->start; i++) {
        t->agent->ops->start(t->agent, ROLE);
    }
    if (t->all_started) {
        t->all_started(t);
    }
}

static void on_message(void *actor, int32_t from, const struct culm_message *message) {
    struct test *t = actor;
    struct toy_report report;
    memcpy(&report, message->meta, sizeof report);
    if (message->type == TOY_REPORT) {
        t->reports++;
        if (t->on_report) {
            t->on_report(t, from, &report);
        }
    } else if (message->type == TOY_LOST) {
        t->losts++;
        if (t->on_lost) {
            t->on_lost(t, from, report.from);
        }
    }
}

static void on_joined(void *leader, int32_t node, const struct culm_node_info *info) {
    struct test *t = leader;
    assert_true(node >= 0 && node < NODES && info->name && info->signature);
    assert_int_equal(info->role, ROLE);
    assert_false(t->up[node] || t->exited[node]);
    t->up[node] = true;
    t->pid[node] = info->pid;
    snprintf(t->names + strlen(t->names), sizeof t->names - strlen(t->names), "%s ", info->name);
    t->ups++;
    if (t->on_up) {
        t->on_up(t, node, info);
    }
    if (t->ups == t->start && t->all_up) {
        t->all_up(t);
    }
}

static void on_lost(void *actor, int32_t node) {
    struct test *t = actor;
    assert_true(node >= 0 && node < NODES);
    assert_true(t->up[node] && !t->eof[node] && !t->exited[node]);
    t->eof[node] = true;
    t->eof_ns[node] = culm_clock_ns();
    t->eofs++;
    if (t->on_eof) {
        t->on_eof(t, node);
    }
}

static void on_ended(void *leader, int32_t node, const struct culm_error *why) {
    struct test *t = leader;
    assert_true(node >= 0 && node < NODES);
    assert_true(!t->exited[node] && t->eof[node] == t->up[node]);
    t->exited[node] = true;
    t->exit_ns[node] = culm_clock_ns();
    t->exits++;
    if (t->on_exit) {
        t->on_exit(t, node, why);
    }
}

static void on_timer(void *actor, uint32_t timer) {
    struct test *t = actor;
    if (timer == WATCHDOG) {
        t->world->ops->leave(t->world, 99, NULL);
    } else {
        t->on_timer(t);
    }
}

static void on_job_done(void *actor, struct culm_job *job) {
    (void)actor;
    (void)job;
}

static void on_removed(void *leader, int32_t node) {
    struct test *t = leader;
    t->removes++;
    if (t->on_removed) {
        t->on_removed(t, node);
    }
}

static void on_stop(void *leader) {
    struct test *t = leader;
    t->stops++;
    if (t->on_stop) {
        t->on_stop(t);
    }
}

static bool on_admits(void *leader, const struct culm_node_info *info, uint32_t *role,
                      struct culm_error *ret_error) {
    struct test *t = leader;
    assert_int_equal(info->role, TOY_WANTED);
    assert_int_equal(*role, TOY_WANTED);
    *role = ROLE;
    return !t->admits || t->admits(t, info, ret_error);
}

static const struct culm_leader_ops leads = {.size = sizeof leads,
                                             .joined = on_joined,
                                             .ended = on_ended,
                                             .removed = on_removed,
                                             .stop = on_stop,
                                             .admits = on_admits};

static const struct culm_leader_ops closed = {.size = sizeof closed,
                                              .joined = on_joined,
                                              .ended = on_ended,
                                              .removed = on_removed,
                                              .stop = on_stop};

static const struct culm_actor_ops test_ops = {
    .size = sizeof test_ops,
    .start = on_start,
    .message = on_message,
    .lost = on_lost,
    .timer = on_timer,
    .job_done = on_job_done,
    .leads = &leads,
};

static void command(void *ctx, const struct culm_agent_starting *start, char ***ret_argv) {
    struct test *t = ctx;
    int32_t node = start->node;
    assert_int_equal(start->role, ROLE);
    bool bad = node == t->bad; /* of no meaning without the next two */
    *ret_argv = toy_argv(t->mode, bad && t->bad_token ? t->bad_token : TOY_TOKEN,
                         bad && t->bad_signature ? t->bad_signature : "sig", node, start->name,
                         start->address, start->fault_fd, node == 0 ? t->fault : NULL);
    if (t->exe) {
        free((*ret_argv)[0]);
        (*ret_argv)[0] = strdup(t->exe);
    }
}

static bool brief(void *ctx, uint32_t role, bool newcomer, struct culm_buf *out) {
    struct test *t = ctx;
    assert_int_equal(role, ROLE);
    t->briefs[newcomer]++;
    if (t->no_briefs > 0) {
        t->no_briefs--;
        return false;
    }
    for (size_t i = 0; i < TOY_BRIEF; i++) {
        culm_buf_u8(out, (uint8_t)(i % 251));
    }
    return true;
}

static void publish(void *ctx, json_t *event) {
    struct test *t = ctx;
    const char *name = json_string_value(json_object_get(event, "event"));
    assert_true(json_is_number(json_object_get(event, "t_ms")));
    assert_true(json_is_integer(json_object_get(event, "view")));
    if (!strcmp(name, "fault")) {
        t->fault_events++;
        assert_int_equal(json_integer_value(json_object_get(event, "node")), 0);
        assert_int_equal(json_integer_value(json_object_get(event, "step")), 3);
    } else if (!strcmp(name, "error")) {
        t->error_events++;
        snprintf(t->error_text, sizeof t->error_text, "%s",
                 json_string_value(json_object_get(event, "message")));
    }
    if (t->on_event) {
        t->on_event(t, name);
    }
}

/* --- what comes besides the host's nodes --- */

struct test_came test_came;

void test_come(struct test *t, const char *mode, const char *token, const char *name) {
    test_come_as(t, mode, token, "sig", name);
}

void test_come_as(struct test *t, const char *mode, const char *token, const char *signature,
                  const char *name) {
    int words[2];
    assert_int_equal(pipe2(words, O_CLOEXEC),
                     0); /* a node that is started meanwhile has no end of it */
    char **argv =
        toy_argv(mode, token, signature, CULM_NEWCOMER, name, culm_host_address(t->host), -1, NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(words[1], 2);
        execv(argv[0], argv);
        _exit(127);
    }
    close(words[1]);
    for (char **arg = argv; *arg; arg++) {
        free(*arg);
    }
    free(argv);
    test_came.pid[test_came.count] = pid;
    test_came.words[test_came.count++] = words[0];
}

int test_came_end(int index, char *ret_words, size_t size) {
    size_t len = 0;
    ssize_t got;
    int status;
    while ((got = read(test_came.words[index], ret_words + len, size - 1 - len)) > 0) {
        len += (size_t)got;
    }
    ret_words[len] = '\0';
    close(test_came.words[index]);
    assert_int_equal(waitpid(test_came.pid[index], &status, 0), test_came.pid[index]);
    assert_null(strstr(ret_words, "Sanitizer"));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* --- running one --- */

void test_read_log(struct test *t, int32_t node, char *ret_text, size_t size) {
    char path[128], *text;
    size_t len;
    snprintf(path, sizeof path, "%s/node-%d.log", t->dir, node);
    ret_text[0] = '\0';
    if (culm_file_read(NULL, path, 1 << 20, &text, &len, NULL) == CULM_OK) {
        snprintf(ret_text, size, "%s", text);
        free(text);
    }
}

static void check_logs(struct test *t) {
    char text[8192];
    for (int32_t node = 0; node < NODES; node++) {
        test_read_log(t, node, text, sizeof text);
        if (strstr(text, "Sanitizer") || strstr(text, "runtime error")) {
            fail_msg("node %d: %s", node, text);
        }
    }
}

void test_run(struct test *t) {
    struct culm_error error = {0};
    t->pool = culm_blob_pool_new(t->pool_bytes);
    snprintf(t->dir, sizeof t->dir, "/tmp/culm-world-XXXXXX");
    assert_non_null(mkdtemp(t->dir));
    if (t->trace_text) {
        assert_int_equal(
            culm_trace_parse(t->trace_text, strlen(t->trace_text), "t", &t->trace, &error),
            CULM_OK);
    }
    t->mode = t->mode ? t->mode : "worker";
    t->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert_true(t->stop_fd > 0);
    const struct culm_host_options options = {
        .listen = t->listen,
        .advertise = t->advertise,
        .token = TOY_TOKEN,
        .signature = "sig",
        .brief = brief,
        .max_nodes = t->max_nodes,
        .payload_max = TOY_MB,
        .pool = t->pool,
        .command = command,
        .log_dir = t->log_dir ? t->log_dir : t->dir,
        .publish = publish,
        .ctx = t,
        .trace = t->trace_text ? &t->trace : NULL,
        .trace_role = ROLE,
        .time_scale = t->time_scale,
        .faults = &t->host_fault,
        .fault_count = 1,
        .start_limit_ms = t->start_limit_ms ? t->start_limit_ms : TOY_LONG_MS,
        .hello_limit_ms = t->hello_limit_ms ? t->hello_limit_ms : TOY_LONG_MS,
        .stop_fd = t->stop_fd,
        .engine = t->engine,
        .engine_role = ROLE,
    };
    assert_int_equal(culm_host_new(&options, &t->host, &error), CULM_OK);
    t->world = culm_host_world(t->host);
    t->agent = culm_host_agent(t->host);
    struct culm_actor_ops ops = test_ops;
    ops.leads = t->closed ? &closed : &leads;
    t->code = culm_host_run(t->host, &ops, t, &error);
}

void test_release(struct test *t, int32_t fired) {
    assert_int_equal(culm_host_fired(t->host, 0), fired);
    assert_int_equal(t->fault_events, fired);
    culm_host_free(t->host);
    close(t->stop_fd);
    culm_trace_release(&t->trace);
    culm_blob_pool_free(t->pool);
    check_logs(t);
    assert_int_equal(culm_tree_remove(NULL, t->dir, NULL), CULM_OK);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* all were reaped */
    assert_int_equal(errno, ECHILD);
}
