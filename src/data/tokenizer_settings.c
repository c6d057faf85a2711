/* Settings beside a tokenizer's files; see the header. */
#include "data/tokenizer_settings.h"

#include "data/files.h"

#include <stdlib.h>
#include <string.h>

#define SETTINGS_BYTES_MAX (64u << 20)

static const char *const file_names[CULM_SETTINGS_FILES] = {
    "added_tokens.json", "tokenizer_config.json", "special_tokens_map.json"};

/* --- reading --- */

void culm_settings_release(struct culm_settings *settings) {
    for (int i = 0; i < CULM_SETTINGS_FILES; i++) {
        json_decref(settings->json[i]);
        settings->json[i] = NULL;
    }
}

static enum culm_status open_one(const char *path, struct culm_pins *pins, json_t **ret_json,
                                 struct culm_error *error) {
    struct culm_files *files;
    json_error_t reason;
    char *data;
    size_t len;
    enum culm_status status = culm_files_open("tokenizer", &path, 1, pins, &files, error);
    if (status != CULM_OK) {
        return status;
    }
    status = culm_files_slurp(files, 0, SETTINGS_BYTES_MAX, &data, &len, error);
    culm_files_free(files);
    if (status != CULM_OK) {
        return status;
    }
    *ret_json = json_loadb(data, len, JSON_REJECT_DUPLICATES, &reason);
    free(data);
    if (!json_is_object(*ret_json)) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "tokenizer '%s': line %d: %s; mend it, or remove it if it belongs to "
                              "another tokenizer",
                              path, *ret_json ? 1 : reason.line,
                              *ret_json ? "it is not a map of settings" : reason.text);
    }
    return CULM_OK;
}

enum culm_status culm_settings_open(const char *path, struct culm_pins *pins,
                                    struct culm_settings *settings, struct culm_error *error) {
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash - path) + 1 : 0;
    enum culm_status status = CULM_OK;
    memset(settings->json, 0, sizeof settings->json);
    for (int i = 0; i < CULM_SETTINGS_FILES && status == CULM_OK; i++) {
        status = culm_path_format(settings->path[i], error, "%.*s%s", folder, path, file_names[i]);
        if (status == CULM_OK && culm_file_exists(settings->path[i])) {
            status = open_one(settings->path[i], pins, &settings->json[i], error);
        }
    }
    return status;
}

