/*
 * Reads a text file of any size line by line, with line numbers for messages.
 *
 * Lines end with \n or \r\n; the last one need not. A line may have up to 64 KiB, and no NUL. A
 * byte order mark of UTF-8 at the beginning is skipped. A gzip file is unpacked into memory.
 * Thread: any, one at a time.
 */
#ifndef CULM_DATA_LINES_H
#define CULM_DATA_LINES_H

#include "base/status.h"

struct culm_lines;

/* `what` begins messages, such as "edges"; borrowed. CULM_ERR_CONFIG: the file is missing or empty;
 * CULM_ERR_FORMAT: it is no text. */
enum culm_status culm_lines_open(const char *what, const char *path, struct culm_lines **ret_lines,
                                 struct culm_error *error);
void culm_lines_free(struct culm_lines *lines); /* NULL is fine */
/* The next line, without its end; NULL: there are no more. It may be modified, and is valid until
 * the next call. */
enum culm_status culm_lines_next(struct culm_lines *lines, char **ret_line,
                                 struct culm_error *error);
int64_t culm_lines_number(const struct culm_lines *lines); /* of the last line, from 1 */
/* Puts "WHAT 'PATH': line N: " in front of an error. */
void culm_lines_prefix(const struct culm_lines *lines, struct culm_error *error);
/* CULM_ERR_FORMAT: "WHAT 'PATH': line N: ...". */
enum culm_status culm_lines_bad(const struct culm_lines *lines, struct culm_error *error,
                                const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
