/*
 * libcurl, loaded at run time when it is first needed. It depends on some thirty libraries; runs
 * that invoke no functions, and keep no checkpoints in a bucket, do not wait for them to load, and they are not part of a function's
 * package.
 */
#ifndef CULM_CLOUD_CURL_H
#define CULM_CLOUD_CURL_H

#include "base/status.h"

#define CURL_DISABLE_TYPECHECK /* its macros would call functions that are not linked */
#include <curl/curl.h>

#define CULM_CURL_FUNCTIONS(ROW)                                                                   \
    ROW(global_init)                                                                               \
    ROW(easy_init)                                                                                 \
    ROW(easy_setopt)                                                                               \
    ROW(easy_perform)                                                                              \
    ROW(easy_getinfo)                                                                              \
    ROW(easy_reset)                                                                                \
    ROW(easy_cleanup)                                                                              \
    ROW(easy_strerror)                                                                             \
    ROW(slist_append)                                                                              \
    ROW(slist_free_all)                                                                            \
    ROW(multi_init)                                                                                \
    ROW(multi_add_handle)                                                                          \
    ROW(multi_remove_handle)                                                                       \
    ROW(multi_perform)                                                                             \
    ROW(multi_poll)                                                                                \
    ROW(multi_wakeup)                                                                              \
    ROW(multi_info_read)                                                                           \
    ROW(multi_cleanup)

struct culm_curl {
#define ROW(name) __typeof__(curl_##name) *name;
    CULM_CURL_FUNCTIONS(ROW)
#undef ROW
};

/* The table; the same at each call. NULL: libcurl is not installed, or too old (CULM_ERR_MACHINE).
 * Thread: any. */
const struct culm_curl *culm_curl_load(struct culm_error *error);

#endif
