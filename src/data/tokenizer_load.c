/*
 * Reading tokenizers: vocab.json with merges.txt, tokenizer.json, vocab.txt. See tokenizer.h.
 *
 * A byte-level vocabulary is written with 256 printable characters in place of the bytes; here it
 * is turned back into bytes at once. Everything is checked: ids, that each byte has a token, that
 * the parts and the result of each merge exist.
 */
#include "data/files.h"
#include "data/tokenizer_internal.h"
#include "data/unicode.h"

#include "base/file.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct load {
    struct culm_tokenizer *tokenizer;
    const char *name; /* the file, for messages */
    struct culm_error *error;
    int32_t rank; /* of the next merge */
    char *buffer; /* for tokens turned back into bytes */
    size_t buffer_size;
    int16_t byte_of[512]; /* the byte for which a character stands, or -1 */
};

static enum culm_status refuse(const struct load *load, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static enum culm_status refuse(const struct load *load, const char *format, ...) {
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

static enum culm_status no_memory(const struct load *load) {
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

static void make_byte_table(struct load *load) {
    memset(load->byte_of, -1, sizeof load->byte_of);
    for (int byte = 0; byte < 256; byte++) {
        load->byte_of[char_of_byte(byte)] = (int16_t)byte;
    }
}

/* Turns a written token into its bytes in load->buffer; false: a character stands for no byte. */
static bool to_bytes(struct load *load, const char *text, size_t len, size_t *ret_len) {
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

static bool need_buffer(struct load *load, size_t size) {
    return culm_encoder_grow(&load->buffer, &load->buffer_size, size, 1);
}

/* --- the vocabulary --- */

static enum culm_status set_number(struct load *load, int32_t number, json_int_t id) {
    struct culm_tokenizer *t = load->tokenizer;
    if (id < 0 || id >= CULM_TOKENIZER_IDS) {
        return refuse(load, "the id %lld is outside of 0 to %d; is the file damaged?",
                      (long long)id, CULM_TOKENIZER_IDS - 1);
    }
    if (id < t->vocab && t->number[id]) {
        return refuse(load, "the id %lld stands for two tokens; is the file damaged?",
                      (long long)id);
    }
    if (id >= t->vocab) {
        int32_t *larger = realloc(t->number, (size_t)(id + 1) * sizeof *larger);
        if (!larger) {
            return no_memory(load);
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
static enum culm_status reserve_ids(struct load *load, const json_t *vocab) {
    struct culm_tokenizer *t = load->tokenizer;
    const char *key;
    json_t *value;
    json_int_t most = -1;
    json_object_foreach((json_t *)vocab, key, value) {
        if (!json_is_integer(value)) {
            return refuse(load, "the id of '%.40s' is no whole number", key);
        }
        most = json_integer_value(value) > most ? json_integer_value(value) : most;
    }
    if (most < 0) {
        return refuse(load, "its vocabulary is empty");
    }
    if (most >= CULM_TOKENIZER_IDS) {
        return refuse(load, "the id %lld is above %d; is the file damaged?", (long long)most,
                      CULM_TOKENIZER_IDS - 1);
    }
    t->id = calloc(json_object_size(vocab) + 1, sizeof *t->id);
    t->number = calloc((size_t)most + 1, sizeof *t->number);
    t->vocab = (int32_t)most + 1;
    return t->id && t->number ? CULM_OK : no_memory(load);
}

static enum culm_status read_vocab(struct load *load, const json_t *vocab) {
    struct culm_tokenizer *t = load->tokenizer;
    const char *key;
    json_t *value;
    if (!json_is_object(vocab)) {
        return refuse(load, "has no map 'vocab' of tokens to ids");
    }
    enum culm_status status = reserve_ids(load, vocab);
    if (status != CULM_OK) {
        return status;
    }
    json_object_foreach((json_t *)vocab, key, value) {
        size_t len = strlen(key);
        const char *text = key;
        if (!need_buffer(load, len + 1)) {
            return no_memory(load);
        }
        if (t->kind == CULM_TOKENIZER_BPE) {
            if (!to_bytes(load, key, len, &len)) {
                if (culm_strings_find(&t->added, key, strlen(key)) >= 0) {
                    continue;
                }
                return refuse(load,
                              "the token '%.40s' is not written in the characters of "
                              "byte-level byte pairs; no other kind of BPE is known",
                              key);
            }
            text = load->buffer;
        }
        int32_t number = culm_strings_add(&t->token, text, len);
        if (number < 0) {
            return no_memory(load);
        }
        if ((status = set_number(load, number, json_integer_value(value))) != CULM_OK) {
            return status;
        }
    }
    return CULM_OK;
}

static enum culm_status check_bytes(struct load *load) {
    for (int byte = 0; byte < 256; byte++) {
        uint8_t one = (uint8_t)byte;
        load->tokenizer->byte_id[byte] = culm_tokenizer_id(load->tokenizer, &one, 1);
        if (load->tokenizer->byte_id[byte] < 0) {
            return refuse(load,
                          "has no token for the byte 0x%02x; train it with all 256 bytes in "
                          "its alphabet",
                          byte);
        }
    }
    return CULM_OK;
}

/* --- merges --- */

static enum culm_status reserve_merges(struct load *load, size_t count) {
    struct culm_tokenizer *t = load->tokenizer;
    t->merge_slots = 16;
    while (t->merge_slots < 2 * count) {
        t->merge_slots *= 2;
    }
    t->merge = malloc(t->merge_slots * sizeof *t->merge);
    if (!t->merge) {
        return no_memory(load);
    }
    for (size_t i = 0; i < t->merge_slots; i++) {
        t->merge[i].left = -1;
    }
    return CULM_OK;
}

/* The next merge, as it is written. */
static enum culm_status add_merge(struct load *load, const char *left, size_t left_len,
                                  const char *right, size_t right_len) {
    struct culm_tokenizer *t = load->tokenizer;
    size_t first = 0, both = 0;
    int32_t left_id = -1, right_id = -1, id = -1;
    if (!need_buffer(load, left_len + right_len + 1)) {
        return no_memory(load);
    }
    if (to_bytes(load, right, right_len, &both)) {
        right_id = culm_tokenizer_id(t, load->buffer, both);
    }
    if (to_bytes(load, left, left_len, &first)) {
        left_id = culm_tokenizer_id(t, load->buffer, first);
    }
    if (left_id >= 0 && right_id >= 0) {
        char *buffer = load->buffer;
        load->buffer += first;
        to_bytes(load, right, right_len, &both);
        load->buffer = buffer;
        id = culm_tokenizer_id(t, buffer, first + both);
    }
    if (id < 0 || !left_len || !right_len) {
        return refuse(load,
                      "merge %d joins '%.*s' and '%.*s', which the vocabulary does not have, "
                      "or not joined; do vocabulary and merges belong together?",
                      load->rank + 1, (int)(left_len < 40 ? left_len : 40), left,
                      (int)(right_len < 40 ? right_len : 40), right);
    }
    size_t slot = culm_tokenizer_merge_slot(t, left_id, right_id);
    t->merge[slot] = (struct culm_tokenizer_merge){
        .left = left_id, .right = right_id, .rank = load->rank++, .id = id};
    return CULM_OK;
}

/* "left right" */
static enum culm_status add_merge_line(struct load *load, const char *line, size_t len) {
    const char *blank = memchr(line, ' ', len);
    if (!blank || memchr(blank + 1, ' ', len - (size_t)(blank + 1 - line))) {
        return refuse(load, "merge %d, '%.*s', is not two tokens with a blank between them",
                      load->rank + 1, (int)(len < 40 ? len : 40), line);
    }
    return add_merge(load, line, (size_t)(blank - line), blank + 1,
                     len - (size_t)(blank + 1 - line));
}

static enum culm_status read_merges_text(struct load *load, const char *text, size_t len) {
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

static enum culm_status read_merges_json(struct load *load, const json_t *merges) {
    size_t i;
    json_t *entry;
    if (!json_is_array(merges)) {
        return refuse(load, "has no list 'merges'");
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
            status = refuse(load, "merge %zu is neither text nor a pair of texts", i + 1);
        }
    }
    return status;
}

/* --- added tokens --- */

static enum culm_status add_added(struct load *load, const char *content, json_int_t id,
                                  const struct culm_tokenizer_added *info) {
    struct culm_tokenizer *t = load->tokenizer;
    if (id < 0 || id >= CULM_TOKENIZER_IDS) {
        return refuse(load, "the id %lld of the added token '%.40s' is outside of 0 to %d",
                      (long long)id, content, CULM_TOKENIZER_IDS - 1);
    }
    int32_t count = t->added.count;
    struct culm_tokenizer_added *larger =
        realloc(t->added_info, ((size_t)count + 1) * sizeof *larger);
    if (!larger) {
        return no_memory(load);
    }
    t->added_info = larger;
    int32_t number = culm_strings_add(&t->added, content, strlen(content));
    if (number < 0) {
        return no_memory(load);
    }
    if (number < count) {
        return refuse(load, "the added token '%.40s' is there twice", content);
    }
    t->added_info[number] = *info;
    t->added_info[number].id = (int32_t)id;
    t->added_first[(uint8_t)content[0]] = true;
    return CULM_OK;
}

static enum culm_status read_added(struct load *load, const json_t *tokens) {
    size_t i;
    json_t *entry;
    enum culm_status status = CULM_OK;
    json_array_foreach(tokens, i, entry) {
        const char *content = json_string_value(json_object_get(entry, "content"));
        const json_t *id = json_object_get(entry, "id");
        if (!content || !json_is_integer(id)) {
            return refuse(load, "added token %zu lacks 'content' or 'id'", i + 1);
        }
        if (json_is_true(json_object_get(entry, "single_word"))) {
            return refuse(load, "the added token '%.40s' is a 'single_word', which is not known",
                          content);
        }
        const struct culm_tokenizer_added info = {
            .special = json_is_true(json_object_get(entry, "special")),
            .lstrip = json_is_true(json_object_get(entry, "lstrip")),
            .rstrip = json_is_true(json_object_get(entry, "rstrip"))};
        if (load->tokenizer->kind == CULM_TOKENIZER_WORDPIECE &&
            json_is_true(json_object_get(entry, "normalized"))) {
            return refuse(load,
                          "the added token '%.40s' is 'normalized', which is not known for "
                          "WordPiece",
                          content);
        }
        if (*content) {
            status = add_added(load, content, json_integer_value(id), &info);
            if (status != CULM_OK) {
                return status;
            }
        }
    }
    return CULM_OK;
}

/* Added tokens count to the vocabulary, whether it lists them or not. */
static enum culm_status place_added(struct load *load) {
    struct culm_tokenizer *t = load->tokenizer;
    int32_t vocab = t->vocab;
    for (int32_t i = 0; i < t->added.count; i++) {
        vocab = t->added_info[i].id >= vocab ? t->added_info[i].id + 1 : vocab;
    }
    if (vocab > t->vocab) {
        int32_t *larger = realloc(t->number, (size_t)vocab * sizeof *larger);
        if (!larger) {
            return no_memory(load);
        }
        memset(larger + t->vocab, 0, (size_t)(vocab - t->vocab) * sizeof *larger);
        t->number = larger;
        t->vocab = vocab;
    }
    return CULM_OK;
}

/* --- tokenizer.json --- */

/* "null", or the type that it names. */
static const char *type_of(const json_t *object) {
    const char *type = json_string_value(json_object_get(object, "type"));
    return !object || json_is_null(object) ? "null" : type ? type : "without a type";
}

static bool is_off(const json_t *value) {
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && !json_string_length(value));
}

static enum culm_status read_bpe(struct load *load, const json_t *root, const json_t *model) {
    static const char *const off[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                                      "byte_fallback"};
    const json_t *cut = json_object_get(root, "pre_tokenizer");
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
        if (!is_off(json_object_get(model, off[i]))) {
            return refuse(load, "its BPE model has '%s', which is not known", off[i]);
        }
    }
    if (strcmp(type_of(json_object_get(root, "normalizer")), "null") != 0) {
        return refuse(load, "its normalizer is '%.40s', for BPE none is known",
                      type_of(json_object_get(root, "normalizer")));
    }
    if (strcmp(type_of(cut), "ByteLevel") != 0 ||
        json_is_false(json_object_get(cut, "use_regex"))) {
        return refuse(load,
                      "its pre_tokenizer is '%.40s', for BPE only ByteLevel with its own "
                      "pattern is known",
                      type_of(cut));
    }
    load->tokenizer->kind = CULM_TOKENIZER_BPE;
    load->tokenizer->prefix_space = json_is_true(json_object_get(cut, "add_prefix_space"));
    load->tokenizer->whole_words = json_is_true(json_object_get(model, "ignore_merges"));
    enum culm_status status;
    if ((status = read_added(load, json_object_get(root, "added_tokens"))) != CULM_OK ||
        (status = read_vocab(load, json_object_get(model, "vocab"))) != CULM_OK ||
        (status = check_bytes(load)) != CULM_OK) {
        return status;
    }
    return read_merges_json(load, json_object_get(model, "merges"));
}

static enum culm_status need_unknown(struct load *load, const char *token) {
    load->tokenizer->unknown = culm_tokenizer_id(load->tokenizer, token, strlen(token));
    return load->tokenizer->unknown < 0
               ? refuse(load, "its vocabulary lacks the unknown token '%.40s'", token)
               : CULM_OK;
}

static enum culm_status read_wordpiece(struct load *load, const json_t *root, const json_t *model) {
    struct culm_tokenizer *t = load->tokenizer;
    const json_t *normal = json_object_get(root, "normalizer");
    const json_t *prefix = json_object_get(model, "continuing_subword_prefix");
    const json_t *most = json_object_get(model, "max_input_chars_per_word");
    const char *unknown = json_string_value(json_object_get(model, "unk_token"));
    const char *cut = type_of(json_object_get(root, "pre_tokenizer"));
    t->kind = CULM_TOKENIZER_WORDPIECE;
    if (!strcmp(type_of(normal), "BertNormalizer")) {
        const json_t *accents = json_object_get(normal, "strip_accents");
        t->clean = json_is_true(json_object_get(normal, "clean_text"));
        t->chinese = json_is_true(json_object_get(normal, "handle_chinese_chars"));
        t->lower = json_is_true(json_object_get(normal, "lowercase"));
        t->strip_accents = json_is_boolean(accents) ? json_is_true(accents) : t->lower;
    } else if (strcmp(type_of(normal), "null") != 0) {
        return refuse(load, "its normalizer is '%.40s', for WordPiece only BertNormalizer is known",
                      type_of(normal));
    }
    if (strcmp(cut, "BertPreTokenizer") != 0) {
        return refuse(load,
                      "its pre_tokenizer is '%.40s', for WordPiece only BertPreTokenizer is "
                      "known",
                      cut);
    }
    if (prefix && (!json_is_string(prefix) || json_string_length(prefix) >= sizeof t->prefix)) {
        return refuse(load, "its continuing_subword_prefix is no text of at most %d bytes",
                      CULM_TOKENIZER_PREFIX - 1);
    }
    strcpy(t->prefix, prefix ? json_string_value(prefix) : "##");
    json_int_t chars = most ? json_integer_value(most) : 100;
    if (chars < 1 || chars > CULM_TOKENIZER_WORD_CHARS) {
        return refuse(load, "its max_input_chars_per_word is not 1 to %d",
                      CULM_TOKENIZER_WORD_CHARS);
    }
    t->max_chars = (int32_t)chars;
    enum culm_status status;
    if ((status = read_added(load, json_object_get(root, "added_tokens"))) != CULM_OK ||
        (status = read_vocab(load, json_object_get(model, "vocab"))) != CULM_OK) {
        return status;
    }
    return need_unknown(load, unknown ? unknown : "[UNK]");
}

static enum culm_status read_tokenizer_json(struct load *load, const json_t *root) {
    const json_t *model = json_object_get(root, "model");
    const char *type = type_of(model);
    if (json_is_object(model) && !json_object_get(model, "type") &&
        json_object_get(model, "merges")) {
        type = "BPE"; /* files of old versions do not say it */
    }
    if (!strcmp(type, "BPE")) {
        return read_bpe(load, root, model);
    }
    if (!strcmp(type, "WordPiece")) {
        return read_wordpiece(load, root, model);
    }
    return refuse(load, "its model is '%.40s'; BPE (byte-level) and WordPiece are known", type);
}

/* --- vocab.json and merges.txt --- */

static enum culm_status read_vocab_json(struct load *load, const json_t *root, const char *merges,
                                        size_t merges_len, const char *merges_name) {
    static const char end[] = "<|endoftext|>";
    const json_t *id = json_object_get(root, end);
    enum culm_status status = CULM_OK;
    load->tokenizer->kind = CULM_TOKENIZER_BPE;
    if (!merges) {
        return refuse(load, "is a vocabulary without merges; give vocab.json and merges.txt, or "
                            "tokenizer.json");
    }
    if (json_is_integer(id)) {
        const struct culm_tokenizer_added info = {.special = true};
        status = add_added(load, end, json_integer_value(id), &info);
    }
    if (status != CULM_OK || (status = read_vocab(load, root)) != CULM_OK ||
        (status = check_bytes(load)) != CULM_OK) {
        return status;
    }
    load->name = merges_name;
    return read_merges_text(load, merges, merges_len);
}

/* --- vocab.txt --- */

static bool has_upper(const char *text, size_t len) {
    bool upper = false;
    for (size_t i = 0; i < len; i++) {
        upper |= text[i] >= 'A' && text[i] <= 'Z';
    }
    return upper && !(len > 2 && text[0] == '[' && text[len - 1] == ']');
}

static enum culm_status finish_words(struct load *load) {
    static const char *const specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    struct culm_tokenizer *t = load->tokenizer;
    const struct culm_tokenizer_added info = {.special = true};
    bool upper = false;
    if (culm_tokenizer_id(t, "[UNK]", 5) < 0) {
        t->kind = CULM_TOKENIZER_WORDS;
        if (culm_tokenizer_id(t, "<unk>", 5) < 0) {
            return refuse(load, "its lines have neither [UNK] (WordPiece) nor <unk> (words); add "
                                "one, or give tokenizer.json");
        }
        return need_unknown(load, "<unk>");
    }
    t->kind = CULM_TOKENIZER_WORDPIECE;
    for (int32_t i = 0; i < t->token.count; i++) {
        size_t len;
        const char *text = culm_strings_get(&t->token, i, &len);
        upper |= has_upper(text, len);
    }
    t->clean = t->chinese = true;
    t->lower = t->strip_accents = !upper;
    t->max_chars = 100;
    strcpy(t->prefix, "##");
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++) {
        int32_t id = culm_tokenizer_id(t, specials[i], strlen(specials[i]));
        enum culm_status status = id < 0 ? CULM_OK : add_added(load, specials[i], id, &info);
        if (status != CULM_OK) {
            return status;
        }
    }
    return need_unknown(load, "[UNK]");
}

/* Tokens in the order of their ids. */
static enum culm_status take_words(struct load *load) {
    struct culm_tokenizer *t = load->tokenizer;
    int32_t count = t->token.count;
    if (count > CULM_TOKENIZER_IDS) {
        return refuse(load, "has %d tokens, at most %d are known", count, CULM_TOKENIZER_IDS);
    }
    t->id = malloc(((size_t)count + 1) * sizeof *t->id);
    t->number = malloc(((size_t)count + 1) * sizeof *t->number);
    if (!t->id || !t->number) {
        return no_memory(load);
    }
    for (int32_t i = 0; i < count; i++) {
        t->id[i] = i;
        t->number[i] = i + 1;
    }
    t->vocab = count;
    return finish_words(load);
}

static enum culm_status read_vocab_text(struct load *load, const char *text, size_t len) {
    for (size_t at = 0; at < len;) {
        const char *line = text + at, *newline = memchr(line, '\n', len - at);
        size_t size = newline ? (size_t)(newline - line) : len - at;
        at += size + 1;
        if (size && line[size - 1] == '\r') {
            size--;
        }
        int32_t before = load->tokenizer->token.count;
        int32_t number = culm_strings_add(&load->tokenizer->token, line, size);
        if (number < 0) {
            return no_memory(load);
        }
        if (number < before) {
            return refuse(load, "line %d, '%.*s', is there before; each line is one token",
                          before + 1, (int)(size < 40 ? size : 40), line);
        }
    }
    return take_words(load);
}

/* --- from memory and from files --- */

static struct culm_tokenizer *tokenizer_new(void) {
    static _Atomic uint64_t serial;
    struct culm_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (tokenizer) {
        tokenizer->serial = ++serial;
        tokenizer->unknown = -1;
    }
    return tokenizer;
}

static enum culm_status read_json(struct load *load, const char *data, size_t len,
                                  const char *merges, size_t merges_len, const char *merges_name) {
    json_error_t reason;
    enum culm_status status;
    json_t *root = json_loadb(data, len, JSON_REJECT_DUPLICATES, &reason);
    if (!root) {
        return refuse(load, "line %d: %s; is the file damaged?", reason.line, reason.text);
    }
    if (json_is_object(json_object_get(root, "model"))) {
        status = read_tokenizer_json(load, root);
    } else {
        status = read_vocab_json(load, root, merges, merges_len, merges_name);
    }
    json_decref(root);
    return status == CULM_OK ? place_added(load) : status;
}

enum culm_status culm_tokenizer_parse(const char *data, size_t len, const char *name,
                                      const char *merges, size_t merges_len,
                                      const char *merges_name,
                                      struct culm_tokenizer **ret_tokenizer,
                                      struct culm_error *error) {
    struct load load = {.tokenizer = tokenizer_new(), .name = name, .error = error};
    size_t blanks = 0;
    enum culm_status status;
    make_byte_table(&load);
    while (blanks < len && strchr(" \t\r\n", data[blanks]) && data[blanks]) {
        blanks++;
    }
    if (!load.tokenizer) {
        return no_memory(&load);
    }
    if (blanks < len && data[blanks] == '{') {
        status = read_json(&load, data, len, merges, merges_len, merges_name);
    } else if (merges) {
        status = refuse(&load, "does not begin with '{'; give vocab.json and merges.txt");
    } else {
        status = read_vocab_text(&load, data, len);
    }
    free(load.buffer);
    if (status != CULM_OK) {
        culm_tokenizer_free(load.tokenizer);
        return status;
    }
    *ret_tokenizer = load.tokenizer;
    return CULM_OK;
}

enum culm_status culm_tokenizer_of_words(const struct culm_strings *words,
                                         struct culm_tokenizer **ret_tokenizer,
                                         struct culm_error *error) {
    struct load load = {.tokenizer = tokenizer_new(), .name = "words", .error = error};
    enum culm_status status = load.tokenizer ? CULM_OK : no_memory(&load);
    for (int32_t i = 0; status == CULM_OK && i < words->count; i++) {
        size_t len;
        const char *word = culm_strings_get(words, i, &len);
        if (culm_strings_add(&load.tokenizer->token, word, len) < 0) {
            status = no_memory(&load);
        }
    }
    status = status == CULM_OK ? take_words(&load) : status;
    if (status != CULM_OK) {
        culm_tokenizer_free(load.tokenizer);
        return status;
    }
    *ret_tokenizer = load.tokenizer;
    return CULM_OK;
}

/* The files of a folder: tokenizer.json, else vocab.json and merges.txt, else vocab.txt. */
static enum culm_status look_in(const char *folder, char (*ret_path)[CULM_PATH_MAX],
                                size_t *ret_count, struct culm_error *error) {
    static const char *const names[][2] = {
        {"tokenizer.json", NULL}, {"vocab.json", "merges.txt"}, {"vocab.txt", NULL}};
    for (size_t i = 0; i < 3; i++) {
        *ret_count = names[i][1] ? 2 : 1;
        bool there = true;
        for (size_t k = 0; k < *ret_count; k++) {
            enum culm_status status =
                culm_path_format(ret_path[k], error, "%s/%s", folder, names[i][k]);
            if (status != CULM_OK) {
                return status;
            }
            there = there && culm_file_is_regular(ret_path[k]);
        }
        if (there) {
            return CULM_OK;
        }
    }
    return culm_error_set(error, CULM_ERR_CONFIG,
                          "tokenizer '%s': has neither tokenizer.json nor vocab.json with "
                          "merges.txt nor vocab.txt; give the files of a tokenizer",
                          folder);
}

static enum culm_status open_files(const char *const *paths, size_t count,
                                   struct culm_tokenizer **ret_tokenizer,
                                   struct culm_error *error) {
    struct culm_files *files;
    char *data[2] = {NULL, NULL};
    size_t len[2] = {0, 0};
    enum culm_status status = culm_files_open("tokenizer", paths, count, &files, error);
    if (status != CULM_OK) {
        return status;
    }
    for (size_t i = 0; status == CULM_OK && i < count; i++) {
        status = culm_files_slurp(files, i, CULM_TOKENIZER_FILE_MAX, &data[i], &len[i], error);
    }
    if (status == CULM_OK) {
        /* vocab.json and merges.txt in either order */
        size_t vocab = count == 2 && data[0][0] != '{' && data[1][0] == '{';
        status =
            culm_tokenizer_parse(data[vocab], len[vocab], paths[vocab], data[!vocab], len[!vocab],
                                 count == 2 ? paths[!vocab] : NULL, ret_tokenizer, error);
    }
    free(data[0]);
    free(data[1]);
    culm_files_free(files);
    return status;
}

enum culm_status culm_tokenizer_open(const char *const *paths, size_t path_count,
                                     struct culm_tokenizer **ret_tokenizer,
                                     struct culm_error *error) {
    char found[2][CULM_PATH_MAX];
    const char *const names[2] = {found[0], found[1]};
    if (path_count < 1 || path_count > 2) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "data.tokenizer: %zu files; give vocab.json and merges.txt, or "
                              "tokenizer.json, or vocab.txt, or their folder",
                              path_count);
    }
    if (path_count == 1 && culm_file_is_directory(paths[0])) {
        enum culm_status status = look_in(paths[0], found, &path_count, error);
        return status == CULM_OK ? open_files(names, path_count, ret_tokenizer, error) : status;
    }
    return open_files(paths, path_count, ret_tokenizer, error);
}
