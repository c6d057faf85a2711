/* Which frames of a file are asked for. See frames.h. */
#include "cli/frames.h"

#include <errno.h>
#include <stdlib.h>

enum culm_status culm_cli_read_frames(const char *text, int64_t *ret_first, int64_t *ret_end,
                                      struct culm_error *error) {
    char *end = (char *)(uintptr_t)text;
    int64_t first = 0, last = -1;
    bool right = *text >= '0' && *text <= '9';
    errno = 0;
    if (right) {
        first = strtoll(text, &end, 10);
        last = first < INT64_MAX ? first + 1 : first;
    }
    if ((right || *text == ':') && *end == ':') {
        const char *second = end + 1;
        right = (*second >= '0' && *second <= '9') || (!*second && text[0] != ':');
        last = *second ? strtoll(second, &end, 10) : -1;
        end += !*second;
    }
    if (!right || *end || errno || (last >= 0 && last <= first)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "frames '%.40s': write A:B for frames A to B - 1, counted from 0, A: "
                              "for all from A, or A for one",
                              text);
    }
    *ret_first = first;
    *ret_end = last < 0 ? 0 : last;
    return CULM_OK;
}
