/*
 * Reading tokenizers, the formats: tokenizer.json, vocab.json with merges.txt, vocab.txt. See
 * tokenizer.h; the parts are in tokenizer_table.c.
 */
#include "data/tokenizer_load.h"
#include "data/files.h"
#include "data/tokenizer_settings.h"

#include "base/file.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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

/* What formats in JSON have in common: settings, the tokens of these, and the vocabulary. */
static enum culm_status load_vocab(struct culm_load *load, enum culm_settings_beside beside,
                                   const json_t *vocab) {
    enum culm_status status = culm_settings_apply(load, beside);
    if (status == CULM_OK) {
        status = culm_settings_tokens(load, vocab);
    }
    return status == CULM_OK ? culm_load_vocab(load, vocab) : status;
}

static enum culm_status read_bpe(struct culm_load *load, const json_t *root, const json_t *model) {
    static const char *const off[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                                      "byte_fallback"};
    const json_t *cut = json_object_get(root, "pre_tokenizer");
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
        if (!is_off(json_object_get(model, off[i]))) {
            return culm_load_refuse(load, "its BPE model has '%s', which is not known", off[i]);
        }
    }
    if (strcmp(type_of(json_object_get(root, "normalizer")), "null") != 0) {
        return culm_load_refuse(load, "its normalizer is '%.40s', for BPE none is known",
                                type_of(json_object_get(root, "normalizer")));
    }
    if (strcmp(type_of(cut), "ByteLevel") != 0 ||
        json_is_false(json_object_get(cut, "use_regex"))) {
        return culm_load_refuse(load,
                                "its pre_tokenizer is '%.40s', for BPE only ByteLevel with its own "
                                "pattern is known",
                                type_of(cut));
    }
    load->tokenizer->kind = CULM_TOKENIZER_BPE;
    load->tokenizer->prefix_space = json_is_true(json_object_get(cut, "add_prefix_space"));
    load->tokenizer->whole_words = json_is_true(json_object_get(model, "ignore_merges"));
    enum culm_status status = culm_load_added_list(load, json_object_get(root, "added_tokens"));
    if (status == CULM_OK) {
        status = load_vocab(load, CULM_BESIDE_JSON, json_object_get(model, "vocab"));
    }
    if (status == CULM_OK) {
        status = culm_load_byte_tokens(load);
    }
    return status == CULM_OK ? culm_load_merges_json(load, json_object_get(model, "merges"))
                             : status;
}

static enum culm_status need_unknown(struct culm_load *load, const char *token) {
    load->tokenizer->unknown = tokenizer_id(load->tokenizer, token, strlen(token));
    return load->tokenizer->unknown < 0
               ? culm_load_refuse(load, "its vocabulary lacks the unknown token '%.40s'", token)
               : CULM_OK;
}

static enum culm_status read_wordpiece(struct culm_load *load, const json_t *root,
                                       const json_t *model) {
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
        return culm_load_refuse(
            load, "its normalizer is '%.40s', for WordPiece only BertNormalizer is known",
            type_of(normal));
    }
    if (strcmp(cut, "BertPreTokenizer") != 0) {
        return culm_load_refuse(
            load,
            "its pre_tokenizer is '%.40s', for WordPiece only BertPreTokenizer is "
            "known",
            cut);
    }
    if (prefix && (!json_is_string(prefix) || json_string_length(prefix) >= sizeof t->prefix)) {
        return culm_load_refuse(load,
                                "its continuing_subword_prefix is not a text of at most %d bytes",
                                CULM_TOKENIZER_PREFIX - 1);
    }
    strcpy(t->prefix, prefix ? json_string_value(prefix) : "##");
    json_int_t chars = most ? json_integer_value(most) : 100;
    if (chars < 1 || chars > CULM_TOKENIZER_WORD_CHARS) {
        return culm_load_refuse(load, "its max_input_chars_per_word is not 1 to %d",
                                CULM_TOKENIZER_WORD_CHARS);
    }
    t->max_chars = (int32_t)chars;
    enum culm_status status = culm_load_added_list(load, json_object_get(root, "added_tokens"));
    if (status == CULM_OK) {
        status = load_vocab(load, CULM_BESIDE_JSON, json_object_get(model, "vocab"));
    }
    return status == CULM_OK ? need_unknown(load, unknown ? unknown : "[UNK]") : status;
}

static enum culm_status finish(struct culm_load *load) {
    enum culm_status status = culm_load_place_added(load);
    if (status == CULM_OK) {
        status = culm_settings_check_ids(load);
    }
    return status == CULM_OK ? culm_load_normalise_added(load) : status;
}

