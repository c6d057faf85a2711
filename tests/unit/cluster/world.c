/*
 * The real worlds, with toy actors in real processes: frames between workers, deaths of every kind,
 * refusals, faults, traces, jobs. A test is an actor: it starts workers, reacts, and leaves with 0;
 * its watchdog timer leaves with 99. No worker's log may hold a sanitizer's report.
 */
#include "toy.h"

#include "base/file.h"
#include "net/socket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND 1000000000ull
#define NODES 8
#define WATCHDOG 15

struct test {
    /* what is to happen */
    const char *mode, *exe, *bad_token, *bad_signature; /* of the node `bad` */
    int32_t start, bad;
    const char *fault; /* of node 0; "index,phase,step,micro,how" */
    struct culm_host_fault host_fault;
    const char *trace_text;
    double time_scale;
    int32_t max_nodes;
    int64_t start_limit_ms;
    void (*all_up)(struct test *t);
    void (*on_up)(struct test *t, int32_t node, const struct culm_peer_info *info);
    void (*on_report)(struct test *t, int32_t node, const struct toy_report *report);
    void (*on_lost)(struct test *t, int32_t node, int32_t lost);
    void (*on_eof)(struct test *t, int32_t node);
    void (*on_exit)(struct test *t, int32_t node, const struct culm_peer_info *info);
    void (*on_request)(struct test *t, enum culm_request request, int32_t node);
    void (*on_timer)(struct test *t);
    /* what has */
    struct culm_coordinator_host *host;
    struct culm_world *world;
    struct culm_pool *pool;
    struct culm_trace trace;
    char dir[64];
    int32_t ups, eofs, exits, reports, losts, removes;
    bool up[NODES], eof[NODES], exited[NODES];
    int64_t pid[NODES];
    uint64_t since_ns, eof_ns[NODES], exit_ns[NODES];
    int32_t fault_events, error_events;
    char error_text[512], names[64];
    int code;
};

/* --- the coordinator's toy actor --- */

static void order(struct test *t, int32_t node, uint16_t type, struct toy_order what) {
    const struct culm_message message = {
        .type = type, .meta = (const uint8_t *)&what, .meta_bytes = sizeof what};
    t->world->ops->send(t->world, node, &message);
}

static void finish(struct test *t) { t->world->ops->leave(t->world, 0, NULL); }

