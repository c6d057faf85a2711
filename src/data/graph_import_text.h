/*
 * Lines of files of edges and of labels: ids of vertices, fields, headings, comments.
 *
 * Fields are separated by commas if there is one outside of quotes, otherwise by blanks, tabs or
 * semicolons. Quotes around a field are no part of it. Thread: any.
 */
#ifndef CULM_DATA_GRAPH_IMPORT_TEXT_H
#define CULM_DATA_GRAPH_IMPORT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

const char *culm_text_skip_gap(const char *at); /* blanks, tabs, commas, semicolons */
/* Reads a vertex id at `at` and returns its end. NULL: there is none, or it is too large, or it is
 * not followed by a gap or the end of the line. */
const char *culm_text_take_id(const char *at, int64_t *ret_id);
/* Empty, or begins with # or %. */
bool culm_text_is_comment(const char *line);
/* Counts the fields of a line, and finds the last one. */
size_t culm_text_fields(const char *line, const char **ret_last, size_t *ret_len);
/* A number with or without a sign, a point or an exponent. */
bool culm_text_is_number(const char *text, size_t len);
/* No field is a number, and the line does not begin like one. */
bool culm_text_is_heading(const char *line);

#endif
