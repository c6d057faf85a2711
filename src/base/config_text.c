/*
 * Tables as text: dumping, comparing, documenting.
 *
 * A dump uses the fewest digits that read back to the same double, and quotes a text unless it is
 * plainly a path or a word.
 */
#include "base/config_row.h"
#include "base/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

static void dump_texts(char *const *texts, size_t count, struct culm_buf *out) {
    culm_buf_printf(out, "%s", count == 1 ? "" : "[");
    for (size_t i = 0; i < count; i++) {
        culm_buf_printf(out, "%s", i ? ", " : "");
        dump_text(texts[i], out);
    }
    culm_buf_printf(out, "%s", count == 1 ? "" : "]");
}

static void dump_ints(const char *at, size_t room, struct culm_buf *out) {
    static const int64_t none = 0;
    while (room > 0 && memcmp(at + (room - 1) * sizeof none, &none, sizeof none) == 0) {
        room--;
    }
    culm_buf_printf(out, "[");
    for (size_t i = 0; i < room; i++) {
        int64_t value;
        memcpy(&value, at + i * sizeof value, sizeof value);
        culm_buf_printf(out, "%s%lld", i ? ", " : "", (long long)value);
    }
    culm_buf_printf(out, "]");
}

/* What is no section. */
static void dump_value(const struct culm_config_row *row, const void *object,
                       struct culm_buf *out) {
    const char *at = (const char *)object + row->offset;
    union {
        int64_t integer;
        uint64_t natural;
        double real;
        int index;
        bool truth;
        char *text;
        struct culm_config_texts texts;
    } value;
    switch (row->type) {
    case CULM_CONFIG_TYPE_INT:
        memcpy(&value.integer, at, sizeof value.integer);
        culm_buf_printf(out, "%lld", (long long)value.integer);
        break;
    case CULM_CONFIG_TYPE_U64:
        memcpy(&value.natural, at, sizeof value.natural);
        culm_buf_printf(out, "%llu", (unsigned long long)value.natural);
        break;
    case CULM_CONFIG_TYPE_REAL:
        memcpy(&value.real, at, sizeof value.real);
        dump_real(value.real, out);
        break;
    case CULM_CONFIG_TYPE_ENUM:
        memcpy(&value.index, at, sizeof value.index);
        culm_buf_printf(out, "%s", row->words[value.index]);
        break;
    case CULM_CONFIG_TYPE_BOOL:
        memcpy(&value.truth, at, sizeof value.truth);
        culm_buf_printf(out, "%s", row->words[value.truth]);
        break;
    case CULM_CONFIG_TYPE_TEXT:
        memcpy(&value.text, at, sizeof value.text);
        dump_texts(&value.text, value.text != NULL, out);
        break;
    case CULM_CONFIG_TYPE_TEXTS:
        memcpy(&value.texts, at, sizeof value.texts);
        dump_texts(value.texts.texts, value.texts.count, out);
        break;
    case CULM_CONFIG_TYPE_INTS: dump_ints(at, row->size / sizeof(int64_t), out); break;
    case CULM_CONFIG_TYPE_SECTION:
    case CULM_CONFIG_TYPE_SECTIONS:
    case CULM_CONFIG_TYPE_NAMED: break;
    }
}

static const char *name_of(const struct culm_config_row *row, const char *object) {
    char *name;
    memcpy(&name, object + row->name_offset, sizeof name);
    return name;
}

/* `bullet`: the first line begins with "- ", in the last two columns of the indent. */
static void dump_section(const struct culm_config_table *table, const char *object, int indent,
                         bool bullet, struct culm_buf *out);

static void dump_list(const struct culm_config_row *row, const char *object, int indent,
                      struct culm_buf *out) {
    bool named = row->type == CULM_CONFIG_TYPE_NAMED;
    struct culm_config_list list;
    memcpy(&list, object + row->offset, sizeof list);
    culm_buf_printf(out, "%s", list.count ? "\n" : named ? " {}\n" : " []\n");
    for (size_t i = 0; i < list.count; i++) {
        const char *element = (const char *)list.items + i * row->table->object_bytes;
        if (named) {
            culm_buf_printf(out, "%*s", indent + 2, "");
            dump_text(name_of(row, element), out);
            culm_buf_printf(out, ":\n");
        }
        dump_section(row->table, element, indent + 4, !named, out);
    }
}

static void dump_section(const struct culm_config_table *table, const char *object, int indent,
                         bool bullet, struct culm_buf *out) {
    for (size_t i = 0; i < table->count; i++) {
        const struct culm_config_row *row = &table->rows[i];
        if (bullet && i == 0) {
            culm_buf_printf(out, "%*s- %s:", indent - 2, "", row->key);
        } else {
            culm_buf_printf(out, "%*s%s:", indent, "", row->key);
        }
        if (row->type == CULM_CONFIG_TYPE_SECTION) {
            culm_buf_printf(out, "\n");
            dump_section(row->table, object + row->offset, indent + 2, false, out);
        } else if (culm_config_is_list(row)) {
            dump_list(row, object, indent, out);
        } else {
            culm_buf_printf(out, " ");
            dump_value(row, object, out);
            culm_buf_printf(out, "\n");
        }
    }
}

