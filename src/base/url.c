/* See url.h. */
#include "base/url.h"

#include <stdbool.h>
#include <string.h>

#define HIDDEN "***"

static bool is_blank(char c) { return !c || strchr(" \t\r\n\"", c) != NULL; }

static bool is_behind(char c) { return is_blank(c) || strchr(",;:.)", c) != NULL; }

/* How long what follows "://" is. Between single quotes it ends with the last one of the word that something
 * can follow: a password may have some, too. */
static size_t length_of(const char *text, bool quoted) {
    size_t word = 0, end = 0;
    for (; !is_blank(text[word]); word++) {
        end = quoted && text[word] == '\'' && is_behind(text[word + 1]) ? word : end;
    }
    return end ? end : word;
}

/* How much of it is `user:password`; 0: nothing. A password may have what begins a path, as in "u:a/b@host"; but
 * what has a port alone in front of its path is none. */
static size_t secret_of(const char *url, size_t len) {
    size_t name = 0, colon = 0, digits = 0, inside = 0, last = 0, asked = len;
    while (name < len && !strchr("/?#", url[name])) {
        colon = url[name] == ':' && !colon ? name + 1 : colon;
        inside = url[name] == '@' ? name : inside;
        name++;
    }
    while (colon && colon + digits < name && strchr("0123456789", url[colon + digits])) {
        digits++;
    }
    const bool has_user = colon && colon + digits < name && !inside;
    for (size_t i = 0; i < len; i++) {
        const bool path = i > name && url[name] == '/';
        asked = url[i] == '?' && path && asked == len ? i : asked;
        last = url[i] == '@' && i < asked ? i : last;
    }
    return has_user ? last : inside;
}

void culm_url_show(const char *text, char *ret_text, size_t size) {
    size_t len = 0;
    bool quoted = false;
    while (*text && len + 1 < size) {
        const bool letter = strchr("+-.", *text) || (*text >= '0' && *text <= '9') ||
                            (*text >= 'A' && *text <= 'Z') || (*text >= 'a' && *text <= 'z');
        ret_text[len++] = *text;
        quoted = letter || *text == ':' || *text == '/' ? quoted : *text == '\'';
        text++;
        if (len < 3 || memcmp(ret_text + len - 3, "://", 3) != 0) {
            continue;
        }
        const size_t url = length_of(text, quoted), host = secret_of(text, url);
        size_t asked = host;
        while (asked < url && text[asked] != '?') {
            asked++;
        }
        for (const char *c = host ? HIDDEN : ""; *c && len + 1 < size; c++) {
            ret_text[len++] = *c;
        }
        for (size_t i = host; i < url && i <= asked && len + 1 < size; i++) {
            ret_text[len++] = text[i];
        }
        for (const char *c = asked < url ? HIDDEN : ""; *c && len + 1 < size; c++) {
            ret_text[len++] = *c;
        }
        text += url;
        quoted = false;
    }
    ret_text[len] = '\0';
}
