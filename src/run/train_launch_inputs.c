/* The launcher's part of pinning; see the header. */
#include "run/train_launch_inputs.h"

#include "base/json.h"
#include "store/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Workers come first; but until a file is known as a whole another time of it ends the run. */
#define NICE 10

/* NULL with CULM_OK: there is none. */
static enum culm_status recorded(const char *run_dir, const char *checkpoint, json_t **ret_json,
                                 struct culm_error *error) {
    char path[CULM_PATH_MAX];
    *ret_json = NULL;
    if (checkpoint[0]) {
        struct culm_checkpoint *open = NULL;
        enum culm_status status = culm_checkpoint_open(checkpoint, false, &open, error);
        if (status == CULM_OK) {
            *ret_json = json_incref(culm_checkpoint_info(open)->inputs);
            culm_checkpoint_close(open);
        }
        return status;
    }
    enum culm_status status = culm_path_format(path, error, "%s/plan.json", run_dir);
    if (status == CULM_OK) {
        json_t *plan = json_load_file(path, 0, NULL); /* one that cannot be read has none */
        *ret_json = json_incref(json_object_get(plan, "inputs"));
        json_decref(plan);
    }
    return status;
}

static void add_path(void *ctx, const char *path) {
    json_array_append_new(ctx, culm_json_text(path));
}

static enum culm_status compare(const struct culm_inputs *before, const struct culm_inputs *now,
                                json_t *accepted, char *ret_note, struct culm_error *error) {
    enum culm_status status = culm_pins_compare_all(
        before->pins, now->pins, accepted ? add_path : NULL, accepted, ret_note, error);
    return status == CULM_OK && !accepted ? culm_inputs_check_samples(before, now->samples, error)
                                          : status;
}

/* `accepted`: takes the paths of files that have changed; NULL: that is refused. */
static enum culm_status compare_with(const char *run_dir, const char *checkpoint,
                                     const struct culm_inputs *now, json_t *accepted,
                                     char *ret_note, struct culm_error *error) {
    struct culm_inputs before = {0};
    json_t *json = NULL;
    ret_note[0] = '\0';
    enum culm_status status = recorded(run_dir, checkpoint, &json, error);
    if (status == CULM_OK && !json) {
        if (checkpoint[0]) {
            snprintf(ret_note, CULM_ERROR_MAX,
                     "'%.300s' does not say which inputs it was made of; they are not compared",
                     checkpoint);
        }
        return CULM_OK;
    }
    if (status == CULM_OK) {
        status = culm_inputs_read(json, &before, error);
    }
    if (status == CULM_OK) {
        status = compare(&before, now, accepted, ret_note, error);
    }
    culm_inputs_release(&before);
    json_decref(json);
    if (status == CULM_ERR_CHANGED) {
        status = CULM_ERR_CONFIG;
        error->status = status;
    }
    return status;
}

enum culm_status culm_train_launch_inputs_resume(struct culm_launcher *launcher,
                                                 const struct culm_launcher_options *o,
                                                 const struct culm_inputs *now,
                                                 struct culm_resume *resume,
                                                 struct culm_error *error) {
    char note[CULM_ERROR_MAX];
    json_t *accepted = o->accept_inputs ? json_array() : NULL;
    enum culm_status status = compare_with(o->dir, resume->path, now, accepted, note, error);
    if (note[0]) {
        culm_launcher_warn(launcher, "%s", note);
    }
    size_t changed = json_array_size(accepted);
    if (status == CULM_OK && changed > 0) {
        const char *first = json_string_value(json_array_get(accepted, 0));
        resume->inputs = json_incref(accepted);
        culm_launcher_warn(launcher, "goes on with %zu changed input%s: '%.300s'%s", changed,
                           changed == 1 ? "" : "s", first, changed > 1 ? ", ..." : "");
        /* what nobody has computed with is no other run */
        status = resume->step > 0
                     ? culm_lineage_note(&resume->lineage, resume->step, "inputs", error)
                     : CULM_OK;
    }
    json_decref(accepted);
    return status;
}

enum culm_status culm_train_launch_inputs_check_tensor(const struct culm_resume *resume,
                                                       const struct culm_checkpoint *checkpoint,
                                                       const char *name, int rank,
                                                       const int64_t *shape,
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

/* Of large files whose digests are known by now, each once. */
static void tell_digests(struct culm_train_launch_inputs_thread *thread) {
    struct culm_buf news;
    culm_buf_init(&news, CULM_HOST_NEWS_MAX);
    for (size_t i = 0; i < thread->told_count; i++) {
        const struct culm_pin pin = culm_pins_at(thread->pins, i);
        if (thread->told[i] || !pin.whole[0]) {
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
    struct culm_train_launch_inputs_thread *thread = ctx;
    tell_digests(thread);
    thread->found(thread->ctx);
}

static void *complete(void *arg) {
    struct culm_train_launch_inputs_thread *thread = arg;
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* in Linux that of a thread */
    culm_pins_complete(thread->pins, &thread->stop, found, thread);
    return NULL;
}

void culm_train_launch_inputs_start(struct culm_train_launch_inputs_thread *thread,
                                    struct culm_pins *pins, struct culm_launcher *launcher,
                                    void (*found_one)(void *ctx), void *ctx) {
    *thread = (struct culm_train_launch_inputs_thread){
        .pins = pins, .launcher = launcher, .found = found_one, .ctx = ctx};
    thread->told = calloc(culm_pins_count(pins) + 1, sizeof *thread->told);
    thread->told_count = thread->told ? culm_pins_count(pins) : 0;
    if (pthread_create(&thread->thread, NULL, complete, thread) != 0) {
        thread->pins = NULL;
    }
}

void culm_train_launch_inputs_stop(struct culm_train_launch_inputs_thread *thread) {
    if (thread->pins) {
        __atomic_store_n(&thread->stop, true, __ATOMIC_RELAXED);
        pthread_join(thread->thread, NULL);
        thread->pins = NULL;
    }
    free(thread->told);
    thread->told = NULL;
}
