/* Completions. See completion.h. */
#include "cli/completion.h"

#include "cli/command.h"
#include "run/models.h"
#include "run/references.h"

#include <ctype.h>
#include <string.h>

const char *const culm_shell_names[] = {
    [CULM_SHELL_BASH] = "bash", [CULM_SHELL_ZSH] = "zsh", [CULM_SHELL_FISH] = "fish", NULL};

/* --- what the tables say ------------------------------------------------------------------------- */

/* What stands for the value of an option says what may be offered for it. */
enum value { VALUE_NONE, VALUE_UNKNOWN, VALUE_WORDS, VALUE_KEY, VALUE_FILE, VALUE_FOLDER };

static enum value value_of(const struct culm_option *option) {
    return !option->value                          ? VALUE_NONE
           : option->words                         ? VALUE_WORDS
           : strcmp(option->value, "FILE") == 0    ? VALUE_FILE
           : strcmp(option->value, "PATH") == 0    ? VALUE_FILE
           : strcmp(option->value, "DIR") == 0     ? VALUE_FOLDER
           : strncmp(option->value, "key", 3) == 0 ? VALUE_KEY
                                                   : VALUE_UNKNOWN;
}

/* What may stand behind a command, as its usage line says. */
enum rest { REST_NOTHING, REST_FILES, REST_FOLDERS, REST_MODELS /* or files */ };

static enum rest rest_of(const struct culm_usage *usage) {
    return !*usage->arguments || strstr(usage->arguments, "COMMAND") ? REST_NOTHING
           : strstr(usage->arguments, "NAME")                        ? REST_MODELS
           : strcmp(usage->arguments, "DIR") == 0                    ? REST_FOLDERS
                                                                     : REST_FILES;
}

/* Prints a word unless it is in `seen`, which is " "-separated and has room for it. */
static void put_once(char *seen, size_t size, const char *word, size_t len, FILE *out) {
    char padded[64];
    snprintf(padded, sizeof padded, " %.*s ", (int)len, word);
    if (strstr(seen, padded)) {
        return;
    }
    fprintf(out, "%s%.*s", strlen(seen) > 1 ? " " : "", (int)len, word);
    snprintf(seen + strlen(seen), size - strlen(seen), "%s", padded + 1);
}

/* The words that the first argument is one of, " "-separated: of "show PATH | diff A B" these are
 * "show diff", of "step|ops NAME | gnn add|take GRAPH" they are "step ops gnn", of
 * "[COMMAND | config]" all commands and "config", of "CONFIG.yaml" none. */
static void put_first(const struct culm_usage *usage, FILE *out) {
    char seen[512] = " ";
    bool begins = true, was_first = false;
    for (const char *at = usage->arguments; *at;) {
        size_t len = strcspn(at, " |[]");
        if (len == 0) {
            bool apart = at > usage->arguments && at[-1] == ' ';
            begins |= *at == '|' && (apart || was_first);
            at++;
            continue;
        }
        was_first = begins;
        if (begins && islower((unsigned char)*at)) {
            put_once(seen, sizeof seen, at, len, out);
        } else if (begins && strncmp(at, "COMMAND", len) == 0) {
            for (const struct culm_command *row = culm_commands(); row->name; row++) {
                if (row->usage) {
                    put_once(seen, sizeof seen, row->name, strlen(row->name), out);
                }
            }
        }
        begins = false;
        at += len;
    }
}

static bool has_first(const struct culm_usage *usage) {
    return islower((unsigned char)*usage->arguments) || strstr(usage->arguments, "COMMAND");
}

static void put_models(FILE *out) {
    const char *name;
    for (size_t i = 0; (name = culm_published(i)); i++) {
        fprintf(out, "%s%s", i ? " " : "", name);
    }
}

static void put_key(void *ctx, const struct culm_config_entry *entry) {
    fprintf(ctx, "%s ", entry->key);
}

