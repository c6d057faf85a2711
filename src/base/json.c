/* Text in JSON, and JSON in files. See json.h. */
#include "base/json.h"

#include "base/buf.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the character that begins at `at`; 0: it is none. NUL ends the text, so looking at what
 * follows a byte that is not NUL is safe. */
static size_t character(const unsigned char *at) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* shorter would do below it */
    size_t len = *at < 0x80 ? 1 : *at >> 5 == 6 ? 2 : *at >> 4 == 14 ? 3 : *at >> 3 == 30 ? 4 : 0;
    uint32_t code = len > 1 ? *at & (0x7fu >> len) : *at;
    for (size_t i = 1; i < len; i++) {
        if (at[i] >> 6 != 2) {
            return 0;
        }
        code = code << 6 | (at[i] & 0x3f);
    }
    return len && code >= least[len] && code <= 0x10ffff && code >> 11 != 0x1b ? len : 0;
}

bool culm_json_is_utf8(const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    for (size_t len; *at; at += len) {
        len = character(at);
        if (!len) {
            return false;
        }
    }
    return true;
}

json_t *culm_json_text(const char *text) {
    json_t *json = json_string(text);
    if (json) {
        return json; /* it is UTF-8 */
    }
    struct culm_buf buf;
    culm_buf_init(&buf, 3 * strlen(text) + 1);
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        size_t len = character(at);
        culm_buf_bytes(&buf, len ? (const void *)at : "\xef\xbf\xbd", len ? len : 3);
        at += len ? len : 1;
    }
    json = buf.failed ? NULL : json_stringn((const char *)buf.data, buf.len);
    culm_buf_release(&buf);
    return json;
}

json_t *culm_json_load(const char *path, json_error_t *ret_problem_or_null) {
    FILE *file = fopen(path, "rbe");
    if (!file) {
        if (ret_problem_or_null) {
            *ret_problem_or_null = (json_error_t){.line = -1, .column = -1};
            snprintf(ret_problem_or_null->text, JSON_ERROR_TEXT_LENGTH - 1, "unable to open %s: %s",
                     path, strerror(errno));
        }
        return NULL;
    }
    json_t *json = json_loadf(file, 0, ret_problem_or_null);
    fclose(file);
    return json;
}
