/*
 * Fuzz target: a workload. Any bytes are accepted or refused with a message of one line, and what is
 * accepted survives dump and parse.
 *
 * A first line "--set TEXT" is taken off the input and applied as a set.
 */
#include "fuzz.h"

#include "query/workload.h"

#include <stdlib.h>
#include <string.h>

static void check_round_trip(const struct culm_workload *workload) {
    struct culm_workload again;
    struct culm_error error = {0};
    struct culm_config_difference d;
    char *text = culm_config_dump_text(&culm_workload_table, workload);
    if (!text || strlen(text) > CULM_YAML_MAX_BYTES) {
        free(text); /* a dump writes every key of every query */
        return;
    }
    enum culm_status status =
        culm_workload_parse(text, strlen(text), "dump", NULL, 0, &again, &error);
    if (status == CULM_ERR_CONFIG && strstr(error.text, "too many values")) {
        free(text);
        return;
    }
    FUZZ_REQUIRE(status == CULM_OK, "%s\n%s", error.text, text);
    FUZZ_REQUIRE(!culm_config_differ(&culm_workload_table, workload, &again, 0, &d), "%s: %s, %s",
                 d.key, d.a, d.b);
    free(text);
    culm_workload_release(&again);
}

static void check_values(const struct culm_workload *workload) {
    for (size_t i = 0; i < workload->query_count; i++) {
        const struct culm_query_config *query = &workload->queries[i];
        FUZZ_REQUIRE(culm_workload_find(workload, query->name) == (int32_t)i, "%s", query->name);
        FUZZ_REQUIRE(query->feed_index < (int32_t)workload->feed_count, "%d", query->feed_index);
        FUZZ_REQUIRE(query->deviation[0] != 0, "%s", query->name);
    }
    FUZZ_REQUIRE(workload->edge.memory_bytes > 0 ||
                     (workload->edge.memory_share >= 0 && workload->edge.memory_share <= 1),
                 "%s", workload->edge.memory);
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
    struct culm_workload workload;
    struct culm_error error = {0};
    enum culm_status status = culm_workload_parse(yaml, size - (size_t)(yaml - text), "fuzz", &set,
                                                  set ? 1 : 0, &workload, &error);
    if (status == CULM_OK) {
        check_values(&workload);
        check_round_trip(&workload);
        culm_workload_release(&workload);
    } else {
        FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'", error.text);
    }
    free(text);
    return 0;
}
