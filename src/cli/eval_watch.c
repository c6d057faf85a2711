/* Evaluation beside training. See eval_watch.h. */
#include "cli/eval_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void start(struct culm_eval_watch *watch, int64_t step, const char *checkpoint) {
    char samples[32];
    snprintf(samples, sizeof samples, "%lld", (long long)watch->config->eval.samples);
    char *argv[] = {"culm",      "eval", (char *)watch->dir, "--weights", (char *)checkpoint,
                    "--threads", "1",    "--json",           NULL,        NULL,
                    NULL};
    if (watch->config->eval.samples > 0) {
        argv[8] = "--samples";
        argv[9] = samples;
    }
    if (culm_path_format(watch->output, NULL, "%s/logs/eval-%lld.json", watch->dir,
                         (long long)step) != CULM_OK) {
        return;
    }
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, watch->output, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    pid_t pid;
    if (posix_spawn(&pid, "/proc/self/exe", &files, NULL, argv, environ) == 0) {
        watch->pid = pid;
        watch->step = step;
    }
    posix_spawn_file_actions_destroy(&files);
}

void culm_eval_watch_event(struct culm_eval_watch *watch, const json_t *event) {
    const char *name = json_string_value(json_object_get(event, "event"));
    int64_t every = watch->config->eval.every;
    if (every == 0 || !name || strcmp(name, "checkpoint") != 0 ||
        !json_is_true(json_object_get(event, "ok"))) {
        return;
    }
    int64_t step = json_integer_value(json_object_get(event, "step"));
    const char *path = json_string_value(json_object_get(event, "path"));
    if (path && step > 0 && (step % every == 0 || step == watch->config->steps)) {
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
    json_t *event = json_pack("{s:s, s:I}", "event", "eval", "step", (json_int_t)watch->step);
    json_t *result = json_load_file(watch->output, 0, NULL);
    bool ok = ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 && json_is_object(result);
    if (ok) {
        json_object_del(result, "name");
        json_object_update_missing(event, result);
    }
    json_object_set_new(event, "ok", json_boolean(ok));
    json_decref(result);
    start_waiting(watch);
    return event;
}
