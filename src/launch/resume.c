/* Looking for a checkpoint, and telling of it. See resume.h. */
#include "launch/resume.h"

#include "base/json.h"
#include "store/weights.h"

#include <stdio.h>
#include <string.h>

void culm_resume_release(struct culm_resume *resume) {
    culm_lineage_release(&resume->lineage);
    json_decref(resume->settings);
    json_decref(resume->inputs);
    *resume = (struct culm_resume){0};
}

/* Numbers that are not finite come to nothing else. */
static enum culm_status check_finite(const char *path, struct culm_error *error) {
    struct culm_weights *weights = NULL;
    struct culm_error reason;
    enum culm_status status = culm_weights_open_compared(path, &weights, &reason);
    if (status == CULM_OK) {
        status = culm_weights_check_finite(weights, &reason);
    }
    culm_weights_close(weights);
    return status == CULM_OK
               ? CULM_OK
               : culm_error_set(error, status,
                                "%.400s; remove that checkpoint to go on from the one before it",
                                reason.text);
}

/* "all 39 steps" */
static const char *count(char text[48], int64_t steps, const char *unit) {
    snprintf(text, 48, "%lld %s%s", (long long)steps, unit, steps == 1 ? "" : "s");
    return text;
}

/* It has done something, though its events do not say what was saved; it was begun anew since if they
 * say that. */
static enum culm_status refuse_traces(const struct culm_resume_options *o,
                                      const struct culm_told *told, const char *model,
                                      struct culm_error *error) {
    char what[CULM_ERROR_MAX];
    if (told->anew) {
        return CULM_OK;
    }
    if (told->bad > 0) {
        snprintf(what, sizeof what,
                 "line %zu of '%.160s/events.jsonl' is not an event, so the file does not say what "
                 "was saved",
                 told->bad, o->dir);
    } else if (culm_file_is_regular(model)) {
        snprintf(what, sizeof what, "'%.200s' is there, so the run has done something", model);
    } else {
        return CULM_OK;
    }
    return culm_error_set(error, CULM_ERR_CONFIG,
                          "%.260s, and there is no checkpoint in '%.120s/checkpoints'; bring it "
                          "back (mount its volume?), or give --from-start to do all again",
                          what, o->dir);
}

static const char *unless(const struct culm_launcher *launcher) {
    return culm_launcher_left(launcher) > 0 ? ", unless workers from elsewhere, which may have "
                                              "outlived the last launcher, still have them"
                                            : "";
}

/* None is whole: `broken` says why, if there are some. */
static enum culm_status without(struct culm_launcher *launcher, const struct culm_resume_options *o,
                                const struct culm_told *told, const char *broken,
                                struct culm_error *error) {
    const int64_t again = told->done > told->saved ? told->done : told->saved;
    char steps[48], model[CULM_PATH_MAX], saved[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(model, error, "%s/model.safetensors", o->dir);
    if (status == CULM_OK) {
        status = culm_checkpoint_path(o->dir, told->saved, saved, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    count(steps, again, o->unit);
    if (o->from_start) {
        if (again > 0) {
            culm_launcher_warn(launcher,
                               "'%.200s': there is no whole checkpoint; %s are done again%s",
                               o->dir, steps, unless(launcher));
        }
        return CULM_OK;
    }
    if (broken && !told->anew) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "%.420s, or give --from-start to do all again (%s)", broken, steps);
    }
    return told->saved == 0
               ? refuse_traces(o, told, model, error)
               : culm_error_set(
                     error, CULM_ERR_CONFIG,
                     "'%.100s/events.jsonl' tells of the checkpoint '%.120s' of %s %lld, "
                     "and there is none in '%.100s/checkpoints'; bring it back (mount "
                     "its volume?), or give --from-start to do all again (%s)",
                     o->dir, saved, o->unit, (long long)told->saved, o->dir, steps);
}

static enum culm_status with(struct culm_launcher *launcher, const struct culm_resume_options *o,
                             const struct culm_resume *resume, const char *broken,
                             struct culm_error *error) {
    const struct culm_told *told = &resume->told;
    const int64_t most = told->done > told->saved ? told->done : told->saved;
    char steps[48], what[CULM_ERROR_MAX], saved[CULM_PATH_MAX];
    if (o->from_start) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "--from-start: '%.200s' is whole; leave it out to go on from there, or "
            "start another run in another --out",
            resume->path);
    }
    if (resume->step > o->steps) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%.200s' is at %s %lld already, and '%s' is %lld; set it to %lld or "
                              "more, or start another run",
                              resume->path, o->unit, (long long)resume->step, o->key,
                              (long long)o->steps, (long long)resume->step);
    }
    if (!*broken && told->saved <= resume->step) {
        return CULM_OK;
    }
    enum culm_status status = culm_checkpoint_path(o->dir, told->saved, saved, error);
    if (status != CULM_OK) {
        return status;
    }
    snprintf(what, sizeof what,
             "the checkpoint '%.200s' of %s %lld, of which events.jsonl tells, is "
             "gone",
             saved, o->unit, (long long)told->saved);
    culm_launcher_warn(
        launcher, "%.300s; the run goes on after %s %lld%s%s%s%s", *broken ? broken : what, o->unit,
        (long long)resume->step, most > resume->step ? ", and does " : "",
        most > resume->step ? count(steps, most - resume->step, o->unit) : "",
        most > resume->step ? " again" : "", most > resume->step ? unless(launcher) : "");
    return CULM_OK;
}

