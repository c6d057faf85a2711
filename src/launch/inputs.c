/* The launcher's part of pinning; see the header. */
#include "launch/inputs.h"

#include "base/json.h"
#include "store/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Workers come first; but until a file is known as a whole another time of it ends the run. */
#define NICE 10

#define NOTE "inputs" /* in the lineage */
#define LIST_SIZE 128
#define SAID_BYTES ((uint64_t)4 << 30) /* reading more takes long enough to be told */

/* "'a', 'b', ...": as many names as there is room for. */
static void shorten(const struct culm_names *names, char ret_text[LIST_SIZE]) {
    size_t len = 0;
    for (size_t i = 0; i < names->count; i++) {
        const size_t needs = strlen(names->name[i]) + sizeof "'', , ..";
        if (len + needs >= LIST_SIZE) {
            snprintf(ret_text + len, LIST_SIZE - len, "%s...", i ? ", " : "");
            return;
        }
        len += (size_t)snprintf(ret_text + len, LIST_SIZE - len, "%s'%s'", i ? ", " : "",
                                names->name[i]);
    }
}

/* NULL with CULM_OK: there is none. */
static enum culm_status recorded(const char *run_dir, const char *checkpoint, json_t **ret_json,
                                 struct culm_error *error) {
    char path[CULM_PATH_MAX];
    *ret_json = NULL;
    if (checkpoint[0]) {
        struct culm_checkpoint *open = NULL;
        enum culm_status status = culm_checkpoint_open(checkpoint, false, &open, error);
        if (status == CULM_OK) {
            *ret_json = json_incref(culm_checkpoint_info_of(open)->inputs);
            culm_checkpoint_close(open);
        }
        return status;
    }
    enum culm_status status = culm_path_format(path, error, "%s/plan.json", run_dir);
    if (status == CULM_OK) {
        json_t *plan = culm_json_load(path, NULL); /* one that cannot be read has none */
        *ret_json = json_incref(json_object_get(plan, "inputs"));
        json_decref(plan);
    }
    return status;
}

static void add_path(void *ctx, const char *path) {
    json_array_append_new(ctx, culm_json_text(path));
}

/* Labels are numbers, in the order of the names: other names mean another thing to the same weights. */
static enum culm_status compare_classes(const json_t *json, const struct culm_names *now,
                                        struct culm_error *error) {
    struct culm_names before = {0};
    enum culm_status status = culm_inputs_read_classes(json, &before, error);
    bool same = before.count == now->count;
    for (size_t i = 0; same && i < now->count; i++) {
        same = strcmp(before.name[i], now->name[i]) == 0;
    }
    if (status == CULM_OK && !same && before.count > 0 && now->count > 0) {
        char was[LIST_SIZE], is[LIST_SIZE];
        shorten(&before, was);
        shorten(now, is);
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "the classes of the data are %s, and were %s when the run began; "
                                "its weights know them by their order: name them as they were, or "
                                "begin another run with --out NEW --set model.init=DIR",
                                is, was);
    }
    culm_names_release(&before);
    return status;
}

/* `accepted`: takes the paths of files that have changed; NULL: that is refused. */
static enum culm_status compare(const json_t *json, const struct culm_inputs *now, json_t *accepted,
                                char *ret_note, struct culm_error *error) {
    struct culm_inputs before = {0};
    enum culm_status status = culm_inputs_read(json, &before, error);
    if (status == CULM_OK) {
        status = culm_pins_compare_all(before.pins, now->pins, accepted ? add_path : NULL, accepted,
                                       ret_note, error);
    }
    if (status == CULM_OK && !accepted) {
        status = culm_inputs_check_samples(&before, now->samples, error);
    }
    culm_inputs_release(&before);
    return status;
}

/* What was taken up before, from the same step, is taken up still, if it is what is there. */
static bool taken_up(const char *run_dir, const struct culm_inputs *now,
                     const struct culm_resume *resume) {
    char note[CULM_ERROR_MAX] = "";
    json_t *json = NULL;
    bool same = culm_lineage_noted(&resume->lineage, resume->step, NOTE) &&
                recorded(run_dir, "", &json, NULL) == CULM_OK && json &&
                compare(json, now, NULL, note, NULL) == CULM_OK;
    json_decref(json);
    return same;
}

/* The list of the checkpoint, or else of plan.json, and what has come of it. */
static enum culm_status compare_with(const char *run_dir, const struct culm_inputs *now,
                                     json_t *accepted, struct culm_resume *resume, char *ret_note,
                                     struct culm_error *error) {
    struct culm_error reason = {0};
    json_t *json = NULL;
    ret_note[0] = '\0';
    enum culm_status status = recorded(run_dir, resume->path, &json, error);
    if (status != CULM_OK || !json) {
        if (status == CULM_OK && resume->path[0]) {
            snprintf(ret_note, CULM_ERROR_MAX,
                     "'%.300s' does not say which inputs it was made of; they are not compared",
                     resume->path);
        }
        return status;
    }
    status = compare(json, now, accepted, ret_note, &reason);
    if (status == CULM_ERR_CHANGED) {
        status = taken_up(run_dir, now, resume) ? CULM_OK : CULM_ERR_CONFIG;
    } else if (status == CULM_OK && json_array_size(accepted) == 0 && !ret_note[0]) {
        culm_lineage_forget(&resume->lineage, resume->step, NOTE); /* put back, before a step */
    }
    if (status != CULM_OK) {
        culm_error_set(error, status, "%s", reason.text);
    } else if (resume->step > 0) { /* before, there are no weights to mean anything */
        status = compare_classes(json, &now->classes, error);
    }
    json_decref(json);
    return status;
}

