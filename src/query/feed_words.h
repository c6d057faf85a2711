/*
 * Words for ffmpeg that a workload has for a feed (`feeds.X.options`): how to open and decode its file.
 *
 * They stand before the file, as pairs of an option and its value. What writes files, opens others, changes
 * the pictures that come out or which they are, or hides what ffmpeg says is refused, and so is an option without a
 * value that is not known: behind it, anything would be the name of a file to write.
 *
 * Thread: any.
 */
#ifndef CULM_QUERY_FEED_WORDS_H
#define CULM_QUERY_FEED_WORDS_H

#include "data/feed.h"

#include <stddef.h>

/* CULM_ERR_CONFIG: which is refused, and why; the text names no feed. */
enum culm_status culm_feed_words_check(char *const *words, size_t count, struct culm_error *error);

#endif
