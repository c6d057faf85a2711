/* Loads libcurl. See curl.h. */
#include "cloud/curl.h"

#include "base/library.h"

static struct culm_curl curl;

static bool begin(void) { return curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK; }

const struct culm_curl *culm_curl_load(struct culm_error *error) {
#define ROW(name) {"curl_" #name, &curl.name},
    static const struct culm_library_function functions[] = {CULM_CURL_FUNCTIONS(ROW)};
#undef ROW
    static struct culm_library library = {.name = "libcurl.so.4",
                                          .package = "libcurl4",
                                          .oldest = "7.85",
                                          .functions = functions,
                                          .count = sizeof functions / sizeof *functions,
                                          .begin = begin};
    return culm_library_load(&library, error) == CULM_OK ? &curl : NULL;
}
