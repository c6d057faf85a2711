/* See status.h. */
#include "run/status_internal.h"

#include "base/json.h"
#include "gnn/config.h"
#include "launch/rundir.h"
#include "report/sink.h"
#include "report/summary.h"
#include "train/config.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS 50
#define CONFIG_MAX ((size_t)16 << 20) /* bytes of a configuration */

static void take(json_t **place, const json_t *event) {
    json_decref(*place);
    *place = json_incref((json_t *)event);
}

void status_release(struct status_told *t) {
    json_decref(t->start);
    json_decref(t->plan);
    json_decref(t->view);
    json_decref(t->nodes);
    json_decref(t->leaving);
    json_decref(t->newest);
}

static void begin_launch(struct status_told *t, const json_t *event) {
    take(&t->start, event);
    json_object_clear(t->nodes);
    json_object_clear(t->leaving);
    json_decref(t->view);
    t->view = NULL;
    t->launches++;
    t->waits = t->done = false;
}

enum culm_status status_hear(void *ctx, const json_t *event, struct culm_error *error) {
    struct status_told *t = ctx;
    const char *name = culm_event_text(event, "event", "");
    char node[24];
    (void)error;
    snprintf(node, sizeof node, "%lld", (long long)culm_event_int(event, "node", -1));
    if (strcmp(name, "start") == 0) {
        begin_launch(t, event);
    } else if (strcmp(name, "plan") == 0) {
        take(&t->plan, event);
    } else if (strcmp(name, "view") == 0) {
        take(&t->view, event);
        t->waits = false;
    } else if (strcmp(name, "joined") == 0) {
        json_object_set(t->nodes, node, (json_t *)event);
    } else if (strcmp(name, "notice") == 0) {
        t->leaving = t->leaving ? t->leaving : json_object();
        json_object_set_new(t->leaving, node, json_true());
    } else if (strcmp(name, "lost") == 0 || strcmp(name, "released") == 0) {
        json_object_del(t->nodes, node);
    } else if (strcmp(name, "waiting") == 0) {
        t->waits = true;
    } else if (strcmp(name, t->unit) == 0) {
        take(&t->newest, event);
        t->waits = false;
    } else if (strcmp(name, "stored") == 0 && json_is_true(json_object_get(event, "ok"))) {
        t->stored = culm_event_int(event, t->unit, t->stored);
    } else if (strcmp(name, "done") == 0) {
        t->done = true;
    }
    return CULM_OK;
}

/* --- what follows from them --- */

static json_t *member(const json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    return value ? json_incref(value) : json_null();
}

static void add_stage(json_t *holds, int64_t stage) {
    size_t index;
    const json_t *there;
    json_array_foreach(holds, index, there) {
        if (json_integer_value(there) == stage) {
            return;
        }
    }
    json_array_append_new(holds, json_integer(stage));
}

/* Of training: the slot that a node owns, and the stages that it owns or shadows. */
static bool place_in_map(const json_t *view, int64_t node, json_t *ret_place, json_t *holds) {
    size_t index;
    const json_t *slot;
    json_array_foreach(json_object_get(view, "map"), index, slot) {
        bool owns = culm_event_int(slot, "owner", -1) == node;
        if (owns && !json_object_get(ret_place, "pipeline")) {
            json_object_set(ret_place, "pipeline", json_object_get(slot, "pipeline"));
            json_object_set(ret_place, "stage", json_object_get(slot, "stage"));
        }
        if (owns || culm_event_int(slot, "shadow", -1) == node) {
            add_stage(holds, culm_event_int(slot, "stage", 0));
        }
    }
    return json_array_size(holds) > 0;
}

static bool is_in(const json_t *list, int64_t node) {
    size_t index;
    const json_t *one;
    json_array_foreach(list, index, one) {
        if (json_integer_value(one) == node) {
            return true;
        }
    }
    return false;
}

static json_t *node_of(const struct status_told *t, const json_t *joined) {
    const int64_t node = culm_event_int(joined, "node", -1);
    json_t *place = json_object(), *holds = json_array();
    bool graph = json_object_get(t->view, "owners") != NULL;
    char key[24];
    snprintf(key, sizeof key, "%lld", (long long)node);
    const char *role = culm_event_text(joined, "role", "worker");
    bool taken = graph ? is_in(json_object_get(t->view, "owners"), node) ||
                             is_in(json_object_get(t->view, "holders"), node) ||
                             strcmp(role, "worker") == 0
                       : place_in_map(t->view, node, place, holds);
    json_t *json = json_pack("{s:I, s:s, s:o, s:o, s:o, s:s, s:o, s:o, s:O}", "node",
                             (json_int_t)node, "role", role, "host", member(joined, "host"), "zone",
                             member(joined, "zone"), "pid", member(joined, "pid"), "state",
                             json_object_get(t->leaving, key) ? "leaving"
                             : taken                          ? "member"
                                                              : "standby",
                             "pipeline", member(place, "pipeline"), "stage", member(place, "stage"),
                             "holds", holds);
    json_decref(place);
    json_decref(holds);
    return json;
}

static json_t *nodes_of(const struct status_told *t) {
    json_t *all = json_array(), *joined;
    const char *key;
    json_object_foreach(t->nodes, key, joined) { json_array_append_new(all, node_of(t, joined)); }
    return all;
}