static enum culm_status read_tokenizer_json(struct culm_load *load, const json_t *root) {
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
    return culm_load_refuse(load, "its model is '%.40s'; BPE (byte-level) and WordPiece are known",
                            type);
}

/* --- vocab.json and merges.txt --- */

static enum culm_status read_vocab_json(struct culm_load *load, const json_t *root,
                                        const char *merges, size_t merges_len,
                                        const char *merges_name) {
    static const char end[] = "<|endoftext|>";
    const json_t *id = json_object_get(root, end);
    enum culm_status status = CULM_OK;
    load->tokenizer->kind = CULM_TOKENIZER_BPE;
    if (!merges) {
        return culm_load_refuse(
            load, "is a vocabulary without merges; give vocab.json and merges.txt, or "
                  "tokenizer.json");
    }
    if (json_is_integer(id)) {
        const struct culm_tokenizer_added info = {.special = true};
        status = culm_load_added_token(load, end, json_integer_value(id), &info);
    }
    if (status == CULM_OK) {
        status = load_vocab(load, CULM_BESIDE_VOCAB_JSON, root);
    }
    if (status == CULM_OK) {
        status = culm_load_byte_tokens(load);
    }
    if (status != CULM_OK) {
        return status;
    }
    load->name = merges_name;
    return culm_load_merges_text(load, merges, merges_len);
}

/* --- vocab.txt --- */

static bool has_upper(const char *text, size_t len) {
    bool upper = false;
    for (size_t i = 0; i < len; i++) {
        upper |= text[i] >= 'A' && text[i] <= 'Z';
    }
    return upper && !(len > 2 && text[0] == '[' && text[len - 1] == ']');
}

static enum culm_status finish_words(struct culm_load *load) {
    static const char *const specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    struct culm_tokenizer *t = load->tokenizer;
    const struct culm_tokenizer_added info = {.special = true};
    bool upper = false;
    if (tokenizer_id(t, "[UNK]", 5) < 0) {
        t->kind = CULM_TOKENIZER_WORDS;
        if (tokenizer_id(t, "<unk>", 5) < 0) {
            return culm_load_refuse(
                load, "its lines have neither [UNK] (WordPiece) nor <unk> (words); add "
                      "one, or give tokenizer.json");
        }
        enum culm_status status = culm_settings_apply(load, CULM_BESIDE_VOCAB_TEXT);
        if (status == CULM_OK) {
            status = culm_settings_tokens(load, NULL);
        }
        return status == CULM_OK ? need_unknown(load, "<unk>") : status;
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
        int32_t id = tokenizer_id(t, specials[i], strlen(specials[i]));
        enum culm_status status =
            id < 0 ? CULM_OK : culm_load_added_token(load, specials[i], id, &info);
        if (status != CULM_OK) {
            return status;
        }
    }
    enum culm_status status = culm_settings_apply(load, CULM_BESIDE_VOCAB_TEXT);
    if (status == CULM_OK) {
        status = culm_settings_tokens(load, NULL);
    }
    return status == CULM_OK ? need_unknown(load, "[UNK]") : status;
}

/* Tokens in the order of their ids. */
static enum culm_status take_words(struct culm_load *load) {
    struct culm_tokenizer *t = load->tokenizer;
    int32_t count = t->token.count;
    if (count > CULM_TOKENIZER_IDS) {
        return culm_load_refuse(load, "has %d tokens, at most %d are known", count,
                                CULM_TOKENIZER_IDS);
    }
    t->id = malloc(((size_t)count + 1) * sizeof *t->id);
    t->number = malloc(((size_t)count + 1) * sizeof *t->number);
    if (!t->id || !t->number) {
        return culm_load_no_memory(load);
    }
    for (int32_t i = 0; i < count; i++) {
        t->id[i] = i;
        t->number[i] = i + 1;
    }
    t->vocab = count;
    return finish_words(load);
}

