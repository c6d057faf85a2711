/*
 * Whether the machine has the memory that importing a graph takes. A wrong id in a file otherwise
 * makes a graph of billions of vertices, and the process is killed. Thread: any.
 */
#ifndef CULM_DATA_GRAPH_IMPORT_ROOM_H
#define CULM_DATA_GRAPH_IMPORT_ROOM_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct culm_graph_room {
    double machine, per_vertex; /* bytes */
};

struct culm_graph_room culm_graph_room_of(bool labels, bool features);
/* CULM_ERR_MEMORY: this many vertices and edges take more than the machine has. */
enum culm_status culm_graph_room_check(const struct culm_graph_room *room, int64_t vertices,
                                       int64_t edges, struct culm_error *error);

#endif
