/* Parsing and printing option tables. */
#include "cli/options.h"

#include "base/words.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct culm_option *find_option(const struct culm_usage *usage, const char *name,
                                             size_t len) {
    for (size_t i = 0; i < usage->option_count; i++) {
        if (strlen(usage->options[i].name) == len && !strncmp(usage->options[i].name, name, len)) {
            return &usage->options[i];
        }
    }
    return NULL;
}

static enum culm_status unknown_option(const struct culm_usage *usage, const char *text,
                                       struct culm_error *error) {
    char name[64];
    const char *start = text + strspn(text, "-");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(start, "="), start);
    struct culm_nearest near = {.word = name};
    culm_nearest_try(&near, "help");
    for (size_t i = 0; i < usage->option_count; i++) {
        culm_nearest_try(&near, usage->options[i].name);
    }
    return culm_error_set(
        error, CULM_ERR_ARGUMENT, "unknown option '%.60s'%s%s%s; see 'culm %s --help'", text,
        near.nearest ? "; did you mean '--" : "", near.nearest ? near.nearest : "",
        near.nearest ? "'" : "", usage->command);
}

/* "200", or any other way to write that number: "2e2". */
static bool read_whole(const char *text, int64_t most, int64_t *ret_value) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno) {
        double real = strtod(text, &end);
        if (end == text || *end || !(real >= 1 && real <= 0x1p53) || real != floor(real)) {
            return false;
        }
        value = (long long)real;
    }
    *ret_value = value;
    return value >= 1 && value <= most;
}

static enum culm_status store(const struct culm_option *option, const char *text, void *values,
                              struct culm_error *error) {
    char *at = (char *)values + option->offset;
    switch (option->kind) {
    case CULM_OPTION_FLAG: *(bool *)at = true; break;
    case CULM_OPTION_TEXT: memcpy(at, &text, sizeof text); break;
    case CULM_OPTION_COUNT:
    case CULM_OPTION_INT: {
        const bool none = option->kind == CULM_OPTION_COUNT && strcmp(text, "0") == 0;
        int64_t value = 0;
        if (!none && !read_whole(text, option->most ? option->most : INT64_MAX, &value)) {
            char most[48] = "";
            if (option->most) {
                snprintf(most, sizeof most, " and up to %lld", (long long)option->most);
            }
            return culm_error_set(
                error, CULM_ERR_ARGUMENT, "--%s: '%.60s' is not a whole number %s%s", option->name,
                text, option->kind == CULM_OPTION_COUNT ? "from 0 on" : "above 0", most);
        }
        memcpy(at, &value, sizeof value);
        break;
    }
    case CULM_OPTION_WORD: {
        int index = culm_word_find(option->words, text);
        if (index < 0) {
            char words[256];
            culm_words_list(option->words, words, sizeof words);
            return culm_error_set(error, CULM_ERR_ARGUMENT,
                                  "--%s: '%.60s' is not known; allowed: %s", option->name, text,
                                  words);
        }
        memcpy(at, &index, sizeof index);
        break;
    }
    case CULM_OPTION_REAL: {
        char *end;
        double value = strtod(text, &end);
        if (end == text || *end || !isfinite(value) || value <= 0) {
            return culm_error_set(error, CULM_ERR_ARGUMENT, "--%s: '%.60s' is not a number above 0",
                                  option->name, text);
        }
        memcpy(at, &value, sizeof value);
        break;
    }
    case CULM_OPTION_SHARE: {
        char *end;
        double value = strtod(text, &end);
        if (end == text || *end || !(value >= 0 && value <= 1)) {
            return culm_error_set(error, CULM_ERR_ARGUMENT,
                                  "--%s: '%.60s' is not a number from 0 to 1", option->name, text);
        }
        memcpy(at, &value, sizeof value);
        break;
    }
    case CULM_OPTION_LIST: {
        struct culm_option_list *list = (struct culm_option_list *)(void *)at;
        const char **items = realloc(list->items, (list->count + 1) * sizeof *items);
        if (!items) {
            return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
        }
        list->items = items;
        list->items[list->count++] = text;
        break;
    }
    }
    return CULM_OK;
}

/* argv[*at] begins with "--"; takes the value from behind '=' or from the next word. */
static enum culm_status take_option(const struct culm_usage *usage, int argc, char **argv, int *at,
                                    void *values, struct culm_error *error) {
    const char *text = argv[*at], *name = text + 2;
    size_t len = strcspn(name, "=");
    const struct culm_option *option = find_option(usage, name, len);
    if (!option) {
        return unknown_option(usage, text, error);
    }
    const char *value = name[len] == '=' ? name + len + 1 : NULL;
    if (option->kind == CULM_OPTION_FLAG && value) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "--%s takes no value", option->name);
    }
    if (option->kind != CULM_OPTION_FLAG && !value) {
        if (*at + 1 == argc) {
            return culm_error_set(error, CULM_ERR_ARGUMENT, "--%s needs a value: --%s %s",
                                  option->name, option->name, option->value);
        }
        value = argv[++*at];
    }
    return store(option, value, values, error);
}