void culm_config_dump(const struct culm_config_table *table, const void *object,
                      struct culm_buf *out) {
    dump_section(table, object, 0, false, out);
}

/* --- difference ------------------------------------------------------------------------------ */

static bool same_value(const struct culm_config_row *row, const char *a, const char *b) {
    a += row->offset;
    b += row->offset;
    if (row->type == CULM_CONFIG_TYPE_TEXT) {
        char *x, *y;
        memcpy(&x, a, sizeof x);
        memcpy(&y, b, sizeof y);
        return culm_words_same(x, y);
    }
    if (row->type != CULM_CONFIG_TYPE_TEXTS) {
        return memcmp(a, b, row->size) == 0;
    }
    struct culm_config_texts p, q;
    memcpy(&p, a, sizeof p);
    memcpy(&q, b, sizeof q);
    for (size_t i = 0; i < p.count && i < q.count; i++) {
        if (!culm_words_same(p.texts[i], q.texts[i])) {
            return false;
        }
    }
    return p.count == q.count;
}

static void show_value(const struct culm_config_row *row, const char *object, char *buffer,
                       size_t size) {
    struct culm_buf out;
    culm_buf_init(&out, 4 * CULM_YAML_MAX_BYTES);
    dump_value(row, object, &out);
    snprintf(buffer, size, "%.*s", (int)out.len, out.len ? (const char *)out.data : "");
    culm_buf_release(&out);
}

/* What is visited, and by whom. */
struct comparison {
    unsigned skip_flags;
    culm_config_difference_visit visit;
    void *ctx;
};

static bool compare(const struct comparison *c, const struct culm_config_table *table,
                    const char *a, const char *b, const char *prefix);

static bool compare_lists(const struct comparison *c, const struct culm_config_row *row,
                          const char *a, const char *b, const char *key) {
    struct culm_config_difference d = {0};
    struct culm_config_list p, q;
    memcpy(&p, a + row->offset, sizeof p);
    memcpy(&q, b + row->offset, sizeof q);
    snprintf(d.key, sizeof d.key, "%s", key);
    for (size_t i = 0; i < p.count && i < q.count; i++) {
        const char *x = (const char *)p.items + i * row->table->object_bytes;
        const char *y = (const char *)q.items + i * row->table->object_bytes;
        char inner[sizeof d.key];
        if (row->type == CULM_CONFIG_TYPE_SECTIONS) {
            snprintf(inner, sizeof inner, "%.120s[%zu].", key, i);
        } else if (culm_words_same(name_of(row, x), name_of(row, y))) {
            snprintf(inner, sizeof inner, "%.80s.%s.", key, name_of(row, x));
        } else { /* and what follows is not to be compared */
            snprintf(d.a, sizeof d.a, "%s", name_of(row, x));
            snprintf(d.b, sizeof d.b, "%s", name_of(row, y));
            return c->visit(c->ctx, row, &d);
        }
        if (compare(c, row->table, x, y, inner)) {
            return true;
        }
    }
    if (p.count == q.count) {
        return false;
    }
    snprintf(d.a, sizeof d.a, "%zu section%s", p.count, p.count == 1 ? "" : "s");
    snprintf(d.b, sizeof d.b, "%zu section%s", q.count, q.count == 1 ? "" : "s");
    return c->visit(c->ctx, row, &d);
}

static bool compare(const struct comparison *c, const struct culm_config_table *table,
                    const char *a, const char *b, const char *prefix) {
    for (size_t i = 0; i < table->count; i++) {
        const struct culm_config_row *row = &table->rows[i];
        struct culm_config_difference d;
        bool enough = false;
        snprintf(d.key, sizeof d.key, "%.100s%.50s", prefix, row->key);
        if (row->flags & c->skip_flags) {
            continue;
        }
        if (row->type == CULM_CONFIG_TYPE_SECTION) {
            snprintf(d.key, sizeof d.key, "%.100s%.50s.", prefix, row->key);
            enough = compare(c, row->table, a + row->offset, b + row->offset, d.key);
        } else if (culm_config_is_list(row)) {
            enough = compare_lists(c, row, a, b, d.key);
        } else if (!same_value(row, a, b)) {
            show_value(row, a, d.a, sizeof d.a);
            show_value(row, b, d.b, sizeof d.b);
            enough = c->visit(c->ctx, row, &d);
        }
        if (enough) {
            return true;
        }
    }
    return false;
}

void culm_config_differences(const struct culm_config_table *table, const void *a, const void *b,
                             unsigned skip_flags, culm_config_difference_visit visit, void *ctx) {
    const struct comparison comparison = {skip_flags, visit, ctx};
    (void)compare(&comparison, table, a, b, "");
}

struct first_difference {
    struct culm_config_difference *to;
    bool found;
};

static bool take_first(void *ctx, const struct culm_config_row *row,
                       const struct culm_config_difference *difference) {
    struct first_difference *first = ctx;
    (void)row;
    *first->to = *difference;
    return first->found = true;
}

