/* Helpers of the report tests: events from text, and what was written to a descriptor. */
#ifndef CULM_TESTS_REPORT_EVENTS_H
#define CULM_TESTS_REPORT_EVENTS_H

#include "report/sink.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Gives one event, written as JSON with ' for ", to the sink. */
static inline void give(struct culm_sink *sink, const char *text) {
    char json[1024];
    snprintf(json, sizeof json, "%s", text);
    for (char *at = json; *at; at++) {
        *at = *at == '\'' ? '"' : *at;
    }
    json_error_t problem;
    json_t *event = json_loads(json, 0, &problem);
    struct culm_error error = {0};
    if (!event) {
        fail_msg("%s: %s", json, problem.text);
    }
    if (culm_sink_event(sink, event, &error)) {
        fail_msg("%s", error.text);
    }
    json_decref(event);
}

/* All bytes of a file; the caller frees. */
static inline char *slurp(FILE *file) {
    char *text = calloc(1, 65536);
    rewind(file);
    size_t len = fread(text, 1, 65535, file);
    text[len] = '\0';
    return text;
}

#endif