static json_t *copies_of(const struct status_told *t) {
    json_t *copies = json_object_get(t->view, "copies");
    const json_t *holders = json_object_get(t->view, "holders");
    return copies    ? json_incref(copies)
           : holders ? json_pack("[I]", (json_int_t)json_array_size(holders))
                     : json_null();
}

static const char *state_of(const struct status_told *t, int64_t pid) {
    if (pid == 0) {
        return t->done ? "done" : "stopped";
    }
    return t->done                 ? "stopping"
           : t->waits && t->newest ? "parked"
           : t->view               ? "running"
                                   : "waiting";
}

static json_t *agents_of(int64_t pid) {
    char host[256] = "";
    if (pid == 0) {
        return json_array();
    }
    (void)gethostname(host, sizeof host - 1);
    return json_pack("[{s:o, s:I, s:n, s:b, s:b}]", "host", culm_json_text(host), "pid",
                     (json_int_t)pid, "zone", "leads", true, "stands", true);
}

json_t *status_make(const struct status_told *t, const char *job, int64_t pid, int64_t steps) {
    const json_t *stages = json_object_get(t->plan, "stages");
    json_t *json = json_pack(
        "{s:o, s:s, s:s, s:I, s:o, s:I, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o}", "run",
        member(t->start, "run"), "job", job, "state", state_of(t, pid), "term",
        (json_int_t)t->launches, "view", member(t->view, "view"), "step",
        (json_int_t)culm_event_int(t->newest, t->unit, 0), "steps",
        steps > 0 ? json_integer(steps) : json_null(), "loss", member(t->newest, "loss"),
        "pipelines", member(t->plan, "pipelines"), "stages",
        json_is_array(stages) ? json_integer((json_int_t)json_array_size(stages)) : json_null(),
        "store", "none", "stored", t->stored >= 0 ? json_integer(t->stored) : json_null(), "copies",
        pid ? copies_of(t) : json_null(), "agents", agents_of(pid), "nodes",
        pid ? nodes_of(t) : json_array());
    return json;
}

int64_t status_steps(const char *config_text, size_t len, bool graph) {
    const char *const name = "its configuration";
    struct culm_gnn_config gnn;
    struct culm_train_config train;
    int64_t steps = 0;
    if (graph && culm_gnn_config_parse(config_text, len, name, NULL, 0, &gnn, NULL) == CULM_OK) {
        steps = gnn.epochs;
        culm_gnn_config_release(&gnn);
    } else if (!graph &&
               culm_train_config_parse(config_text, len, name, NULL, 0, &train, NULL) == CULM_OK) {
        steps = train.steps;
        culm_train_config_release(&train);
    }
    return steps;
}

static int64_t steps_of(const char *dir, bool graph) {
    char path[CULM_PATH_MAX], *text = NULL;
    size_t len = 0;
    int64_t steps = 0;
    if (culm_path_format(path, NULL, "%s/config.yaml", dir) == CULM_OK &&
        culm_file_read(NULL, path, CONFIG_MAX, &text, &len, NULL) == CULM_OK) {
        steps = status_steps(text, len, graph);
    }
    free(text);
    return steps;
}

enum culm_status culm_run_status(const char *dir, json_t **ret_status, struct culm_error *error) {
    char path[CULM_PATH_MAX], job[CULM_SUMMARY_JOB_NAME];
    size_t bad = 0;
    enum culm_status status = culm_summary_job_name(dir, job, error);
    if (status != CULM_OK) {
        return status;
    }
    bool graph = strcmp(job, "gnn") == 0;
    if (!graph && job[0]) { /* training has none */
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%.200s' has a run of culm %s; status tells of culm train and culm "
                              "gnn train",
                              dir, job);
    }
    struct status_told told = {
        .unit = graph ? "epoch" : "step", .nodes = json_object(), .stored = -1};
    status = culm_path_format(path, error, "%s/events.jsonl", dir);
    if (status == CULM_OK) {
        status = culm_events_skim(path, status_hear, &told, &bad, error);
    }
    if (status == CULM_OK) {
        *ret_status =
            status_make(&told, graph ? "gnn" : "train", culm_rundir_pid(dir), steps_of(dir, graph));
        status = *ret_status ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    status_release(&told);
    return status;
}

/* --- stopping --- */

enum culm_status culm_run_stop(const char *dir, int64_t *ret_pid, struct culm_error *error) {
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000};
    const int64_t pid = culm_rundir_pid(dir);
    int fd = pid > 0 ? pidfd_open((pid_t)pid, 0) : -1;
    /* The number is that of the launcher as long as it has its lock. */
    if (fd < 0 || culm_rundir_pid(dir) != pid) {
        if (fd >= 0) {
            close(fd);
        }
        return culm_error_set(error, CULM_ERR_NOT_FOUND, "no run is at work in '%.300s'", dir);
    }
    if (pidfd_send_signal(fd, SIGTERM, NULL, 0) < 0 && errno != ESRCH) {
        enum culm_status status =
            culm_error_errno(error, errno, "stop process %lld", (long long)pid);
        close(fd);
        return status;
    }
    close(fd);
    while (culm_rundir_pid(dir) == pid) {
        (void)nanosleep(&pause, NULL);
    }
    *ret_pid = pid;
    return CULM_OK;
}
