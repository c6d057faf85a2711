/* Loads libmosquitto. See mosquitto_library.h. */
#include "cloud/mosquitto_library.h"

#include "base/library.h"

static struct culm_mosquitto mosquitto;

static bool begin(void) { return mosquitto.lib_init() == MOSQ_ERR_SUCCESS; }

const struct culm_mosquitto *culm_mosquitto_load(struct culm_error *error) {
#define ROW(name) {"mosquitto_" #name, &mosquitto.name},
    static const struct culm_library_function functions[] = {CULM_MOSQUITTO_FUNCTIONS(ROW)};
#undef ROW
    static struct culm_library library = {.name = "libmosquitto.so.1",
                                          .package = "libmosquitto1",
                                          .oldest = "1.5",
                                          .functions = functions,
                                          .count = sizeof functions / sizeof *functions,
                                          .begin = begin};
    return culm_library_load(&library, error) == CULM_OK ? &mosquitto : NULL;
}