static void put_words(const char *const *words, FILE *out) {
    for (size_t i = 0; words[i]; i++) {
        fprintf(out, "%s%s", i ? " " : "", words[i]);
    }
}

static void put_name(const struct culm_command *row, FILE *out) { fprintf(out, "%s ", row->name); }

/* Of those that take arguments. */
static void each_command(void (*put)(const struct culm_command *row, FILE *out), FILE *out) {
    for (const struct culm_command *row = culm_commands(); row->name; row++) {
        if (row->usage) {
            put(row, out);
        }
    }
}

/* --- bash ---------------------------------------------------------------------------------------- */

static void bash_command(const struct culm_command *row, FILE *out) {
    static const char *const rest[] = {[REST_NOTHING] = "nothing",
                                       [REST_FILES] = "files",
                                       [REST_FOLDERS] = "folders",
                                       [REST_MODELS] = "models"};
    fprintf(out, "    %s) flags='--help", row->name);
    const struct culm_option *option;
    for (size_t i = 0; (option = culm_usage_option(row->usage, i)); i++) {
        if (!option->value) {
            fprintf(out, " --%s", option->name);
        }
    }
    fputs("' valued='", out);
    for (size_t i = 0; (option = culm_usage_option(row->usage, i)); i++) {
        if (option->value) {
            fprintf(out, " --%s", option->name);
        }
    }
    fputs("' first='", out);
    put_first(row->usage, out);
    fprintf(out, "' rest=%s ;;\n", rest[rest_of(row->usage)]);
}

static void bash_values(const struct culm_command *row, FILE *out) {
    const struct culm_option *option;
    for (size_t i = 0; (option = culm_usage_option(row->usage, i)); i++) {
        enum value value = value_of(option);
        if (value == VALUE_NONE || value == VALUE_UNKNOWN) {
            continue;
        }
        fprintf(out, "    %s--%s) ", row->name, option->name);
        if (value == VALUE_WORDS) {
            fputs("_culm_words '", out);
            put_words(option->words, out);
            fputs("'", out);
        } else {
            fputs(value == VALUE_KEY    ? "_culm_keys"
                  : value == VALUE_FILE ? "_culm_files -f"
                                        : "_culm_files -d",
                  out);
        }
        fputs("; return ;;\n", out);
    }
}

static void bash_helpers(FILE *out) {
    fputs("# bash completion for culm, made by 'culm help --completion bash'\n"
          "_culm_words() { mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W \"$1\" -- "
          "\"$current\"); }\n"
          "_culm_files() {\n"
          "    compopt -o filenames 2>/dev/null\n"
          "    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen \"$1\" -- \"$current\")\n"
          "}\n"
          "_culm_keys() {\n"
          "    compopt -o nospace 2>/dev/null\n"
          "    mapfile -t COMPREPLY < <(compgen -S = -W '",
          out);
    culm_config_keys(put_key, out);
    fputs("' -- \"$current\")\n"
          "}\n",
          out);
}

/* The first word, and what the tables say of the command that it is. */
static void bash_commands(FILE *out) {
    fputs("_culm() {\n"
          "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} i "
          "count=0\n"
          "    local flags='' valued='' first='' rest=nothing\n"
          "    COMPREPLY=()\n"
          "    if ((COMP_CWORD == 1)); then\n"
          "        _culm_words '",
          out);
    each_command(put_name, out);
    fputs("--help --version'\n"
          "        return\n"
          "    fi\n"
          "    # To bash '--option=value' is three words.\n"
          "    if [[ $current == = ]]; then\n"
          "        current=''\n"
          "    elif [[ $previous == = ]]; then\n"
          "        previous=${COMP_WORDS[COMP_CWORD - 2]}\n"
          "        [[ $previous == --* ]] || return\n"
          "    fi\n"
          "    case ${COMP_WORDS[1]} in\n",
          out);
    each_command(bash_command, out);
    fputs("    *) return ;;\n"
          "    esac\n"
          "    case ${COMP_WORDS[1]}$previous in\n",
          out);
    each_command(bash_values, out);
    fputs("    esac\n", out);
}

