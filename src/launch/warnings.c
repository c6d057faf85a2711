/* Warnings of a launcher. See warnings.h. */
#include "launch/warnings.h"

#include "base/grow.h"
#include "base/json.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void culm_warnings_add(struct culm_warnings *warnings, const char *format, ...) {
    va_list args;
    va_start(args, format);
    culm_warnings_add_list(warnings, format, args);
    va_end(args);
}

void culm_warnings_add_list(struct culm_warnings *warnings, const char *format, va_list args) {
    char text[2 * CULM_ERROR_MAX];
    vsnprintf(text, sizeof text, format, args);
    if (warnings->say) {
        warnings->say(warnings->ctx, text);
    }
    char *copy = strdup(text);
    if (copy && CULM_GROW(warnings->text, warnings->capacity, warnings->count + 1)) {
        warnings->text[warnings->count++] = copy;
    } else {
        free(copy);
    }
}

json_t *culm_warnings_event(struct culm_warnings *warnings) {
    if (warnings->told == warnings->count) {
        return NULL;
    }
    return json_pack("{s:s, s:f, s:i, s:o}", "event", "warning", "t_ms", 0.0, "view", 0, "message",
                     culm_json_text(warnings->text[warnings->told++]));
}

void culm_warnings_release(struct culm_warnings *warnings) {
    for (size_t i = 0; i < warnings->count; i++) {
        free(warnings->text[i]);
    }
    free(warnings->text);
    *warnings = (struct culm_warnings){0};
}
