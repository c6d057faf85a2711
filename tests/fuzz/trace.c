/*
 * Fuzz target: preemption traces. Any bytes are refused with one line that names a place, or give
 * entries in the order of time that, written out and read again, are the same.
 */
#include "fuzz.h"

#include "cluster/trace.h"

#include "base/buf.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct culm_trace trace, again;
    struct culm_error error = {0};
    if (culm_trace_parse((const char *)data, size, "fuzz", &trace, &error) != CULM_OK) {
        FUZZ_REQUIRE(!strncmp(error.text, "fuzz:", 5) && !strchr(error.text, '\n'), "'%s'",
                     error.text);
        return 0;
    }
    struct culm_buf text;
    culm_buf_init(&text, (size_t)1 << 26);
    FUZZ_REQUIRE(trace.count > 0, "empty");
    for (size_t i = 0; i < trace.count; i++) {
        const struct culm_trace_entry *entry = &trace.entry[i];
        FUZZ_REQUIRE(i == 0 || trace.entry[i - 1].at_ms <= entry->at_ms, "entry %zu", i);
        culm_buf_printf(&text, "%lld,%s,%s\n", (long long)entry->at_ms,
                        entry->add ? "add" : "remove", entry->name);
    }
    FUZZ_REQUIRE(!text.failed && culm_trace_parse((const char *)text.data, text.len, "again",
                                                  &again, &error) == CULM_OK,
                 "'%s'", error.text);
    FUZZ_REQUIRE(again.count == trace.count, "%zu, then %zu", trace.count, again.count);
    for (size_t i = 0; i < trace.count; i++) {
        FUZZ_REQUIRE(again.entry[i].at_ms == trace.entry[i].at_ms &&
                         again.entry[i].add == trace.entry[i].add &&
                         !strcmp(again.entry[i].name, trace.entry[i].name),
                     "entry %zu", i);
    }
    culm_trace_release(&again);
    culm_trace_release(&trace);
    culm_buf_release(&text);
    return 0;
}
