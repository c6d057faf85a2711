/*
 * Words that are chosen: the names of an enumeration's values, in its order, ended by NULL.
 *
 *     const char *const culm_color_names[] = {"red", "green", NULL};
 *
 * Inside the program a choice is the enumeration; its word is met only where it is read or written.
 * Thread: any.
 */
#ifndef CULM_BASE_WORDS_H
#define CULM_BASE_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* NULL is the same as NULL alone. */
bool culm_words_same(const char *a, const char *b);
/* The index of `word`, letter by letter, or -1. */
int culm_word_find(const char *const *words, const char *word);
/* "a, b, c", cut to what fits. */
void culm_words_list(const char *const *words, char *buffer, size_t size);

/* Finds the word that was meant by one that is not known: start with {.word = ...}, try all that
 * are known, and read `nearest`. Everything is borrowed. */
struct culm_nearest {
    const char *word;
    const char *nearest; /* NULL: none is near enough */
    size_t distance;     /* of `nearest`, in letters to add, drop or change */
};
void culm_nearest_try(struct culm_nearest *near, const char *known);

#endif
