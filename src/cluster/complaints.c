/* The last few kinds of errors. See complaints.h. */
#include "cluster/complaints.h"

#include <stdio.h>
#include <string.h>

static bool alike(const char *a, const char *b) {
    while (*a && *b) {
        a += strspn(a, "0123456789");
        b += strspn(b, "0123456789");
        if (*a != *b) {
            return false;
        }
        a += *a != 0;
        b += *b != 0;
    }
    return !*a && !*b;
}

bool culm_complaints_hear(struct culm_complaints *complaints, struct culm_error *error,
                          uint64_t now_ns) {
    for (int32_t i = 0; i < CULM_COMPLAINTS_KINDS; i++) {
        if (!alike(complaints->kind[i].text, error->text)) {
            continue;
        }
        if (now_ns < complaints->kind[i].said_ns + CULM_COMPLAINTS_AGAIN_NS) {
            complaints->kind[i].more++;
            return false;
        }
        if (complaints->kind[i].more) {
            const struct culm_error one = *error;
            culm_error_set(error, one.status, "%s (and %lld more like it)", one.text,
                           (long long)complaints->kind[i].more);
        }
        complaints->kind[i].said_ns = now_ns;
        complaints->kind[i].more = 0;
        return true;
    }
    int32_t place = complaints->next++ % CULM_COMPLAINTS_KINDS;
    complaints->next %= CULM_COMPLAINTS_KINDS;
    memcpy(complaints->kind[place].text, error->text, sizeof error->text);
    complaints->kind[place].said_ns = now_ns;
    complaints->kind[place].more = 0;
    return true;
}