/* A word that is no value of an option: another option, or an argument. */
static void bash_rest(FILE *out) {
    fputs("    [[ \" $valued \" != *\" $previous \"* ]] || return\n"
          "    if [[ $current == -* ]]; then\n"
          "        _culm_words \"$flags $valued\"\n"
          "        return\n"
          "    fi\n"
          "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
          "        if [[ \" $valued \" == *\" ${COMP_WORDS[i]} \"* ]]; then\n"
          "            ((i++))\n"
          "            [[ ${COMP_WORDS[i]} != = ]] || ((i++))\n"
          "        elif [[ ${COMP_WORDS[i]} != -* ]]; then\n"
          "            ((++count))\n"
          "        fi\n"
          "    done\n"
          "    if [[ -n $first && $count == 0 ]]; then\n"
          "        _culm_words \"$first\"\n"
          "        return\n"
          "    fi\n"
          "    case $rest in\n"
          "    models)\n"
          "        _culm_words '",
          out);
    put_models(out);
    fputs("'\n"
          "        _culm_files -f\n"
          "        ;;\n"
          "    files) _culm_files -f ;;\n"
          "    folders) _culm_files -d ;;\n"
          "    esac\n"
          "}\n"
          "complete -F _culm culm\n",
          out);
}

static void bash(FILE *out) {
    bash_helpers(out);
    bash_commands(out);
    bash_rest(out);
}

/* --- zsh ----------------------------------------------------------------------------------------- */

/* Within single quotes; `special`: letters that need a backslash as well. */
static void put_quoted(const char *text, const char *special, FILE *out) {
    for (; *text; text++) {
        if (*text == '\'') {
            fputs("'\\''", out);
        } else if (strchr(special, *text)) {
            fprintf(out, "\\%c", *text);
        } else {
            fputc(*text, out);
        }
    }
}

static void zsh_option(const struct culm_option *option, FILE *out) {
    enum value value = value_of(option);
    fprintf(out, " \\\n        '%s--%s%s[", option->kind == CULM_OPTION_LIST ? "*" : "",
            option->name, value == VALUE_NONE ? "" : "=");
    put_quoted(option->doc, "[]:\\", out);
    fputs("]", out);
    if (value != VALUE_NONE) {
        fputs(":", out);
        put_quoted(option->value, ":\\", out);
        fputs(":", out);
    }
    if (value == VALUE_WORDS) {
        fputs("(", out);
        put_words(option->words, out);
        fputs(")", out);
    }
    fputs(value == VALUE_KEY      ? "_culm_keys"
          : value == VALUE_FILE   ? "_files"
          : value == VALUE_FOLDER ? "_files -/"
                                  : "",
          out);
    fputs("'", out);
}

static void zsh_command(const struct culm_command *row, FILE *out) {
    static const char *const rest[] = {[REST_NOTHING] = "",
                                       [REST_FILES] = "*:file:_files",
                                       [REST_FOLDERS] = "*:run:_files -/",
                                       [REST_MODELS] = "*:model:_culm_models"};
    fprintf(out, "    %s) _arguments '--help[explains the command]'", row->name);
    const struct culm_option *option;
    for (size_t i = 0; (option = culm_usage_option(row->usage, i)); i++) {
        zsh_option(option, out);
    }
    if (has_first(row->usage)) {
        fputs(" \\\n        '1:what:(", out);
        put_first(row->usage, out);
        fputs(")'", out);
    }
    if (rest_of(row->usage) != REST_NOTHING) {
        fprintf(out, " \\\n        '%s'", rest[rest_of(row->usage)]);
    }
    fputs(" ;;\n", out);
}

static void zsh_summary(const struct culm_command *row, FILE *out) {
    fprintf(out, "        '%s:", row->name);
    put_quoted(row->summary, ":\\", out);
    fputs("'\n", out);
}

