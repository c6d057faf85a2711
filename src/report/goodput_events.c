/*
 * What each event does to the count of time; see goodput.h. Jobs whose events have the same names and
 * meanings share a table.
 */
#include "report/goodput.h"
#include "report/summary.h"

#include "base/grow.h"

#include <string.h>

static enum culm_status on_start(struct culm_summary *s, const json_t *event,
                                 struct culm_error *error) {
    enum culm_status status = culm_goodput_start(&s->goodput, error);
    if (status == CULM_OK) {
        culm_goodput_advance(&s->goodput, event); /* it may come late */
    }
    return status;
}

/* --- jobs that commit steps: steps themselves and roll-backs are summary.c's --- */

/* Takes time off a step in which nothing moved. */
static void pause_open(struct culm_goodput *g, double us) {
    double part = us < g->open_us ? us : g->open_us;
    if (part > 0 && g->launches > 0) {
        g->open_us -= part;
        g->launch[g->launches - 1].us[CULM_GOODPUT_PAUSED] += part;
    }
}

static enum culm_status on_waiting(struct culm_summary *s, const json_t *event,
                                   struct culm_error *error) {
    (void)event;
    (void)error;
    s->goodput.lacks = true;
    return CULM_OK;
}

/* Whether a list of nodes has a place that nobody fills. */
static bool has_gap(const json_t *list) {
    const json_t *of;
    size_t i;
    json_array_foreach(list, i, of) {
        if (json_is_integer(of) && json_integer_value(of) < 0) {
            return true;
        }
    }
    return false;
}

/* A launch that goes on from a checkpoint says in its first view which step is next. */
static enum culm_status on_view(struct culm_summary *s, const json_t *event,
                                struct culm_error *error) {
    struct culm_goodput *g = &s->goodput;
    int64_t next = culm_event_int(event, s->job->step, INT64_MAX);
    bool loads = strcmp(culm_event_text(event, "phase", ""), "load") == 0;
    (void)error;
    if (!g->began && g->launches > 1 && next > INT64_MIN && next < INT64_MAX) {
        culm_summary_undo(s, next - 1);
    }
    g->lacks = g->lacks && has_gap(json_object_get(event, s->job->places));
    g->loads = loads;
    g->began = g->began || !loads;
    return CULM_OK;
}

static enum culm_status on_lost(struct culm_summary *s, const json_t *event,
                                struct culm_error *error) {
    struct culm_goodput *g = &s->goodput;
    const json_t *pauses = json_object_get(event, s->job->pauses);
    if (!json_is_true(pauses) && json_array_size(pauses) == 0) {
        return CULM_OK;
    }
    if (!CULM_GROW(g->paused, g->paused_capacity, g->paused_count + 1)) {
        return culm_error_set(error, CULM_ERR_MEMORY, "summary: out of memory");
    }
    g->paused[g->paused_count++] = culm_event_int(event, "node", -1);
    pause_open(g, culm_goodput_us(event, "for_ms"));
    return CULM_OK;
}

static enum culm_status on_recovered(struct culm_summary *s, const json_t *event,
                                     struct culm_error *error) {
    struct culm_goodput *g = &s->goodput;
    int64_t node = culm_event_int(event, "node", -1);
    (void)error;
    for (size_t i = 0; i < g->paused_count; i++) {
        if (g->paused[i] == node) {
            g->paused[i] = g->paused[--g->paused_count];
            break;
        }
    }
    return CULM_OK;
}

static enum culm_status on_stalled(struct culm_summary *s, const json_t *event,
                                   struct culm_error *error) {
    (void)error;
    pause_open(&s->goodput, culm_goodput_us(event, "for_ms"));
    return CULM_OK;
}

static enum culm_status on_rollback(struct culm_summary *s, const json_t *event,
                                    struct culm_error *error) {
    struct culm_goodput *g = &s->goodput;
    (void)event;
    (void)error;
    culm_goodput_close(g, CULM_GOODPUT_REDONE);
    g->loads = true;
    g->settles = false;
    return CULM_OK;
}