static void on_start(void *actor) {
    struct test *t = actor;
    t->world->ops->timer(t->world, WATCHDOG, 60 * SECOND);
    for (int32_t i = 0; i < t->start; i++) {
        t->world->ops->spawn(t->world);
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

static void on_peer(void *actor, int32_t node, enum culm_peer_change change,
                    const struct culm_peer_info *info) {
    struct test *t = actor;
    assert_true(node >= 0 && node < NODES && info->name && info->signature);
    if (change == CULM_PEER_UP) {
        assert_false(t->up[node] || t->exited[node]);
        t->up[node] = true;
        t->pid[node] = info->pid;
        snprintf(t->names + strlen(t->names), sizeof t->names - strlen(t->names), "%s ",
                 info->name);
        t->ups++;
        if (t->on_up) {
            t->on_up(t, node, info);
        }
        if (t->ups == t->start && t->all_up) {
            t->all_up(t);
        }
    } else if (change == CULM_PEER_EOF) {
        assert_true(t->up[node] && !t->eof[node] && !t->exited[node]);
        t->eof[node] = true;
        t->eof_ns[node] = culm_clock_ns();
        t->eofs++;
        if (t->on_eof) {
            t->on_eof(t, node);
        }
    } else {
        assert_true(!t->exited[node] && t->eof[node] == t->up[node]);
        t->exited[node] = true;
        t->exit_ns[node] = culm_clock_ns();
        t->exits++;
        if (t->on_exit) {
            t->on_exit(t, node, info);
        }
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

static void on_request(void *actor, enum culm_request request, int32_t node) {
    struct test *t = actor;
    t->removes += request == CULM_REQUEST_REMOVE;
    if (t->on_request) {
        t->on_request(t, request, node);
    }
}

static const struct culm_actor_ops test_ops = {
    .size = sizeof test_ops,
    .start = on_start,
    .message = on_message,
    .peer = on_peer,
    .timer = on_timer,
    .job_done = on_job_done,
    .request = on_request,
};

static void command(void *ctx, int32_t node, const char *name, int port, int fault_fd,
                    char ***ret_argv) {
    struct test *t = ctx;
    bool bad = node == t->bad; /* of no meaning without the next two */
    *ret_argv = toy_argv(t->mode, bad && t->bad_token ? t->bad_token : TOY_TOKEN,
                         bad && t->bad_signature ? t->bad_signature : "sig", node, name, port,
                         fault_fd, node == 0 ? t->fault : NULL);
    if (t->exe) {
        free((*ret_argv)[0]);
        (*ret_argv)[0] = strdup(t->exe);
    }
}

static void publish(void *ctx, json_t *event) {
    struct test *t = ctx;
    const char *name = json_string_value(json_object_get(event, "event"));
    assert_true(json_is_number(json_object_get(event, "t_ms")));
    if (!strcmp(name, "fault")) {
        t->fault_events++;
        assert_int_equal(json_integer_value(json_object_get(event, "node")), 0);
        assert_int_equal(json_integer_value(json_object_get(event, "step")), 3);
    } else if (!strcmp(name, "error")) {
        t->error_events++;
        snprintf(t->error_text, sizeof t->error_text, "%s",
                 json_string_value(json_object_get(event, "message")));
    }
}

/* --- running one --- */

static void read_log(struct test *t, int32_t node, char *ret_text, size_t size) {
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
        read_log(t, node, text, sizeof text);
        if (strstr(text, "Sanitizer") || strstr(text, "runtime error")) {
            fail_msg("node %d: %s", node, text);
        }
    }
}

static void run(struct test *t) {
    struct culm_error error = {0};
    t->pool = culm_pool_new(0);
    snprintf(t->dir, sizeof t->dir, "/tmp/culm-world-XXXXXX");
    assert_non_null(mkdtemp(t->dir));
    if (t->trace_text) {
        assert_int_equal(
            culm_trace_parse(t->trace_text, strlen(t->trace_text), "t", &t->trace, &error),
            CULM_OK);
    }
    t->mode = t->mode ? t->mode : "worker";
    const struct culm_coordinator_host_options options = {
        .token = TOY_TOKEN,
        .signature = "sig",
        .max_nodes = t->max_nodes,
        .payload_max = TOY_MB,
        .pool = t->pool,
        .command = command,
        .log_dir = t->dir,
        .publish = publish,
        .ctx = t,
        .trace = t->trace_text ? &t->trace : NULL,
        .time_scale = t->time_scale,
        .faults = &t->host_fault,
        .fault_count = 1,
        .start_limit_ms = t->start_limit_ms,
    };
    assert_int_equal(culm_coordinator_host_new(&options, &t->host, &error), CULM_OK);
    t->world = culm_coordinator_host_world(t->host);
    t->code = culm_coordinator_host_run(t->host, &test_ops, t, &error);
}

static void release(struct test *t, int32_t fired) {
    assert_int_equal(culm_coordinator_host_fired(t->host, 0), fired);
    assert_int_equal(t->fault_events, fired);
    culm_coordinator_host_free(t->host);
    culm_trace_release(&t->trace);
    culm_pool_free(t->pool);
    check_logs(t);
    assert_int_equal(culm_tree_remove(NULL, t->dir, NULL), CULM_OK);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* all were reaped */
    assert_int_equal(errno, ECHILD);
}

#define RUN(...)                                                                                   \
    struct test t = {__VA_ARGS__};                                                                 \
    run(&t)

/* --- frames --- */

static void blast_once(struct test *t) {
    order(t, 0, TOY_BLAST, (struct toy_order){.node = 1, .count = 200});
    t->world->ops->timer(t->world, 0, 10000000);
}

static void ask_one(struct test *t) { order(t, 1, TOY_STATUS, (struct toy_order){.node = 0}); }

static void until_200(struct test *t, int32_t node, const struct toy_report *report) {
    assert_int_equal(node, 1);
    assert_int_equal(report->bad, 0);
    if (report->messages == 200) {
        finish(t);
    } else {
        t->world->ops->timer(t->world, 0, 10000000);
    }
}

static void frames_of_every_size_arrive_whole_and_in_order(void **state) {
    (void)state;
    RUN(.start = 2, .all_up = blast_once, .on_timer = ask_one, .on_report = until_200);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.losts, 0);
    release(&t, 0);
}

#define MANY 200000

static void blast_many(struct test *t) {
    t->since_ns = culm_clock_ns();
    order(t, 0, TOY_BLAST, (struct toy_order){.node = 1, .count = MANY, .size = 1});
    ask_one(t);
}

static void until_many(struct test *t, int32_t node, const struct toy_report *report) {
    (void)node;
    assert_int_equal(report->bad, 0);
    if (report->messages < MANY) {
        ask_one(t);
        return;
    }
    double seconds = (double)(culm_clock_ns() - t->since_ns) / 1e9;
    print_message("%.0f messages/s from worker to worker, %d questions meanwhile\n", MANY / seconds,
                  t->reports);
    finish(t);
}

static void messages_a_second(void **state) {
    (void)state;
    RUN(.start = 2, .all_up = blast_many, .on_report = until_many);
    assert_int_equal(t.code, 0);
    release(&t, 0);
}

static void leave_talking(struct test *t) {
    order(t, 0, TOY_LEAVE, (struct toy_order){.count = 5, .size = 20000});
    for (int i = 0; i < 1000; i++) { /* unread when it closes */
        order(t, 0, TOY_STATUS, (struct toy_order){0});
    }
}

static void exit_ends(struct test *t, int32_t node, const struct culm_peer_info *info) {
    (void)node;
    (void)info;
    finish(t);
}

static void what_was_sent_before_a_leave_arrives(void **state) {
    (void)state;
    RUN(.start = 1, .all_up = leave_talking, .on_exit = exit_ends);
    char log[1024];
    read_log(&t, 0, log, sizeof log);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.reports, 20000);
    assert_non_null(strstr(log, "ends with 5"));
    release(&t, 0);
}

/* --- deaths --- */

static void kill_1(struct test *t) {
    order(t, 0, TOY_BLAST, (struct toy_order){.node = 1, .count = 5, .size = 100});
    order(t, 1, TOY_STATUS, (struct toy_order){.node = 0});
}

static void kill_when_5(struct test *t, int32_t node, const struct toy_report *report) {
    (void)node;
    if (report->messages < 5) {
        order(t, 1, TOY_STATUS, (struct toy_order){.node = 0});
        return;
    }
    t->since_ns = culm_clock_ns();
    kill((pid_t)t->pid[1], SIGKILL);
}

static void lost_1(struct test *t, int32_t node, int32_t lost) {
    assert_int_equal(lost, 1);
    assert_true(culm_clock_ns() - t->since_ns < SECOND);
    if (node == 0) { /* 2 has never spoken to 1 and finds out when it does */
        order(t, 2, TOY_BLAST, (struct toy_order){.node = 1, .count = 3, .size = 9});
    }
    if (t->losts == 2 && t->exits == 1) {
        finish(t);
    }
}

static void exit_1(struct test *t, int32_t node, const struct culm_peer_info *info) {
    assert_int_equal(node, 1);
    assert_int_equal(info->pid, t->pid[1]);
    if (t->losts == 2) {
        finish(t);
    }
}

static void a_kill_is_seen_within_a_second(void **state) {
    (void)state;
    RUN(.start = 3, .all_up = kill_1, .on_report = kill_when_5, .on_lost = lost_1,
        .on_exit = exit_1);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.losts, 2);
    assert_int_equal(t.eofs, 1);
    assert_true(t.eof_ns[1] - t.since_ns < SECOND && t.exit_ns[1] - t.since_ns < SECOND);
    print_message("eof after %.2f ms, exit after %.2f ms\n",
                  (double)(t.eof_ns[1] - t.since_ns) / 1e6,
                  (double)(t.exit_ns[1] - t.since_ns) / 1e6);
    release(&t, 0);
}

