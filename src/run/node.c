/* An agent of processes for a run elsewhere. See node.h. */
#include "run/node.h"

#include "base/file.h"
#include "base/hex.h"
#include "base/secret.h"
#include "cluster/stranded.h"
#include "pipeline/leader.h"
#include "report/sink.h"
#include "run/cluster.h"
#include "run/cluster_texts.h"
#include "run/doors.h"
#include "run/gnn_node.h"
#include "run/lead.h"
#include "run/worker.h"

#include <errno.h>
#include <fcntl.h>
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
#define LOOK_S 1 /* between two looks for who leads */

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
    struct place lead;              /* the process that may lead */
    int32_t reigns;                 /* how often there was one */
    char agent[9];                  /* of all of these, among those who stand */
    struct culm_keys *keys;         /* of the store; NULL: it is not used */
    struct culm_stranded *stranded; /* with it: what its processes miss */
    time_t look_s;                  /* when to look for who leads again */
    bool away;                      /* it could not be asked, which was said */
    bool joined;                    /* some worker has taken part */
    bool asked;                     /* the run to stop */
    bool leaving;                   /* its processes have been told to leave, */
    time_t until_s;                 /* until then */
    int code;                       /* below 0: it goes on */
    enum culm_cluster_job job;
    uint32_t role; /* on a graph, where they do not have one each */
};

static volatile sig_atomic_t stopped; /* signals that nothing has come of yet */

static void on_stop(int number) {
    (void)number;
    stopped = 1;
}

static time_t now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static const char *who(const struct node *n) { return n->o->command; }

static uint32_t role_of(const struct node *n, int32_t at) {
    return n->o->roles ? n->o->roles[at] : n->role;
}

/* As people call it. */
static const char *kind_of(const struct node *n, int32_t at) {
    return n->job == CULM_CLUSTER_GNN ? culm_gnn_role_name(role_of(n, at)) : "worker";
}

/* --- a worker --- */

/* Of several processes each has a port of its own, from the one that was named on: who may lead the first. */
static void own_listen(const struct node *n, int32_t at, char ret_listen[CULM_ADDRESS_SIZE]) {
    struct culm_address address;
    memcpy(ret_listen, n->listen, CULM_ADDRESS_SIZE);
    if (n->keys && culm_address_parse(n->listen, &address, NULL) == CULM_OK && address.port != 0) {
        address.port += (uint16_t)(at + n->o->leads);
        culm_address_print(&address, ret_listen);
    }
}

/* On a graph. What is not to be tried again is told as a worker of training tells it. */
static int work_on_graph(const struct culm_participant_call *call, struct culm_error *ret_error) {
    struct culm_gnn_stay stay = {.stops = true};
    const int code = culm_run_gnn_newcomer(call, &stay, ret_error);
    culm_gnn_gear_free(stay.gear);
    if (stay.node >= 0 && code != 0 && code != culm_status_exit_code(CULM_ERR_STOPPED)) {
        return 1; /* it has taken part: why it failed is no reason that the next one would */
    }
    if (stay.refused && ret_error->status == CULM_ERR_CONFIG) {
        return CULM_WORKER_REFUSED;
    }
    return code != 0 && ret_error->status == CULM_ERR_CHANGED
               ? culm_status_exit_code(CULM_ERR_CONFIG) /* the data here */
               : code;
}

/* In a process of its own. */
static int work(const struct node *n, int32_t at) {
    char dir[CULM_PATH_MAX], name[32], listen[CULM_ADDRESS_SIZE];
    own_listen(n, at, listen);
    struct culm_participant_memory memory = {0};
    struct culm_error error = {0};
    snprintf(name, sizeof name, "%s-%d", kind_of(n, at), (int)at);
    enum culm_status status = culm_path_format(dir, &error, "%s/%s", n->dir, name);
    if (status == CULM_OK) {
        status = culm_dir_make(NULL, dir, &error);
    }
    const struct culm_participant_call call = {
        .address = n->address,
        .token = n->token,
        .role = n->job == CULM_CLUSTER_GNN ? role_of(n, at) : CULM_ROLE_WORKER,
        .plain = n->o->insecure,
        .name = "node",
        .dir = dir,
        .listen = listen[0] ? listen : NULL,
        .advertise = n->advertise[0] ? n->advertise : NULL,
        .zone = n->o->zone,
        .leave_ms = n->o->stops_run ? 0 : n->o->grace_s * 1000,
        .stranded = n->stranded};
    int code = status != CULM_OK            ? culm_status_exit_code(status)
               : n->job == CULM_CLUSTER_GNN ? work_on_graph(&call, &error)
                                            : culm_run_worker_newcomer(&call, &memory, &error);
    if (error.status == CULM_ERR_FORMAT && n->job == CULM_CLUSTER_TRAIN && !n->o->store) {
        culm_error_set(&error, CULM_ERR_FORMAT,
                       "the run there is not one of training, or of another version of Culm; for "
                       "a run on a graph, add --role server, parameter or worker");
    }
    if (error.text[0]) {
        fprintf(stderr, "culm %s: %s %d: %s\n", who(n), kind_of(n, at), (int)at, error.text);
    }
    return code;
}

