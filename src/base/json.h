/*
 * Text in JSON, and JSON in files. JSON is UTF-8; names of files, and messages with such names, may
 * be any bytes. Thread: any.
 */
#ifndef CULM_BASE_JSON_H
#define CULM_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>

/* Whether the text is UTF-8. */
bool culm_json_is_utf8(const char *text);
/* A string of any bytes up to NUL: each that is no part of UTF-8 becomes U+FFFD. NULL: out of
 * memory. Every event and every answer of a command takes text that others wrote from here, since
 * one byte would otherwise take the whole of it away. */
json_t *culm_json_text(const char *text);
/* What json_load_file makes of the file at `path`, and what it says if that fails (NULL). But a
 * process that is started meanwhile does not inherit the open file. */
json_t *culm_json_load(const char *path, json_error_t *ret_problem_or_null);

#endif