static void print_pid(struct test *t, int32_t node, const struct toy_report *report) {
    (void)node;
    printf("%d\n", (int)report->pid);
    if (t->reports == 3) {
        fflush(stdout);
    }
}

static void ask_all(struct test *t) {
    order(t, 1, TOY_BUSY, (struct toy_order){0}); /* one with a job that never ends */
    for (int32_t i = 0; i < 3; i++) {
        order(t, i, TOY_STATUS, (struct toy_order){0});
    }
}

int toy_launcher(const char *mode) {
    struct test t = {
        .bad = -1, .mode = mode, .start = 3, .all_up = ask_all, .on_report = print_pid};
    run(&t); /* until it is killed */
    return 1;
}

static void read_pids(int fd, int64_t *pid) {
    char text[256];
    size_t len = 0;
    uint64_t deadline = culm_clock_ns() + 30 * SECOND;
    for (int lines = 0; lines < 3;) {
        assert_true(culm_socket_wait(fd, 1 /* POLLIN */, deadline));
        assert_int_equal(read(fd, text + len, 1), 1);
        lines += text[len++] == '\n';
    }
    text[len] = '\0';
    assert_int_equal(sscanf(text, "%" SCNd64 " %" SCNd64 " %" SCNd64, &pid[0], &pid[1], &pid[2]),
                     3);
}