static void warn(void *ctx, const char *text) {
    fprintf(stderr, "culm %s: warning: %s\n", who(ctx), text);
}

/* Where it keeps the run: a folder that no earlier reign has used, unless one was named. */
static enum culm_status lead_dir(const struct node *n, char ret_dir[CULM_PATH_MAX],
                                 struct culm_error *error) {
    enum culm_status status = CULM_OK;
    if (n->o->lead_dir) {
        return culm_path_format(ret_dir, error, "%s", n->o->lead_dir);
    }
    for (int32_t i = n->reigns; status == CULM_OK; i++) {
        status = culm_path_format(ret_dir, error, "%s/lead-%d", n->dir, (int)i);
        if (status == CULM_OK && !culm_file_exists(ret_dir)) {
            break;
        }
    }
    return status;
}

/* In a process of its own. */
static int lead(const struct node *n) {
    char dir[CULM_PATH_MAX];
    struct culm_error error = {0};
    struct culm_sink *sink = NULL;
    bool screen = false;
    enum culm_status status = lead_dir(n, dir, &error);
    if (status == CULM_OK && n->o->hear) {
        status = n->o->hear(n->o->hear_ctx, &sink, &screen, &error);
    }
    const struct culm_run_lead_options options = {.store = n->o->store,
                                                  .run = n->o->run,
                                                  .token_file = n->o->token_file,
                                                  .listen = n->o->listen,
                                                  .advertise = n->o->advertise,
                                                  .dir = dir,
                                                  .agent = n->agent,
                                                  .insecure = n->o->insecure,
                                                  .fault = n->reigns == 0 ? n->o->fault : NULL,
                                                  .log = screen ? NULL : sink,
                                                  .screen = screen ? sink : NULL,
                                                  .warn = warn,
                                                  .ctx = (void *)n};
    const int code =
        status == CULM_OK ? culm_run_lead(&options, &error) : culm_status_exit_code(status);
    culm_sink_free(sink);
    if (error.text[0] && code != CULM_LEAD_AGAIN &&
        code != culm_status_exit_code(CULM_ERR_STOPPED)) {
        fprintf(stderr, "culm %s: %s\n", who(n), error.text);
    }
    return code;
}

/* A process of this one's, which ends with it: a worker, or -1: the one that may lead. */
static void start(struct node *n, int32_t at) {
    const pid_t parent = getpid();
    struct place *place = at < 0 ? &n->lead : &n->place[at];
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGTERM, at < 0 ? SIG_IGN : SIG_DFL); /* what becomes of the run this one decides */
        signal(SIGINT, SIG_IGN); /* a terminal sends it to all; this one says what follows */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent) {
            _exit(1);
        }
        exit(at < 0 ? lead(n) : work(n, at));
    }
    if (pid < 0) {
        fprintf(stderr, "culm %s: start a process: %s; it is tried again\n", who(n),
                strerror(errno));
        place->again_s = now_s() + PAUSE_MOST_S;
        return;
    }
    n->reigns += at < 0;
    place->pid = pid;
    place->since_s = now_s();
}

/* The longer, the more often it has ended early. */
static int pause_of(struct place *place) {
    place->early = now_s() - place->since_s > PAUSE_MOST_S ? 0 : place->early;
    int pause = PAUSE_S;
    for (int32_t i = 0; i < place->early && pause < PAUSE_MOST_S; i++) {
        pause *= 2;
    }
    place->early++;
    pause = pause < PAUSE_MOST_S ? pause : PAUSE_MOST_S;
    place->again_s = now_s() + pause;
    return pause;
}

static void was_stopped(struct node *n, struct culm_error *error) {
    culm_error_set(error, CULM_ERR_STOPPED,
                   n->o->stops_run
                       ? "the run was stopped; --resume goes on with it"
                       : "the run was stopped; once it is resumed, start this node again");
    n->code = culm_status_exit_code(CULM_ERR_STOPPED);
}