/* No step follows what was committed: the rest is saving. */
static void settle(struct culm_goodput *g) {
    g->held_us += culm_goodput_close(g, CULM_GOODPUT_SAVING);
    g->settles = true;
}

static enum culm_status on_checkpoint(struct culm_summary *s, const json_t *event,
                                      struct culm_error *error) {
    (void)error;
    if (json_is_true(json_object_get(event, "waited"))) {
        settle(&s->goodput);
    }
    return CULM_OK;
}

static void wait_instead(struct culm_goodput *g, double us) {
    double part = us < g->held_us ? us : g->held_us;
    if (part > 0 && g->launches > 0) {
        culm_goodput_move(g, g->launches - 1, part, CULM_GOODPUT_SAVING, CULM_GOODPUT_WAITING);
        g->held_us -= part;
    }
}

static enum culm_status on_done(struct culm_summary *s, const json_t *event,
                                struct culm_error *error) {
    (void)error;
    settle(&s->goodput);
    wait_instead(&s->goodput, culm_goodput_us(event, "eval_ms"));
    return CULM_OK;
}

/* The end of a run has waited for this evaluation, which the times of events do not show. */
static enum culm_status on_eval(struct culm_summary *s, const json_t *event,
                                struct culm_error *error) {
    struct culm_goodput *g = &s->goodput;
    double us = culm_goodput_us(event, "waited_ms");
    (void)error;
    if (g->launches > 0) {
        g->launch[g->launches - 1].us[CULM_GOODPUT_WAITING] += us;
    }
    return CULM_OK;
}

const struct culm_goodput_row culm_goodput_steps[] = {
    {"start", on_start},
    {"view", on_view},
    {"waiting", on_waiting},
    {"lost", on_lost},
    {"recovered", on_recovered},
    {"stalled", on_stalled},
    {"rollback", on_rollback},
    {"checkpoint", on_checkpoint},
    {"eval", on_eval},
    {"done", on_done},
    {0},
};

/* --- jobs that try and ship --- */

/* Until the first attempt it prepares. An attempt that does not ship before the next begins was given
 * up. */
static enum culm_status on_try(struct culm_summary *s, const json_t *event,
                               struct culm_error *error) {
    (void)event;
    (void)error;
    struct culm_goodput *g = &s->goodput;
    if (g->trying) {
        culm_goodput_close(g, CULM_GOODPUT_REDONE);
    }
    g->began = g->trying = true;
    g->held_us = g->open_us; /* what led to it is part of it */
    return CULM_OK;
}

static enum culm_status on_work(struct culm_summary *s, const json_t *event,
                                struct culm_error *error) {
    struct culm_goodput *g = &s->goodput;
    (void)event;
    (void)error;
    g->began = g->trying = true;
    g->held_us = g->open_us;
    return CULM_OK;
}

static enum culm_status on_shipped(struct culm_summary *s, const json_t *event,
                                   struct culm_error *error) {
    (void)event;
    (void)error;
    culm_goodput_close(&s->goodput, CULM_GOODPUT_USEFUL);
    s->goodput.held_us = 0;
    s->goodput.trying = false;
    return CULM_OK;
}

/* What follows the last attempt measures what has shipped. */
static enum culm_status on_measured(struct culm_summary *s, const json_t *event,
                                    struct culm_error *error) {
    struct culm_goodput *g = &s->goodput;
    double work = g->held_us < g->open_us ? g->held_us : g->open_us;
    (void)event;
    (void)error;
    if (g->launches > 0) {
        g->launch[g->launches - 1].us[CULM_GOODPUT_REDONE] += work;
        g->open_us -= work;
        culm_goodput_close(g, CULM_GOODPUT_WAITING);
    }
    g->held_us = 0;
    g->began = g->trying = false;
    return CULM_OK;
}

const struct culm_goodput_row culm_goodput_rounds[] = {
    {"start", on_start},
    {"try", on_try},
    {"step", on_work},
    {"check", on_work},
    {"merged", on_shipped},
    {"done", on_measured},
    {0},
};
