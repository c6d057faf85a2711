/* What every process of a run does, whatever it works on. See participant.h. */
#include "launch/participant.h"

#include "base/file.h"
#include "base/machine.h"
#include "net/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DIR, NODE, ADDRESS, NAME, FAULT_FD, ARGUMENTS };

struct culm_participant {
    const char *dir; /* borrowed */
    char token[CULM_TOKEN_SIZE];
    struct culm_worker_fault *faults;
    size_t fault_count;
    struct culm_worker *world;
};

/* --- joining --- */

/* All of standard input, which nobody else can read again. */
static enum culm_status read_token(struct culm_participant *p, struct culm_error *error) {
    ssize_t got;
    size_t len = 0;
    while (len < sizeof p->token - 1 &&
           (got = read(STDIN_FILENO, p->token + len, sizeof p->token - 1 - len)) != 0) {
        if (got < 0 && errno != EINTR) {
            return culm_error_errno(error, errno, "read the token from standard input");
        }
        len += got > 0 ? (size_t)got : 0;
    }
    return len ? CULM_OK
               : culm_error_set(error, CULM_ERR_ARGUMENT,
                                "no token on standard input; this command is for the launcher");
}

static enum culm_status read_faults(struct culm_participant *p,
                                    const struct culm_participant_role *role, int count,
                                    char **argument, struct culm_error *error) {
    p->faults = calloc((size_t)count, sizeof *p->faults);
    if (!p->faults) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    for (int i = ARGUMENTS; i + 1 < count && role->fault; i += 2) {
        struct culm_worker_fault *fault = &p->faults[p->fault_count];
        enum culm_status status = role->fault(argument[i + 1], fault, error);
        if (status != CULM_OK) {
            return status;
        }
        fault->index = atoi(argument[i]);
        p->fault_count++;
    }
    return CULM_OK;
}

/* As the launcher has started it. */
static enum culm_status call(struct culm_participant *p, const struct culm_participant_role *role,
                             int count, char **argument, struct culm_error *error) {
    enum culm_status status = read_token(p, error);
    if (status == CULM_OK) {
        status = read_faults(p, role, count, argument, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_worker_options options = {
        .address = argument[ADDRESS],
        .token = p->token,
        .node = atoi(argument[NODE]),
        .calls_only = role->calls_only,
        .name = argument[NAME],
        .fault_fd = atoi(argument[FAULT_FD]),
        .faults = p->faults,
        .fault_count = p->fault_count,
        .flip = role->flip,
        .flip_ctx = role->ctx,
        .news = role->news,
        .led = role->led,
        .news_ctx = role->ctx,
    };
    return culm_worker_new(&options, &p->world, error);
}

/* One that has not called yet. NULL: out of memory. */
static struct culm_participant *participant_new(const char *borrow_dir, struct culm_error *error) {
    struct culm_participant *p = calloc(1, sizeof *p);
    if (!p) {
        culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
        return NULL;
    }
    p->dir = borrow_dir;
    culm_socket_raise_limit();
    return p;
}

static enum culm_status give(struct culm_participant *take_p, enum culm_status status,
                             struct culm_participant **ret_participant) {
    if (status == CULM_OK) {
        *ret_participant = take_p;
    } else {
        culm_participant_leave(take_p);
    }
    return status;
}

enum culm_status culm_participant_join(int argc, char **argv,
                                       const struct culm_participant_role *role,
                                       struct culm_participant **ret_participant,
                                       struct culm_error *error) {
    int count = argc - role->words;
    char **argument = argv + role->words;
    if (count < ARGUMENTS) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "this command is for the launcher");
    }
    struct culm_participant *p = participant_new(argument[DIR], error);
    return p ? give(p, call(p, role, count, argument, error), ret_participant) : CULM_ERR_MEMORY;
}

enum culm_status culm_participant_come(const struct culm_participant_call *newcomer,
                                       const struct culm_participant_role *role,
                                       struct culm_participant **ret_participant,
                                       struct culm_error *error) {
    struct culm_participant *p = participant_new(newcomer->dir ? newcomer->dir : "", error);
    if (!p) {
        return CULM_ERR_MEMORY;
    }
    const struct culm_worker_options options = {
        .address = newcomer->address,
        .token = newcomer->token,
        .node = CULM_NEWCOMER,
        .role = newcomer->role,
        .plain = newcomer->plain,
        .calls_only = role->calls_only,
        .listen = newcomer->listen,
        .advertise = newcomer->advertise,
        .name = newcomer->name,
        .zone = newcomer->zone,
        .leave_ms = newcomer->leave_ms,
        .stranded = newcomer->stranded,
        .fault_fd = -1,
        .flip = role->flip,
        .flip_ctx = role->ctx,
        .news = role->news,
        .led = role->led,
        .news_ctx = role->ctx,
    };
    return give(p, culm_worker_new(&options, &p->world, error), ret_participant);
}

/* --- what it has, and its work --- */

const char *culm_participant_dir(const struct culm_participant *p) { return p->dir; }

int32_t culm_participant_node(const struct culm_participant *p) {
    return culm_worker_node(p->world, NULL);
}

const void *culm_participant_brief(const struct culm_participant *p, size_t *ret_len) {
    return culm_worker_brief(p->world, ret_len);
}

struct culm_world *culm_participant_world(struct culm_participant *p) {
    return culm_worker_world(p->world);
}

enum culm_status culm_participant_ready(struct culm_participant *p,
                                        const struct culm_worker_ready *ready,
                                        struct culm_error *error) {
    return culm_worker_report_ready(p->world, ready, error);
}

void culm_participant_decline(struct culm_participant *p, const struct culm_error *why) {
    culm_worker_decline(p->world, why);
}

int culm_participant_run(struct culm_participant *p, const struct culm_actor_ops *ops, void *actor,
                         struct culm_error *ret_error) {
    return culm_worker_run(p->world, ops, actor, ret_error);
}

void culm_participant_leave(struct culm_participant *p) {
    if (p) {
        culm_worker_free(p->world);
        free(p->faults);
        free(p);
    }
}

/* --- as a process --- */

void culm_participant_measure(struct culm_blob_pool *pool,
                              struct culm_participant_memory *ret_memory) {
    struct culm_blob_pool_stats stats;
    culm_blob_pool_stats_of(pool, &stats);
    *ret_memory = (struct culm_participant_memory){.blobs_bytes = stats.peak_bytes,
                                                   .process_bytes = culm_machine_peak(),
                                                   .allocations = stats.allocations};
}

int culm_participant_main(const char *name, int argc, char **argv,
                          int (*work)(int argc, char **argv,
                                      struct culm_participant_memory *ret_memory,
                                      struct culm_error *ret_error)) {
    struct culm_participant_memory memory = {0};
    struct culm_error error = {0};
    int code = work(argc, argv, &memory, &error);
    if (error.text[0]) {
        fprintf(stderr, "%s: %s\n", name, error.text);
    }
    if (memory.process_bytes) {
        fprintf(stderr, "memory: blobs %.1f MB at most, process %.1f MB at most, %zu allocations\n",
                (double)memory.blobs_bytes / 1e6, (double)memory.process_bytes / 1024 / 1e3,
                memory.allocations);
    }
    return code;
}
