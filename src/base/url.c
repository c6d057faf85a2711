/* See url.h. */
#include "base/url.h"

#include <stdbool.h>
#include <string.h>

#define HIDDEN "***"

static bool is_url_end(char c) { return !c || strchr(" \t\r\n'\"<>|", c) != NULL; }

void culm_url_show(const char *text, char *ret_text, size_t size) {
    size_t len = 0;
    while (*text && len + 1 < size) {
        ret_text[len++] = *text++;
        if (len < 3 || memcmp(ret_text + len - 3, "://", 3) != 0) {
            continue;
        }
        size_t url = 0, host = 0, asked = 0; /* lengths from here; 0: there is none */
        bool path = false;
        for (; !is_url_end(text[url]); url++) {
            path |= text[url] == '/' || text[url] == '?' || text[url] == '#';
            host = text[url] == '@' && !path ? url : host;
            asked = text[url] == '?' && !asked ? url : asked;
        }
        const size_t from = host, to = asked ? asked + 1 : url;
        for (const char *c = host ? HIDDEN : ""; *c && len + 1 < size; c++) {
            ret_text[len++] = *c;
        }
        for (size_t i = from; i < to && len + 1 < size; i++) {
            ret_text[len++] = text[i];
        }
        for (const char *c = asked ? HIDDEN : ""; *c && len + 1 < size; c++) {
            ret_text[len++] = *c;
        }
        text += url;
    }
    ret_text[len] = '\0';
}