/* All are gone within 2 s of the launcher's death. */
static void launcher_dies(const char *mode, bool freeze) {
    int out[2];
    int64_t pid[3];
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    assert_int_equal(pipe(out), 0);
    pid_t launcher = fork();
    if (launcher == 0) {
        dup2(out[1], 1);
        close(out[0]);
        close(out[1]);
        execl("/proc/self/exe", "world", "launcher", mode, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    read_pids(out[0], pid);
    if (freeze) {
        assert_int_equal(kill((pid_t)pid[2], SIGSTOP), 0);
    }
    uint64_t since = culm_clock_ns();
    assert_int_equal(kill(launcher, SIGKILL), 0);
    alarm(20);
    for (;;) { /* its descendants are ours now */
        pid_t one = waitpid(-1, NULL, 0);
        if (one < 0) {
            assert_int_equal(errno, ECHILD);
            break;
        }
    }
    alarm(0);
    double ms = (double)(culm_clock_ns() - since) / 1e6;
    print_message("%s: all gone after %.1f ms\n", mode, ms);
    assert_true(ms < 2000);
    close(out[0]);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

static void workers_die_with_the_launcher(void **state) {
    (void)state;
    launcher_dies("worker", true);
}

static void workers_of_others_end_when_the_coordinator_is_gone(void **state) {
    (void)state;
    launcher_dies("wrapped", false);
}

static void freeze_0(struct test *t) {
    kill((pid_t)t->pid[0], SIGSTOP);
    t->since_ns = culm_clock_ns();
    finish(t);
}

static void a_frozen_worker_is_killed_after_the_end(void **state) {
    (void)state;
    RUN(.start = 2, .all_up = freeze_0);
    uint64_t took = culm_clock_ns() - t.since_ns;
    assert_int_equal(t.code, 0);
    assert_true(took > 3 * SECOND / 2 && took < 4 * SECOND);
    release(&t, 0);
}

/* --- signals --- */

static void terminate(struct test *t) {
    (void)t;
    raise(SIGTERM);
}

static void stop_asked(struct test *t, enum culm_request request, int32_t node) {
    assert_int_equal(request, CULM_REQUEST_STOP);
    assert_int_equal(node, -1);
    t->world->ops->leave(t->world, 75, NULL);
}

static void a_signal_asks_for_a_stop(void **state) {
    (void)state;
    RUN(.start = 1, .all_up = terminate, .on_request = stop_asked);
    assert_int_equal(t.code, 75);
    release(&t, 0);
}

static void freeze_and_interrupt(struct test *t) {
    kill((pid_t)t->pid[0], SIGSTOP);
    t->since_ns = culm_clock_ns();
    raise(SIGINT);
}

static void interrupt_again(struct test *t, enum culm_request request, int32_t node) {
    (void)t;
    (void)request;
    (void)node;
    raise(SIGINT);
}

static void a_second_signal_kills_all(void **state) {
    (void)state;
    RUN(.start = 1, .all_up = freeze_and_interrupt, .on_request = interrupt_again);
    assert_int_equal(t.code, 75);
    assert_true(culm_clock_ns() - t.since_ns < SECOND);
    release(&t, 0);
}

/* --- refusals --- */

static void end_of_bad(struct test *t, int32_t node, const struct culm_peer_info *info) {
    (void)info;
    assert_int_equal(node, t->bad);
    finish(t);
}

static void a_wrong_token_is_refused(void **state) {
    (void)state;
    RUN(.start = 1, .bad = 0, .bad_token = "nonsense", .on_exit = end_of_bad);
    char log[1024];
    read_log(&t, 0, log, sizeof log);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.ups, 0);
    assert_non_null(strstr(log, "refused: wrong token"));
    release(&t, 0);
}

static void another_signature_is_refused(void **state) {
    (void)state;
    RUN(.start = 2, .bad = 1, .bad_signature = "other", .on_exit = end_of_bad);
    assert_int_equal(t.code, 0);
    assert_false(t.up[1]);
    assert_int_equal(t.error_events, 1);
    assert_non_null(strstr(t.error_text, "node 1 has the signature 'other', not 'sig'"));
    release(&t, 0);
}

static void knock(struct test *t) {
    int fd;
    assert_int_equal(
        culm_socket_connect("127.0.0.1", culm_coordinator_host_port(t->host), &fd, NULL), CULM_OK);
    assert_true(culm_socket_wait(fd, 4 /* POLLOUT */, culm_clock_ns() + 5 * SECOND));
    assert_true(send(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, MSG_NOSIGNAL) == 27);
    t->pid[7] = fd;
    t->world->ops->timer(t->world, 0, 1000000);
}

static void until_closed(struct test *t) {
    char byte;
    ssize_t got = recv((int)t->pid[7], &byte, 1, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) {
        t->world->ops->timer(t->world, 0, 1000000);
        return;
    }
    close((int)t->pid[7]);
    order(t, 0, TOY_STATUS, (struct toy_order){0});
}

static void report_ends(struct test *t, int32_t node, const struct toy_report *report) {
    (void)node;
    assert_int_equal(report->bad, 0);
    finish(t);
}

static void garbage_harms_nobody(void **state) {
    (void)state;
    RUN(.start = 1, .all_up = knock, .on_timer = until_closed, .on_report = report_ends);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.eofs, 0);
    release(&t, 0);
}

static void a_silent_start_is_ended(void **state) {
    (void)state;
    uint64_t since = culm_clock_ns();
    RUN(.start = 1, .bad = 0, .mode = "silent", .start_limit_ms = 300, .on_exit = end_of_bad);
    assert_int_equal(t.code, 0);
    assert_true(culm_clock_ns() - since < 5 * SECOND);
    release(&t, 0);
}

static void an_impossible_start_is_told(void **state) {
    (void)state;
    RUN(.start = 1, .bad = 0, .exe = "/nonexistent/worker", .on_exit = end_of_bad);
    assert_int_equal(t.code, 0);
    assert_non_null(strstr(t.error_text, "start '/nonexistent/worker'"));
    release(&t, 0);
}

/* --- faults --- */

static void blast_and_tear(struct test *t) {
    order(t, 0, TOY_BLAST,
          (struct toy_order){.node = 1,
                             .count = 10,
                             .size = 300001,
                             .phase = CULM_PHASE_SEND,
                             .step = 3,
                             .fault_at = 6});
}

static void ask_after_loss(struct test *t, int32_t node, int32_t lost) {
    assert_int_equal(node, 1);
    assert_int_equal(lost, 0);
    ask_one(t);
}

static void five_whole(struct test *t, int32_t node, const struct toy_report *report) {
    assert_int_equal(node, 1);
    assert_int_equal(report->messages, 5);
    assert_int_equal(report->bad, 0);
    finish(t);
}

static void a_torn_frame_is_never_delivered(void **state) {
    (void)state;
    RUN(.start = 2, .fault = "0,4,3,-1,0", .host_fault = {0, CULM_HURT_KILL, 0},
        .all_up = blast_and_tear, .on_lost = ask_after_loss, .on_report = five_whole);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.reports, 1);
    release(&t, 1);
}

