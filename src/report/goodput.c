/* Where the time of a run went; see goodput.h. */
#include "report/goodput.h"

#include "base/grow.h"
#include "report/sink.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define ALL SIZE_MAX
#define LAUNCHES_SHOWN 5
#define MS_MAX 1e12 /* thirty years: more is damage */

const char *const culm_goodput_names[CULM_GOODPUT_KINDS] = {
    [CULM_GOODPUT_USEFUL] = "useful", [CULM_GOODPUT_REDONE] = "redone",
    [CULM_GOODPUT_PAUSED] = "paused", [CULM_GOODPUT_WAITING] = "waiting",
    [CULM_GOODPUT_SAVING] = "saving",
};

void culm_goodput_release(struct culm_goodput *g) {
    free(g->launch);
    free(g->paused);
    *g = (struct culm_goodput){0};
}

/* --- counting --- */

static double *bucket(struct culm_goodput *g, enum culm_goodput_kind kind) {
    return &g->launch[g->launches - 1].us[kind];
}

double culm_goodput_us(const json_t *event, const char *member) {
    double ms = culm_event_real(event, member, 0);
    return ms > 0 && ms < MS_MAX ? rint(ms * 1e3) : 0;
}

void culm_goodput_advance(struct culm_goodput *g, const json_t *event) {
    double passed = culm_goodput_us(event, "t_ms") - g->t_us;
    if (g->launches == 0 || passed <= 0) {
        return;
    }
    g->t_us += passed;
    if (g->settles) {
        *bucket(g, CULM_GOODPUT_SAVING) += passed;
        g->held_us += passed;
    } else if (!g->began || g->lacks) {
        *bucket(g, CULM_GOODPUT_WAITING) += passed;
    } else if (g->loads || g->paused_count > 0) {
        *bucket(g, CULM_GOODPUT_PAUSED) += passed;
    } else {
        g->open_us += passed;
    }
}

double culm_goodput_close(struct culm_goodput *g, enum culm_goodput_kind kind) {
    double us = g->open_us;
    if (g->launches > 0) {
        *bucket(g, kind) += us;
    }
    g->open_us = 0;
    return us;
}

enum culm_status culm_goodput_start(struct culm_goodput *g, struct culm_error *error) {
    culm_goodput_close(g, CULM_GOODPUT_REDONE);
    if (!CULM_GROW(g->launch, g->capacity, g->launches + 1)) {
        return culm_error_set(error, CULM_ERR_MEMORY, "summary: out of memory");
    }
    g->launch[g->launches++] = (struct culm_goodput_launch){0};
    g->t_us = g->held_us = 0;
    g->paused_count = 0;
    g->began = g->lacks = g->loads = g->settles = g->trying = false;
    return CULM_OK;
}

void culm_goodput_move(struct culm_goodput *g, size_t launch, double us,
                       enum culm_goodput_kind from, enum culm_goodput_kind to) {
    if (launch < g->launches) {
        g->launch[launch].us[from] -= us;
        g->launch[launch].us[to] += us;
    }
}

/* --- figures --- */

struct culm_goodput_times culm_goodput_times_of(const struct culm_goodput *g, size_t launch) {
    struct culm_goodput_launch sum = {0};
    struct culm_goodput_times times;
    for (size_t l = 0; l < g->launches; l++) {
        for (int k = 0; k < CULM_GOODPUT_KINDS && (launch == ALL || launch == l); k++) {
            sum.us[k] += g->launch[l].us[k];
        }
    }
    sum.us[CULM_GOODPUT_REDONE] += launch == ALL || launch + 1 == g->launches ? g->open_us : 0;
    for (int k = 0; k < CULM_GOODPUT_KINDS; k++) {
        times.ms[k] = sum.us[k] / 1e3;
    }
    return times;
}

double culm_goodput_wall_ms(const struct culm_goodput_times *times) {
    double sum = 0;
    for (int k = 0; k < CULM_GOODPUT_KINDS; k++) {
        sum += times->ms[k];
    }
    return sum;
}

double culm_goodput_share(const struct culm_goodput_times *times) {
    double wall = culm_goodput_wall_ms(times);
    return wall > 0 ? times->ms[CULM_GOODPUT_USEFUL] / wall : 1;
}

static size_t shown(const struct culm_goodput *g) {
    return g->launches < 2 ? 0 : g->launches < LAUNCHES_SHOWN ? g->launches : LAUNCHES_SHOWN;
}

size_t culm_goodput_lines(const struct culm_goodput *g) {
    const struct culm_goodput_times all = culm_goodput_times_of(g, ALL);
    return culm_goodput_wall_ms(&all) > 0 ? 1 + shown(g) : 0;
}

void culm_goodput_line(const struct culm_goodput *g, size_t line, char ret_name[20], char *ret_text,
                       size_t size) {
    size_t launch = line == 0 ? ALL : g->launches - shown(g) + line - 1;
    const struct culm_goodput_times times = culm_goodput_times_of(g, launch);
    int digits = culm_goodput_wall_ms(&times) < 60e3 ? 3 : 1;
    size_t len = 0;
    snprintf(ret_name, 20, "goodput");
    if (line > 0) {
        snprintf(ret_name, 20, "  launch %zu", launch + 1);
    }
    len += (size_t)snprintf(ret_text, size, "%.1f %%:", 100 * culm_goodput_share(&times));
    for (int k = 0; k < CULM_GOODPUT_KINDS && len < size; k++) {
        len += (size_t)snprintf(ret_text + len, size - len, "%s %s %.*f s", k > 0 ? " |" : "",
                                culm_goodput_names[k], digits, times.ms[k] / 1e3);
    }
}

static json_t *times_json(const struct culm_goodput_times *times) {
    json_t *object = json_pack("{s:f, s:f}", "share", culm_goodput_share(times), "wall_ms",
                               culm_goodput_wall_ms(times));
    for (int k = 0; k < CULM_GOODPUT_KINDS && object; k++) {
        char key[32];
        snprintf(key, sizeof key, "%s_ms", culm_goodput_names[k]);
        json_object_set_new(object, key, json_real(times->ms[k]));
    }
    return object;
}

json_t *culm_goodput_json(const struct culm_goodput *g) {
    const struct culm_goodput_times all = culm_goodput_times_of(g, ALL);
    json_t *object = times_json(&all), *launches = json_array();
    for (size_t l = 0; l < g->launches; l++) {
        const struct culm_goodput_times one = culm_goodput_times_of(g, l);
        json_array_append_new(launches, times_json(&one));
    }
    if (!object || json_object_set_new(object, "launches", launches)) {
        json_decref(object);
        return NULL;
    }
    return object;
}
