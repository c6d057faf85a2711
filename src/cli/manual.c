/* Manual pages. See manual.h. */
#include "cli/manual.h"

#include "run/references.h"

#include <culm.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* --- roff ---------------------------------------------------------------------------------------- */

/* A letter of text; `literal`: a hyphen is what a user types, not a mark of punctuation. */
static void put_letter(char letter, bool literal, FILE *out) {
    switch (letter) {
    case '\\': fputs("\\e", out); break;
    case '\'': fputs("\\(aq", out); break;
    case '^': fputs("\\(ha", out); break;
    case '~': fputs("\\(ti", out); break;
    case '-': fputs(literal ? "\\-" : "-", out); break;
    default: fputc(letter, out);
    }
}

/* Prose: `this` is bold, and so is whatever begins like an option. */
static void put_prose(const char *text, FILE *out) {
    bool bold = false, option = false;
    for (const char *at = text; *at; at++) {
        bool begins = at == text || strchr(" \n('/", at[-1]);
        if (begins && at[0] == '-' && at[1] == '-' && !bold) {
            option = true;
            fputs("\\fB", out);
        } else if (option && !isalnum((unsigned char)*at) && *at != '-') {
            option = false;
            fputs("\\fR", out);
        }
        if (*at == '`') {
            bold = !bold;
            fputs(bold ? "\\fB" : "\\fR", out);
        } else {
            put_letter(*at, bold || option, out);
        }
    }
    fputs(bold || option ? "\\fR" : "", out);
}

/* Paragraphs, whose lines are filled anew. */
static void put_paragraphs(const char *text, FILE *out) {
    while (text && *text) {
        size_t len = strcspn(text, "\n");
        char line[512];
        snprintf(line, sizeof line, "%.*s", (int)len, text);
        const char *words = line + strspn(line, " ");
        if (!*words) {
            fputs(".PP\n", out);
        } else {
            fputs(strchr(".'", *words) ? "\\&" : "", out);
            put_prose(words, out);
            fputc('\n', out);
        }
        text += len + (text[len] == '\n');
    }
}

/* One sentence: with a capital, and ended. */
static void put_sentence(const char *text, FILE *out) {
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", text);
    /* A name that a user types keeps its small letter: "bert: ...". */
    if (strcspn(sentence, " ") < strcspn(sentence, ":")) {
        sentence[0] = (char)toupper((unsigned char)sentence[0]);
    }
    put_prose(sentence, out);
    fputs(sentence[0] && sentence[strlen(sentence) - 1] == '.' ? "\n" : ".\n", out);
}

/* "show NAME|CONFIG": what is typed as it is, bold; what stands for something, slanted. */
static void put_form(const char *form, size_t len, FILE *out) {
    for (size_t i = 0; i < len;) {
        size_t word = i;
        while (word < len && (isalnum((unsigned char)form[word]) || strchr("._-=", form[word]))) {
            word++;
        }
        if (word == i) {
            put_letter(form[i++], false, out);
            continue;
        }
        fputs(isupper((unsigned char)form[i]) ? "\\fI" : "\\fB", out);
        while (i < word) {
            put_letter(form[i++], true, out);
        }
        fputs("\\fR", out);
    }
}

static void put_title(const char *page, const char *section, FILE *out) {
    fprintf(out,
            ".\\\" Made from the option tables by 'culm help --man'.\n.TH \"%s\" \"%s\" \"\" "
            "\"Culm %s\" \"Culm\"\n.ad l\n.nh\n",
            page, section, culm_version());
}

/* "culm-train(1), ...": every page but this one. */
static void put_see_also(const char *page, FILE *out) {
    bool config = strcmp(page, "culm.yaml") == 0, top = strcmp(page, "culm") == 0;
    fputs(top ? ".SH SEE ALSO\n" : ".SH SEE ALSO\n.BR culm (1)", out);
    const char *between = top ? "" : ",\n";
    for (const struct culm_command *row = culm_commands(); row->name; row++) {
        if (row->usage && strcmp(page, row->name) != 0) {
            fprintf(out, "%s.BR culm\\-%s (1)", between, row->name);
            between = ",\n";
        }
    }
    fputs(config ? "\n" : ",\n.BR culm.yaml (5)\n", out);
}