static enum culm_status refuse(struct culm_load *load, int file, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static enum culm_status refuse(struct culm_load *load, int file, const char *format, ...) {
    char what[CULM_ERROR_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    load->name = load->settings->path[file];
    return culm_load_refuse(load, "%s", what);
}

/* --- all but tokens --- */

/* What has nothing to do with the ids of a text: lengths, sides, prompts, what is added around it. */
static const char *const harmless[] = {"model_max_length",
                                       "max_length",
                                       "max_len",
                                       "padding",
                                       "padding_side",
                                       "truncation",
                                       "truncation_side",
                                       "stride",
                                       "pad_to_multiple_of",
                                       "pad_token_type_id",
                                       "model_input_names",
                                       "return_token_type_ids",
                                       "clean_up_tokenization_spaces",
                                       "name_or_path",
                                       "tokenizer_file",
                                       "vocab_file",
                                       "merges_file",
                                       "full_tokenizer_file",
                                       "special_tokens_map_file",
                                       "chat_template",
                                       "errors",
                                       "trim_offsets",
                                       "auto_map",
                                       "processor_class",
                                       "add_bos_token",
                                       "add_eos_token",
                                       "add_special_tokens",
                                       "is_local",
                                       "local_files_only",
                                       "backend",
                                       "use_fast",
                                       "verbose",
                                       "model_type",
                                       "init_inputs",
                                       "transformers_version",
                                       "_commit_hash",
                                       "tokenize_chinese_chars",
                                       "strip_accents",
                                       "do_lower_case",
                                       "do_basic_tokenize",
                                       "never_split",
                                       "add_prefix_space",
                                       "split_special_tokens",
                                       "tokenizer_class",
                                       "added_tokens_decoder",
                                       "bos_token",
                                       "eos_token",
                                       "unk_token",
                                       "sep_token",
                                       "pad_token",
                                       "cls_token",
                                       "mask_token",
                                       "additional_special_tokens",
                                       "extra_special_tokens",
                                       NULL};

static bool is_in(const char *name, size_t len, const char *const *list) {
    for (; *list; list++) {
        if (strlen(*list) == len && !memcmp(*list, name, len)) {
            return true;
        }
    }
    return false;
}

/* Whether files are cut as we cut them does not stand in them, but follows from the class. */
static enum culm_status check_class(struct culm_load *load, enum culm_settings_beside beside) {
    static const char *const bpe[] = {"GPT2Tokenizer",       "RobertaTokenizer", "BartTokenizer",
                                      "LongformerTokenizer", "LEDTokenizer",     "CodeGenTokenizer",
                                      "BlenderbotTokenizer", "DebertaTokenizer", NULL};
    static const char *const words[] = {"BertTokenizer",
                                        "DistilBertTokenizer",
                                        "ElectraTokenizer",
                                        "MobileBertTokenizer",
                                        "SqueezeBertTokenizer",
                                        "ConvBertTokenizer",
                                        "LayoutLMTokenizer",
                                        "FunnelTokenizer",
                                        "LxmertTokenizer",
                                        "RetriBertTokenizer",
                                        "MPNetTokenizer",
                                        "DPRQuestionEncoderTokenizer",
                                        "RealmTokenizer",
                                        "DPRContextEncoderTokenizer",
                                        NULL};
    const char *name = json_string_value(
        json_object_get(load->settings->json[CULM_SETTINGS_CONFIG], "tokenizer_class"));
    if (!name || beside == CULM_BESIDE_JSON || !strcmp(name, "PreTrainedTokenizerFast")) {
        return CULM_OK;
    }
    size_t len = strlen(name);
    len -= len > 4 && !strcmp(name + len - 4, "Fast") ? 4 : 0;
    return is_in(name, len, beside == CULM_BESIDE_VOCAB_JSON ? bpe : words)
               ? CULM_OK
               : refuse(load, CULM_SETTINGS_CONFIG,
                        "tokenizer_class is '%.60s', whose files of this kind are not known to be "
                        "read as %s's; give its tokenizer.json",
                        name, beside == CULM_BESIDE_VOCAB_JSON ? "GPT-2" : "BERT");
}

/* A setting that is on or off. In a tokenizer.json it is there already, and must be the same. */
static enum culm_status take_flag(struct culm_load *load, const char *key, bool own, bool *flag) {
    const json_t *value = json_object_get(load->settings->json[CULM_SETTINGS_CONFIG], key);
    if (!json_is_boolean(value)) {
        return !value || json_is_null(value)
                   ? CULM_OK
                   : refuse(load, CULM_SETTINGS_CONFIG, "%s is neither true nor false", key);
    }
    bool on = json_is_true(value);
    if (own && on != *flag) {
        return refuse(load, CULM_SETTINGS_CONFIG,
                      "%s is %s, and tokenizer.json says otherwise; make them agree, or remove it "
                      "here",
                      key, on ? "true" : "false");
    }
    *flag = on;
    return CULM_OK;
}

/* What we do not do must not be asked for. */
static enum culm_status must_be(struct culm_load *load, const char *key, bool wanted) {
    const json_t *value = json_object_get(load->settings->json[CULM_SETTINGS_CONFIG], key);
    return json_is_boolean(value) && json_is_true(value) != wanted
               ? refuse(load, CULM_SETTINGS_CONFIG,
                        "%s is %s, which is not known here; make ids elsewhere and give them with "
                        "data.kind: tokens",
                        key, wanted ? "false" : "true")
               : CULM_OK;
}

static enum culm_status apply_words(struct culm_load *load, bool own) {
    struct culm_tokenizer *t = load->tokenizer;
    const json_t *config = load->settings->json[CULM_SETTINGS_CONFIG];
    const json_t *never = json_object_get(config, "never_split");
    if (json_array_size(never)) {
        return refuse(load, CULM_SETTINGS_CONFIG,
                      "never_split has words, which is not known; make them added tokens");
    }
    enum culm_status status = take_flag(load, "do_lower_case", own, &t->lower);
    if (status != CULM_OK) {
        return status;
    }
    if (!own && json_is_boolean(json_object_get(config, "do_lower_case"))) {
        t->strip_accents = t->lower;
    }
    status = take_flag(load, "strip_accents", own, &t->strip_accents);
    if (status == CULM_OK) {
        status = take_flag(load, "tokenize_chinese_chars", own, &t->chinese);
    }
    if (status == CULM_OK) {
        status = must_be(load, "do_basic_tokenize", true);
    }
    return status == CULM_OK ? must_be(load, "add_prefix_space", false) : status;
}

enum culm_status culm_settings_apply(struct culm_load *load, enum culm_settings_beside beside) {
    const char *key;
    json_t *value;
    bool own = beside == CULM_BESIDE_JSON;
    if (!load->settings || !load->settings->json[CULM_SETTINGS_CONFIG]) {
        return CULM_OK;
    }
    json_object_foreach(load->settings->json[CULM_SETTINGS_CONFIG], key, value) {
        if (!json_is_null(value) && !is_in(key, strlen(key), harmless)) {
            return refuse(load, CULM_SETTINGS_CONFIG,
                          "'%.60s' is not known; if it changes no ids, remove it there", key);
        }
    }
    enum culm_status status = check_class(load, beside);
    if (status == CULM_OK) {
        status = must_be(load, "split_special_tokens", false);
    }
    if (status != CULM_OK) {
        return status;
    }
    if (load->tokenizer->kind == CULM_TOKENIZER_WORDPIECE) {
        return apply_words(load, own);
    }
    if (load->tokenizer->kind == CULM_TOKENIZER_BPE) {
        status = take_flag(load, "add_prefix_space", own, &load->tokenizer->prefix_space);
    }
    return status == CULM_OK ? must_be(load, "do_lower_case", false) : status;
}

/* --- tokens --- */

/* An entry of a map: a text, or a map with "content"; NULL: neither. */
static const char *content_of(const json_t *entry) {
    return json_string_value(json_is_object(entry) ? json_object_get(entry, "content") : entry);
}

static json_int_t vocab_id(const struct culm_load *load, const json_t *vocab, const char *content) {
    if (!vocab) {
        return tokenizer_id(load->tokenizer, content, strlen(content));
    }
    const json_t *id = json_object_get(vocab, content);
    return json_is_integer(id) ? json_integer_value(id) : -1;
}

/* id -1: where the token has one already. *ret_id: what it is. `named`: the key. */
static enum culm_status add(struct culm_load *load, int file, const char *named,
                            const json_t *entry, json_int_t id, bool special, const json_t *vocab,
                            int32_t *ret_id) {
    struct culm_tokenizer *t = load->tokenizer;
    const char *content = content_of(entry);
    if (!content || !*content) {
        return refuse(load, file, "'%.60s' is not a token", named);
    }
    if (json_is_true(json_object_get(entry, "single_word"))) {
        return refuse(load, file, "the token '%.60s' is a 'single_word', which is not known",
                      content);
    }
    int32_t there = culm_strings_find(&t->added, content, strlen(content));
    json_int_t known = there >= 0 ? t->added_info[there].id : vocab_id(load, vocab, content);
    id = id < 0 ? known : id;
    if (id < 0) {
        return refuse(load, file,
                      "%s is '%.60s', which has no id; add it to added_tokens.json, or remove it "
                      "here",
                      named, content);
    }
    if (known >= 0 && known != id) {
        return refuse(load, file, "'%.60s' has the id %lld, and %lld elsewhere; make them agree",
                      content, (long long)id, (long long)known);
    }
    if (there < 0) {
        const json_t *normal = json_object_get(entry, "normalized");
        const struct culm_tokenizer_added info = {
            .special = special,
            .settings = true,
            .lstrip = json_is_true(json_object_get(entry, "lstrip")),
            .rstrip = json_is_true(json_object_get(entry, "rstrip")),
            .normalized = json_is_boolean(normal) ? json_is_true(normal) : !special};
        load->name = load->settings->path[file];
        enum culm_status status = culm_load_added_token(load, content, id, &info);
        if (status != CULM_OK) {
            return status;
        }
    }
    *ret_id = (int32_t)id;
    return CULM_OK;
}

static enum culm_status add_decoder(struct culm_load *load, const json_t *vocab) {
    json_t *list =
        json_object_get(load->settings->json[CULM_SETTINGS_CONFIG], "added_tokens_decoder");
    const char *key;
    json_t *entry;
    json_object_foreach(list, key, entry) {
        char *end;
        int32_t added;
        long long id = strtoll(key, &end, 10);
        if (end == key || *end || id < 0) {
            return refuse(load, CULM_SETTINGS_CONFIG, "added_tokens_decoder: '%.60s' is not an id",
                          key);
        }
        enum culm_status status =
            add(load, CULM_SETTINGS_CONFIG, key, entry, id,
                json_is_true(json_object_get(entry, "special")), vocab, &added);
        if (status != CULM_OK) {
            return status;
        }
    }
    return CULM_OK;
}

/* Whether a token is named as a special one by any of the files. */
static bool is_special(const struct culm_load *load, const char *content) {
    for (int file = CULM_SETTINGS_CONFIG; file <= CULM_SETTINGS_MAP; file++) {
        const char *key;
        json_t *value, *entry;
        size_t i;
        json_object_foreach(load->settings->json[file], key, value) {
            size_t len = strlen(key);
            const char *one = content_of(value);
            if (len > 6 && !strcmp(key + len - 6, "_token") && one && !strcmp(one, content)) {
                return true;
            }
            if (strcmp(key, "additional_special_tokens") != 0) {
                continue;
            }
            json_array_foreach(value, i, entry) {
                one = content_of(entry);
                if (one && !strcmp(one, content)) {
                    return true;
                }
            }
        }
    }
    return false;
}

static enum culm_status add_list(struct culm_load *load, const json_t *vocab) {
    const char *key;
    json_t *value;
    json_object_foreach(load->settings->json[CULM_SETTINGS_ADDED], key, value) {
        int32_t added;
        json_t *entry = json_string(key);
        enum culm_status status =
            !entry ? culm_load_no_memory(load)
            : !json_is_integer(value) || json_integer_value(value) < 0
                ? refuse(load, CULM_SETTINGS_ADDED, "the id of '%.60s' is not a whole number", key)
                : add(load, CULM_SETTINGS_ADDED, key, entry, json_integer_value(value),
                      is_special(load, key), vocab, &added);
        json_decref(entry);
        if (status != CULM_OK) {
            return status;
        }
    }
    return CULM_OK;
}

static enum culm_status add_more(struct culm_load *load, int file, const char *key,
                                 const json_t *vocab) {
    json_t *list = json_object_get(load->settings->json[file], key), *entry;
    enum culm_status status = CULM_OK;
    const char *name;
    int32_t id;
    size_t i;
    json_array_foreach(list, i, entry) {
        if (status == CULM_OK) {
            status = add(load, file, key, entry, -1, true, vocab, &id);
        }
    }
    json_object_foreach(list, name, entry) {
        if (status == CULM_OK) {
            status = add(load, file, name, entry, -1, true, vocab, &id);
        }
    }
    return status;
}

static enum culm_status add_roles(struct culm_load *load, int file, const json_t *vocab) {
    static const struct {
        const char *key;
        enum culm_tokenizer_role role;
    } keys[] = {{"bos_token", CULM_TOKEN_BEGIN},   {"eos_token", CULM_TOKEN_END},
                {"unk_token", CULM_TOKEN_UNKNOWN}, {"sep_token", CULM_TOKEN_SEP},
                {"pad_token", CULM_TOKEN_PAD},     {"cls_token", CULM_TOKEN_CLS},
                {"mask_token", CULM_TOKEN_MASK}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *entry = json_object_get(load->settings->json[file], keys[i].key);
        int32_t *role = &load->tokenizer->role[keys[i].role], id = -1;
        if (!entry || json_is_null(entry)) {
            continue;
        }
        enum culm_status status = add(load, file, keys[i].key, entry, -1, true, vocab, &id);
        if (status != CULM_OK) {
            return status;
        }
        if (*role && *role != id + 1) {
            return refuse(load, file,
                          "%s is '%.60s', and another in tokenizer_config.json; make them agree",
                          keys[i].key, content_of(entry));
        }
        *role = id + 1;
    }
    enum culm_status status = add_more(load, file, "additional_special_tokens", vocab);
    return status == CULM_OK ? add_more(load, file, "extra_special_tokens", vocab) : status;
}

/* Maps before plain texts: they say how a token takes the blanks around it. */
enum culm_status culm_settings_tokens(struct culm_load *load, const json_t *vocab) {
    if (!load->settings) {
        return CULM_OK;
    }
    const char *name = load->name;
    bool map =
        json_is_object(json_object_get(load->settings->json[CULM_SETTINGS_MAP], "mask_token"));
    int first = map ? CULM_SETTINGS_MAP : CULM_SETTINGS_CONFIG;
    enum culm_status status = add_decoder(load, vocab);
    if (status == CULM_OK) {
        status = add_list(load, vocab);
    }
    if (status == CULM_OK) {
        status = add_roles(load, first, vocab);
    }
    if (status == CULM_OK) {
        status = add_roles(load, CULM_SETTINGS_CONFIG + CULM_SETTINGS_MAP - first, vocab);
    }
    if (status == CULM_OK) {
        load->name = name;
    }
    return status;
}

enum culm_status culm_settings_check_ids(struct culm_load *load) {
    const struct culm_tokenizer *t = load->tokenizer;
    for (int32_t i = 0; load->settings && i < t->added.count; i++) {
        int32_t id = t->added_info[i].id;
        int32_t number = id < t->vocab ? t->number[id] - 1 : -1;
        size_t len, own;
        if (!t->added_info[i].settings || number < 0) {
            continue;
        }
        const char *content = culm_strings_get(&t->added, i, &len);
        const char *text = culm_strings_get(&t->token, number, &own);
        if (own != len || memcmp(text, content, len) != 0) {
            return culm_load_refuse(load,
                                    "the id %d is that of '%.*s' in the vocabulary, and of "
                                    "'%.*s' in the settings beside it; do they belong together?",
                                    id, (int)(own < 40 ? own : 40), text,
                                    (int)(len < 40 ? len : 40), content);
        }
    }
    return CULM_OK;
}
