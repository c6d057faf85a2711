/* Calls of the library that must work, and calls that must fail with one line that says why. */
#ifndef CULM_TESTS_API_CALL_H
#define CULM_TESTS_API_CALL_H

#include <culm/status.h>

#include <string.h>

static struct culm_error error;

#define MUST(call_)                                                                                \
    do {                                                                                           \
        if ((call_) != CULM_OK) {                                                                  \
            fail_msg("%s", error.text);                                                            \
        }                                                                                          \
    } while (0)

#define FAILS(status_, call_)                                                                      \
    do {                                                                                           \
        memset(&error, 0, sizeof error);                                                           \
        enum culm_status got_ = call_;                                                             \
        if (got_ != (status_) || error.status != got_) {                                           \
            fail_msg("%s: %s", culm_status_name(got_), error.text);                                \
        }                                                                                          \
        assert_true(error.text[0] && !strchr(error.text, '\n'));                                   \
    } while (0)

#endif
