/*
 * Labels of vertices from a file of text. Thread: any.
 */
#ifndef CULM_DATA_GRAPH_IMPORT_LABELS_H
#define CULM_DATA_GRAPH_IMPORT_LABELS_H

#include "data/graph_data.h"
#include "data/graph_import_room.h"

/* As they are written in the file. */
struct culm_graph_labels {
    const char *path; /* borrowed */
    char **word;      /* [count] by vertex; NULL: it has none */
    size_t count, capacity;
};

/* The lines are `id ... label` or labels alone, one for each vertex from 0, never both. A heading is
 * skipped: a first line without numbers before lines with ids, or a single word before labels that
 * are all numbers. CULM_ERR_FORMAT names the line, and so does
 * CULM_ERR_MEMORY if there is no room for a vertex. */
enum culm_status culm_graph_labels_read(const char *path, const struct culm_graph_room *room,
                                        struct culm_graph_labels *ret_labels,
                                        struct culm_error *error);
/* Sets labels, classes and their names. The graph must have all vertices that have labels. */
enum culm_status culm_graph_labels_set(const struct culm_graph_labels *labels,
                                       struct culm_graph_data *graph, struct culm_error *error);
void culm_graph_labels_release(struct culm_graph_labels *labels); /* fine on a zeroed struct */

#endif