bool culm_config_differ(const struct culm_config_table *table, const void *a, const void *b,
                        unsigned skip_flags, struct culm_config_difference *ret_difference) {
    struct first_difference first = {ret_difference, false};
    culm_config_differences(table, a, b, skip_flags, take_first, &first);
    return first.found;
}

bool culm_config_value(const struct culm_config_table *table, const void *object, const char *key,
                       struct culm_buf *out) {
    for (size_t i = 0; i < table->count; i++) {
        const struct culm_config_row *row = &table->rows[i];
        size_t len = strlen(row->key);
        if (row->type == CULM_CONFIG_TYPE_SECTION && strncmp(key, row->key, len) == 0 &&
            key[len] == '.') {
            return culm_config_value(row->table, (const char *)object + row->offset, key + len + 1,
                                     out);
        }
        if (row->type != CULM_CONFIG_TYPE_SECTION && !culm_config_is_list(row) &&
            strcmp(key, row->key) == 0) {
            dump_value(row, object, out);
            return true;
        }
    }
    return false;
}

/* --- reference ------------------------------------------------------------------------------- */

static void each(const struct culm_config_table *table, const char *prefix, culm_config_visit visit,
                 void *ctx) {
    for (size_t i = 0; i < table->count; i++) {
        const struct culm_config_row *row = &table->rows[i];
        if (row->type != CULM_CONFIG_TYPE_SECTION) {
            char key[160], range[256];
            snprintf(key, sizeof key, "%s%s", prefix, row->key);
            culm_config_row_range(row, range, sizeof range);
            visit(ctx, &(struct culm_config_entry){key, row->value, range, row});
        }
        if (row->table) {
            char inner[128];
            snprintf(inner, sizeof inner, "%.80s%.32s%s.", prefix, row->key,
                     row->type == CULM_CONFIG_TYPE_SECTIONS ? "[]"
                     : row->type == CULM_CONFIG_TYPE_NAMED  ? ".NAME"
                                                            : "");
            each(row->table, inner, visit, ctx);
        }
    }
}

void culm_config_each(const struct culm_config_table *table, culm_config_visit visit, void *ctx) {
    each(table, "", visit, ctx);
}

static void document_markdown(void *ctx, const struct culm_config_entry *entry) {
    culm_buf_printf(
        ctx, "| `%s` | %s | %s | %s%s |\n", entry->key, entry->value ? entry->value : "*required*",
        entry->allowed, entry->row->doc,
        entry->row->flags & CULM_CONFIG_RESUMABLE ? " (may change on `--resume`)"
        : entry->row->flags & CULM_CONFIG_SETTING ? " (`--resume --set` changes it from then on)"
        : entry->row->flags & CULM_CONFIG_INPUT   ? " (may change on `--resume --accept-inputs`)"
                                                  : "");
}

static void document_lines(void *ctx, const struct culm_config_entry *entry) {
    culm_buf_printf(ctx, "  %-24s %s\n  %-24s   default: %s; allowed: %s\n", entry->key,
                    entry->row->doc, "",
                    !entry->value   ? "none, it is required"
                    : *entry->value ? entry->value
                                    : "none",
                    entry->allowed);
}

void culm_config_document(const struct culm_config_table *table, bool markdown,
                          struct culm_buf *out) {
    if (markdown) {
        culm_buf_printf(out, "| key | default | allowed | meaning |\n|---|---|---|---|\n");
    }
    culm_config_each(table, markdown ? document_markdown : document_lines, out);
}

/* Whether all rows, or any, have one of the flags. */
static bool flagged(const struct culm_config_row *row, unsigned flags, bool all) {
    if (row->type != CULM_CONFIG_TYPE_SECTION) {
        return row->flags & flags;
    }
    for (size_t i = 0; i < row->table->count; i++) {
        if (flagged(&row->table->rows[i], flags, all) != all) {
            return !all;
        }
    }
    return all;
}

/* Appends ", key" for each. */
static void list_flagged(const struct culm_config_table *table, unsigned flags, const char *prefix,
                         struct culm_buf *out) {
    for (size_t i = 0; i < table->count; i++) {
        const struct culm_config_row *row = &table->rows[i];
        if (flagged(row, flags, true)) {
            culm_buf_printf(out, ", %s%s", prefix, row->key);
        } else if (flagged(row, flags, false)) {
            char inner[128];
            snprintf(inner, sizeof inner, "%.80s%.32s.", prefix, row->key);
            list_flagged(row->table, flags, inner, out);
        }
    }
}

void culm_config_list_flagged(const struct culm_config_table *table, unsigned flags,
                              struct culm_buf *out) {
    struct culm_buf keys;
    culm_buf_init(&keys, out->max_bytes);
    list_flagged(table, flags, "", &keys);
    char *text = culm_buf_take_text(&keys);
    out->failed |= text == NULL;
    if (text && *text) {
        const char *first = text + 2, *last = strrchr(first, ',');
        culm_buf_printf(out, "%.*s%s%s", last ? (int)(last - first) : (int)strlen(first), first,
                        last ? " and" : "", last ? last + 1 : "");
    }
    free(text);
}
