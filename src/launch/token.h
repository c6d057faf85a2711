/*
 * The token of a run: who does not know it is not let in, and it is the key of what nodes on different machines say to
 * each other (net/tls.h). A file of one has it in its first line. Thread: any.
 */
#ifndef CULM_LAUNCH_TOKEN_H
#define CULM_LAUNCH_TOKEN_H

#include "base/status.h"

#define CULM_TOKEN_SIZE 128 /* of any token, its NUL included */
#define CULM_TOKEN_LEAST 32 /* characters of one that is not guessed */

/* 256 random bits, as 64 hexadecimal digits. */
enum culm_status culm_token_draw(char ret_token[CULM_TOKEN_SIZE], struct culm_error *error);
/* CULM_ERR_FORMAT: the first line is no token. */
enum culm_status culm_token_read(const char *path, char ret_token[CULM_TOKEN_SIZE],
                                 struct culm_error *error);
/* Into a new file, which only its owner can read: CULM_ERR_EXISTS: nothing is written over. What was begun is removed if it fails. */
enum culm_status culm_token_write(const char *path, const char *token, struct culm_error *error);

#endif