/* --- culm(1) ------------------------------------------------------------------------------------- */

const struct culm_manual_row culm_manual_exit_codes[] = {
    {"0", "the command did what it was asked to"},
    {"1", "it failed; `culm ckpt diff` and `culm report --against`: the two differ"},
    {"2", "the command line is wrong"},
    {"3", "the configuration or an input is wrong; what was saved before that showed is kept"},
    {"4", "the environment failed: the disk is full, memory ran out, a permission is missing"},
    {"75",
     "a signal stopped the run; a checkpoint holds all that was done, and `--resume` continues"},
    {0},
};

const struct culm_manual_row culm_manual_variables[] = {
    {"NO_COLOR", "if it is set, the terminal gets no colours"},
    {"TERM", "if it is `dumb`, output has plain lines only, as for a file or a pipe"},
    {"CULM_ISA",
     "the instruction set of the kernels: avx512_bf16, avx512, avx2, neon or base; results are the "
     "same bits"},
    {"CULM_BF16_FLAVOUR",
     "how products of bf16 numbers are summed: amx or portable; results differ in their bits"},
    {0},
};

static void put_rows(const struct culm_manual_row *rows, FILE *out) {
    for (; rows->name; rows++) {
        fprintf(out, ".TP\n.B %s\n", rows->name);
        put_sentence(rows->means, out);
    }
}

void culm_manual_program(FILE *out) {
    put_title("CULM", "1", out);
    fputs(".SH NAME\nculm \\- neural networks on unreliable or scarce hardware\n"
          ".SH SYNOPSIS\n.SY culm\n.I COMMAND\n.RI [ ARGUMENT ]...\n.YS\n"
          ".SH DESCRIPTION\n"
          "Culm trains and serves neural networks on hardware that is cheap because it is\n"
          "unreliable or scarce.\n"
          "It trains models in worker processes, any of which may vanish at any moment;\n"
          "merges vision models, so that many of them answer queries on live video in the\n"
          "memory of few; and trains graph networks with graph servers and short-lived workers.\n"
          "Losing processes loses no work, and the final weights are bit for bit those of a run\n"
          "in which nothing was lost.\n"
          ".SH COMMANDS\n",
          out);
    for (const struct culm_command *row = culm_commands(); row->name; row++) {
        if (row->usage) {
            fprintf(out, ".TP\n.BR culm\\-%s (1)\n", row->name);
            put_sentence(row->summary, out);
        }
    }
    fputs(".SH EXIT STATUS\n", out);
    put_rows(culm_manual_exit_codes, out);
    fputs(".SH ENVIRONMENT\n", out);
    put_rows(culm_manual_variables, out);
    put_see_also("culm", out);
}

/* --- a command ----------------------------------------------------------------------------------- */

/* One line of the synopsis for each form. */
static void put_synopsis(const struct culm_usage *usage, FILE *out) {
    size_t len;
    fputs(".SH SYNOPSIS\n", out);
    for (const char *at = usage->arguments, *form; (form = culm_usage_form(&at, &len));) {
        fprintf(out, ".SY culm\\~%s\n", usage->command);
        if (len) {
            put_form(form, len, out);
            fputc('\n', out);
        }
        fputs(usage->option_count ? ".RI [ OPTION ]...\n.YS\n" : ".YS\n", out);
    }
}

static void put_options(const struct culm_usage *usage, FILE *out) {
    for (size_t i = 0; i < usage->option_count; i++) {
        const struct culm_option *option = &usage->options[i];
        fputs(".TP\n", out);
        char name[64];
        snprintf(name, sizeof name, "--%s", option->name);
        put_form(name, strlen(name), out);
        if (option->value) {
            /* Words to choose from are bold, as they are typed so. */
            fputs(" ", out);
            fputs(option->words ? "" : "\\fI", out);
            for (const char *at = option->value; *at; at++) {
                put_letter(*at, true, out);
            }
            fputs(option->words ? "" : "\\fR", out);
        }
        fputc('\n', out);
        put_sentence(option->doc, out);
    }
}

