/*
 * A test of the real worlds is a toy leader actor: it starts workers, reacts by the functions
 * that the test gives, and leaves with 0; its watchdog leaves with 99 after WATCHDOG_S.
 */
#ifndef CULM_TESTS_UNIT_CLUSTER_TOY_TEST_H
#define CULM_TESTS_UNIT_CLUSTER_TOY_TEST_H

#include "toy.h"

#include <sys/types.h>

#define SECOND 1000000000ull
/* Limits of the worlds that a test is not about are TOY_LONG_MS: on a machine that may be busy, what happens SOON does
 * not happen because of one of them. */
#define SOON (300 * SECOND)
#define WATCHDOG_S 500
#define NODES 8
#define ROLE 7 /* of those that the toy leader starts, and that it gives to newcomers */

struct test {
    /* what is to happen */
    const char *listen, *advertise;                     /* NULL: "unix:"; where that is */
    const char *mode, *exe, *bad_token, *bad_signature; /* of the node `bad` */
    int32_t start, bad;
    const char *fault; /* of node 0; "index,phase,step,part,how" */
    struct culm_agent_fault host_fault;
    const char *trace_text;
    double time_scale;
    int32_t max_nodes;
    int64_t start_limit_ms, hello_limit_ms; /* 0: TOY_LONG_MS */
    const char *log_dir;                    /* NULL: dir */
    size_t pool_bytes;                      /* the limit of the host's memory; 0: none */
    int no_briefs;                          /* so many are not written, for lack of memory */
    int leave_at_start;                     /* 0: it goes on */
    struct culm_engine *engine;             /* NULL: none; of ROLE */
    int stop_fd;                            /* the host's; test_run makes it */
    /* NULL: any newcomer may. */
    bool (*admits)(struct test *t, const struct culm_node_info *info, struct culm_error *ret_error);
    bool closed;                         /* the actor has no such function */
    void (*all_started)(struct test *t); /* they run, and have not joined */
    void (*all_up)(struct test *t);
    void (*on_up)(struct test *t, int32_t node, const struct culm_node_info *info);
    void (*on_report)(struct test *t, int32_t node, const struct toy_report *report);
    void (*on_lost)(struct test *t, int32_t node, int32_t lost);
    void (*on_eof)(struct test *t, int32_t node);
    void (*on_exit)(struct test *t, int32_t node, const struct culm_error *why);
    void (*on_removed)(struct test *t, int32_t node);
    void (*on_stop)(struct test *t);
    void (*on_timer)(struct test *t);
    void (*on_event)(struct test *t, const char *name);
    /* what has */
    struct culm_host *host;
    struct culm_world *world;
    struct culm_agent *agent;
    struct culm_blob_pool *pool;
    struct culm_trace trace;
    char dir[64];
    int32_t ups, eofs, exits, reports, losts, removes, stops;
    bool up[NODES], eof[NODES], exited[NODES];
    int64_t pid[NODES];
    uint64_t since_ns, eof_ns[NODES], exit_ns[NODES];
    int32_t briefs[2]; /* asked for; 1: those of newcomers */
    int32_t fault_events, error_events;
    char error_text[512], names[64];
    int code;
};

void test_order(struct test *t, int32_t node, uint16_t type, struct toy_order what);
void test_finish(struct test *t); /* leaves with 0 */
void test_run(struct test *t);
/* Checks that fault 0 fired so often, that every process was reaped, and that no log has a
 * sanitizer's report. */
void test_release(struct test *t, int32_t fired);
void test_read_log(struct test *t, int32_t node, char *ret_text, size_t size);

/* What a test starts besides its host's nodes. */
struct test_came {
    pid_t pid[4];
    int words[4]; /* what it prints */
    int count;
};
extern struct test_came test_came;
/* A newcomer of this name, also of another signature than "sig". */
void test_come(struct test *t, const char *mode, const char *token, const char *name);
void test_come_as(struct test *t, const char *mode, const char *token, const char *signature,
                  const char *name);
/* Its exit code, or minus the signal; and all that it said. */
int test_came_end(int index, char *ret_words, size_t size);

#define RUN(...)                                                                                   \
    struct test t = {__VA_ARGS__};                                                                 \
    test_run(&t)

#endif
