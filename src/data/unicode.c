/* Characters and cuts; see the header. The properties come from utf8proc. */
#include "data/unicode.h"

#include <string.h>
#include <utf8proc.h>

const char *culm_unicode_version(void) { return utf8proc_version(); }

size_t culm_unicode_next(const char *text, size_t len, size_t at, int32_t *ret_char) {
    uint8_t first = (uint8_t)text[at];
    if (first < 0x80) {
        *ret_char = first;
        return 1;
    }
    utf8proc_int32_t c;
    utf8proc_ssize_t most = len - at < 4 ? (utf8proc_ssize_t)(len - at) : 4;
    utf8proc_ssize_t size = utf8proc_iterate((const utf8proc_uint8_t *)text + at, most, &c);
    if (size < 1) {
        *ret_char = CULM_UNICODE_NONE;
        return 1;
    }
    *ret_char = c;
    return (size_t)size;
}

/* What may follow the first byte of a character, by the table of well-formed sequences. */
struct sequence {
    uint8_t first, last; /* of the first bytes */
    uint8_t second_least, second_most;
    size_t size;
};
static const struct sequence sequences[] = {
    {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3}, {0xE1, 0xEC, 0x80, 0xBF, 3},
    {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3}, {0xF0, 0xF0, 0x90, 0xBF, 4},
    {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
};

/* How many of these bytes, which are no character, are the beginning of one; at least 1. */
static size_t broken_len(const char *text, size_t len) {
    const uint8_t *byte = (const uint8_t *)text;
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++) {
        const struct sequence *s = &sequences[i];
        if (byte[0] < s->first || byte[0] > s->last) {
            continue;
        }
        if (len < 2 || byte[1] < s->second_least || byte[1] > s->second_most) {
            return 1;
        }
        size_t at = 2;
        while (at < len && at < s->size && byte[at] >= 0x80 && byte[at] <= 0xBF) {
            at++;
        }
        return at;
    }
    return 1;
}

bool culm_unicode_repair(const char *text, size_t len, char *ret_text, size_t *ret_len) {
    static const char replacement[3] = {'\xEF', '\xBF', '\xBD'};
    bool whole = true;
    size_t written = 0;
    for (size_t at = 0; at < len;) {
        int32_t c;
        const char *from = text + at;
        size_t size = culm_unicode_next(text, len, at, &c), put = size;
        if (c == CULM_UNICODE_NONE) {
            whole = false;
            size = broken_len(text + at, len - at);
            from = replacement;
            put = sizeof replacement;
        }
        if (ret_text) {
            memcpy(ret_text + written, from, put);
        }
        written += put;
        at += size;
    }
    *ret_len = written;
    return whole;
}

static bool is_space(int32_t c) { /* the property White_Space */
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

enum culm_unicode_class culm_unicode_class_of(int32_t c) {
    if (c < 0x80) {
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        return letter                  ? CULM_UNICODE_LETTER
               : c >= '0' && c <= '9'  ? CULM_UNICODE_NUMBER
               : c >= 0 && is_space(c) ? CULM_UNICODE_SPACE
                                       : CULM_UNICODE_OTHER;
    }
    if (is_space(c)) {
        return CULM_UNICODE_SPACE;
    }
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return CULM_UNICODE_LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return CULM_UNICODE_NUMBER;
    default: return CULM_UNICODE_OTHER;
    }
}

/* The end of the run of characters of `class` from `at` on; ret_last: where its last begins. */
static size_t run_end(const char *text, size_t len, size_t at, enum culm_unicode_class class,
                      size_t *ret_last) {
    *ret_last = at;
    while (at < len) {
        int32_t c;
        size_t size = culm_unicode_next(text, len, at, &c);
        if (culm_unicode_class_of(c) != class) {
            break;
        }
        *ret_last = at;
        at += size;
    }
    return at;
}

static size_t contraction(const char *text, size_t len) {
    static const char *const ends[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t size = strlen(ends[i]);
        if (len > size && !memcmp(text + 1, ends[i], size)) {
            return 1 + size;
        }
    }
    return 0;
}

size_t culm_unicode_gpt2_piece(const char *text, size_t len, size_t at) {
    int32_t c;
    size_t last, from = at;
    if (text[at] == '\'') {
        size_t size = contraction(text + at, len - at);
        if (size) {
            return at + size;
        }
    }
    if (text[at] == ' ' && at + 1 < len) {
        from++; /* one blank goes with what follows, if that is not white space */
    }
    culm_unicode_next(text, len, from, &c);
    enum culm_unicode_class class = culm_unicode_class_of(c);
    if (class != CULM_UNICODE_SPACE) {
        return run_end(text, len, from, class, &last);
    }
    size_t end = run_end(text, len, at, CULM_UNICODE_SPACE, &last);
    return end < len && last > at ? last : end; /* the last one is left for what follows */
}

bool culm_unicode_next_word(const char *text, size_t len, size_t *at, size_t *ret_word,
                            size_t *ret_len) {
    size_t word = *at;
    while (*at < len) {
        int32_t c;
        size_t next = *at + culm_unicode_next(text, len, *at, &c);
        bool space = culm_unicode_class_of(c) == CULM_UNICODE_SPACE;
        if (space && *at > word) {
            break;
        }
        word = space ? next : word;
        *at = next;
    }
    *ret_word = word;
    *ret_len = *at - word;
    return *at > word;
}

bool culm_unicode_is_control(int32_t c) {
    if (c == '\t' || c == '\n' || c == '\r') {
        return false;
    }
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CS: return true;
    default: return false;
    }
}

bool culm_unicode_is_punctuation(int32_t c) {
    if (c < 0x80) {
        return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
               (c >= '{' && c <= '~');
    }
    utf8proc_category_t category = utf8proc_category(c);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool culm_unicode_is_chinese(int32_t c) {
    static const int32_t range[][2] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                       {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                       {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
    for (size_t i = 0; i < sizeof range / sizeof range[0]; i++) {
        if (c >= range[i][0] && c <= range[i][1]) {
            return true;
        }
    }
    return false;
}

bool culm_unicode_is_mark(int32_t c) { return utf8proc_category(c) == UTF8PROC_CATEGORY_MN; }

int culm_unicode_decompose(int32_t c, int32_t ret_chars[CULM_UNICODE_EXPANSION]) {
    int class = 0;
    utf8proc_ssize_t count =
        utf8proc_decompose_char(c, ret_chars, CULM_UNICODE_EXPANSION, UTF8PROC_DECOMPOSE, &class);
    if (count < 1 || count > CULM_UNICODE_EXPANSION) {
        ret_chars[0] = c;
        return 1;
    }
    return (int)count;
}

int culm_unicode_lower(int32_t c, int32_t ret_chars[CULM_UNICODE_EXPANSION]) {
    if (c == 0x130) { /* the one letter whose lower case is two */
        ret_chars[0] = 'i';
        ret_chars[1] = 0x307;
        return 2;
    }
    ret_chars[0] = utf8proc_tolower(c);
    return 1;
}

size_t culm_unicode_put(int32_t c, char ret_bytes[4]) {
    return (size_t)utf8proc_encode_char(c, (utf8proc_uint8_t *)ret_bytes);
}
