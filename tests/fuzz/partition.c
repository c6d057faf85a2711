/*
 * Fuzz target: files that say which interval each vertex is in, as text or as .npy. Any bytes are refused
 * with one line, or give every vertex an interval that there is, and every interval a vertex.
 *
 * The first byte says how many vertices there are, and how many intervals.
 */
#include "memory_file.h"

#include "gnn/partition.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int64_t vertices = size ? 1 + data[0] % 16 : 1, intervals = size ? 1 + data[0] / 16 % 8 : 1;
    uint64_t start[17] = {0};
    uint32_t none[1] = {0};
    bool there[8] = {false};
    char path[64];
    const struct culm_adjacency neighbours = {.vertices = vertices, .start = start, .column = none};
    struct culm_partition partition;
    struct culm_error error = {0};
    int fd = memory_file(size ? data + 1 : data, size ? size - 1 : 0, path);
    const struct culm_partition_options options = {
        .intervals = intervals, .method = CULM_PARTITION_FILE, .path = path};
    if (culm_partition_of(&neighbours, &options, &partition, &error) != CULM_OK) {
        FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'", error.text);
        close(fd);
        return 0;
    }
    FUZZ_REQUIRE(partition.vertices == vertices && partition.intervals == intervals &&
                     partition.first[0] == 0 && partition.first[intervals] == vertices,
                 "%lld vertices, %lld intervals", (long long)partition.vertices,
                 (long long)partition.intervals);
    for (int64_t v = 0; v < vertices; v++) {
        FUZZ_REQUIRE(partition.interval[v] < intervals, "vertex %lld is in %u", (long long)v,
                     partition.interval[v]);
        there[partition.interval[v]] = true;
    }
    for (int64_t k = 0; k < intervals; k++) {
        FUZZ_REQUIRE(there[k], "interval %lld is empty", (long long)k);
    }
    culm_partition_release(&partition);
    close(fd);
    return 0;
}
