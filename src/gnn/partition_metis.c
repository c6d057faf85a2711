/*
 * Partitions a graph with METIS, which seeds its random numbers in each call and uses no threads,
 * so the result is reproducible.
 *
 * METIS is loaded when it is first needed: programs that link Culm's library, perhaps statically, do
 * not all cut graphs.
 */
#include "gnn/partition_internal.h"

#include "base/library.h"
#include "base/pages.h"

#include <assert.h>
#include <errno.h>
#include <metis.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static_assert(sizeof(idx_t) == 4 && sizeof(real_t) == 4, "METIS as Debian builds it");

/* In messages: training has no method of its own, but takes what that of partitioning has made. */
#define STREAM "the method 'stream' of culm gnn partition"
#define ASK_MS 50 /* between two looks whether it is to stop */
#define STOPPED 0 /* which METIS never returns */

static struct {
    __typeof__(METIS_SetDefaultOptions) *set_default_options;
    __typeof__(METIS_PartGraphKway) *part_graph_kway;
} metis;

static enum culm_status need_metis(struct culm_error *error) {
    static const struct culm_library_function functions[] = {
        {"METIS_SetDefaultOptions", &metis.set_default_options},
        {"METIS_PartGraphKway", &metis.part_graph_kway}};
    static struct culm_library library = {.name = "libmetis.so.5",
                                          .package = "libmetis5",
                                          .oldest = "5.0",
                                          .functions = functions,
                                          .count = sizeof functions / sizeof *functions};
    enum culm_status status = culm_library_load(&library, error);
    if (status != CULM_OK) {
        culm_error_prefix(error, "cut the graph with METIS (" STREAM " needs none)");
    }
    return status;
}

/* The same graph without loops, in METIS's integers. */
struct metis_graph {
    idx_t *start, *column, *weight; /* weight: 1 + number of edges, limited */
};

static void release(struct metis_graph *graph) {
    free(graph->start);
    free(graph->column);
    free(graph->weight);
}

static bool convert(const struct culm_adjacency *from, int64_t parts, struct metis_graph *to) {
    size_t vertices = (size_t)from->vertices;
    /* A vertex heavier than a part would make METIS leave other parts empty. */
    idx_t most = 1 + (idx_t)((vertices + from->start[vertices]) / (size_t)parts);
    to->start = culm_pages_alloc((vertices + 1) * sizeof *to->start);
    to->column = culm_pages_alloc((size_t)from->start[vertices] * sizeof *to->column);
    to->weight = culm_pages_alloc(vertices * sizeof *to->weight);
    if (!to->start || !to->column || !to->weight) {
        return false;
    }
    idx_t count = 0;
    for (size_t v = 0; v < vertices; v++) {
        to->start[v] = count;
        for (uint64_t i = from->start[v]; i < from->start[v + 1]; i++) {
            if (from->column[i] != v) {
                to->column[count++] = (idx_t)from->column[i];
            }
        }
        idx_t load = 1 + count - to->start[v];
        to->weight[v] = load < most ? load : most;
    }
    to->start[vertices] = count;
    return true;
}

/* What the child that runs METIS shares with its parent. */
struct answer {
    int result; /* METIS's; 0, which is none of them, until it is there */
    idx_t part[];
};

/* The child: it has the calling thread alone. Signals are blocked but for those that METIS sends itself,
 * and has handlers for, to jump out of internal errors. */
static _Noreturn void run_metis(const struct metis_graph *graph, idx_t vertices, idx_t parts,
                                idx_t *options, struct answer *answer) {
    idx_t constraints = 1, cut;
    real_t slack = 1.05f;
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, SIGABRT);
    signal(SIGABRT, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &own, NULL);
    answer->result =
        metis.part_graph_kway(&vertices, &constraints, graph->start, graph->column, graph->weight,
                              NULL, NULL, &parts, NULL, &slack, options, &cut, answer->part);
    _exit(0);
}

/* Waits for the end of the child, or ends it when that is asked for. False: it was ended. */
static bool await(pid_t child, const struct culm_stop *stop) {
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN};
    bool stopped = false;
    /* Without a descriptor nobody can look for both. */
    while (end.fd >= 0 && !(stopped = culm_stop_asked(stop)) && poll(&end, 1, ASK_MS) <= 0) {
    }
    if (stopped) {
        (void)syscall(SYS_pidfd_send_signal, end.fd, SIGKILL, NULL, 0);
    }
    if (end.fd >= 0) {
        close(end.fd);
    }
    /* Whoever ignores SIGCHLD, or waits for all children, may have it first: the answer is there then. */
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    return !stopped;
}

/* While it works, METIS has handlers of its own for SIGTERM and SIGABRT, which would jump into nowhere
 * from any thread but its own; and it does not restore them as they were. So a child process calls it,
 * and this one, which may be a program of anybody's with threads and handlers, only waits. */
static int call(const struct metis_graph *graph, idx_t vertices, idx_t parts, idx_t *options,
                const struct culm_stop *stop, idx_t *ret_part) {
    const size_t size = sizeof(struct answer) + (size_t)vertices * sizeof(idx_t);
    struct answer *answer =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sigset_t all, before;
    if (answer == MAP_FAILED) {
        return METIS_ERROR_MEMORY;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const pid_t parent = getpid(), child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent) {
            run_metis(graph, vertices, parts, options, answer);
        }
        _exit(1);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    const bool ended = child < 0 || await(child, stop);
    const int result = !ended                         ? STOPPED
                       : child < 0 || !answer->result ? METIS_ERROR_MEMORY
                                                      : answer->result;
    if (result == METIS_OK) {
        memcpy(ret_part, answer->part, (size_t)vertices * sizeof *ret_part);
    }
    munmap(answer, size);
    return result;
}

enum culm_status partition_metis(const struct culm_adjacency *symmetric, int64_t parts,
                                 uint64_t seed, const struct culm_stop *stop, uint32_t *ret_part,
                                 struct culm_error *error) {
    struct metis_graph graph = {0};
    idx_t options[METIS_NOPTIONS];
    if (symmetric->vertices > INT32_MAX - 1 ||
        symmetric->start[symmetric->vertices] > (uint64_t)INT32_MAX / 2) {
        return culm_error_set(error, CULM_ERR_UNSUPPORTED,
                              "%llu ends of edges are too many for METIS; use " STREAM,
                              (unsigned long long)symmetric->start[symmetric->vertices]);
    }
    enum culm_status status = need_metis(error);
    if (status != CULM_OK) {
        return status;
    }
    metis.set_default_options(options);
    options[METIS_OPTION_SEED] = (idx_t)(seed & 0x7fffffff);
    options[METIS_OPTION_NUMBERING] = 0;
    int result = METIS_ERROR_MEMORY;
    if (convert(symmetric, parts, &graph)) {
        result = call(&graph, (idx_t)symmetric->vertices, (idx_t)parts, options, stop,
                      (idx_t *)ret_part);
    }
    release(&graph);
    if (result == STOPPED) {
        return culm_error_set(error, CULM_ERR_STOPPED, "stopped while METIS cut the graph");
    }
    if (result == METIS_ERROR_MEMORY) {
        return culm_error_set(error, CULM_ERR_MEMORY,
                              "METIS: out of memory; " STREAM " needs less");
    }
    if (result != METIS_OK) {
        return culm_error_set(error, CULM_ERR_INTERNAL, "METIS ended with %d; use " STREAM, result);
    }
    return CULM_OK;
}