/* What follows from the end of the process that may lead. */
static void led(struct node *n, int how, struct culm_error *error) {
    const int code = WIFEXITED(how) ? WEXITSTATUS(how) : 1;
    n->lead.pid = 0;
    if (n->leaving && code != 0) {
        return;
    }
    if (code == culm_status_exit_code(CULM_ERR_STOPPED)) {
        was_stopped(n, error);
    } else if (code == 0 || code == 2 || code == 3) {
        n->code = code;
    } else if (code == CULM_LEAD_AGAIN) {
        n->lead.early = 0;
        n->lead.again_s = n->lead.since_s + PAUSE_S; /* at once, if it has led for a while */
    } else {
        const int pause = pause_of(&n->lead);
        fprintf(stderr, "culm %s: who may lead ended; another one stands in %d s\n", who(n), pause);
    }
}

static bool others_live(const struct node *n) {
    bool live = false;
    for (int32_t i = 0; i < n->o->workers; i++) {
        live = live || n->place[i].pid;
    }
    return live;
}

/* What follows from the end of a worker. */
static void ended(struct node *n, struct place *place, int how, struct culm_error *error) {
    const int code = WIFEXITED(how) ? WEXITSTATUS(how) : 1;
    const bool gone = code == 4; /* nobody listens there */
    place->pid = 0;
    if (n->leaving) {
        n->code = code == 0 && !n->keys ? 0 : n->code; /* the run is done */
        return;
    }
    if (n->keys && (gone || code == 0)) { /* the store says what has become of the run */
        n->look_s = place->again_s = now_s() + LOOK_S;
        return;
    }
    if (code == culm_status_exit_code(CULM_ERR_STOPPED)) {
        was_stopped(n, error);
        return;
    }
    if (code == CULM_WORKER_REFUSED) {
        n->code = 1;
        return;
    }
    if (code == 0 || code == 2 || code == 3) {
        n->code = code;
        return;
    }
    if (gone && n->joined && others_live(n)) { /* they wait for whoever resumes the run */
        (void)pause_of(place);
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
    n->look_s = 0;
    const int pause = pause_of(place);
    const int32_t at = (int32_t)(place - n->place);
    fprintf(stderr, "culm %s: %s %d ended; another one comes in %d s\n", who(n), kind_of(n, at),
            (int)at, pause);
}

/* --- the agent --- */

static void reap(struct node *n, struct culm_error *error) {
    int how;
    pid_t pid;
    while (n->code < 0 && (pid = waitpid(-1, &how, WNOHANG)) > 0) {
        if (n->lead.pid == pid) {
            led(n, how, error);
        }
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
    if (n->lead.pid && n->code != 0) {
        kill(n->lead.pid, SIGKILL);
    }
    while (n->lead.pid && waitpid(n->lead.pid, NULL, 0) < 0 && errno == EINTR) {
        kill(n->lead.pid, SIGKILL);
    }
    for (int32_t i = 0; i < n->o->workers; i++) {
        while (n->place[i].pid && waitpid(n->place[i].pid, NULL, 0) < 0 && errno == EINTR) {
            kill(n->place[i].pid, SIGKILL); /* told to end while it waits */
        }
    }
}

/* Who leads, and whether the run is over: looked for when a worker is to be started, or it has been told to end. */
static void look(struct node *n, struct culm_error *error) {
    struct culm_error why = {0};
    bool done = false, was = false;
    if (!n->keys || now_s() < n->look_s) {
        return;
    }
    n->look_s = now_s() + LOOK_S;
    const enum culm_status status =
        culm_cluster_leader(n->keys, n->o->run, n->address, &done, &was, &why);
    if (status != CULM_OK && !n->away) {
        fprintf(stderr, "culm %s: %s; it is asked again\n", who(n), why.text);
    }
    n->away = status != CULM_OK;
    if (done) {
        n->code = 0;
    } else if (was) {
        was_stopped(n, error);
    }
}

static bool wants_one(const struct node *n) {
    bool wants = false;
    for (int32_t i = 0; i < n->o->workers; i++) {
        wants = wants || (!n->place[i].pid && now_s() >= n->place[i].again_s);
    }
    return wants;
}

/* Asks the store while some process misses who leads, and tells whether it answers. */
static void look_for_them(struct node *n, struct culm_error *error) {
    const bool missed = n->stranded && culm_stranded_is_missed(n->stranded);
    if (missed) {
        look(n, error);
    }
    if (n->stranded) {
        culm_stranded_say(n->stranded, missed && n->away);
    }
}

static void start_all(struct node *n, struct culm_error *error) {
    if (n->o->leads && !n->lead.pid && now_s() >= n->lead.again_s) {
        start(n, -1);
    }
    if (wants_one(n)) {
        look(n, error);
    }
    for (int32_t i = 0; i < n->o->workers && n->address[0] && n->code < 0; i++) {
        if (!n->place[i].pid && now_s() >= n->place[i].again_s) {
            start(n, i);
        }
    }
}

static bool some_live(const struct node *n) { return n->lead.pid || others_live(n); }

/* A second signal, or as long as --grace has passed, ends them. */
static void begin_to_leave(struct node *n) {
    stopped = 0;
    n->leaving = true;
    n->until_s = now_s() + (time_t)n->o->grace_s;
    for (int32_t i = 0; i < n->o->workers; i++) {
        if (n->place[i].pid) {
            kill(n->place[i].pid, SIGTERM);
        }
    }
    if (n->lead.pid) {
        kill(n->lead.pid, CULM_LEAD_RESIGN);
    }
    fprintf(
        stderr,
        "culm %s: leaving the run as soon as others have what is here, at the latest in %lld s; "
        "another signal ends it at once\n",
        who(n), (long long)n->o->grace_s);
}

/* A signal: the run is asked to stop, or else this node leaves, and ends. */
static bool goes_on(struct node *n, struct culm_error *error) {
    if (stopped && !n->o->stops_run && !n->leaving && n->o->grace_s > 0 && some_live(n)) {
        begin_to_leave(n);
    }
    if (n->leaving && (!some_live(n) || now_s() >= n->until_s)) {
        return false;
    }
    if (stopped && n->o->stops_run && !n->asked && n->code < 0) {
        n->asked = true;
        const enum culm_status status = culm_cluster_ask_stop(n->keys, n->o->run, error);
        if (status == CULM_OK) {
            stopped = 0;
        } else { /* it is not stopped */
            culm_error_prefix(error, "the run goes on without this process, since it could not be "
                                     "asked to stop");
            n->code = culm_status_exit_code(status);
        }
    }
    return n->code < 0 && !stopped;
}

static void supervise(struct node *n, struct culm_error *error) {
    const struct timespec rest = {.tv_nsec = 50000000};
    while (goes_on(n, error)) {
        if (!n->leaving) {
            start_all(n, error);
        }
        look_for_them(n, error);
        (void)nanosleep(&rest, NULL);
        reap(n, error);
    }
    if (n->leaving && n->code < 0 && !some_live(n)) { /* perhaps since the run is done */
        n->look_s = 0;
        look(n, error);
    }
    n->code = n->code < 0 ? culm_status_exit_code(CULM_ERR_STOPPED) : n->code;
    end_all(n);
}

static enum culm_status take_dir(struct node *n, struct culm_error *error) {
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
    status = culm_dir_make_temporary("culm-node", n->dir, error);
    n->own_dir = status == CULM_OK;
    return status;
}

/* Where no store says what the run is, whoever names a role knows it. */
static enum culm_status take_role(struct node *n, struct culm_error *error) {
    const char *role = n->o->role;
    n->job = role && !n->o->store ? CULM_CLUSTER_GNN : n->job;
    if (role && n->job == CULM_CLUSTER_TRAIN && strcmp(role, "worker") != 0) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--role %.20s: '%.60s' is a training run, to which only workers "
                              "come; leave out --role",
                              role, n->o->run);
    }
    n->role = CULM_GNN_SERVER;
    while (role && n->role < CULM_GNN_ROLES && strcmp(role, culm_gnn_role_name(n->role)) != 0) {
        n->role++;
    }
    return n->role < CULM_GNN_ROLES
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_ARGUMENT,
                                "--role '%.40s' is none of server, parameter and worker", role);
}

