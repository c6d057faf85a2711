/*
 * Reading tokenizers, the parts: vocabulary, merges, added tokens. See tokenizer_load.h.
 *
 * A byte-level vocabulary is written with 256 printable characters in place of the bytes; here it
 * is turned back into bytes at once. Everything is checked: ids, that each byte has a token, that
 * the parts and the result of each merge exist.
 */
#include "base/grow.h"
#include "data/tokenizer_load.h"
#include "data/tokenizer_settings.h"
#include "data/unicode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum culm_status culm_load_refuse(const struct culm_load *load, const char *format, ...) {
    char what[CULM_ERROR_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    for (char *at = what; *at; at++) {
        *at = (uint8_t)*at < ' ' ? '?' : *at; /* names come from the file */
    }
    return culm_error_set(load->error, CULM_ERR_FORMAT, "tokenizer '%s': %s", load->name, what);
}

enum culm_status culm_load_no_memory(const struct culm_load *load) {
    return culm_error_set(load->error, CULM_ERR_MEMORY, "tokenizer '%s': out of memory",
                          load->name);
}

/* --- bytes and the characters that stand for them --- */

/* The printable characters of Latin-1 stand for themselves, the other bytes for 256, 257, ... */
static int32_t char_of_byte(int byte) {
    static const int gap[][2] = {{0, 0x20}, {0x7F, 0xA0}, {0xAD, 0xAD}};
    int32_t next = 256;
    for (size_t i = 0; i < 3; i++) {
        if (byte >= gap[i][0] && byte <= gap[i][1]) {
            return next + byte - gap[i][0];
        }
        next += gap[i][1] - gap[i][0] + 1;
    }
    return byte;
}

void culm_load_byte_table(struct culm_load *load) {
    memset(load->byte_of, -1, sizeof load->byte_of);
    for (int byte = 0; byte < 256; byte++) {
        load->byte_of[char_of_byte(byte)] = (int16_t)byte;
    }
}

/* Turns a written token into its bytes in load->buffer; false: a character stands for no byte. */
static bool to_bytes(struct culm_load *load, const char *text, size_t len, size_t *ret_len) {
    size_t count = 0;
    for (size_t at = 0; at < len;) {
        int32_t c;
        at += culm_unicode_next(text, len, at, &c);
        int byte = c >= 0 && c < 512 ? load->byte_of[c] : -1;
        if (byte < 0) {
            return false;
        }
        load->buffer[count++] = (char)byte;
    }
    *ret_len = count;
    return true;
}

static bool need_buffer(struct culm_load *load, size_t size) {
    return CULM_GROW(load->buffer, load->buffer_size, size);
}

/* --- the vocabulary --- */

static enum culm_status set_number(struct culm_load *load, int32_t number, json_int_t id) {
    struct culm_tokenizer *t = load->tokenizer;
    if (id < 0 || id >= CULM_TOKENIZER_IDS) {
        return culm_load_refuse(load, "the id %lld is outside of 0 to %d; is the file damaged?",
                                (long long)id, CULM_TOKENIZER_IDS - 1);
    }
    if (id < t->vocab && t->number[id]) {
        return culm_load_refuse(load, "the id %lld stands for two tokens; is the file damaged?",
                                (long long)id);
    }
    if (id >= t->vocab) {
        int32_t *larger = realloc(t->number, (size_t)(id + 1) * sizeof *larger);
        if (!larger) {
            return culm_load_no_memory(load);
        }
        memset(larger + t->vocab, 0, (size_t)(id + 1 - t->vocab) * sizeof *larger);
        t->number = larger;
        t->vocab = (int32_t)id + 1;
    }
    t->id[number] = (int32_t)id;
    t->number[id] = number + 1;
    return CULM_OK;
}

/* The highest id first, so that the table of ids is made once. */
static enum culm_status reserve_ids(struct culm_load *load, const json_t *vocab) {
    struct culm_tokenizer *t = load->tokenizer;
    const char *key;
    json_t *value;
    json_int_t most = -1;
    json_object_foreach((json_t *)vocab, key, value) {
        if (!json_is_integer(value)) {
            return culm_load_refuse(load, "the id of '%.40s' is not a whole number", key);
        }
        most = json_integer_value(value) > most ? json_integer_value(value) : most;
    }
    if (most < 0) {
        return culm_load_refuse(load, "its vocabulary is empty");
    }
    if (most >= CULM_TOKENIZER_IDS) {
        return culm_load_refuse(load, "the id %lld is above %d; is the file damaged?",
                                (long long)most, CULM_TOKENIZER_IDS - 1);
    }
    t->id = calloc(json_object_size(vocab) + 1, sizeof *t->id);
    t->number = calloc((size_t)most + 1, sizeof *t->number);
    t->vocab = (int32_t)most + 1;
    return t->id && t->number ? CULM_OK : culm_load_no_memory(load);
}

