/* Tables of figures, and the text that they make. See metrics.h. */
#include "live/metrics.h"

#include <stdlib.h>
#include <string.h>

#define RECEIVER "to" /* the label, and the key of its address */
#define METRICS_MAX ((size_t)1 << 20)

struct figure {
    const char *name, *type, *help;
    const char *key; /* in the look, or in each object of its list */
    double scale;
    const char *of; /* with an object of counts: the label of their names; NULL: a number */
    const char *is; /* with a text: the figure is 1 if it is this one, else 0; NULL: a number */
};

static const struct figure of_run[] = {
    {"uptime_seconds", "gauge", "Time since the run began", "uptime_s", 1, NULL, NULL},
    {"memory_limit_bytes", "gauge", "What tensors, activations and frames may take", "limit_bytes",
     1, NULL, NULL},
    {"memory_resident_bytes", "gauge", "What they take now", "resident_bytes", 1, NULL, NULL},
    {"memory_resident_max_bytes", "gauge", "The most that they have taken", "resident_max_bytes", 1,
     NULL, NULL},
    {"loaded_bytes_total", "counter", "Tensors loaded", "loaded_bytes", 1, NULL, NULL},
    {"load_share", "gauge", "Share of the time in which frames waited and nothing ran but loads",
     "load_share", 1, NULL, NULL},
    {"package_round", "gauge", "Round of the package in use", "round", 1, NULL, NULL},
    {"saved_ratio", "gauge",
     "How much less the weights in use take than those that queries have on their own", "saved", 1,
     NULL, NULL},
    {"events_lost_total", "counter", "Events for which there was no room", "events_lost", 1, NULL,
     NULL}};
static const struct figure of_feeds[] = {
    {"feed_up", "gauge", "Whether the feed gives frames", "state", 1, NULL, "up"},
    {"feed_frames_total", "counter", "Frames taken", "frames", 1, NULL, NULL},
    {"feed_outages_total", "counter", "How often it has been away", "outages", 1, NULL, NULL},
    {"feed_reconnects_total", "counter", "How often it has come back", "reconnects", 1, NULL, NULL},
    {"feed_down_seconds_total", "counter", "How long it has been away", "down_s", 1, NULL, NULL},
    {"feed_lag_seconds", "gauge", "How long after its time the last frame was ready", "lag_ms",
     1e-3, NULL, NULL},
    {"feed_frame_age_seconds", "gauge", "Time since the last frame", "frame_age_s", 1, NULL, NULL},
    {"feed_answer_age_seconds", "gauge", "Time since any query on it was answered", "answer_age_s",
     1, NULL, NULL}};
static const struct figure of_queries[] = {
    {"query_frames_total", "counter", "Frames, answered or dropped", "frames", 1, NULL, NULL},
    {"query_processed_total", "counter", "Frames answered in time", "processed", 1, NULL, NULL},
    {"query_dropped_total", "counter", "Frames dropped, by the reason", "why", 1, "reason", NULL},
    {"query_shared_total", "counter", "Frames for which another query had computed a beginning",
     "shared", 1, NULL, NULL},
    {"query_answers_lost_total", "counter", "Answers that could not be written", "answers_lost", 1,
     NULL, NULL},
    {"query_accuracy_ratio", "gauge", "Accuracy of all answers so far", "accuracy", 1, NULL, NULL},
    {"query_answer_age_seconds", "gauge", "Time since its last answer", "answer_age_s", 1, NULL,
     NULL},
    {"query_weights_bytes", "gauge", "Weights in use, shared ones too", "bytes", 1, NULL, NULL},
    {"query_merged", "gauge", "Whether it runs on merged weights", "state", 1, NULL, "merged"},
    {"query_reverted", "gauge", "Whether drift took it back to its own weights", "state", 1, NULL,
     "reverted"}};

static const struct figure of_receivers[] = {
    {"receiver_up", "gauge", "Whether the receiver takes answers", "state", 1, NULL, "up"},
    {"receiver_sent_total", "counter", "Answers that it has got", "sent", 1, NULL, NULL},
    {"receiver_lost_total", "counter", "Answers that it will not get", "lost", 1, NULL, NULL},
    {"receiver_waiting", "gauge", "Answers that wait for it", "waiting", 1, NULL, NULL}};