static void put_description(const struct culm_usage *usage, FILE *out) {
    put_sentence(usage->summary, out);
    char *remark = usage->remark ? usage->remark() : NULL;
    if (remark) {
        fputs(".PP\n", out);
        put_paragraphs(remark, out);
    }
    free(remark);
    if (usage->details) {
        fputs(".PP\n", out);
        put_paragraphs(usage->details, out);
    }
}

void culm_manual_command(const struct culm_command *command, FILE *out) {
    const struct culm_usage *usage = command->usage;
    char title[64];
    snprintf(title, sizeof title, "CULM-%s", command->name);
    for (char *at = title; *at; at++) {
        *at = (char)toupper((unsigned char)*at);
    }
    put_title(title, "1", out);
    fprintf(out, ".SH NAME\nculm\\-%s \\- ", command->name);
    put_prose(command->summary, out);
    fputc('\n', out);
    put_synopsis(usage, out);
    fputs(".SH DESCRIPTION\n", out);
    put_description(usage, out);
    fputs(usage->option_count ? ".SH OPTIONS\n" : "", out);
    put_options(usage, out);
    for (const struct culm_usage *const *part = usage->parts; part && *part; part++) {
        char name[64];
        snprintf(name, sizeof name, "CULM %s", (*part)->command);
        for (char *at = name; *at; at++) {
            *at = (char)toupper((unsigned char)*at);
        }
        fprintf(out, ".SH %s\n", name);
        put_description(*part, out);
        put_options(*part, out);
    }
    put_see_also(command->name, out);
}

/* --- culm.yaml(5) -------------------------------------------------------------------------------- */

static void put_key(void *ctx, const struct culm_config_entry *entry) {
    FILE *out = ctx;
    fprintf(out, ".TP\n.B %s\n", entry->key);
    put_sentence(entry->row->doc, out);
    if (!entry->value) {
        fputs("Required.\n", out);
    } else if (*entry->value) {
        fputs("Default: ", out);
        put_prose(entry->value, out);
        fputs(".\n", out);
    }
    fputs("Allowed: ", out);
    put_prose(entry->allowed, out);
    fputs(".\n", out);
    if (entry->row->flags & CULM_CONFIG_RESUMABLE) {
        fputs("May change on\n.BR \\-\\-resume .\n", out);
    } else if (entry->row->flags & CULM_CONFIG_SETTING) {
        fputs("May be set on\n.BR \\-\\-resume ,\nfrom then on.\n", out);
    } else if (entry->row->flags & CULM_CONFIG_INPUT) {
        fputs("May change on\n.B \\-\\-resume\nwith\n.BR \\-\\-accept\\-inputs .\n", out);
    }
}

void culm_manual_config(FILE *out) {
    put_title("CULM.YAML", "5", out);
    fputs(
        ".SH NAME\nculm.yaml \\- configuration of a training run\n"
        ".SH DESCRIPTION\n"
        "The configuration of a run is a YAML file of any name: maps, lists and plain values; no\n"
        "anchors, tags or repeated keys.\n"
        "A key below is written with dots for the maps that it is in:\n"
        ".B optimizer.lr\nis\n.B lr\nin the map\n.BR optimizer .\n"
        "Every key may also be given on the command line, as\n.BI \\-\\-set\\~ key = "
        "value\\fR.\\fP\n"
        "Paths are relative to the current directory.\n"
        "A mistake is answered with one line that names the file, the line and the key.\n"
        ".SH KEYS\n",
        out);
    culm_config_keys(put_key, out);
    fputs(".SH EXAMPLE\n.EX\nmodel: {name: gpt2, context: 256}\ndata: {kind: text, path: "
          "[book.txt]}\n"
          "stages: 2\nsteps: 1000\n.EE\n",
          out);
    put_see_also("culm.yaml", out);
}