/* Losses on other samples are not compared with those that it has. */
static void warn_of_best(struct culm_launcher *launcher, const char *dir) {
    char path[CULM_PATH_MAX];
    if (culm_path_format(path, NULL, "%s/best.safetensors", dir) == CULM_OK &&
        culm_file_is_regular(path)) {
        culm_launcher_warn(
            launcher,
            "'%.300s' was the best on the inputs as they were, and stays until a checkpoint is "
            "better on the new ones; remove it to choose among new checkpoints alone",
            path);
    }
}

enum culm_status culm_launch_inputs_resume(struct culm_launcher *launcher,
                                           const struct culm_launcher_options *o,
                                           const struct culm_inputs *now,
                                           struct culm_resume *resume, struct culm_error *error) {
    char note[CULM_ERROR_MAX];
    json_t *accepted = o->accept_inputs ? json_array() : NULL;
    enum culm_status status = compare_with(o->dir, now, accepted, resume, note, error);
    if (note[0]) {
        culm_launcher_warn(launcher, "%s", note);
    }
    size_t changed = json_array_size(accepted);
    if (status == CULM_OK && changed > 0) {
        const char *first = json_string_value(json_array_get(accepted, 0));
        resume->inputs = json_incref(accepted);
        culm_launcher_warn(launcher, "goes on with %zu changed input%s: '%.300s'%s", changed,
                           changed == 1 ? "" : "s", first, changed > 1 ? ", ..." : "");
        warn_of_best(launcher, o->dir);
        /* what nobody has computed with is no other run */
        status = resume->step > 0
                     ? culm_lineage_add_note(&resume->lineage, resume->step, NOTE, error)
                     : CULM_OK;
    }
    json_decref(accepted);
    return status;
}

enum culm_status culm_launch_inputs_check_tensor(const struct culm_resume *resume,
                                                 const struct culm_checkpoint *checkpoint,
                                                 const char *name, int rank, const int64_t *shape,
                                                 struct culm_error *error) {
    const struct culm_safetensors_entry *entry = culm_checkpoint_find(checkpoint, name);
    bool same = entry && entry->rank == rank;
    for (int d = 0; same && d < rank; d++) {
        same = entry->shape[d] == shape[d];
    }
    return same ? CULM_OK
                : culm_error_set(
                      error, CULM_ERR_CONFIG,
                      "'%.200s': the model as it is now has a tensor '%.100s' that the "
                      "checkpoint has not, or not in its shape; put back what has changed, or "
                      "start another run",
                      resume->path, name);
}

enum culm_status culm_launch_inputs_complete(struct culm_launcher *launcher, struct culm_pins *pins,
                                             struct culm_error *error) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < culm_pins_count(pins); i++) {
        const struct culm_pin pin = culm_pins_at(pins, i);
        bytes += pin.files || pin.whole[0] ? 0 : pin.bytes;
    }
    if (bytes > SAID_BYTES) {
        culm_launcher_warn(launcher,
                           "%llu GB of data are read once before the run begins, so that all "
                           "machines can compare theirs",
                           (unsigned long long)(bytes / 1000000000));
    }
    culm_pins_complete(pins, &(bool){false}, NULL, NULL);
    for (size_t i = 0; i < culm_pins_count(pins); i++) {
        const struct culm_pin pin = culm_pins_at(pins, i);
        if (!pin.files && !pin.whole[0]) {
            return culm_error_set(error, CULM_ERR_CHANGED,
                                  "'%.300s' was written to or replaced while it was read",
                                  pin.path);
        }
    }
    return CULM_OK;
}

/* Of large files whose digests are known by now, each once; `last`: of others too, that there will be
 * none, so that nobody waits for them. */
static void tell_digests(struct culm_launch_inputs_thread *thread, bool last) {
    struct culm_buf news;
    culm_buf_init(&news, CULM_HOST_NEWS_MAX);
    for (size_t i = 0; i < thread->told_count; i++) {
        const struct culm_pin pin = culm_pins_at(thread->pins, i);
        if (thread->told[i] || (!pin.whole[0] && (!last || pin.files))) {
            continue;
        }
        thread->told[i] = true;
        culm_buf_clear(&news);
        culm_digest_news_encode(&pin, &news);
        if (!news.failed) {
            culm_launcher_news(thread->launcher, news.data, news.len);
        }
    }
    culm_buf_release(&news);
}

static void found(void *ctx) {
    struct culm_launch_inputs_thread *thread = ctx;
    tell_digests(thread, false);
    thread->found(thread->ctx);
}

static void *complete(void *arg) {
    struct culm_launch_inputs_thread *thread = arg;
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* in Linux that of a thread */
    culm_pins_complete(thread->pins, &thread->stop, found, thread);
    if (!__atomic_load_n(&thread->stop, __ATOMIC_RELAXED)) {
        tell_digests(thread, true);
    }
    return NULL;
}

void culm_launch_inputs_start(struct culm_launch_inputs_thread *thread, struct culm_pins *pins,
                              struct culm_launcher *launcher, void (*found_one)(void *ctx),
                              void *ctx) {
    *thread = (struct culm_launch_inputs_thread){
        .pins = pins, .launcher = launcher, .found = found_one, .ctx = ctx};
    thread->told = calloc(culm_pins_count(pins) + 1, sizeof *thread->told);
    thread->told_count = thread->told ? culm_pins_count(pins) : 0;
    if (pthread_create(&thread->thread, NULL, complete, thread) != 0) {
        tell_digests(thread, true);
        thread->pins = NULL;
    }
}

void culm_launch_inputs_stop(struct culm_launch_inputs_thread *thread) {
    if (thread->pins) {
        __atomic_store_n(&thread->stop, true, __ATOMIC_RELAXED);
        pthread_join(thread->thread, NULL);
        thread->pins = NULL;
    }
    free(thread->told);
    thread->told = NULL;
}
