/*
 * Characters of UTF-8 text, and where GPT-2 cuts it.
 *
 * The classes are Unicode's as Hugging Face's patterns mean them: \p{L}, \p{N}, \s. A byte that is
 * no UTF-8 is one character, CULM_UNICODE_NONE, of class OTHER. Thread: any.
 */
#ifndef CULM_DATA_UNICODE_H
#define CULM_DATA_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CULM_UNICODE_NONE (-1)

enum culm_unicode_class {
    CULM_UNICODE_OTHER,
    CULM_UNICODE_SPACE,
    CULM_UNICODE_LETTER,
    CULM_UNICODE_NUMBER
};

/* The library's: its tables decide where text is cut. */
const char *culm_unicode_version(void);

/* The character at `at` (below len) and how many bytes it has. */
size_t culm_unicode_next(const char *text, size_t len, size_t at, int32_t *ret_char);
enum culm_unicode_class culm_unicode_class_of(int32_t c);

/* Whether all of it is UTF-8; else the text with U+FFFD for each longest part of a character that
 * could still have become one, as Unicode recommends and Python's errors="replace" does: into
 * `ret_text`, which has room for three bytes for each, or nowhere (NULL). *ret_len: its length. */
bool culm_unicode_repair(const char *text, size_t len, char *ret_text, size_t *ret_len);

/* The next word from `*at` on (what white space separates): *ret_word is where it begins, and *at
 * behind its end. False: there is none. */
bool culm_unicode_next_word(const char *text, size_t len, size_t *at, size_t *ret_word,
                            size_t *ret_len);

/* The end of the piece that begins at `at` (below len), by GPT-2's pattern:
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
size_t culm_unicode_gpt2_piece(const char *text, size_t len, size_t at);

/* What BERT's normaliser asks. */
bool culm_unicode_is_control(int32_t c); /* tab, newline and return are not */
bool culm_unicode_is_punctuation(int32_t c);
bool culm_unicode_is_chinese(int32_t c);
bool culm_unicode_is_mark(int32_t c); /* Mn: an accent, once decomposed */
#define CULM_UNICODE_EXPANSION 24
/* Canonical decomposition, and lower case, of one character; how many they are. */
int culm_unicode_decompose(int32_t c, int32_t ret_chars[CULM_UNICODE_EXPANSION]);
int culm_unicode_lower(int32_t c, int32_t ret_chars[CULM_UNICODE_EXPANSION]);
/* Writes c as UTF-8; how many bytes. */
size_t culm_unicode_put(int32_t c, char ret_bytes[4]);

#endif
