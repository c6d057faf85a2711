/* Commands as Markdown. See markdown.h. */
#include "cli/markdown.h"

#include "cli/manual.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Text of a paragraph, or of a cell of a table. What is between backquotes stays as it is, but for what
 * ends a cell. */
static void put_text(const char *text, bool cell, FILE *out) {
    bool code = false;
    for (const char *at = text; *at; at++) {
        code ^= *at == '`';
        bool escaped = (cell && *at == '|') || (!code && strchr("*<", *at));
        fputs(escaped ? "\\" : "", out);
        fputc(*at, out);
    }
}

static void put_paragraphs(const char *text, FILE *out) {
    if (text) {
        fputc('\n', out);
        put_text(text, false, out);
    }
}

static void put_forms(const struct culm_usage *usage, FILE *out) {
    fputs("\n```\n", out);
    size_t len;
    for (const char *at = usage->arguments, *form; (form = culm_usage_form(&at, &len));) {
        fprintf(out, "culm %s%s%.*s%s\n", usage->command, len ? " " : "", (int)len, form,
                usage->option_count ? " [OPTION]..." : "");
    }
    fputs("```\n", out);
}

static void put_options(const struct culm_usage *usage, FILE *out) {
    fputs(usage->option_count ? "\n| option | meaning |\n|---|---|\n" : "", out);
    for (size_t i = 0; i < usage->option_count; i++) {
        const struct culm_option *option = &usage->options[i];
        fprintf(out, "| `--%s%s", option->name, option->value ? " " : "");
        put_text(option->value ? option->value : "", true, out);
        fputs("` | ", out);
        put_text(option->doc, true, out);
        fputs(" |\n", out);
    }
}

static void put_usage(const struct culm_usage *usage, FILE *out) {
    fprintf(out, "\n### `culm %s`\n\n", usage->command);
    put_text(usage->summary, false, out);
    fputs(".\n", out);
    put_forms(usage, out);
    put_options(usage, out);
    char *remark = usage->remark ? usage->remark() : NULL;
    put_paragraphs(remark, out);
    free(remark);
    put_paragraphs(usage->details, out);
}

void culm_markdown_command(const struct culm_command *command, FILE *out) {
    put_usage(command->usage, out);
    for (const struct culm_usage *const *part = command->usage->parts; part && *part; part++) {
        put_usage(*part, out);
    }
}

static void put_rows(const char *title, const char *of, const struct culm_manual_row *rows,
                     FILE *out) {
    fprintf(out, "\n### %s\n\n| %s | meaning |\n|---|---|\n", title, of);
    for (; rows->name; rows++) {
        fprintf(out, "| `%s` | ", rows->name);
        put_text(rows->means, true, out);
        fputs(" |\n", out);
    }
}

void culm_markdown_commands(FILE *out) {
    for (const struct culm_command *row = culm_commands(); row->name; row++) {
        if (row->usage) {
            culm_markdown_command(row, out);
        }
    }
    put_rows("Exit codes", "code", culm_manual_exit_codes, out);
    put_rows("Environment variables", "variable", culm_manual_variables, out);
}
