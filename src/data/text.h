/*
 * Text as bytes: files joined end to end and cut into samples.
 *
 * Sample i is the bytes [i*context, i*context + context] inclusive: `context` inputs and, one byte
 * later, `context` targets. What is left at the end is dropped, so
 * samples = (bytes - 1) / context.
 *
 *     bytes    c u l m   i s   b a m b o o            context 4
 *     sample 0 c u l m _         inputs "culm", targets "ulm "
 *     sample 1         _ i s _ b
 *
 * Samples are read with pread when asked for: no memory, the page cache is shared by all workers of
 * a machine, and a file that shrinks while a run uses it gives an error, not a SIGBUS.
 * Thread: constant after opening; any number of threads may fill at once.
 */
#ifndef CULM_DATA_TEXT_H
#define CULM_DATA_TEXT_H

#include "base/status.h"

struct culm_text;

/* `vocab`: the model's vocabulary; below 256 every byte is checked to be in it, once, here. Errors
 * are CULM_ERR_CONFIG (missing, unreadable, a directory, empty, too short for one sample, a byte
 * outside of the vocabulary) and say which file. */
enum culm_status culm_text_open(const char *const *paths, size_t path_count, int64_t context,
                                int64_t vocab, struct culm_text **ret_text,
                                struct culm_error *error);
void culm_text_free(struct culm_text *text); /* NULL is fine */

int64_t culm_text_samples(const struct culm_text *text);     /* at least 1 */
uint64_t culm_text_size_bytes(const struct culm_text *text); /* of all files */

/* Writes ret_tokens[context] and ret_targets[context]. CULM_ERR_ARGUMENT when there is no such
 * sample; CULM_ERR_IO when the file cannot be read any more or became shorter. On failure the
 * outputs are undefined. Allocates nothing. */
enum culm_status culm_text_fill(const struct culm_text *text, int64_t sample, int32_t *ret_tokens,
                                int32_t *ret_targets, struct culm_error *error);

#endif
