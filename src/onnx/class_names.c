/*
 * Names of classes as exporters write them into the metadata of an ONNX file, under "names":
 *
 *     {0: 'cat', 1: 'dog'}      a dictionary of Python; the numbers may be quoted, as in JSON
 *     ['cat', 'dog']            a list
 */
#include "onnx/graph.h"
#include "onnx/onnx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 65536

void culm_onnx_class_names_text(const struct culm_names *names, struct culm_buf *out) {
    for (size_t i = 0; i < names->count; i++) {
        culm_buf_printf(out, "%s%zu: '", i ? ", " : "{", i);
        for (const char *at = names->name[i]; *at; at++) {
            if ((uint8_t)*at < ' ') {
                culm_buf_printf(out, "\\x%02x", (unsigned)*at);
            } else {
                culm_buf_printf(out, *at == '\'' || *at == '\\' ? "\\%c" : "%c", *at);
            }
        }
        culm_buf_printf(out, "'");
    }
    culm_buf_printf(out, "}");
}

static void skip_blanks(const char **at) { *at += strspn(*at, " \t\r\n"); }

static int hex(char c) {
    return c >= '0' && c <= '9'                 ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : -1;
}

/* A quoted text; false: it is none, or has something that is not known. */
static bool read_text(const char **at, char **ret_text) {
    char quote = **at;
    size_t len = 0;
    if (quote != '\'' && quote != '"') {
        return false;
    }
    char *text = malloc(strlen(*at) + 1);
    for (++*at; text && **at && **at != quote; ++*at) {
        char c = **at;
        if (c == '\\') {
            c = *++*at;
            if (c == 'x' && hex((*at)[1]) >= 0 && hex((*at)[2]) >= 0) {
                c = (char)(16 * hex((*at)[1]) + hex((*at)[2]));
                *at += 2;
            } else if (c == 'n' || c == 't') {
                c = c == 'n' ? '\n' : '\t';
            } else if (c != '\'' && c != '"' && c != '\\' && c != '/') {
                break;
            }
        }
        text[len++] = c;
    }
    if (!text || **at != quote) {
        free(text);
        return false;
    }
    ++*at;
    text[len] = '\0';
    *ret_text = text;
    return true;
}

static bool read_number(const char **at, long *ret_number) {
    char quote = **at == '\'' || **at == '"' ? **at : 0, *end;
    *at += quote != 0;
    if (**at < '0' || **at > '9') {
        return false;
    }
    *ret_number = strtol(*at, &end, 10);
    *at = end;
    if (quote && **at != quote) {
        return false;
    }
    *at += quote != 0;
    return true;
}

static bool read_entry(const char **at, bool list, struct culm_names *names) {
    long number = (long)names->count;
    skip_blanks(at);
    if (!list) {
        if (!read_number(at, &number)) {
            return false;
        }
        skip_blanks(at);
        if (**at != ':') { /* or the end */
            return false;
        }
        ++*at;
        skip_blanks(at);
    }
    return number == (long)names->count && number < NAMES_MAX &&
           read_text(at, &names->name[names->count]) && ++names->count;
}

bool culm_onnx_class_names_read(const char *text, struct culm_names *ret_names) {
    struct culm_names names = {.name = calloc(NAMES_MAX, sizeof *names.name)};
    const char *at = text;
    skip_blanks(&at);
    bool list = *at == '[', good = names.name && (*at == '[' || *at == '{');
    for (char next = ','; good && next == ',';) {
        at++;
        good = read_entry(&at, list, &names);
        skip_blanks(&at);
        next = good ? *at : 0;
        good = good && (next == ',' || next == (list ? ']' : '}'));
    }
    if (!good) {
        culm_names_release(&names);
        return false;
    }
    *ret_names = names;
    return true;
}

bool culm_onnx_graph_class_names(const struct culm_onnx_graph *file, struct culm_names *ret_names) {
    return file->class_names && culm_onnx_class_names_read(file->class_names, ret_names);
}

bool culm_onnx_graph_image_size(const struct culm_onnx_graph *file, int32_t *ret_width,
                                int32_t *ret_height) {
    int32_t height = 0, width = 0;
    int read = 0;
    if (!file->image_size ||
        sscanf(file->image_size, "[%6d, %6d]%n", &height, &width, &read) != 2 || !read ||
        file->image_size[read] || height < 1 || width < 1) {
        return false;
    }
    *ret_width = width;
    *ret_height = height;
    return true;
}
