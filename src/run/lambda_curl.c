/* Loads libcurl. See lambda_curl.h. */
#include "run/lambda_curl.h"

#include <dlfcn.h>

#define LIBRARY "libcurl.so.4"

const struct culm_curl *culm_curl_load(struct culm_error *error) {
    static struct culm_curl curl;
    static bool loaded;
    if (loaded) {
        return &curl;
    }
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        culm_error_set(error, CULM_ERR_MACHINE, "%s cannot be loaded; install libcurl4", LIBRARY);
        return NULL;
    }
    bool whole = true;
#define ROW(name)                                                                                  \
    *(void **)&curl.name = dlsym(library, "curl_" #name);                                          \
    whole = whole && curl.name;
    CULM_CURL_FUNCTIONS(ROW)
#undef ROW
    if (!whole || curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        culm_error_set(error, CULM_ERR_MACHINE, "%s is too old; install 7.75 or later", LIBRARY);
        return NULL;
    }
    loaded = true;
    return &curl;
}
