/* Finding a word, and the nearest to one that is not there. */
#include "base/words.h"

#include <stdio.h>
#include <string.h>

#define MAX_LEN 63 /* of a word that anything is near to */

bool culm_words_same(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

int culm_word_find(const char *const *words, const char *word) {
    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], word) == 0) {
            return i;
        }
    }
    return -1;
}

void culm_words_list(const char *const *words, char *buffer, size_t size) {
    size_t used = 0;
    buffer[0] = '\0';
    for (size_t i = 0; words[i] && used < size; i++) {
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", i ? ", " : "", words[i]);
    }
}

static size_t edit_distance(const char *a, size_t a_len, const char *b, size_t b_len) {
    size_t row[MAX_LEN + 1];
    for (size_t j = 0; j <= b_len; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[b_len];
}

void culm_nearest_try(struct culm_nearest *near, const char *known) {
    size_t len = strlen(near->word), known_len = strlen(known);
    if (len == 0 || len > MAX_LEN || known_len > MAX_LEN) {
        return;
    }
    size_t distance = edit_distance(near->word, len, known, known_len);
    size_t limit = near->nearest ? near->distance : len / 3 + 2;
    if (distance < limit && distance < known_len) {
        near->nearest = known;
        near->distance = distance;
    }
}