static void zsh(FILE *out) {
    fputs("#compdef culm\n"
          "# zsh completion for culm, made by 'culm help --completion zsh'\n"
          "_culm_models() {\n"
          "    compadd -- ",
          out);
    put_models(out);
    fputs("\n"
          "    _files\n"
          "}\n"
          "_culm_keys() {\n"
          "    compset -P '*=' || compadd -S = -- ",
          out);
    culm_config_keys(put_key, out);
    fputs("\n"
          "}\n"
          "_culm() {\n"
          "    local curcontext=$curcontext state line\n"
          "    local -a commands\n"
          "    commands=(\n",
          out);
    each_command(zsh_summary, out);
    fputs("    )\n"
          "    _arguments -C '1: :->command' '*:: :->argument'\n"
          "    case $state in\n"
          "    command) _describe command commands; return ;;\n"
          "    esac\n"
          "    case $words[1] in\n",
          out);
    each_command(zsh_command, out);
    fputs("    esac\n"
          "}\n"
          "if [[ $funcstack[1] == _culm ]]; then _culm \"$@\"; else compdef _culm culm; fi\n",
          out);
}

/* --- fish ---------------------------------------------------------------------------------------- */

static void fish_command(const struct culm_command *row, FILE *out) {
    fprintf(out, "complete -c culm -n 'test (__culm_words) -eq 1' -a %s -d '", row->name);
    put_quoted(row->summary, "\\", out);
    fputs("'\n", out);
    const struct culm_option *option;
    for (size_t i = 0; (option = culm_usage_option(row->usage, i)); i++) {
        enum value value = value_of(option);
        fprintf(out, "complete -c culm -n '__culm_is %s' -l %s%s", row->name, option->name,
                value == VALUE_NONE     ? ""
                : value == VALUE_FILE   ? " -r -F"
                : value == VALUE_FOLDER ? " -x -a '(__fish_complete_directories)'"
                : value == VALUE_KEY    ? " -x -a '$__culm_keys='"
                                        : " -x");
        if (value == VALUE_WORDS) {
            fputs(" -a '", out);
            put_words(option->words, out);
            fputs("'", out);
        }
        fputs(" -d '", out);
        put_quoted(option->doc, "\\", out);
        fputs("'\n", out);
    }
    if (has_first(row->usage)) {
        fprintf(out, "complete -c culm -n '__culm_is %s; and test (__culm_words) -eq 2' -a '",
                row->name);
        put_first(row->usage, out);
        fputs("'\n", out);
    }
    static const char *const rest[] = {[REST_FILES] = "-F",
                                       [REST_FOLDERS] = "-a '(__fish_complete_directories)'",
                                       [REST_MODELS] = "-F -a \"$__culm_models\""};
    if (rest_of(row->usage) != REST_NOTHING) {
        fprintf(out, "complete -c culm -n '__culm_is %s%s' %s\n", row->name,
                has_first(row->usage) ? "; and test (__culm_words) -gt 2" : "",
                rest[rest_of(row->usage)]);
    }
}

static void fish(FILE *out) {
    fputs("# fish completion for culm, made by 'culm help --completion fish'\n"
          "function __culm_words\n"
          "    count (commandline -opc)\n"
          "end\n"
          "function __culm_is\n"
          "    set -l words (commandline -opc)\n"
          "    test (count $words) -gt 1; and test $words[2] = $argv[1]\n"
          "end\n"
          "set -g __culm_models ",
          out);
    put_models(out);
    fputs("\nset -g __culm_keys ", out);
    culm_config_keys(put_key, out);
    fputs("\ncomplete -c culm -f\n", out);
    each_command(fish_command, out);
}

void culm_completion_print(enum culm_shell shell, FILE *out) {
    switch (shell) {
    case CULM_SHELL_BASH: bash(out); break;
    case CULM_SHELL_ZSH: zsh(out); break;
    case CULM_SHELL_FISH: fish(out); break;
    }
}
