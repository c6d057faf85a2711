/* Evaluation beside training. See eval_watch.h. */
#include "run/eval_watch.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/stops.h"
#include "store/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child: what other threads held when we forked is held for ever, so nothing here
 * allocates. It ends with the launcher however that ends, and gets none of its signal settings; what
 * ends a run it leaves to the launcher. */
static _Noreturn void become(const char *program, char **argv, pid_t launcher, const char *output,
                             const char *log) {
    sigset_t stops;
    culm_stop_signals_set(&stops);
    int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int log_fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || log_fd < 0 || dup2(log_fd, STDERR_FILENO) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != launcher ||
        signal(SIGPIPE, SIG_DFL) == SIG_ERR || sigprocmask(SIG_SETMASK, &stops, NULL) != 0) {
        _exit(126);
    }
    /* What a library has opened, or the process that runs us, need not be close-on-exec. */
    (void)close_range(STDERR_FILENO + 1, ~0U, 0);
    execvp(program, argv);
    _exit(127);
}

#define WORDS 20

/* Where the checkpoint that is evaluated has a second name, so that whoever removes old ones does not
 * take it away meanwhile. One at a time; what a launcher that was killed has left goes with the
 * next. */
static enum culm_status held_path(const struct culm_eval_watch *watch, const char *name,
                                  char ret_path[CULM_PATH_MAX]) {
    return culm_path_format(ret_path, NULL, "%s/logs/evaluated%s", watch->dir, name);
}

static void let_go(const struct culm_eval_watch *watch) {
    char path[CULM_PATH_MAX];
    if (held_path(watch, "", path) == CULM_OK) {
        (void)culm_tree_remove(NULL, path, NULL);
    }
}

/* Fills `path`, which is `checkpoint` itself where the file system has no second names. */
static void hold(const struct culm_eval_watch *watch, const char *checkpoint,
                 char path[CULM_PATH_MAX]) {
    char from[CULM_PATH_MAX], to[CULM_PATH_MAX];
    struct culm_names names = {0};
    let_go(watch);
    bool held = held_path(watch, "", path) == CULM_OK && mkdir(path, 0777) == 0 &&
                held_path(watch, strrchr(checkpoint, '/'), path) == CULM_OK &&
                mkdir(path, 0777) == 0 && culm_dir_list(checkpoint, &names, NULL) == CULM_OK;
    for (size_t i = 0; i < names.count && held; i++) {
        held = culm_path_format(from, NULL, "%s/%s", checkpoint, names.name[i]) == CULM_OK &&
               culm_path_format(to, NULL, "%s/%s", path, names.name[i]) == CULM_OK &&
               link(from, to) == 0;
    }
    culm_names_release(&names);
    if (!held) {
        let_go(watch);
        (void)culm_path_format(path, NULL, "%s", checkpoint);
    }
}

static void start(struct culm_eval_watch *watch, int64_t step, const char *checkpoint) {
    char samples[32], held[CULM_PATH_MAX] = "";
    hold(watch, checkpoint, held);
    snprintf(samples, sizeof samples, "%lld", (long long)watch->samples);
    const char *argv[WORDS] = {"culm"};
    size_t count = 1;
    if (watch->graph) {
        argv[count++] = "gnn";
    }
    argv[count++] = "eval";
    argv[count++] = watch->dir;
    argv[count++] = "--weights";
    argv[count++] = held;
    argv[count++] = "--json";
    if (!watch->graph) {
        argv[count++] = "--threads";
        argv[count++] = "1";
    }
    if (watch->samples > 0) {
        argv[count++] = "--samples";
        argv[count++] = samples;
    }
    if (watch->best != CULM_BEST_NONE) {
        argv[count++] = "--best";
        argv[count++] = culm_best_names[watch->best];
    }
    if (culm_path_format(watch->output, NULL, "%s/logs/eval-%lld.json", watch->dir,
                         (long long)step) != CULM_OK ||
        culm_path_format(watch->log, NULL, "%s/logs/eval-%lld.log", watch->dir, (long long)step) !=
            CULM_OK) {
        return;
    }
    pid_t launcher = getpid(), pid = fork();
    if (pid == 0) {
        become(watch->program, (char **)(uintptr_t)argv, launcher, watch->output, watch->log);
    }
    if (pid > 0) {
        watch->pid = pid;
        watch->step = step;
    }
}