static void tear_and_ask(struct test *t) {
    t->since_ns = culm_clock_ns();
    blast_and_tear(t);
    ask_one(t);
}

static void until_10(struct test *t, int32_t node, const struct toy_report *report) {
    (void)node;
    assert_int_equal(report->bad, 0);
    if (report->messages < 10) {
        ask_one(t);
    } else {
        assert_true(culm_clock_ns() - t->since_ns > SECOND / 5);
        finish(t);
    }
}

static void a_frame_torn_by_a_freeze_is_mended_by_the_thaw(void **state) {
    (void)state;
    RUN(.start = 2, .fault = "0,4,3,-1,1", .host_fault = {0, CULM_HURT_STOP, 200},
        .all_up = tear_and_ask, .on_report = until_10);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.losts, 0);
    release(&t, 1);
}

static void pass_many(struct test *t) {
    t->since_ns = culm_clock_ns();
    for (int64_t step = 1; step < 6; step++) {
        order(t, 0, TOY_FAULT, (struct toy_order){.phase = CULM_PHASE_REDUCE, .step = step});
        order(t, 0, TOY_FAULT, (struct toy_order){.phase = CULM_PHASE_COMMIT, .step = 3});
        order(t, 0, TOY_FAULT, (struct toy_order){.phase = CULM_PHASE_REDUCE, .step = 3});
    }
    order(t, 0, TOY_STATUS, (struct toy_order){0});
}

