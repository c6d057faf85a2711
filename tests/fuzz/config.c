/*
 * Fuzz target: the configuration of `culm train`. Any bytes are accepted or refused with a message,
 * and what is accepted survives dump and parse.
 *
 * A first line "--set TEXT" is taken off the input and applied as a set.
 */
#include "fuzz.h"

#include "base/yaml.h"
#include "train/config.h"

#include <stdlib.h>
#include <string.h>

static void check_round_trip(const struct culm_train_config *config) {
    struct culm_train_config again;
    struct culm_error error = {0};
    char *text = culm_train_config_dump(config);
    if (!text || strlen(text) > CULM_YAML_MAX_BYTES) {
        free(text); /* escapes may make a huge list of paths larger than a reader takes */
        return;
    }
    FUZZ_REQUIRE(culm_train_config_parse(text, strlen(text), "dump", NULL, 0, &again, &error) ==
                     CULM_OK,
                 "%s\n%s", error.text, text);
    FUZZ_REQUIRE(culm_train_config_resumable(config, &again, 0, &error) == CULM_OK, "%s",
                 error.text);
    char *twice = culm_train_config_dump(&again);
    FUZZ_REQUIRE(twice && !strcmp(text, twice), "%s\n%s", text, twice);
    free(twice);
    free(text);
    culm_train_config_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    const char *set = NULL, *yaml = text;
    char *newline = memchr(text, '\n', size);
    if (newline && !strncmp(text, "--set ", 6)) {
        *newline = '\0';
        set = text + 6;
        yaml = newline + 1;
    }

    struct culm_train_config config;
    struct culm_error error = {0};
    enum culm_status status = culm_train_config_parse(yaml, size - (size_t)(yaml - text), "fuzz",
                                                      &set, set ? 1 : 0, &config, &error);
    if (status == CULM_OK) {
        check_round_trip(&config);
        culm_train_config_release(&config);
    } else {
        FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'", error.text);
    }
    free(text);
    return 0;
}