static enum culm_status check_count(const struct culm_usage *usage,
                                    const struct culm_arguments *arguments,
                                    struct culm_error *error) {
    if (arguments->count < usage->min_arguments) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "needs %s; see 'culm %s --help'",
                              usage->arguments, usage->command);
    }
    return CULM_OK;
}

enum culm_status culm_options_parse(const struct culm_usage *usage, int argc, char **argv,
                                    void *values, struct culm_arguments *ret_arguments,
                                    struct culm_error *error) {
    assert(usage->max_arguments <= CULM_ARGUMENTS_MAX);
    struct culm_arguments arguments = {.count = 0};
    bool only_arguments = false;
    for (int i = 1; i < argc; i++) {
        const char *text = argv[i];
        if (!only_arguments && !strcmp(text, "--")) {
            only_arguments = true;
        } else if (!only_arguments && (!strcmp(text, "--help") || !strcmp(text, "-h"))) {
            *ret_arguments = (struct culm_arguments){.help = true};
            return CULM_OK;
        } else if (!only_arguments && text[0] == '-' && text[1]) {
            enum culm_status status = text[1] == '-'
                                          ? take_option(usage, argc, argv, &i, values, error)
                                          : unknown_option(usage, text, error);
            if (status != CULM_OK) {
                return status;
            }
        } else if (arguments.count == usage->max_arguments) {
            return culm_error_set(error, CULM_ERR_ARGUMENT,
                                  "one argument too many: '%.60s'; see 'culm %s --help'", text,
                                  usage->command);
        } else {
            arguments.items[arguments.count++] = text;
        }
    }
    enum culm_status status = check_count(usage, &arguments, error);
    if (status == CULM_OK) {
        *ret_arguments = arguments;
    }
    return status;
}

void culm_options_release(const struct culm_usage *usage, void *values) {
    for (size_t i = 0; i < usage->option_count; i++) {
        if (usage->options[i].kind == CULM_OPTION_LIST) {
            void *at = (char *)values + usage->options[i].offset;
            struct culm_option_list *list = at;
            free(list->items);
            *list = (struct culm_option_list){0};
        }
    }
}

/* Whether the command itself has it, or one of its parts before `end`. */
static bool is_before(const struct culm_usage *usage, const struct culm_usage *const *end,
                      const char *name) {
    bool found = find_option(usage, name, strlen(name)) != NULL;
    for (const struct culm_usage *const *part = usage->parts; part != end && !found; part++) {
        found = find_option(*part, name, strlen(name)) != NULL;
    }
    return found;
}

const struct culm_option *culm_usage_option(const struct culm_usage *usage, size_t at) {
    if (at < usage->option_count) {
        return &usage->options[at];
    }
    at -= usage->option_count;
    for (const struct culm_usage *const *part = usage->parts; part && *part; part++) {
        for (size_t i = 0; i < (*part)->option_count; i++) {
            const struct culm_option *option = &(*part)->options[i];
            if (!is_before(usage, part, option->name) && at-- == 0) {
                return option;
            }
        }
    }
    return NULL;
}

const char *culm_usage_form(const char **at, size_t *ret_len) {
    const char *form = *at, *end = form && *form != '[' ? strstr(form, " | ") : NULL;
    *ret_len = end ? (size_t)(end - form) : form ? strlen(form) : 0;
    *at = end ? end + 3 : NULL;
    return form;
}

void culm_usage_print(const struct culm_usage *usage, FILE *out) {
    fprintf(out, "usage: culm %s%s%s%s\n\n%s.\n", usage->command, *usage->arguments ? " " : "",
            usage->arguments, usage->option_count ? " [OPTION]..." : "", usage->summary);
    if (usage->option_count) {
        fprintf(out, "\n");
    }
    for (size_t i = 0; i < usage->option_count; i++) {
        const struct culm_option *option = &usage->options[i];
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", option->name, option->value ? " " : "",
                 option->value ? option->value : "");
        fprintf(out, "  %-24s %s\n", left, option->doc);
    }
    char *remark = usage->remark ? usage->remark() : NULL;
    if (remark) {
        fprintf(out, "\n%s", remark);
    }
    free(remark);
    if (usage->details) {
        fprintf(out, "\n%s", usage->details);
    }
}
