/* Internal to base: what config.c and config_text.c share about one row. */
#ifndef CULM_BASE_CONFIG_ROW_H
#define CULM_BASE_CONFIG_ROW_H

#include "base/config.h"

/* "a whole number", "a number", ... */
const char *culm_config_row_noun(const struct culm_config_row *row);
/* What is allowed: "1 to 1024", "above 0", "cosine, constant", "a path or a list of paths". */
void culm_config_row_range(const struct culm_config_row *row, char *buffer, size_t size);
/* The index of `word` in the choices, or -1. */
int culm_config_row_choice(const struct culm_config_row *row, const char *word);
/* "a|b|c" as "a, b, c". */
void culm_config_words_list(const char *words, char *buffer, size_t size);

#endif
