/* The worker's toy actor. */
#include "toy.h"

#include "cluster/worker.h"
#include "net/socket.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define NODES 8
#define JOBS_MAX 64

struct toy_job {
    struct culm_job job; /* first */
    struct toy_worker *toy;
    int64_t number;
    struct toy_order order;
    bool io;
};

struct toy_worker {
    struct culm_world *world;
    struct culm_blob_pool *pool;
    struct toy_report report[NODES]; /* by sender */
    struct toy_job job[2 * JOBS_MAX], fault_job;
    int64_t executed[2]; /* atomic; jobs begun, by thread */
    int64_t done[2], jobs_wanted, ticks;
    uint32_t bad;
};

/* One worker a process. */
static char toy_news[32];

static bool toy_heard; /* atomic: any news */

static void on_news(void *ctx, const void *news, size_t len) {
    char *heard = ctx;
    if (!news) {
        return;
    }
    __atomic_store_n(&toy_heard, true, __ATOMIC_RELEASE);
    strncat(heard, news, len < sizeof toy_news - strlen(heard) ? len : 0);
}

size_t toy_size(uint64_t size, int64_t index) {
    return size ? (size_t)size - 1 : index < 27 ? (size_t)1 << index : (size_t)(index % 3000);
}

static void fill(uint8_t *data, size_t len, int64_t seed) {
    uint64_t x = (uint64_t)seed * 0x9E3779B97F4A7C15ull + 1;
    for (size_t i = 0; i + 8 <= len; i += 8) {
        x = x * 6364136223846793005ull + 1442695040888963407ull;
        memcpy(data + i, &x, 8);
    }
    memset(data + len / 8 * 8, (int)(seed & 255), len % 8);
}

static bool filled(const uint8_t *data, size_t len, int64_t seed) {
    uint64_t x = (uint64_t)seed * 0x9E3779B97F4A7C15ull + 1, got;
    for (size_t i = 0; i + 8 <= len; i += 8) {
        x = x * 6364136223846793005ull + 1442695040888963407ull;
        memcpy(&got, data + i, 8);
        if (got != x) {
            return false;
        }
    }
    for (size_t i = len / 8 * 8; i < len; i++) {
        if (data[i] != (uint8_t)(seed & 255)) {
            return false;
        }
    }
    return true;
}

static void send(struct toy_worker *toy, int32_t to, uint16_t type, const void *meta, size_t bytes,
                 struct culm_blob *payload, size_t payload_bytes) {
    const struct culm_message message = {
        .type = type,
        .meta = meta,
        .meta_bytes = (uint32_t)bytes,
        .payload = payload,
        .payload_bytes = payload_bytes,
    };
    toy->world->ops->send(toy->world, to, &message);
}

static void pass_fault(struct toy_worker *toy, const struct toy_order *order) {
    const struct culm_fault_point point = {(uint32_t)order->phase, order->step, 0};
    toy->world->ops->fault(toy->world, &point);
}

static void blast(struct toy_worker *toy, const struct toy_order *order) {
    for (int64_t i = 0; i < order->count; i++) {
        struct toy_order data = {.count = i, .size = order->size};
        struct culm_blob *blob = NULL;
        size_t size = toy_size(order->size, i);
        if (size) {
            if (culm_blob_pool_get(toy->pool, size, &blob) != CULM_OK) {
                abort();
            }
            fill(blob->data, size, i);
        }
        if (order->fault_at == i + 1) {
            pass_fault(toy, order);
        }
        send(toy, order->node, TOY_DATA, &data, sizeof data, blob, size);
        culm_blob_unref(blob);
    }
}

static void receive(struct toy_worker *toy, int32_t from, const struct culm_message *message) {
    struct toy_report *report = &toy->report[from];
    struct toy_order data;
    memcpy(&data, message->meta, sizeof data);
    bool right = data.count == report->messages &&
                 message->payload_bytes == toy_size(data.size, data.count) &&
                 (!message->payload_bytes ||
                  filled(message->payload->data, message->payload_bytes, data.count));
    report->messages++;
    report->bad += !right;
}

static void report(struct toy_worker *toy, int32_t from, struct culm_blob *payload) {
    struct toy_report r = toy->report[from];
    r.from = from;
    r.bad += toy->bad;
    r.pid = getpid();
    r.jobs = toy->done[0] + toy->done[1];
    r.ticks = toy->ticks;
    memcpy(r.news, toy_news, sizeof r.news);
    send(toy, CULM_LEADER, TOY_REPORT, &r, sizeof r, payload, payload ? payload->size_bytes : 0);
}

static void leave(struct toy_worker *toy, const struct toy_order *order) {
    struct culm_blob *blob;
    if (culm_blob_pool_get(toy->pool, TOY_MB, &blob) != CULM_OK) {
        abort();
    }
    memset(blob->data, 0, TOY_MB);
    for (uint64_t i = 0; i < order->size; i++) {
        report(toy, 0, blob);
    }
    culm_blob_unref(blob);
    toy->world->ops->leave(toy->world, (int)order->count, NULL);
}

