/* Lines of files of edges and of labels. See graph_import_text.h. */
#include "data/graph_import_text.h"

#include "data/graph_data.h"

#include <stdlib.h>
#include <string.h>

#define GAP " \t,;"
#define BLANKS " \t"
#define WORD_GAP " \t;" /* between fields of a line without commas */

const char *culm_text_skip_gap(const char *at) { return at + strspn(at, GAP); }

const char *culm_text_take_id(const char *at, int64_t *ret_id) {
    int64_t id = 0;
    const char *first = at;
    for (; *at >= '0' && *at <= '9'; at++) {
        id = id * 10 + (*at - '0');
        if (id >= CULM_GRAPH_VERTICES_MAX) {
            return NULL;
        }
    }
    *ret_id = id;
    return at > first && (!*at || strchr(GAP, *at)) ? at : NULL;
}

bool culm_text_is_comment(const char *line) {
    return !line[strspn(line, BLANKS)] || *line == '#' || *line == '%';
}

/* --- fields --- */

struct fields {
    const char *at; /* NULL: there are no more */
    bool commas;
};

/* The quote that ends what begins with the quote at `at`, or the end of the line. */
static const char *closing(const char *at) {
    do {
        at++;
        at += strcspn(at, "\"");
    } while (at[0] && at[1] == '"' && *++at); /* two quotes stand for one */
    return at;
}

static bool has_comma(const char *line) {
    for (const char *at = line; *at; at++) {
        if (*at == ',') {
            return true;
        }
        if (*at == '"' && (at == line || strchr(GAP, at[-1])) && !*(at = closing(at))) {
            return false;
        }
    }
    return false;
}

static bool next_field(struct fields *fields, const char **ret_text, size_t *ret_len) {
    const char *separators = fields->commas ? "," : WORD_GAP;
    const char *first = fields->at, *end, *after;
    if (!first) {
        return false;
    }
    first += strspn(first, fields->commas ? BLANKS : WORD_GAP);
    if (!*first && !fields->commas) {
        return false;
    }
    if (*first == '"') {
        end = closing(first++);
        after = end + strcspn(end, separators);
    } else {
        after = end = first + strcspn(first, separators);
        while (end > first && strchr(BLANKS, end[-1])) {
            end--;
        }
    }
    fields->at = !fields->commas ? after : *after ? after + 1 : NULL;
    *ret_text = first;
    *ret_len = (size_t)(end - first);
    return true;
}

static struct fields fields_of(const char *line) {
    return (struct fields){.at = line, .commas = has_comma(line)};
}

size_t culm_text_fields(const char *line, const char **ret_last, size_t *ret_len) {
    struct fields fields = fields_of(line);
    size_t count = 0;
    *ret_last = "";
    *ret_len = 0;
    while (next_field(&fields, ret_last, ret_len)) {
        count++;
    }
    return count;
}

/* --- numbers and headings --- */

static bool begins_number(const char *text, size_t len) {
    size_t sign = len > 0 && (*text == '-' || *text == '+');
    return len > sign && (text[sign] == '.' || (text[sign] >= '0' && text[sign] <= '9'));
}

bool culm_text_is_number(const char *text, size_t len) {
    char *end;
    if (!begins_number(text, len)) {
        return false;
    }
    (void)strtod(text, &end);
    return end == text + len;
}

bool culm_text_is_heading(const char *line) {
    struct fields fields = fields_of(line);
    const char *text;
    size_t len;
    for (bool first = true; next_field(&fields, &text, &len); first = false) {
        if (first ? begins_number(text, len) : culm_text_is_number(text, len)) {
            return false;
        }
    }
    return true;
}