/* That it is there, before anything is started. */
static enum culm_status find_run(struct node *n, struct culm_error *error) {
    struct culm_cluster_run run = {0};
    enum culm_status status = culm_cluster_look(n->keys, n->o->run, &run, error);
    if (status == CULM_ERR_NOT_FOUND) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "'%.150s' has no run '%.60s'; 'culm train CONFIG --cluster %.100s "
                                "--name %.60s' creates it, or 'culm gnn train' with the same "
                                "options",
                                n->o->store, n->o->run, n->o->store, n->o->run);
    }
    if (status == CULM_OK) {
        status = culm_cluster_check_token(&run, n->token, n->o->token_file, error);
    }
    if (status == CULM_OK && n->o->leads && !run.done) { /* who may lead here will need it */
        status = culm_cluster_texts_get(&run, error);
    }
    n->job = run.job;
    culm_cluster_run_release(&run);
    return status == CULM_OK ? take_role(n, error) : status;
}

static enum culm_status open_store(struct node *n, struct culm_error *error) {
    n->stranded = culm_stranded_new();
    return n->stranded ? culm_cluster_open(n->o->store, &n->keys, error)
                       : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

static enum culm_status prepare(struct node *n, struct culm_error *error) {
    const struct culm_run_node_options *o = n->o;
    struct culm_address address;
    enum culm_status status =
        o->store ? open_store(n, error)
                 : culm_doors_address("--join", o->address, n->address, &address, error);
    if (status == CULM_OK && o->listen) {
        status = culm_doors_address("--listen", o->listen, n->listen, &address, error);
        if (status == CULM_OK && !o->store && o->workers > 1 && address.port != 0) {
            status = culm_error_set(error, CULM_ERR_ARGUMENT,
                                    "--listen %s is a place for one worker; with several, name "
                                    "port 0",
                                    o->listen);
        }
    }
    if (status == CULM_OK && o->store && o->listen && address.port != 0 &&
        address.port + o->workers + o->leads - 1 > UINT16_MAX) {
        status = culm_error_set(error, CULM_ERR_ARGUMENT,
                                "--listen %s: there are not %d ports from there on", o->listen,
                                (int)(o->workers + o->leads));
    }
    if (status == CULM_OK && o->advertise) {
        status = culm_doors_advertise(o->advertise, n->advertise, error);
    }
    if (status == CULM_OK && o->store && o->advertise &&
        culm_address_parse(n->advertise, &address, NULL) == CULM_OK && address.port != 0) {
        status = culm_error_set(error, CULM_ERR_ARGUMENT,
                                "--advertise %s is a place for one process; who may lead and "
                                "workers have a port each: name port 0",
                                o->advertise);
    }
    if (status == CULM_OK) {
        status = culm_token_read(o->token_file, n->token, error);
    }
    if (status == CULM_OK) {
        status = take_dir(n, error);
    }
    if (status == CULM_OK) {
        status = o->store ? find_run(n, error) : take_role(n, error);
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
    unsigned char drawn[4];
    enum culm_status status = culm_secret_random(drawn, sizeof drawn, ret_error);
    culm_hex(drawn, sizeof drawn, n.agent);
    status = status ? status : prepare(&n, ret_error);
    if (status == CULM_OK) {
        supervise(&n, ret_error);
    }
    culm_keys_close(n.keys);
    if (n.own_dir) {
        (void)culm_tree_remove(NULL, n.dir, NULL);
    }
    return status == CULM_OK ? n.code : culm_status_exit_code(status);
}

/* --- by itself --- */

static void go_on_alone(const struct culm_run_node_options *options, int log_fd) {
    struct culm_error error = {0};
    const int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)setsid();
    (void)dup2(null_fd, STDIN_FILENO);
    (void)dup2(log_fd, STDOUT_FILENO);
    (void)dup2(log_fd, STDERR_FILENO);
    const int code = culm_run_node(options, &error);
    if (error.text[0]) {
        fprintf(stderr, "culm %s: %s\n", options->command, error.text);
    }
    exit(code);
}

static enum culm_status await_leader(const struct culm_run_node_options *o, pid_t pid,
                                     char *ret_address, struct culm_error *error) {
    const struct timespec rest = {.tv_nsec = 100000000};
    struct culm_keys *keys = NULL;
    bool done = false, was = false;
    int how;
    enum culm_status status = culm_cluster_open(o->store, &keys, error);
    while (status == CULM_OK) {
        struct culm_error ignored;
        const bool ended = waitpid(pid, &how, WNOHANG) == pid;
        const enum culm_status asked =
            culm_cluster_leader(keys, o->run, ret_address, &done, &was, &ignored);
        if (asked == CULM_OK && (ret_address[0] || done || was)) {
            break;
        }
        if (ended) {
            status = culm_error_set(error, CULM_ERR_IO, "the process that was to go on has ended");
        }
        (void)nanosleep(&rest, NULL);
    }
    culm_keys_close(keys);
    return status;
}

enum culm_status culm_run_node_detached(const struct culm_run_node_options *options,
                                        const char *log, char *ret_address,
                                        struct culm_error *error) {
    const int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) {
        return culm_error_errno(error, errno, "open '%.300s'", log);
    }
    const pid_t pid = fork();
    if (pid == 0) {
        go_on_alone(options, fd);
    }
    close(fd);
    if (pid < 0) {
        return culm_error_errno(error, errno, "start a process");
    }
    enum culm_status status = await_leader(options, pid, ret_address, error);
    return status ? culm_error_prefix(error, "see '%.300s'", log) : CULM_OK;
}