static enum culm_status read_vocab_text(struct culm_load *load, const char *text, size_t len) {
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
            return culm_load_no_memory(load);
        }
        if (number < before) {
            return culm_load_refuse(load,
                                    "line %d, '%.*s', appeared before; each line is one token",
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

static enum culm_status read_json(struct culm_load *load, const char *data, size_t len,
                                  const char *merges, size_t merges_len, const char *merges_name) {
    json_error_t reason;
    enum culm_status status;
    json_t *root = json_loadb(data, len, JSON_REJECT_DUPLICATES, &reason);
    if (!root) {
        return culm_load_refuse(load, "line %d: %s; is the file damaged?", reason.line,
                                reason.text);
    }
    if (json_is_object(json_object_get(root, "model"))) {
        status = read_tokenizer_json(load, root);
    } else {
        status = read_vocab_json(load, root, merges, merges_len, merges_name);
    }
    json_decref(root);
    return status == CULM_OK ? finish(load) : status;
}

static enum culm_status parse(const char *data, size_t len, const char *name, const char *merges,
                              size_t merges_len, const char *merges_name,
                              const struct culm_settings *settings,
                              struct culm_tokenizer **ret_tokenizer, struct culm_error *error) {
    struct culm_load load = {
        .tokenizer = tokenizer_new(), .settings = settings, .name = name, .error = error};
    size_t blanks = 0;
    enum culm_status status;
    culm_load_byte_table(&load);
    while (blanks < len && strchr(" \t\r\n", data[blanks]) && data[blanks]) {
        blanks++;
    }
    if (!load.tokenizer) {
        return culm_load_no_memory(&load);
    }
    if (blanks < len && data[blanks] == '{') {
        status = read_json(&load, data, len, merges, merges_len, merges_name);
    } else if (merges) {
        status = culm_load_refuse(&load, "does not begin with '{'; give vocab.json and merges.txt");
    } else {
        status = read_vocab_text(&load, data, len);
        if (status == CULM_OK) {
            status = finish(&load);
        }
    }
    free(load.buffer);
    if (status != CULM_OK) {
        culm_tokenizer_free(load.tokenizer);
        return status;
    }
    *ret_tokenizer = load.tokenizer;
    return CULM_OK;
}

enum culm_status culm_tokenizer_parse(const char *data, size_t len, const char *name,
                                      const char *merges, size_t merges_len,
                                      const char *merges_name,
                                      struct culm_tokenizer **ret_tokenizer,
                                      struct culm_error *error) {
    return parse(data, len, name, merges, merges_len, merges_name, NULL, ret_tokenizer, error);
}

enum culm_status culm_tokenizer_of_words(const struct culm_strings *words,
                                         struct culm_tokenizer **ret_tokenizer,
                                         struct culm_error *error) {
    struct culm_load load = {.tokenizer = tokenizer_new(), .name = "words", .error = error};
    enum culm_status status = load.tokenizer ? CULM_OK : culm_load_no_memory(&load);
    for (int32_t i = 0; status == CULM_OK && i < words->count; i++) {
        size_t len;
        const char *word = culm_strings_get(words, i, &len);
        if (culm_strings_add(&load.tokenizer->token, word, len) < 0) {
            status = culm_load_no_memory(&load);
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
            there = there && culm_file_exists(ret_path[k]);
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

static enum culm_status open_files(const char *const *paths, size_t count, struct culm_pins *pins,
                                   struct culm_tokenizer **ret_tokenizer,
                                   struct culm_error *error) {
    struct culm_files *files;
    char *data[2] = {NULL, NULL};
    size_t len[2] = {0, 0};
    enum culm_status status = culm_files_open("tokenizer", paths, count, pins, &files, error);
    if (status != CULM_OK) {
        return status;
    }
    for (size_t i = 0; status == CULM_OK && i < count; i++) {
        status = culm_files_slurp(files, i, CULM_TOKENIZER_FILE_MAX, &data[i], &len[i], error);
    }
    struct culm_settings *settings = calloc(1, sizeof *settings);
    if (!settings) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "tokenizer: out of memory");
    }
    if (status == CULM_OK) {
        status = culm_settings_open(paths[0], pins, settings, error);
    }
    if (status == CULM_OK) {
        /* vocab.json and merges.txt in either order */
        size_t vocab = count == 2 && data[0][0] != '{' && data[1][0] == '{';
        status = parse(data[vocab], len[vocab], paths[vocab], data[!vocab], len[!vocab],
                       count == 2 ? paths[!vocab] : NULL, settings, ret_tokenizer, error);
    }
    if (settings) {
        culm_settings_release(settings);
    }
    free(settings);
    free(data[0]);
    free(data[1]);
    culm_files_free(files);
    return status;
}

enum culm_status culm_tokenizer_open(const char *const *paths, size_t path_count,
                                     struct culm_tokenizer **ret_tokenizer,
                                     struct culm_error *error) {
    return culm_tokenizer_open_pinned(paths, path_count, NULL, ret_tokenizer, error);
}

enum culm_status culm_tokenizer_open_pinned(const char *const *paths, size_t path_count,
                                            struct culm_pins *pins,
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
        return status == CULM_OK ? open_files(names, path_count, pins, ret_tokenizer, error)
                                 : status;
    }
    return open_files(paths, path_count, pins, ret_tokenizer, error);
}
