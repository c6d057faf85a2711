/* An agent of workers for a run elsewhere. See node.h. */
#include "run/node.h"

#include "base/file.h"
#include "pipeline/leader.h"
#include "run/doors.h"
#include "run/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_S 1 /* before another worker comes; doubled by each that ended early */
#define PAUSE_MOST_S 60

struct place {
    pid_t pid; /* 0: empty */
    time_t since_s, again_s;
    int32_t early; /* that ended so, one after the other */
};

struct node {
    const struct culm_run_node_options *o;
    char address[CULM_ADDRESS_SIZE], listen[CULM_ADDRESS_SIZE], advertise[CULM_ADDRESS_SIZE];
    char token[CULM_TOKEN_SIZE];
    char dir[CULM_PATH_MAX]; /* absolute */
    bool own_dir;            /* made here, and removed at the end */
    struct place place[CULM_NODE_WORKERS_MAX];
    bool joined; /* some worker has taken part */
    int code;    /* below 0: it goes on */
};

static volatile sig_atomic_t stopped;

static void on_stop(int number) {
    (void)number;
    stopped = 1;
}

static time_t now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* --- a worker --- */

/* In a process of its own. */
static int work(const struct node *n, int32_t at) {
    char dir[CULM_PATH_MAX], name[32];
    struct culm_participant_memory memory = {0};
    struct culm_error error = {0};
    snprintf(name, sizeof name, "worker-%d", (int)at);
    enum culm_status status = culm_path_format(dir, &error, "%s/%s", n->dir, name);
    if (status == CULM_OK) {
        status = culm_dir_make(NULL, dir, &error);
    }
    const struct culm_participant_call call = {.address = n->address,
                                               .token = n->token,
                                               .role = CULM_ROLE_WORKER,
                                               .plain = n->o->insecure,
                                               .name = "node",
                                               .dir = dir,
                                               .listen = n->listen[0] ? n->listen : NULL,
                                               .advertise = n->advertise[0] ? n->advertise : NULL,
                                               .zone = n->o->zone};
    int code = status == CULM_OK ? culm_run_worker_newcomer(&call, &memory, &error)
                                 : culm_status_exit_code(status);
    if (error.text[0]) {
        fprintf(stderr, "culm node: worker %d: %s\n", (int)at, error.text);
    }
    return code;
}

static void start(struct node *n, int32_t at) {
    const pid_t parent = getpid();
    struct place *place = &n->place[at];
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGTERM, SIG_DFL);
        signal(SIGINT, SIG_DFL);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent) {
            _exit(1);
        }
        exit(work(n, at));
    }
    if (pid < 0) {
        fprintf(stderr, "culm node: start worker %d: %s; it is tried again\n", (int)at,
                strerror(errno));
        place->again_s = now_s() + PAUSE_MOST_S;
        return;
    }
    place->pid = pid;
    place->since_s = now_s();
}

/* What follows from the end of a worker. */
static void ended(struct node *n, struct place *place, int how, struct culm_error *error) {
    const int code = WIFEXITED(how) ? WEXITSTATUS(how) : 1;
    const bool gone = code == 4; /* nobody listens there */
    place->pid = 0;
    if (code == culm_status_exit_code(CULM_ERR_STOPPED)) {
        culm_error_set(error, CULM_ERR_STOPPED,
                       "the run was stopped; once it is resumed, start this node again");
    }
    if (code == CULM_WORKER_REFUSED) {
        n->code = 1;
        return;
    }
    if (code == 0 || code == 2 || code == 3 || code == culm_status_exit_code(CULM_ERR_STOPPED)) {
        n->code = code;
        return;
    }
    if (gone && n->joined) {
        culm_error_set(error, CULM_ERR_CLOSED,
                       "the run's launcher is gone; once it is resumed, start this node again");
        n->code = 1;
        return;
    }
    if (gone) {
        n->code = code;
        return;
    }
    n->joined = true;
    place->early = now_s() - place->since_s > PAUSE_MOST_S ? 0 : place->early;
    int pause = PAUSE_S;
    for (int32_t i = 0; i < place->early && pause < PAUSE_MOST_S; i++) {
        pause *= 2;
    }
    place->early++;
    pause = pause < PAUSE_MOST_S ? pause : PAUSE_MOST_S;
    place->again_s = now_s() + pause;
    fprintf(stderr, "culm node: worker %d ended; another one comes in %d s\n",
            (int)(place - n->place), pause);
}

