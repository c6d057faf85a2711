/*
 * Tables as text: dumping, comparing, documenting, and the nearest word.
 *
 * A dump uses the fewest digits that read back to the same double, and quotes a text unless it is
 * plainly a path or a word.
 */
#include "base/config.h"
#include "base/config_row.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- words ----------------------------------------------------------------------------------- */

static size_t edit_distance(const char *a, size_t a_len, const char *b, size_t b_len) {
    size_t row[64];
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

bool culm_config_nearest(const char *word, const char *words, char ret_word[64]) {
    size_t word_len = strlen(word), best = word_len / 3 + 1;
    bool found = false;
    if (word_len == 0 || word_len >= 64) {
        return false;
    }
    for (const char *at = words; *at;) {
        size_t len = strcspn(at, "|");
        size_t distance = len < 64 ? edit_distance(word, word_len, at, len) : SIZE_MAX;
        if (distance < best + !found && distance < len) {
            best = distance;
            found = true;
            memcpy(ret_word, at, len);
            ret_word[len] = '\0';
        }
        at += len + (at[len] == '|');
    }
    return found;
}

void culm_config_words_list(const char *words, char *buffer, size_t size) {
    size_t used = 0;
    for (const char *at = words; *at && used + 4 < size; at++) {
        if (*at == '|') {
            buffer[used++] = ',';
            buffer[used++] = ' ';
        } else {
            buffer[used++] = *at;
        }
    }
    buffer[used] = '\0';
}

int culm_config_row_choice(const struct culm_config_row *row, const char *word) {
    int index = 0;
    size_t word_len = strlen(word);
    for (const char *at = row->choices; *at; index++) {
        size_t len = strcspn(at, "|");
        if (len == word_len && !strncmp(at, word, len)) {
            return index;
        }
        at += len + (at[len] == '|');
    }
    return -1;
}

static const char *choice_name(const struct culm_config_row *row, int index, size_t *ret_len) {
    const char *at = row->choices;
    while (index-- > 0) {
        at += strcspn(at, "|");
        at += *at == '|';
    }
    *ret_len = strcspn(at, "|");
    return at;
}

/* --- rows ------------------------------------------------------------------------------------ */

const char *culm_config_row_noun(const struct culm_config_row *row) {
    switch (row->type) {
    case CULM_CONFIG_TYPE_INT:
    case CULM_CONFIG_TYPE_U64: return "a whole number";
    case CULM_CONFIG_TYPE_REAL: return "a number";
    case CULM_CONFIG_TYPE_WORD:
    case CULM_CONFIG_TYPE_ENUM:
    case CULM_CONFIG_TYPE_BOOL: return "a word";
    case CULM_CONFIG_TYPE_PATHS: break;
    }
    return "a path";
}

void culm_config_row_range(const struct culm_config_row *row, char *buffer, size_t size) {
    bool above = row->flags & CULM_CONFIG_ABOVE, below = row->flags & CULM_CONFIG_BELOW;
    switch (row->type) {
    case CULM_CONFIG_TYPE_INT:
        snprintf(buffer, size, "%lld to %lld", (long long)row->min, (long long)row->max);
        break;
    case CULM_CONFIG_TYPE_U64: snprintf(buffer, size, "0 to 18446744073709551615"); break;
    case CULM_CONFIG_TYPE_REAL:
        if (isinf(row->high)) {
            snprintf(buffer, size, "%s %g", above ? "above" : "at least", row->low);
        } else if (above || below) {
            snprintf(buffer, size, "%s %g and %s %g", above ? "above" : "at least", row->low,
                     below ? "below" : "at most", row->high);
        } else {
            snprintf(buffer, size, "%g to %g", row->low, row->high);
        }
        break;
    case CULM_CONFIG_TYPE_WORD:
    case CULM_CONFIG_TYPE_ENUM:
    case CULM_CONFIG_TYPE_BOOL: culm_config_words_list(row->choices, buffer, size); break;
    case CULM_CONFIG_TYPE_PATHS:
        snprintf(buffer, size, "%s", row->choices ? row->choices : "a path or a list of paths");
        break;
    }
}

/* --- dump ------------------------------------------------------------------------------------ */

static void dump_real(double value, struct culm_buf *out) {
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    culm_buf_printf(out, "%s", text);
}

/* Decodes one character of the valid UTF-8 that the YAML reader lets through. */
static uint32_t next_character(const unsigned char **at) {
    const unsigned char *p = *at;
    size_t more = *p < 0x80 ? 0 : *p < 0xE0 ? 1 : *p < 0xF0 ? 2 : 3;
    uint32_t value = more == 0 ? *p : *p & (0x3Fu >> more);
    for (size_t i = 1; i <= more && (p[i] & 0xC0) == 0x80; i++) {
        value = value << 6 | (p[i] & 0x3F);
        *at = p + i;
    }
    ++*at;
    return value;
}

static void dump_text(const char *text, struct culm_buf *out) {
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-";
    size_t len = strlen(text);
    bool start_ok = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
                    *text == '/' || *text == '_';
    if (start_ok && strspn(text, plain) == len && strcasecmp(text, "null")) {
        culm_buf_bytes(out, text, len);
        return;
    }
    culm_buf_printf(out, "\"");
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        const unsigned char *start = at;
        uint32_t c = next_character(&at);
        if (c == '"' || c == '\\') {
            culm_buf_printf(out, "\\%c", (int)c);
        } else if ((c >= 0x20 && c < 0x7F) || (c >= 0xA0 && c < 0x2000)) {
            culm_buf_bytes(out, start, (size_t)(at - start));
        } else {
            /* Control characters, line separators and everything beyond that a reader may refuse.
             */
            culm_buf_printf(out, "\\U%08X", c);
        }
    }
    culm_buf_printf(out, "\"");
}

