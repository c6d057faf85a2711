/*
 * The inputs of a run: what it reads to compute, besides configuration and plan. They are pinned
 * (base/pins.h) by the launcher, before anything starts, as it opens them; the list travels in the
 * brief, stands in plan.json and in every checkpoint, and is compared on --resume.
 *
 *     {"samples": 1024, "files": [{"path": "corpus.txt", "bytes": 60000, "sha256": "...",
 *                                  "inode": 5, "mtime_ns": ..., "ctime_ns": ...}]}
 *
 * Of images in folders there are "classes", the names, in plan.json and checkpoints. A large file
 * has "part_sha256", and "sha256" when that is known; a folder has "files", how many.
 * Thread: any.
 */
#ifndef CULM_STORE_INPUTS_H
#define CULM_STORE_INPUTS_H

#include "base/buf.h"
#include "base/file.h"
#include "base/pins.h"

#include <jansson.h>

struct culm_inputs {
    struct culm_pins *pins;
    int64_t samples;           /* for training */
    struct culm_names classes; /* names, in the order of labels; none: they have no names */
};

/* With what is known by now. NULL: out of memory. */
json_t *culm_inputs_json(const struct culm_inputs *inputs);
/* Copies a name of the classes, the next one. False: out of memory. */
bool culm_inputs_add_class(struct culm_inputs *inputs, const char *name);
/* The names of classes alone, of such JSON; none where it has none. CULM_ERR_MEMORY */
enum culm_status culm_inputs_read_classes(const json_t *json, struct culm_names *ret_names,
                                          struct culm_error *error);
/* Sealed; without names of classes. CULM_ERR_FORMAT. */
enum culm_status culm_inputs_read(const json_t *json, struct culm_inputs *ret_inputs,
                                  struct culm_error *error);
/* Whole digests that are not known yet are looked for in that plan.json when they are needed: the
 * launcher adds them there. `path` is borrowed as long as the inputs are there. */
void culm_inputs_ask_plan(struct culm_inputs *inputs, const char *path);
/* The same told by a message: what the launcher says of a pin whose whole digest it has found, and
 * what a worker has heard. Thread: any; internally locked. */
struct culm_digest_news;
/* Of a pin without a whole digest: that none will be found. */
void culm_digest_news_encode(const struct culm_pin *pin, struct culm_buf *buf);
struct culm_digest_news *culm_digest_news_new(void);       /* NULL: out of memory */
void culm_digest_news_free(struct culm_digest_news *news); /* NULL is fine */
/* CULM_ERR_FORMAT, CULM_ERR_MEMORY: then it is as if it had not been said. */
enum culm_status culm_digest_news_hear(struct culm_digest_news *news, const void *data, size_t len);
/* Whoever looks for a digest that has not been told waits for it. From now on nobody does, also who waits
 * already: no more may be told, or there is no time to wait. What is told is heard all the same. */
void culm_digest_news_end_waits(struct culm_digest_news *news); /* NULL is fine */
/* Whole digests are looked for in there; `news` is borrowed as long as the inputs are there. */
void culm_inputs_ask_news(struct culm_inputs *inputs, struct culm_digest_news *news);
void culm_inputs_release(struct culm_inputs *inputs); /* fine on a zeroed struct */

/* The files give as many samples as when they were pinned. CULM_ERR_CHANGED. */
enum culm_status culm_inputs_check_samples(const struct culm_inputs *inputs, int64_t samples,
                                           struct culm_error *error);

#endif
