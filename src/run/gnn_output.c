/* Keeps graphs and runs from being replaced by what is computed from them. */
#include "run/gnn_output.h"

#include "data/graph_data.h"
#include "launch/rundir.h"

enum culm_status culm_gnn_output_check(const char *path, struct culm_error *error) {
    char parent[CULM_PATH_MAX];
    enum culm_status status = culm_file_may_write(path, error);
    if (status == CULM_OK) {
        status = culm_path_parent(path, parent, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    if (culm_graph_data_is(parent)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--out '%s' is in the folder of a graph; name a file elsewhere",
                              path);
    }
    return culm_rundir_owns(path)
               ? culm_error_set(error, CULM_ERR_CONFIG,
                                "--out '%s' is a file of a run; name another", path)
               : CULM_OK;
}