/* --- the agent --- */

static void reap(struct node *n, struct culm_error *error) {
    int how;
    pid_t pid;
    while (n->code < 0 && (pid = waitpid(-1, &how, WNOHANG)) > 0) {
        for (int32_t i = 0; i < n->o->workers; i++) {
            if (n->place[i].pid == pid) {
                ended(n, &n->place[i], how, error);
            }
        }
    }
}

static void end_all(struct node *n) {
    for (int32_t i = 0; i < n->o->workers; i++) {
        if (n->place[i].pid && n->code != 0) { /* when the run is over, they end by themselves */
            kill(n->place[i].pid, SIGKILL);
        }
    }
    for (int32_t i = 0; i < n->o->workers; i++) {
        while (n->place[i].pid && waitpid(n->place[i].pid, NULL, 0) < 0 && errno == EINTR) {
            kill(n->place[i].pid, SIGKILL); /* told to end while it waits */
        }
    }
}

static void supervise(struct node *n, struct culm_error *error) {
    const struct timespec rest = {.tv_nsec = 50000000};
    while (n->code < 0 && !stopped) {
        for (int32_t i = 0; i < n->o->workers; i++) {
            if (!n->place[i].pid && now_s() >= n->place[i].again_s) {
                start(n, i);
            }
        }
        (void)nanosleep(&rest, NULL);
        reap(n, error);
    }
    n->code = n->code < 0 ? culm_status_exit_code(CULM_ERR_STOPPED) : n->code;
    end_all(n);
}

static enum culm_status take_dir(struct node *n, struct culm_error *error) {
    const char *base = getenv("TMPDIR");
    enum culm_status status;
    if (n->o->dir) {
        char *whole = NULL;
        status = culm_dir_make(NULL, n->o->dir, error);
        if (status == CULM_OK && !(whole = realpath(n->o->dir, NULL))) {
            status = culm_error_errno(error, errno, "--dir '%.300s'", n->o->dir);
        }
        status = status ? status : culm_path_format(n->dir, error, "%s", whole);
        free(whole);
        return status;
    }
    status =
        culm_path_format(n->dir, error, "%s/culm-node-XXXXXX", base && base[0] ? base : "/tmp");
    if (status == CULM_OK && !mkdtemp(n->dir)) {
        return culm_error_errno(error, errno, "make the folder '%.300s'", n->dir);
    }
    n->own_dir = status == CULM_OK;
    return status;
}

static enum culm_status prepare(struct node *n, struct culm_error *error) {
    const struct culm_run_node_options *o = n->o;
    struct culm_address address;
    enum culm_status status = culm_doors_address("--join", o->address, n->address, &address, error);
    if (status == CULM_OK && o->listen) {
        status = culm_doors_address("--listen", o->listen, n->listen, &address, error);
        if (status == CULM_OK && o->workers > 1 && address.port != 0) {
            status = culm_error_set(error, CULM_ERR_ARGUMENT,
                                    "--listen %s is a place for one worker; with several, name "
                                    "port 0",
                                    o->listen);
        }
    }
    if (status == CULM_OK && o->advertise) {
        status = culm_doors_advertise(o->advertise, n->advertise, error);
    }
    if (status == CULM_OK) {
        status = culm_token_read(o->token_file, n->token, error);
    }
    if (status == CULM_OK) {
        status = take_dir(n, error);
    }
    if (status == CULM_OK && o->data_dir && chdir(o->data_dir) != 0) {
        culm_error_errno(error, errno, "--data-dir '%.300s'", o->data_dir);
        status = error->status = CULM_ERR_CONFIG;
    }
    return status;
}

int culm_run_node(const struct culm_run_node_options *options, struct culm_error *ret_error) {
    struct node n = {.o = options, .code = -1};
    const struct sigaction action = {.sa_handler = on_stop};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    enum culm_status status = prepare(&n, ret_error);
    if (status == CULM_OK) {
        supervise(&n, ret_error);
    }
    if (n.own_dir) {
        (void)culm_tree_remove(NULL, n.dir, NULL);
    }
    return status == CULM_OK ? n.code : culm_status_exit_code(status);
}