void culm_config_dump_value(const struct culm_config_row *row, const void *object,
                            struct culm_buf *out) {
    const char *at = (const char *)object + row->offset;
    switch (row->type) {
    case CULM_CONFIG_TYPE_INT: {
        int64_t value;
        memcpy(&value, at, sizeof value);
        culm_buf_printf(out, "%lld", (long long)value);
        break;
    }
    case CULM_CONFIG_TYPE_U64: {
        uint64_t value;
        memcpy(&value, at, sizeof value);
        culm_buf_printf(out, "%llu", (unsigned long long)value);
        break;
    }
    case CULM_CONFIG_TYPE_REAL: {
        double value;
        memcpy(&value, at, sizeof value);
        dump_real(value, out);
        break;
    }
    case CULM_CONFIG_TYPE_WORD: culm_buf_printf(out, "%s", at); break;
    case CULM_CONFIG_TYPE_ENUM: {
        int index;
        size_t len;
        memcpy(&index, at, sizeof index);
        const char *name = choice_name(row, index, &len);
        culm_buf_bytes(out, name, len);
        break;
    }
    case CULM_CONFIG_TYPE_BOOL: {
        bool value;
        memcpy(&value, at, sizeof value);
        culm_buf_printf(out, "%s", value ? "true" : "false");
        break;
    }
    case CULM_CONFIG_TYPE_PATHS: {
        struct culm_config_paths paths;
        memcpy(&paths, at, sizeof paths);
        if (paths.count == 0) {
            culm_buf_printf(out, "[]");
        }
        for (size_t i = 0; i < paths.count; i++) {
            culm_buf_printf(out, "%s", i ? ", " : paths.count > 1 ? "[" : "");
            dump_text(paths.paths[i], out);
        }
        culm_buf_printf(out, "%s", paths.count > 1 ? "]" : "");
        break;
    }
    }
}

void culm_config_dump(const struct culm_config_table *table, const void *object,
                      struct culm_buf *out) {
    const char *section = "";
    size_t section_len = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct culm_config_row *row = &table->rows[i];
        const char *dot = strchr(row->key, '.');
        size_t len = dot ? (size_t)(dot - row->key) : 0;
        if (len && (len != section_len || strncmp(row->key, section, len))) {
            culm_buf_printf(out, "%.*s:\n", (int)len, row->key);
        }
        section = row->key;
        section_len = len;
        culm_buf_printf(out, "%s%s: ", dot ? "  " : "", dot ? dot + 1 : row->key);
        culm_config_dump_value(row, object, out);
        culm_buf_printf(out, "\n");
    }
}

static bool same_value(const struct culm_config_row *row, const void *a, const void *b) {
    const char *x = (const char *)a + row->offset, *y = (const char *)b + row->offset;
    if (row->type == CULM_CONFIG_TYPE_WORD) {
        return !strcmp(x, y);
    }
    if (row->type != CULM_CONFIG_TYPE_PATHS) {
        return !memcmp(x, y, row->size);
    }
    struct culm_config_paths p, q;
    memcpy(&p, x, sizeof p);
    memcpy(&q, y, sizeof q);
    for (size_t i = 0; i < p.count && i < q.count; i++) {
        if (strcmp(p.paths[i], q.paths[i])) {
            return false;
        }
    }
    return p.count == q.count;
}

const struct culm_config_row *culm_config_difference(const struct culm_config_table *table,
                                                     const void *a, const void *b,
                                                     unsigned skip_flags) {
    for (size_t i = 0; i < table->count; i++) {
        const struct culm_config_row *row = &table->rows[i];
        if (!(row->flags & skip_flags) && !same_value(row, a, b)) {
            return row;
        }
    }
    return NULL;
}

/* --- reference ------------------------------------------------------------------------------- */

void culm_config_document(const struct culm_config_table *table, bool markdown,
                          struct culm_buf *out) {
    if (markdown) {
        culm_buf_printf(out, "| key | default | allowed | meaning |\n|---|---|---|---|\n");
    }
    for (size_t i = 0; i < table->count; i++) {
        const struct culm_config_row *row = &table->rows[i];
        char range[256];
        culm_config_row_range(row, range, sizeof range);
        const char *resume =
            row->flags & CULM_CONFIG_RESUMABLE ? " (may change on `--resume`)" : "";
        if (markdown) {
            culm_buf_printf(out, "| `%s` | %s | %s | %s%s |\n", row->key,
                            row->value ? row->value : "*required*", range, row->doc, resume);
        } else {
            culm_buf_printf(out, "  %-24s %s\n  %-24s   default: %s; allowed: %s\n", row->key,
                            row->doc, "", row->value ? row->value : "none, it is required", range);
        }
    }
}