/* What comes after the step from which the run goes on is not what it was given last. */
static void warn_of_past(struct culm_launcher *launcher, const struct culm_resume_options *o,
                         const struct culm_resume *resume) {
    const struct culm_lineage *lineage = &resume->lineage;
    const int64_t last = lineage->part_count > 0 ? lineage->part[lineage->part_count - 1].after : 0;
    if (last > resume->step) {
        culm_launcher_warn(
            launcher,
            "up to %s %lld the run goes on with the settings that it had there, apart "
            "from what is set anew",
            o->unit, (long long)last);
    }
}

enum culm_status culm_resume_find(struct culm_launcher *launcher,
                                  const struct culm_resume_options *o,
                                  struct culm_resume *ret_resume, struct culm_error *error) {
    char broken[CULM_ERROR_MAX] = "";
    struct culm_resume resume = {0};
    struct culm_error reason = {0};
    enum culm_status status = culm_told_read(o->dir, o->unit, &resume.told, &reason);
    if (status != CULM_OK && status != CULM_ERR_NOT_FOUND) {
        culm_launcher_warn(launcher, "%.300s; checkpoints are not compared with it", reason.text);
    }
    resume.steps = o->steps;
    status = culm_checkpoint_latest(o->dir, true, &resume.step, resume.path, broken, &reason);
    if (status == CULM_OK) {
        status = with(launcher, o, &resume, broken, error);
    } else if (status == CULM_ERR_NOT_FOUND || status == CULM_ERR_FORMAT) {
        resume.step = 0;
        resume.path[0] = '\0';
        status = without(launcher, o, &resume.told, status == CULM_ERR_FORMAT ? reason.text : NULL,
                         error);
    } else {
        return culm_error_set(error, status, "%s", reason.text);
    }
    if (status == CULM_OK && resume.path[0]) {
        status = check_finite(resume.path, error);
    }
    if (status == CULM_OK && resume.told.bad > 0) {
        culm_launcher_warn(
            launcher, "line %zu of '%.300s/events.jsonl' is not an event; the other lines count",
            resume.told.bad, o->dir);
    }
    if (status == CULM_OK) {
        status = culm_resume_lineage(o->dir, resume.path, &resume.lineage, error);
    }
    if (status == CULM_OK) {
        warn_of_past(launcher, o, &resume);
        culm_lineage_back_to(&resume.lineage, resume.step);
        *ret_resume = resume;
    }
    return status;
}

enum culm_status culm_resume_compare_signature(struct culm_launcher *launcher,
                                               struct culm_resume *resume,
                                               const struct culm_checkpoint *checkpoint,
                                               const char *signature, struct culm_error *error) {
    const char *before = culm_checkpoint_info_of(checkpoint)->signature;
    if (strcmp(before, signature) == 0) {
        return CULM_OK;
    }
    culm_launcher_warn(launcher,
                       "'%s' was written by another build or machine (%s, here %s); the bits "
                       "may differ from here on",
                       resume->path, before, signature);
    return culm_lineage_add_note(&resume->lineage, resume->step, "build", error);
}

enum culm_status culm_resume_settle(const char *dir, struct culm_resume *resume,
                                    struct culm_error *error) {
    enum culm_status status = culm_checkpoint_clean(NULL, dir, error);
    /* A crash may have left it under a temporary name, which has just been put right. */
    return status == CULM_OK && resume->path[0] && !culm_file_is_directory(resume->path)
               ? culm_checkpoint_path(dir, resume->step, resume->path, error)
               : status;
}

/* --- events --- */

static void tell(struct culm_launcher *launcher, json_t *take_event) {
    if (take_event) {
        culm_launcher_tell(launcher, take_event);
    }
    json_decref(take_event);
}

static json_t *event_of(const char *name, const char *unit, int64_t step) {
    return json_pack("{s:s, s:f, s:i, s:I}", "event", name, "t_ms", 0.0, "view", 0, unit,
                     (json_int_t)step);
}

static void tell_changed(struct culm_launcher *launcher, const char *name, const char *unit,
                         int64_t step, json_t *changed) {
    json_t *event = changed ? event_of(name, unit, step) : NULL;
    if (event && json_object_set(event, "changed", changed) == 0) {
        tell(launcher, json_incref(event));
    }
    json_decref(event);
}

void culm_resume_tell(struct culm_launcher *launcher, const struct culm_resume *resume,
                      const char *unit) {
    const struct culm_told *told = &resume->told;
    json_t *event = event_of("resumed", unit, resume->step);
    if (event) {
        json_object_set_new(event, "path", culm_json_text(resume->path));
        json_object_set_new(event, "done", json_integer(told->done));
        json_object_set_new(
            event, "again",
            json_integer(told->done > resume->step ? told->done - resume->step : 0));
    }
    tell(launcher, event);
    tell_changed(launcher, "settings", unit, resume->step, resume->settings);
    tell_changed(launcher, "inputs", unit, resume->step, resume->inputs);
    for (size_t i = 0; i < resume->lineage.note_count; i++) {
        if (resume->lineage.note[i].after < resume->steps) { /* else no step was done with it */
            culm_launcher_inexact(launcher, resume->lineage.note[i].why);
        }
    }
}
