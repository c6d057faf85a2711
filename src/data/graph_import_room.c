/* Memory that importing a graph takes. See graph_import_room.h. */
#include "data/graph_import_room.h"

#include "base/machine.h"

/* What is there at once, at most. */
enum {
    SORTED = 8,    /* a vertex: where its edges begin */
    LABELLED = 12, /* its label, as it was read and as a number */
    FEATURED = 8,  /* where its features begin */
    PER_EDGE = 16  /* two ids, twice while edges are sorted */
};

struct culm_graph_room culm_graph_room_of(bool labels, bool features) {
    return (struct culm_graph_room){.machine = (double)culm_machine_memory(),
                                    .per_vertex = SORTED + (labels ? LABELLED : 0) +
                                                  (features ? FEATURED : 0)};
}

enum culm_status culm_graph_room_check(const struct culm_graph_room *room, int64_t vertices,
                                       int64_t edges, struct culm_error *error) {
    double bytes = room->per_vertex * (double)vertices + PER_EDGE * (double)edges;
    return bytes <= room->machine
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_MEMORY,
                                "%lld vertices with %lld edges take %.0f GB to import; there are "
                                "%.0f GB here",
                                (long long)vertices, (long long)edges, bytes / 1e9,
                                room->machine / 1e9);
}