static void thawed(struct test *t, int32_t node, const struct toy_report *report) {
    (void)node;
    (void)report;
    uint64_t took = culm_clock_ns() - t->since_ns;
    assert_true(took > SECOND / 3 && took < 5 * SECOND);
    finish(t);
}

static void a_fault_fires_once_and_a_freeze_is_thawed(void **state) {
    (void)state;
    RUN(.start = 2, .fault = "0,5,3,0,1", .host_fault = {0, CULM_HURT_STOP, 400},
        .all_up = pass_many, .on_report = thawed);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.eofs, 0);
    release(&t, 1);
}

static void report_then_fault(struct test *t) {
    order(t, 0, TOY_STATUS, (struct toy_order){0});
    order(t, 0, TOY_FAULT_JOB, (struct toy_order){.phase = CULM_PHASE_FORWARD, .step = 3});
}

static void exit_after_fault(struct test *t, int32_t node, const struct culm_peer_info *info) {
    (void)info;
    assert_int_equal(node, 0);
    assert_int_equal(t->reports, 1);
    assert_int_equal(t->fault_events, 1);
    finish(t);
}

static void a_fault_on_the_compute_thread(void **state) {
    (void)state;
    for (int how = 0; how < 3; how += 2) { /* kill, exit */
        const char *const spec = how ? "0,1,3,-1,2" : "0,1,3,-1,0";
        RUN(.start = 1, .fault = spec, .host_fault = {0, CULM_HURT_KILL, 0},
            .all_up = report_then_fault, .on_exit = exit_after_fault);
        assert_int_equal(t.code, 0);
        release(&t, 1);
    }
}

/* --- traces --- */

static void trace_up(struct test *t, int32_t node, const struct culm_peer_info *info) {
    (void)node;
    if (!strcmp(info->name, "c")) {
        assert_int_equal(t->removes, 1);
        assert_true(t->exited[0]);
    } else if (!strcmp(info->name, "e")) {
        finish(t);
    }
}