enum culm_status culm_load_vocab(struct culm_load *load, const json_t *vocab) {
    struct culm_tokenizer *t = load->tokenizer;
    const char *key;
    json_t *value;
    if (!json_is_object(vocab)) {
        return culm_load_refuse(load, "has no map 'vocab' of tokens to ids");
    }
    enum culm_status status = reserve_ids(load, vocab);
    if (status != CULM_OK) {
        return status;
    }
    json_object_foreach((json_t *)vocab, key, value) {
        size_t len = strlen(key);
        const char *text = key;
        if (!need_buffer(load, len + 1)) {
            return culm_load_no_memory(load);
        }
        if (t->kind == CULM_TOKENIZER_BPE) {
            if (!to_bytes(load, key, len, &len)) {
                if (culm_strings_find(&t->added, key, strlen(key)) >= 0) {
                    continue;
                }
                return culm_load_refuse(load,
                                        "the token '%.40s' is not written in the characters of "
                                        "byte-level byte pairs; no other kind of BPE is known",
                                        key);
            }
            text = load->buffer;
        }
        int32_t number = culm_strings_add(&t->token, text, len);
        if (number < 0) {
            return culm_load_no_memory(load);
        }
        status = set_number(load, number, json_integer_value(value));
        if (status != CULM_OK) {
            return status;
        }
    }
    return CULM_OK;
}

enum culm_status culm_load_byte_tokens(struct culm_load *load) {
    for (int byte = 0; byte < 256; byte++) {
        uint8_t one = (uint8_t)byte;
        load->tokenizer->byte_id[byte] = tokenizer_id(load->tokenizer, &one, 1);
        if (load->tokenizer->byte_id[byte] < 0) {
            return culm_load_refuse(
                load,
                "has no token for the byte 0x%02x; train it with all 256 bytes in "
                "its alphabet",
                byte);
        }
    }
    return CULM_OK;
}

/* --- merges --- */

static enum culm_status reserve_merges(struct culm_load *load, size_t count) {
    struct culm_tokenizer *t = load->tokenizer;
    t->merge_slots = 16;
    while (t->merge_slots < 2 * count) {
        t->merge_slots *= 2;
    }
    t->merge = malloc(t->merge_slots * sizeof *t->merge);
    if (!t->merge) {
        return culm_load_no_memory(load);
    }
    for (size_t i = 0; i < t->merge_slots; i++) {
        t->merge[i].left = -1;
    }
    return CULM_OK;
}

/* The next merge, as it is written. */
static enum culm_status add_merge(struct culm_load *load, const char *left, size_t left_len,
                                  const char *right, size_t right_len) {
    struct culm_tokenizer *t = load->tokenizer;
    size_t first = 0, both = 0;
    int32_t left_id = -1, right_id = -1, id = -1;
    if (!need_buffer(load, left_len + right_len + 1)) {
        return culm_load_no_memory(load);
    }
    if (to_bytes(load, right, right_len, &both)) {
        right_id = tokenizer_id(t, load->buffer, both);
    }
    if (to_bytes(load, left, left_len, &first)) {
        left_id = tokenizer_id(t, load->buffer, first);
    }
    if (left_id >= 0 && right_id >= 0) {
        char *buffer = load->buffer;
        load->buffer += first;
        to_bytes(load, right, right_len, &both);
        load->buffer = buffer;
        id = tokenizer_id(t, buffer, first + both);
    }
    if (id < 0 || !left_len || !right_len) {
        return culm_load_refuse(
            load,
            "merge %d joins '%.*s' and '%.*s', which the vocabulary does not have, "
            "or not joined; do vocabulary and merges belong together?",
            load->rank + 1, (int)(left_len < 40 ? left_len : 40), left,
            (int)(right_len < 40 ? right_len : 40), right);
    }
    size_t slot = tokenizer_merge_slot(t, left_id, right_id);
    t->merge[slot] = (struct culm_tokenizer_merge){
        .left = left_id, .right = right_id, .rank = load->rank++, .id = id};
    return CULM_OK;
}

/* "left right" */
static enum culm_status add_merge_line(struct culm_load *load, const char *line, size_t len) {
    const char *blank = memchr(line, ' ', len);
    if (!blank || memchr(blank + 1, ' ', len - (size_t)(blank + 1 - line))) {
        return culm_load_refuse(load,
                                "merge %d, '%.*s', is not two tokens with a blank between them",
                                load->rank + 1, (int)(len < 40 ? len : 40), line);
    }
    return add_merge(load, line, (size_t)(blank - line), blank + 1,
                     len - (size_t)(blank + 1 - line));
}

enum culm_status culm_load_merges_text(struct culm_load *load, const char *text, size_t len) {
    size_t lines = 1;
    for (size_t i = 0; i < len; i++) {
        lines += text[i] == '\n';
    }
    enum culm_status status = reserve_merges(load, lines);
    for (size_t at = 0; status == CULM_OK && at < len;) {
        const char *line = text + at, *newline = memchr(line, '\n', len - at);
        size_t size = newline ? (size_t)(newline - line) : len - at;
        at += size + 1;
        if (size && line[size - 1] == '\r') {
            size--;
        }
        if (size && !(size >= 8 && !memcmp(line, "#version", 8))) {
            status = add_merge_line(load, line, size);
        }
    }
    return status;
}