/* --- jobs --- */

static enum culm_status execute(struct culm_job *job) {
    struct toy_job *toy_job = (struct toy_job *)job;
    int64_t *begun = &toy_job->toy->executed[toy_job->io];
    uint64_t x = 1;
    if (__atomic_fetch_add(begun, 1, __ATOMIC_RELAXED) != toy_job->number) {
        return CULM_ERR_INTERNAL;
    }
    for (int i = 0; i < 2000000; i++) { /* long enough that the loop turns meanwhile */
        x = x * 6364136223846793005ull + 1;
        __asm__ volatile("" : "+r"(x));
    }
    return CULM_OK;
}

static enum culm_status execute_fault(struct culm_job *job) {
    struct toy_job *toy_job = (struct toy_job *)job;
    pass_fault(toy_job->toy, &toy_job->order);
    return CULM_OK;
}

static enum culm_status execute_forever(struct culm_job *job) {
    (void)job;
    for (;;) {
        pause();
    }
    return CULM_OK;
}

static void start_jobs(struct toy_worker *toy, int64_t count) {
    assert(count <= JOBS_MAX);
    toy->jobs_wanted = 2 * count;
    for (int64_t i = 0; i < 2 * count; i++) {
        struct toy_job *job = &toy->job[i];
        *job = (struct toy_job){.job.execute = execute, .toy = toy, .number = i / 2, .io = i % 2};
        if (job->io) {
            toy->world->ops->io(toy->world, &job->job);
        } else {
            toy->world->ops->run(toy->world, &job->job);
        }
    }
    toy->world->ops->timer(toy->world, 3, 1000000);
    toy->world->ops->timer(toy->world, 4, 1000000);
    toy->world->ops->timer(toy->world, 4, CULM_NEVER);
}

static void run_fault_job(struct toy_worker *toy, enum culm_status (*what)(struct culm_job *),
                          const struct toy_order *order) {
    toy->fault_job = (struct toy_job){.job.execute = what, .toy = toy, .order = *order};
    toy->world->ops->run(toy->world, &toy->fault_job.job);
}

/* --- the actor --- */

static void on_start(void *actor) { (void)actor; }

static void on_message(void *actor, int32_t from, const struct culm_message *message) {
    struct toy_worker *toy = actor;
    struct toy_order order;
    if (message->type == TOY_DATA) {
        receive(toy, from, message);
        return;
    }
    memcpy(&order, message->meta, sizeof order);
    switch (message->type) {
    case TOY_BLAST: blast(toy, &order); break;
    case TOY_FAULT: pass_fault(toy, &order); break;
    case TOY_FAULT_JOB: run_fault_job(toy, execute_fault, &order); break;
    case TOY_BUSY: run_fault_job(toy, execute_forever, &order); break;
    case TOY_JOBS: start_jobs(toy, order.count); break;
    case TOY_STATUS: report(toy, order.node, NULL); break;
    case TOY_LEAVE: leave(toy, &order); break;
    default: abort();
    }
}

static void on_lost(void *actor, int32_t node) {
    struct toy_worker *toy = actor;
    struct toy_report r = toy->report[node];
    r.from = node;
    send(toy, CULM_LEADER, TOY_LOST, &r, sizeof r, NULL, 0);
}

static void on_timer(void *actor, uint32_t timer) {
    struct toy_worker *toy = actor;
    toy->bad += timer != 3;
    toy->ticks++;
    if (toy->done[0] + toy->done[1] < toy->jobs_wanted) {
        toy->world->ops->timer(toy->world, 3, 1000000);
    }
}

static void on_job_done(void *actor, struct culm_job *job) {
    struct toy_worker *toy = actor;
    struct toy_job *toy_job = (struct toy_job *)job;
    if (job == &toy->fault_job.job) {
        return;
    }
    toy->bad += job->status != CULM_OK || toy_job->number != toy->done[toy_job->io];
    toy->done[toy_job->io]++;
    if (toy->done[0] + toy->done[1] == toy->jobs_wanted) {
        report(toy, 0, NULL);
    }
}

static const struct culm_actor_ops toy_ops = {
    .size = sizeof toy_ops,
    .start = on_start,
    .message = on_message,
    .lost = on_lost,
    .timer = on_timer,
    .job_done = on_job_done,
};

/* --- the processes --- */

/* Between the two steps of joining. The brief is bytes that count up. */
static bool prepare(const char *mode, struct culm_worker *worker, struct culm_error *error) {
    size_t len;
    const uint8_t *brief = culm_worker_brief(worker, &len);
    uint64_t begin = culm_clock_ns();
    bool good = len == TOY_BRIEF;
    for (size_t i = 0; i < len && good; i++) {
        good = brief[i] == (uint8_t)(i % 251);
    }
    if (!strcmp(mode, "asleep")) {
        for (;;) {
            pause();
        }
    }
    while (!strcmp(mode, "slow") && culm_clock_ns() < begin + 4000000000u) {
    }
    while (!strcmp(mode, "curious") && !__atomic_load_n(&toy_heard, __ATOMIC_ACQUIRE)) {
    }
    if (!strcmp(mode, "decline") || !good) {
        culm_error_set(error, CULM_ERR_CHANGED,
                       good ? "'x' is not what it was" : "a brief of %zu bytes", len);
        culm_worker_decline(worker, error);
        return false;
    }
    return true;
}