static void trace_removes(struct test *t, enum culm_request request, int32_t node) {
    assert_int_equal(request, CULM_REQUEST_REMOVE);
    assert_int_equal(node, t->removes - 1);
}

static void a_trace_is_replayed_with_a_queue(void **state) {
    (void)state;
    uint64_t since = culm_clock_ns();
    RUN(.trace_text = "0,add,a\n0,add,b\n0,add,c\n10,add,d\n4000,remove,d\n8000,remove,a\n"
                      "16000,remove,b\n16000,add,e\n",
        .time_scale = 4, .max_nodes = 2, .on_up = trace_up, .on_request = trace_removes);
    uint64_t took = culm_clock_ns() - since;
    assert_int_equal(t.code, 0);
    assert_true(!strcmp(t.names, "a b c e ") || !strcmp(t.names, "b a c e "));
    assert_int_equal(t.removes, 2);
    assert_int_equal(t.exits, 2);
    assert_true(took >= 4 * SECOND);
    release(&t, 0);
}

/* --- jobs --- */

static void jobs_0(struct test *t) { order(t, 0, TOY_JOBS, (struct toy_order){.count = 30}); }

static void jobs_report(struct test *t, int32_t node, const struct toy_report *report) {
    (void)node;
    assert_int_equal(report->bad, 0);
    assert_int_equal(report->jobs, 60);
    assert_true(report->ticks >= 5);
    finish(t);
}

static void jobs_run_in_order_beside_the_loop(void **state) {
    (void)state;
    RUN(.start = 1, .all_up = jobs_0, .on_report = jobs_report);
    assert_int_equal(t.code, 0);
    release(&t, 0);
}

static void busy_and_leave(struct test *t) {
    order(t, 0, TOY_BUSY, (struct toy_order){0});
    order(t, 0, TOY_LEAVE, (struct toy_order){.count = 7});
    t->since_ns = culm_clock_ns();
}

static void a_job_that_hangs_does_not_keep_the_process(void **state) {
    (void)state;
    RUN(.start = 1, .all_up = busy_and_leave, .on_exit = exit_ends);
    assert_int_equal(t.code, 0);
    assert_true(t.exit_ns[0] - t.since_ns < 2 * SECOND);
    release(&t, 0);
}

int main(int argc, char **argv) {
    setenv("TSAN_OPTIONS", "atexit_sleep_ms=0", 0); /* workers inherit it; 2 s are 2 s */
    if (argc > 1) {
        return toy_main(argc, argv);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_of_every_size_arrive_whole_and_in_order),
        cmocka_unit_test(messages_a_second),
        cmocka_unit_test(what_was_sent_before_a_leave_arrives),
        cmocka_unit_test(a_kill_is_seen_within_a_second),
        cmocka_unit_test(workers_die_with_the_launcher),
        cmocka_unit_test(workers_of_others_end_when_the_coordinator_is_gone),
        cmocka_unit_test(a_frozen_worker_is_killed_after_the_end),
        cmocka_unit_test(a_signal_asks_for_a_stop),
        cmocka_unit_test(a_second_signal_kills_all),
        cmocka_unit_test(a_wrong_token_is_refused),
        cmocka_unit_test(another_signature_is_refused),
        cmocka_unit_test(garbage_harms_nobody),
        cmocka_unit_test(a_silent_start_is_ended),
        cmocka_unit_test(an_impossible_start_is_told),
        cmocka_unit_test(a_torn_frame_is_never_delivered),
        cmocka_unit_test(a_frame_torn_by_a_freeze_is_mended_by_the_thaw),
        cmocka_unit_test(a_fault_fires_once_and_a_freeze_is_thawed),
        cmocka_unit_test(a_fault_on_the_compute_thread),
        cmocka_unit_test(a_trace_is_replayed_with_a_queue),
        cmocka_unit_test(jobs_run_in_order_beside_the_loop),
        cmocka_unit_test(a_job_that_hangs_does_not_keep_the_process),
    };
    return cmocka_run_group_tests_name("cluster/world", tests, NULL, NULL);
}