enum culm_status culm_load_merges_json(struct culm_load *load, const json_t *merges) {
    size_t i;
    json_t *entry;
    if (!json_is_array(merges)) {
        return culm_load_refuse(load, "has no list 'merges'");
    }
    enum culm_status status = reserve_merges(load, json_array_size(merges));
    json_array_foreach(merges, i, entry) {
        const json_t *left = json_array_get(entry, 0), *right = json_array_get(entry, 1);
        if (status != CULM_OK) {
            break;
        }
        if (json_is_string(entry)) {
            status = add_merge_line(load, json_string_value(entry), json_string_length(entry));
        } else if (json_array_size(entry) == 2 && json_is_string(left) && json_is_string(right)) {
            status = add_merge(load, json_string_value(left), json_string_length(left),
                               json_string_value(right), json_string_length(right));
        } else {
            status = culm_load_refuse(load, "merge %zu is neither text nor a pair of texts", i + 1);
        }
    }
    return status;
}

/* --- added tokens --- */

enum culm_status culm_load_added_token(struct culm_load *load, const char *content, json_int_t id,
                                       const struct culm_tokenizer_added *info) {
    struct culm_tokenizer *t = load->tokenizer;
    if (id < 0 || id >= CULM_TOKENIZER_IDS) {
        return culm_load_refuse(load,
                                "the id %lld of the added token '%.40s' is outside of 0 to %d",
                                (long long)id, content, CULM_TOKENIZER_IDS - 1);
    }
    int32_t count = t->added.count;
    struct culm_tokenizer_added *larger =
        realloc(t->added_info, ((size_t)count + 1) * sizeof *larger);
    if (!larger) {
        return culm_load_no_memory(load);
    }
    t->added_info = larger;
    int32_t number = culm_strings_add(&t->added, content, strlen(content));
    if (number < 0) {
        return culm_load_no_memory(load);
    }
    if (number < count) {
        return culm_load_refuse(load, "the added token '%.40s' appears twice", content);
    }
    t->added_info[number] = *info;
    t->added_info[number].id = (int32_t)id;
    t->added_first[info->normalized][(uint8_t)content[0]] = true;
    t->any_normalized |= info->normalized;
    return CULM_OK;
}

enum culm_status culm_load_added_list(struct culm_load *load, const json_t *tokens) {
    size_t i;
    json_t *entry;
    enum culm_status status = CULM_OK;
    json_array_foreach(tokens, i, entry) {
        const char *content = json_string_value(json_object_get(entry, "content"));
        const json_t *id = json_object_get(entry, "id");
        if (!content || !json_is_integer(id)) {
            return culm_load_refuse(load, "added token %zu lacks 'content' or 'id'", i + 1);
        }
        if (json_is_true(json_object_get(entry, "single_word"))) {
            return culm_load_refuse(
                load, "the added token '%.40s' is a 'single_word', which is not known", content);
        }
        const struct culm_tokenizer_added info = {
            .special = json_is_true(json_object_get(entry, "special")),
            .lstrip = json_is_true(json_object_get(entry, "lstrip")),
            .rstrip = json_is_true(json_object_get(entry, "rstrip")),
            .normalized = json_is_true(json_object_get(entry, "normalized"))};
        if (*content) {
            status = culm_load_added_token(load, content, json_integer_value(id), &info);
            if (status != CULM_OK) {
                return status;
            }
        }
    }
    return CULM_OK;
}

enum culm_status culm_load_normalise_added(struct culm_load *load) {
    struct culm_tokenizer *t = load->tokenizer;
    if (!t->any_normalized || t->kind != CULM_TOKENIZER_WORDPIECE) {
        return CULM_OK;
    }
    struct culm_encoder encoder = {.state = calloc(1, sizeof *encoder.state)};
    bool good = encoder.state;
    for (int32_t i = 0; good && i < t->added.count; i++) {
        size_t len;
        const char *content = culm_strings_get(&t->added, i, &len);
        if (!t->added_info[i].normalized) {
            continue;
        }
        good = tokenizer_normalise(t, encoder.state, content, len);
        len = encoder.state->text_len;
        char *normal = good ? strndup(len ? encoder.state->text : "", len) : NULL;
        good = normal;
        t->added_info[i].normal = normal;
        if (good) {
            t->added_first[1][(uint8_t)normal[0]] = true;
        }
    }
    culm_encoder_release(&encoder);
    return good ? CULM_OK : culm_load_no_memory(load);
}

/* Added tokens count to the vocabulary, whether it lists them or not. */
enum culm_status culm_load_place_added(struct culm_load *load) {
    struct culm_tokenizer *t = load->tokenizer;
    int32_t vocab = t->vocab;
    for (int32_t i = 0; i < t->added.count; i++) {
        vocab = t->added_info[i].id >= vocab ? t->added_info[i].id + 1 : vocab;
    }
    if (vocab > t->vocab) {
        int32_t *larger = realloc(t->number, (size_t)vocab * sizeof *larger);
        if (!larger) {
            return culm_load_no_memory(load);
        }
        memset(larger + t->vocab, 0, (size_t)(vocab - t->vocab) * sizeof *larger);
        t->number = larger;
        t->vocab = vocab;
    }
    return CULM_OK;
}