/* token signature node name address fault_fd index,phase,step,part,how|- */
static int run_worker(const char *mode, char **arg) {
    struct culm_blob_pool *pool = culm_blob_pool_new(0);
    struct culm_worker_fault fault;
    int phase, how, part;
    long step;
    bool given = sscanf(arg[6], "%d,%d,%ld,%d,%d", &fault.index, &phase, &step, &part, &how) == 5;
    if (given) {
        fault.point = (struct culm_fault_point){(uint32_t)phase, step, part};
        fault.at_send = phase == TOY_PHASE_SEND;
        fault.how = (enum culm_fault_how)how;
    }
    const struct culm_worker_options options = {
        .token = arg[0],
        .node = atoi(arg[2]),
        .role = TOY_WANTED,
        .listen = getenv(TOY_LISTEN),
        .advertise = getenv(TOY_ADVERTISE),
        .name = arg[3],
        .address = arg[4],
        .news = on_news,
        .news_ctx = toy_news,
        .hello_limit_ms = TOY_LONG_MS,
        .fault_fd = atoi(arg[5]),
        .faults = &fault,
        .fault_count = given ? 1 : 0,
    };
    struct culm_worker *worker;
    struct culm_error error = {0};
    if (culm_worker_new(&options, &worker, &error) != CULM_OK) {
        fprintf(stderr, "%s\n", error.text);
        culm_blob_pool_free(pool);
        return 1;
    }
    const struct culm_worker_ready ready = {.signature = arg[1],
                                            .pool = pool,
                                            .payload_max = TOY_PAYLOAD_MAX,
                                            .dial_limit_ms = TOY_LONG_MS,
                                            .orphan_ms = TOY_LONG_MS};
    if (!prepare(mode, worker, &error) ||
        culm_worker_report_ready(worker, &ready, &error) != CULM_OK) {
        fprintf(stderr, "%s\n", error.text);
        culm_worker_free(worker);
        culm_blob_pool_free(pool);
        return 1;
    }
    if (options.node == CULM_NEWCOMER) {
        uint32_t role;
        int32_t node = culm_worker_node(worker, &role);
        fprintf(stderr, "is node %d in role %u\n", node, role);
    }
    static struct toy_worker toy;
    toy.world = culm_worker_world(worker);
    toy.pool = pool;
    int code = culm_worker_run(worker, &toy_ops, &toy, &error);
    fprintf(stderr, "ends with %d %s\n", code, error.text);
    culm_worker_free(worker);
    culm_blob_pool_free(pool);
    return code;
}

/* A process of ours traces us and does not look: when we are killed we stop on the way out, and are
 * not gone before that one ends, which it does by itself when the test has ended. */
static void be_held(void) {
    int held[2];
    char done;
    if (pipe(held)) {
        abort();
    }
    pid_t self = getpid(), test = getppid(), helper = fork();
    if (helper == 0) {
        if (ptrace(PTRACE_SEIZE, self, NULL, (void *)PTRACE_O_TRACEEXIT) == 0) {
            fprintf(stderr, "held by %d\n", (int)getpid());
        } else {
            fprintf(stderr, "no tracing here\n");
        }
        close(held[0]);
        close(held[1]);
        while (kill(test, 0) == 0) {
            sleep(1);
        }
        _exit(0);
    }
    (void)prctl(PR_SET_PTRACER, helper, 0, 0, 0);
    close(held[1]);
    (void)!read(held[0], &done, 1);
    close(held[0]);
}

int toy_main(int argc, char **argv) {
    const char *mode = argv[1];
    if (!strcmp(mode, "launcher") && argc == 3) {
        return toy_launcher(argv[2]);
    }
    if (!strcmp(mode, "silent")) {
        for (;;) {
            pause();
        }
    }
    if (argc != 9) {
        return 2;
    }
    if (!strcmp(mode, "undead")) {
        be_held();
    }
    if (!strcmp(mode, "wrapped")) {
        pid_t pid = fork();
        if (pid > 0) {
            int status;
            waitpid(pid, &status, 0);
            return 0;
        }
    }
    return run_worker(mode, argv + 2);
}

char **toy_argv(const char *mode, const char *token, const char *signature, int32_t node,
                const char *name, const char *address, int fault_fd, const char *fault) {
    char **argv = calloc(10, sizeof *argv);
    char number[2][16];
    snprintf(number[0], 16, "%d", node);
    snprintf(number[1], 16, "%d", fault_fd);
    const char *const from[] = {"/proc/self/exe", mode,      token,
                                signature,        number[0], name,
                                address,          number[1], fault ? fault : "-"};
    for (size_t i = 0; i < 9; i++) {
        argv[i] = strdup(from[i]);
    }
    return argv;
}
