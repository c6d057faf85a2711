/* What a leader does, alone. See bench_leader.h. */
#include "run/bench_leader.h"

#include "base/clock.h"
#include "base/grow.h"
#include "run/bench_leader_job.h"

#include <stdlib.h>
#include <time.h>

#define LOSSES 3 /* times that a tenth is lost, each time of a new leader's */
#define TENTH 10

const char *const culm_bench_jobs[] = {
    [CULM_BENCH_TRAIN] = "train", [CULM_BENCH_GNN] = "gnn", NULL};

static const struct bench_job *const jobs[] = {
    [CULM_BENCH_TRAIN] = &bench_train, [CULM_BENCH_GNN] = &bench_gnn};

struct bench {
    const struct bench_job *job;
    struct bench_world world;
    void *of; /* the job's */
};

static double seconds_since(uint64_t start_ns) {
    return (double)(culm_clock_ns() - start_ns) / 1e9;
}

static double used_s(void) {
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

/* What the leader does is done, and it has gone on. */
static enum culm_status check(const struct bench *b, const char *what, bool done,
                              struct culm_error *error) {
    if (b->world.no_memory) {
        return no_memory(error);
    }
    if (b->world.left || !done) {
        return culm_error_set(error, CULM_ERR_INTERNAL, "the leader has not %s: %.400s", what,
                              b->world.left ? b->world.error.text : "please report this");
    }
    return CULM_OK;
}

/* A leader whose nodes have all joined. */
static enum culm_status begin(struct bench *b, int32_t workers, double *ret_s,
                              struct culm_error *error) {
    const int32_t nodes = b->job->nodes(workers);
    if (!bench_world_init(&b->world, nodes, b->job->meta_max) ||
        !(b->of = b->job->open(&b->world, workers))) {
        return no_memory(error);
    }
    const uint64_t start = culm_clock_ns();
    b->world.actor->start(b->world.leader);
    for (int32_t n = 0; n < nodes; n++) {
        const struct culm_node_info info = {
            .role = b->world.role[n], .pid = n + 1, .name = "here", .signature = ""};
        b->world.actor->leads->joined(b->world.leader, n, &info);
        bench_world_fire(&b->world);
    }
    *ret_s = seconds_since(start);
    enum culm_status status = check(b, "made a view", b->world.sent[b->job->view] > 0, error);
    if (status == CULM_OK) {
        b->job->settle(b->of);
        bench_world_fire(&b->world);
    }
    return status;
}

static void end(struct bench *b) {
    b->job->close(b->of);
    bench_world_release(&b->world);
}

static enum culm_status round_once(struct bench *b, double *ret_cpu_s, double *ret_commit_s,
                                   struct culm_error *error) {
    const int32_t messages = b->job->messages(b->of);
    const double used = used_s();
    for (int32_t m = 0; m < messages - 1; m++) {
        b->job->say(b->of, m);
    }
    bench_world_drop(&b->world);
    const uint64_t last = culm_clock_ns();
    b->job->say(b->of, messages - 1);
    bench_world_fire(&b->world);
    *ret_commit_s = seconds_since(last);
    *ret_cpu_s = used_s() - used;
    const bool committed = b->world.sent[b->job->commit] == b->world.nodes;
    enum culm_status status = check(b, "committed", committed, error);
    if (status == CULM_OK) {
        b->job->settle(b->of);
    }
    return status;
}

static enum culm_status rounds(struct bench *b, int64_t count, struct culm_leader_bench *bench,
                               struct culm_error *error) {
    double *cpu = calloc((size_t)count, sizeof *cpu),
           *commit = calloc((size_t)count, sizeof *commit);
    enum culm_status status = cpu && commit ? CULM_OK : no_memory(error);
    double warm[2];
    if (status == CULM_OK) {
        status = round_once(b, &warm[0], &warm[1], error); /* not counted */
    }
    for (int64_t r = 0; r < count && status == CULM_OK; r++) {
        status = round_once(b, &cpu[r], &commit[r], error);
    }
    if (status == CULM_OK) {
        bench->round_median_s = culm_median(cpu, (size_t)count); /* and sorts them */
        bench->round_most_s = cpu[count - 1];
        bench->commit_median_s = culm_median(commit, (size_t)count);
        bench->commit_most_s = commit[count - 1];
        bench->rounds = count;
    }
    free(cpu);
    free(commit);
    return status;
}

/* A tenth of the workers is lost: every tenth, as if they were spread over racks. */
static enum culm_status lose(struct bench *b, int32_t workers, double *ret_s,
                             struct culm_leader_bench *bench, struct culm_error *error) {
    bench->lost = 0;
    bench_world_drop(&b->world);
    const uint64_t start = culm_clock_ns();
    for (int32_t n = 0; n < workers - workers % TENTH || n == 0; n += TENTH, bench->lost++) {
        b->world.actor->lost(b->world.leader, n);
        b->world.actor->leads->ended(b->world.leader, n, NULL);
    }
    bench_world_fire(&b->world);
    *ret_s = seconds_since(start);
    const int64_t views = b->world.sent[b->job->view];
    bench->views = (double)views / (double)(b->world.nodes - bench->lost);
    bench->bytes_per_node = bench_world_most_bytes(&b->world);
    bench->queued_bytes = 0;
    for (int32_t n = 0; n < b->world.nodes; n++) {
        bench->queued_bytes += b->world.bytes[n];
    }
    return check(b, "made a view after the losses", views > 0, error);
}

static enum culm_status measure(const struct bench_job *job, int32_t workers, int64_t count,
                                struct culm_leader_bench *bench, struct culm_error *error) {
    double lost[LOSSES], joined;
    enum culm_status status = CULM_OK;
    for (int t = 0; t < LOSSES && status == CULM_OK; t++) {
        struct bench b = {.job = job};
        status = begin(&b, workers, t ? &joined : &bench->join_s, error);
        if (status == CULM_OK && t == 0) {
            status = rounds(&b, count, bench, error);
        }
        if (status == CULM_OK) {
            status = lose(&b, workers, &lost[t], bench, error);
        }
        end(&b);
    }
    if (status == CULM_OK) {
        bench->lost_s = culm_median(lost, LOSSES);
    }
    return status;
}

enum culm_status culm_bench_leader(int job, int64_t workers, int64_t count,
                                   struct culm_leader_bench *ret_bench, struct culm_error *error) {
    const struct bench_job *of = jobs[job];
    struct culm_leader_bench bench = {.job = culm_bench_jobs[job]};
    if (workers < of->least || workers > of->most) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "a leader of '%s' leads %lld to %lld workers; change --workers",
                              bench.job, (long long)of->least, (long long)of->most);
    }
    bench.workers = (int32_t)workers;
    bench.nodes = of->nodes((int32_t)workers);
    enum culm_status status = measure(of, bench.workers, count, &bench, error);
    if (status == CULM_OK) {
        *ret_bench = bench;
    }
    return status;
}