static const char *unit_of(const struct culm_eval_watch *watch) {
    return watch->graph ? "epoch" : "step";
}

void culm_eval_watch_event(struct culm_eval_watch *watch, const json_t *event) {
    const char *name = json_string_value(json_object_get(event, "event"));
    int64_t every = watch->every;
    if (every == 0 || !name || strcmp(name, "checkpoint") != 0 ||
        !json_is_true(json_object_get(event, "ok"))) {
        return;
    }
    int64_t step = json_integer_value(json_object_get(event, unit_of(watch)));
    char path[CULM_PATH_MAX]; /* the event's is not one where names are no UTF-8 */
    if (culm_checkpoint_path(watch->dir, step, path, NULL) == CULM_OK && step > 0 &&
        (step % every == 0 || step == watch->last)) {
        if (!watch->pid) {
            start(watch, step, path);
        } else if (culm_path_format(watch->waiting, NULL, "%s", path) == CULM_OK) {
            watch->waiting_step = step;
        }
    }
}

static void start_waiting(struct culm_eval_watch *watch) {
    int64_t step = watch->waiting_step;
    watch->waiting_step = 0;
    if (step > 0 && access(watch->waiting, F_OK) == 0) {
        start(watch, step, watch->waiting);
    }
}

/* What it said last, else how it ended. */
static void add_message(json_t *event, const struct culm_eval_watch *watch, int status) {
    const char *prefix = watch->graph ? "culm gnn: " : "culm eval: ";
    char line[CULM_ERROR_MAX], last[CULM_ERROR_MAX] = "";
    FILE *log = fopen(watch->log, "re");
    while (log && fgets(line, sizeof line, log)) {
        line[strcspn(line, "\n")] = '\0';
        snprintf(last, sizeof last, "%s", line);
    }
    if (log) {
        fclose(log);
    }
    if (!last[0]) {
        snprintf(last, sizeof last, WIFSIGNALED(status) ? "signal %d" : "exit code %d",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    const char *text = last + (strncmp(last, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0);
    json_object_set_new(event, "message", culm_json_text(text));
}

json_t *culm_eval_watch_result(struct culm_eval_watch *watch, bool wait) {
    int status;
    if (!watch->pid) {
        return NULL;
    }
    pid_t ended;
    do {
        ended = waitpid(watch->pid, &status, wait ? 0 : WNOHANG);
    } while (ended < 0 && errno == EINTR);
    if (ended == 0) {
        return NULL;
    }
    watch->pid = 0;
    json_t *event =
        json_pack("{s:s, s:I}", "event", "eval", unit_of(watch), (json_int_t)watch->step);
    json_t *result = culm_json_load(watch->output, NULL);
    /* A program that reaps all its children leaves us no status: then the result alone says it. */
    bool ended_well = ended < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
    bool ok = ended_well && json_is_object(result);
    if (ok) {
        json_object_del(result, "name");
        json_object_update_missing(event, result);
    }
    json_object_set_new(event, "ok", json_boolean(ok));
    if (!ok) {
        add_message(event, watch, status);
    }
    json_decref(result);
    let_go(watch);
    start_waiting(watch);
    return event;
}

void culm_eval_watch_stop(struct culm_eval_watch *watch) {
    watch->waiting_step = 0;
    if (watch->pid) {
        if (waitpid(watch->pid, NULL, WNOHANG) == 0) { /* else the number may be another's */
            kill(watch->pid, SIGKILL);
            while (waitpid(watch->pid, NULL, 0) < 0 && errno == EINTR) {
            }
        }
        watch->pid = 0;
        let_go(watch);
    }
}

void culm_eval_watch_before(struct culm_eval_watch *watch, const json_t *next,
                            void (*tell)(void *ctx, json_t *event, const json_t *next), void *ctx) {
    const char *name = json_string_value(json_object_get(next, "event"));
    bool done = name && strcmp(name, "done") == 0;
    json_t *event;
    uint64_t since_ns = culm_clock_ns();
    while ((event = culm_eval_watch_result(watch, done))) {
        if (done) {
            const uint64_t now_ns = culm_clock_ns();
            json_object_set_new(event, "waited_ms", json_real((double)(now_ns - since_ns) / 1e6));
            since_ns = now_ns;
        }
        tell(ctx, event, next);
        json_decref(event);
    }
    culm_eval_watch_event(watch, next);
}
