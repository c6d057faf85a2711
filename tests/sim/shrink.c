/* See shrink.h. */
#include "shrink.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* The end of this word, and whether it may differ: a number, a digest, or something with a number in it. */
static size_t word(const char *text, bool *ret_varies) {
    size_t end = 0;
    *ret_varies = false;
    while (text[end] && !isspace((unsigned char)text[end])) {
        *ret_varies |= isdigit((unsigned char)text[end++]) != 0;
    }
    return end;
}

bool shrink_same(const char *one, const char *other) {
    while (*one && *other) {
        bool varies[2];
        size_t length[2] = {word(one, &varies[0]), word(other, &varies[1])};
        if (varies[0] != varies[1] ||
            (!varies[0] && (length[0] != length[1] || memcmp(one, other, length[0]) != 0))) {
            return false;
        }
        one += length[0];
        other += length[1];
        one += strspn(one, " \n");
        other += strspn(other, " \n");
    }
    return *one == *other;
}

struct trying {
    shrink_play *play;
    void *context;
    char why[512]; /* of the whole */
    int tries;
};

static bool fails(struct trying *trying, uint32_t events) {
    const char *why = trying->play(trying->context, events);
    trying->tries++;
    return why && shrink_same(why, trying->why);
}

/* Those of the list of `events` from number `from` on, `count` of them. */
static uint32_t chunk(uint32_t events, int from, int count) {
    uint32_t found = 0;
    for (int bit = 0, at = 0; bit < 32; bit++) {
        if (events >> bit & 1) {
            found |= at >= from && at < from + count ? 1u << bit : 0;
            at++;
        }
    }
    return found;
}

uint32_t shrink(uint32_t events, shrink_play *play, void *context, int *ret_tries) {
    struct trying trying = {.play = play, .context = context};
    const char *why = play(context, events);
    *ret_tries = 1;
    if (!why) {
        return events;
    }
    snprintf(trying.why, sizeof trying.why, "%s", why);
    int chunks = 1;
    for (int count; (count = __builtin_popcount(events)) > 0;) {
        int size = (count + chunks - 1) / chunks;
        bool dropped = false;
        for (int from = 0; from < count && !dropped; from += size) {
            uint32_t rest = events & ~chunk(events, from, size);
            if (fails(&trying, rest)) {
                events = rest;
                dropped = true;
            }
        }
        if (!dropped && size == 1) {
            break;
        }
        if (!dropped) {
            chunks = 2 * chunks < count ? 2 * chunks : count;
        } else if (chunks > 1) {
            chunks--;
        }
    }
    *ret_tries += trying.tries;
    return events;
}

void shrink_print(uint64_t seed, uint32_t all, uint32_t left, const char *more, int tries,
                  const char *what) {
    printf("    %d of %d events are enough (%d histories): keep {%llu, 0x%x%s}; replay: %s --first "
           "%llu --count 1 "
           "--events 0x%x --log\n",
           __builtin_popcount(left), __builtin_popcount(all), tries, (unsigned long long)seed, left,
           more, what, (unsigned long long)seed, left);
}