#define COUNT(list) (sizeof(list) / sizeof *(list))

static void head(struct culm_buf *out, const struct figure *figure) {
    culm_buf_printf(out, "# HELP culm_edge_%s %s.\n# TYPE culm_edge_%s %s\n", figure->name,
                    figure->help, figure->name, figure->type);
}

static void label(struct culm_buf *out, const char *name, const char *text) {
    culm_buf_printf(out, "%s=\"", name);
    for (; *text; text++) {
        if (*text == '\n') {
            culm_buf_printf(out, "\\n");
        } else {
            culm_buf_printf(out, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
        }
    }
    culm_buf_printf(out, "\"");
}

static void value(struct culm_buf *out, double number) { culm_buf_printf(out, " %.17g\n", number); }

/* whose: the label of the object; NULL: it is the run itself. number: its place, in the list of receivers, of which
 * two may be shown alike. */
static void add(struct culm_buf *out, const struct figure *figure, const json_t *object,
                const char *whose, size_t number) {
    const json_t *told = json_object_get(object, figure->key), *count;
    const char *name = whose ? json_string_value(json_object_get(object, whose)) : NULL, *key;
    if (figure->of && whose) {
        json_object_foreach((json_t *)(uintptr_t)told, key, count) {
            culm_buf_printf(out, "culm_edge_%s{", figure->name);
            label(out, whose, name ? name : "");
            culm_buf_printf(out, ",");
            label(out, figure->of, key);
            culm_buf_printf(out, "}");
            value(out, json_number_value(count));
        }
        return;
    }
    if (!json_is_number(told) && !(figure->is && json_is_string(told))) {
        return;
    }
    culm_buf_printf(out, "culm_edge_%s", figure->name);
    if (whose) {
        culm_buf_printf(out, "{");
        label(out, whose, name ? name : "");
        if (strcmp(whose, RECEIVER) == 0) {
            culm_buf_printf(out, ",receiver=\"%zu\"", number);
        }
        culm_buf_printf(out, "}");
    }
    value(out, figure->is ? strcmp(json_string_value(told), figure->is) == 0
                          : figure->scale * json_number_value(told));
}

static void add_list(struct culm_buf *out, const struct figure *figures, size_t count,
                     const json_t *list, const char *whose) {
    size_t i;
    const json_t *item;
    for (size_t f = 0; f < count; f++) {
        head(out, &figures[f]);
        json_array_foreach(list, i, item) { add(out, &figures[f], item, whose, i); }
    }
}

void culm_live_metrics_begin(struct culm_buf *out, bool well, double age_s) {
    static const struct figure healthy = {"healthy", "gauge", "Whether /healthz says ok", NULL, 1,
                                          NULL,      NULL};
    static const struct figure age = {
        "look_age_seconds", "gauge", "How old these figures are", NULL, 1, NULL, NULL};
    head(out, &healthy);
    culm_buf_printf(out, "culm_edge_healthy %d\n", well);
    head(out, &age);
    culm_buf_printf(out, "culm_edge_look_age_seconds %.3f\n", age_s);
}

char *culm_live_metrics(const json_t *look) {
    struct culm_buf out;
    culm_buf_init(&out, METRICS_MAX);
    for (size_t f = 0; f < COUNT(of_run); f++) {
        if (json_is_number(json_object_get(look, of_run[f].key))) {
            head(&out, &of_run[f]);
            add(&out, &of_run[f], look, NULL, 0);
        }
    }
    add_list(&out, of_feeds, COUNT(of_feeds), json_object_get(look, "feeds"), "feed");
    add_list(&out, of_queries, COUNT(of_queries), json_object_get(look, "queries"), "query");
    add_list(&out, of_receivers, COUNT(of_receivers), json_object_get(look, "answers"), RECEIVER);
    return culm_buf_take_text(&out);
}
