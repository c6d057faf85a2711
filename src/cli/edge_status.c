/* Prints how a run of `culm edge` goes: a line on the run, then a table of feeds and one of queries. */
#include "cli/edge_status.h"

#include "cli/command.h"
#include "run/edge_status.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static double number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "-";
}

/* "-" if there is no such number. */
static const char *figure(const json_t *object, const char *key, double scale, const char *format,
                          char *room, size_t size) {
    const json_t *value = json_object_get(object, key);
    snprintf(room, size, "-");
    if (json_is_number(value)) {
        snprintf(room, size, format, scale * json_number_value(value));
    }
    return room;
}

static void print_time(double seconds) {
    const long long s = (long long)seconds;
    if (s >= 86400) {
        printf("%lld d %lld h", s / 86400, s / 3600 % 24);
    } else if (s >= 3600) {
        printf("%lld h %lld min", s / 3600, s / 60 % 60);
    } else if (s >= 60) {
        printf("%lld min %lld s", s / 60, s % 60);
    } else {
        printf("%.1f s", seconds);
    }
}

static void print_feeds(const json_t *feeds) {
    size_t i;
    const json_t *feed;
    char fps[24], lag[24], frame[24], answer[24];
    if (json_array_size(feeds) == 0 || !json_object_get(json_array_get(feeds, 0), "state")) {
        return; /* of a run that has ended */
    }
    printf("\n%-20s %-8s %9s %6s %8s %9s %10s %10s\n", "feed", "state", "frames", "fps", "outages",
           "lag ms", "frame s", "answer s");
    json_array_foreach(feeds, i, feed) {
        printf("%-20s %-8s %9.0f %6s %8.0f %9s %10s %10s\n", text(feed, "feed"),
               text(feed, "state"), number(feed, "frames"),
               figure(feed, "fps", 1, "%.1f", fps, sizeof fps), number(feed, "outages"),
               figure(feed, "lag_ms", 1, "%.1f", lag, sizeof lag),
               figure(feed, "frame_age_s", 1, "%.1f", frame, sizeof frame),
               figure(feed, "answer_age_s", 1, "%.1f", answer, sizeof answer));
        if (number(feed, "outages") > 0) {
            printf("  down for %.1f s in all; it came back %.0f times\n", number(feed, "down_s"),
                   number(feed, "reconnects"));
        }
    }
}

static void print_queries(json_t *queries) {
    size_t i;
    json_t *query, *count;
    const char *why;
    char share[24], accuracy[24], weights[24], answer[24];
    printf("\n%-20s %-10s %9s %9s %9s %9s %10s %10s\n", "query", "weights", "frames", "in time %",
           "dropped", "accuracy", "MB", "answer s");
    json_array_foreach(queries, i, query) {
        const double frames = number(query, "frames");
        snprintf(share, sizeof share, "-");
        if (frames > 0) {
            snprintf(share, sizeof share, "%.1f", 100 * number(query, "processed") / frames);
        }
        printf("%-20s %-10s %9.0f %9s %9.0f %9s %10s %10s\n", text(query, "query"),
               text(query, "state"), frames, share, number(query, "dropped"),
               figure(query, "accuracy", 1, "%.3f", accuracy, sizeof accuracy),
               figure(query, "bytes", 1e-6, "%.2f", weights, sizeof weights),
               figure(query, "answer_age_s", 1, "%.1f", answer, sizeof answer));
        json_object_foreach(json_object_get(query, "why"), why, count) {
            printf("  dropped, %s: %lld\n", why, (long long)json_integer_value(count));
        }
        if (number(query, "answers_lost") > 0) {
            printf("  answers that could not be written: %.0f\n", number(query, "answers_lost"));
        }
    }
}

static void print_receivers(const json_t *receivers) {
    size_t i;
    const json_t *one;
    if (json_array_size(receivers) > 0) {
        printf("\n%-40s %-8s %9s %9s %9s\n", "answers to", "state", "sent", "lost", "waiting");
    }
    json_array_foreach(receivers, i, one) {
        printf("%-40s %-8s %9.0f %9.0f %9.0f\n", text(one, "to"), text(one, "state"),
               number(one, "sent"), number(one, "lost"), number(one, "waiting"));
    }
}

static void print_status(const char *dir, const json_t *status) {
    const json_t *ill = json_object_get(status, "ill");
    printf("run %s: %s", dir, text(status, "state"));
    if (json_object_get(status, "uptime_s")) {
        printf(", for ");
        print_time(number(status, "uptime_s"));
    }
    if (json_object_get(status, "pid")) {
        printf(", pid %.0f", number(status, "pid"));
    }
    if (json_object_get(status, "last")) {
        printf(", last event at %s", text(status, "last"));
    }
    printf("\n");
    if (json_is_string(ill) && strcmp(json_string_value(ill), text(status, "state")) != 0) {
        printf("not well: %s\n", json_string_value(ill));
    }
    if (!json_object_get(status, "queries")) {
        return;
    }
    printf("memory");
    if (json_object_get(status, "resident_bytes")) { /* else it has ended */
        printf(" %.2f MB,", number(status, "resident_bytes") / 1e6);
    }
    printf(" at most %.2f MB of %.2f", number(status, "resident_max_bytes") / 1e6,
           number(status, "limit_bytes") / 1e6);
    if (json_is_number(json_object_get(status, "round"))) {
        printf("; round %.0f saves %.1f %% of the weights", number(status, "round"),
               100 * number(status, "saved"));
    }
    if (number(status, "events_lost") > 0) {
        printf("; %.0f events could not be written", number(status, "events_lost"));
    }
    printf("\n");
    print_feeds(json_object_get(status, "feeds"));
    print_queries(json_object_get(status, "queries"));
    print_receivers(json_object_get(status, "answers"));
}

enum culm_status culm_cli_edge_status(const char *dir, bool json, int *ret_code, bool *ret_on,
                                      struct culm_error *error) {
    json_t *status;
    const enum culm_status asked = culm_edge_status(dir, &status, error);
    if (asked != CULM_OK) {
        return asked;
    }
    *ret_code = json_is_null(json_object_get(status, "ill")) ? 0 : 1;
    if (ret_on) {
        const char *state = text(status, "state");
        *ret_on = strcmp(state, "ended") != 0 && strcmp(state, "dead") != 0;
    }
    if (json) {
        culm_cli_print_json(status);
    } else {
        print_status(dir, status);
        json_decref(status);
    }
    return CULM_OK;
}
