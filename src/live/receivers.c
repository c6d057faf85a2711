/*
 * Answers to whom the workload names, beside their files. Whoever is slow, hangs or is away costs answers of
 * his own, which are counted, and never frames.
 */
#include "live/run.h"

#include "base/clock.h"
#include "base/json.h"
#include "live/receiver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAST_NS UINT64_C(2000000000) /* for what is on its way when the run ends */

enum culm_status live_open_receivers(struct culm_live *run, struct culm_error *error) {
    const struct culm_answers_config *config = &run->catalog[0]->workload.answers;
    enum culm_status status = CULM_OK;
    run->no_files = true;
    for (size_t i = 0; i < config->to_count && status == CULM_OK; i++) {
        if (strcmp(config->to[i], "file") == 0) {
            run->no_files = false;
            continue;
        }
        status = culm_receiver_check(config->to[i], error);
        if (status != CULM_OK) {
            culm_error_prefix(error, "answers.to");
            return status;
        }
        status = culm_receiver_new(config->to[i], &run->receiver[run->receiver_count], error);
        run->receiver_count += status == CULM_OK;
    }
    return status;
}

void live_send_answer(struct culm_live *run, const struct live_query *query, json_t *line) {
    if (run->receiver_count == 0) {
        return;
    }
    json_object_set_new(line, "query", culm_json_text(query->entry->config->name));
    char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
    for (int32_t r = 0; r < run->receiver_count; r++) {
        culm_receiver_put(run->receiver[r], text);
    }
    free(text);
}

static void warn_of(struct culm_live *run, const struct culm_receiver_look *look) {
    char text[CULM_ERROR_MAX + CULM_RECEIVER_SHOWN + 160];
    if (look->down[0]) {
        snprintf(
            text, sizeof text,
            "answers to '%s': %s; the run goes on, tries again, and keeps the newest answers, up "
            "to %zu MB",
            look->to, look->down, CULM_RECEIVER_BYTES >> 20);
        live_warn(run, text);
    }
}

void live_hear_receivers(struct culm_live *run) {
    struct culm_receiver_look look;
    char text[CULM_RECEIVER_SHOWN + 120];
    for (int32_t r = 0; r < run->receiver_count; r++) {
        culm_receiver_look(run->receiver[r], true, &look);
        const bool down = strcmp(look.state, "down") == 0;
        if (!down) { /* both may have happened since the last time */
            warn_of(run, &look);
        }
        if (look.up) {
            snprintf(text, sizeof text,
                     "answers to '%s': they are taken again; %lld have been lost", look.to,
                     (long long)look.lost);
            live_warn(run, text);
        }
        if (down) {
            warn_of(run, &look);
        }
    }
}

json_t *live_receivers(struct culm_live *run) {
    json_t *list = json_array();
    struct culm_receiver_look look;
    for (int32_t r = 0; r < run->receiver_count; r++) {
        culm_receiver_look(run->receiver[r], false, &look);
        json_array_append_new(list, json_pack("{s:o, s:s, s:I, s:I, s:I}", "to",
                                              culm_json_text(look.to), "state", look.state, "sent",
                                              (json_int_t)look.sent, "lost", (json_int_t)look.lost,
                                              "waiting", (json_int_t)look.waiting));
    }
    return list;
}

void live_end_receivers(struct culm_live *run, bool at_once) {
    const uint64_t until = at_once ? 0 : culm_clock_ns() + LAST_NS;
    for (int32_t r = 0; r < run->receiver_count; r++) {
        culm_receiver_close(run->receiver[r]);
    }
    for (int32_t r = 0; r < run->receiver_count; r++) {
        culm_receiver_end(run->receiver[r], until);
    }
}
