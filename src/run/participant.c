/* What every process of a run does, whatever it works on. See participant.h. */
#include "run/participant.h"

#include "net/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOKEN_SIZE 128

enum { DIR, NODE, ADDRESS, NAME, FAULT_FD, ARGUMENTS };

struct culm_participant {
    const struct culm_participant_role *role;
    char **argument; /* DIR and what follows; borrowed */
    int count;
    char token[TOKEN_SIZE];
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

static enum culm_status read_faults(struct culm_participant *p, struct culm_error *error) {
    p->faults = calloc((size_t)p->count, sizeof *p->faults);
    if (!p->faults) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    for (int i = ARGUMENTS; i + 1 < p->count && p->role->fault; i += 2) {
        struct culm_worker_fault *fault = &p->faults[p->fault_count];
        enum culm_status status = p->role->fault(p->argument[i + 1], fault, error);
        if (status != CULM_OK) {
            return status;
        }
        fault->index = atoi(p->argument[i]);
        p->fault_count++;
    }
    return CULM_OK;
}

static enum culm_status join(struct culm_participant *p, struct culm_error *error) {
    const struct culm_worker_options options = {
        .address = p->argument[ADDRESS],
        .token = p->token,
        .node = culm_participant_node(p),
        .calls_only = p->role->calls_only,
        .name = p->argument[NAME],
        .fault_fd = atoi(p->argument[FAULT_FD]),
        .faults = p->faults,
        .fault_count = p->fault_count,
        .flip = p->role->flip,
        .flip_ctx = p->role->ctx,
    };
    return culm_worker_new(&options, &p->world, error);
}

enum culm_status culm_participant_join(int argc, char **argv,
                                       const struct culm_participant_role *role,
                                       struct culm_participant **ret_participant,
                                       struct culm_error *error) {
    if (argc < role->words + ARGUMENTS) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "this command is for the launcher");
    }
    struct culm_participant *p = calloc(1, sizeof *p);
    if (!p) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    *p = (struct culm_participant){
        .role = role, .argument = argv + role->words, .count = argc - role->words};
    culm_socket_raise_limit();
    enum culm_status status = read_token(p, error);
    if (status == CULM_OK) {
        status = read_faults(p, error);
    }
    if (status == CULM_OK) {
        status = join(p, error);
    }
    if (status != CULM_OK) {
        culm_participant_leave(p);
        return status;
    }
    *ret_participant = p;
    return CULM_OK;
}

/* --- what it has, and its work --- */

const char *culm_participant_dir(const struct culm_participant *p) { return p->argument[DIR]; }

int32_t culm_participant_node(const struct culm_participant *p) { return atoi(p->argument[NODE]); }

const void *culm_participant_brief(const struct culm_participant *p, size_t *ret_len) {
    return culm_worker_brief(p->world, ret_len);
}

struct culm_world *culm_participant_world(struct culm_participant *p) {
    return culm_worker_world(p->world);
}

enum culm_status culm_participant_ready(struct culm_participant *p,
                                        const struct culm_worker_ready *ready,
                                        struct culm_error *error) {
    return culm_worker_ready(p->world, ready, error);
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

/* VmHWM. */
static long peak_kb(void) {
    long kb = 0;
    char line[128];
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "VmHWM: %ld", &kb) == 1) {
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return kb;
}

void culm_participant_measure(struct culm_blob_pool *pool,
                              struct culm_participant_memory *ret_memory) {
    struct culm_blob_pool_stats stats;
    culm_blob_pool_stats(pool, &stats);
    *ret_memory = (struct culm_participant_memory){.blobs_bytes = stats.peak_bytes,
                                                   .process_bytes = (size_t)peak_kb() * 1024,
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
