/*
 * What a file holds, by its first bytes, for whoever expects something else there: archives,
 * pictures, programs, text that is not UTF-8. What is named begins as no text does that was not meant to.
 *
 * Thread: any.
 */
#ifndef CULM_DATA_CONTENT_H
#define CULM_DATA_CONTENT_H

#include <stdbool.h>
#include <stddef.h>

#define CULM_CONTENT_HEAD 512 /* so many first bytes are enough */

struct culm_content {
    const char *name;   /* "a zip archive" */
    const char *advice; /* to whoever needs text: "unpack it and give the text in it" */
    bool certain;       /* by so many bytes that numbers do not begin like that by accident */
    bool npy;           /* an array of NumPy */
};

/* NULL: nothing of these, such as text. */
const struct culm_content *culm_content_of(const void *head, size_t len);

#endif
