/* Branches of a run. See past.h. */
#include "interval/past.h"

#include "base/mark.h"

#include <string.h>

void culm_gnn_past_add(struct culm_gnn_past *past, uint32_t attempt, int64_t version) {
    while (past->count > 0 && past->branch[past->count - 1].version >= version) {
        past->count--; /* all of it is undone */
    }
    if (past->count == CULM_GNN_BRANCHES_MAX) {
        CULM_MARK(interval_past_is_cut);
        past->cut = true;
        memmove(past->branch, past->branch + 1, (size_t)--past->count * sizeof *past->branch);
    }
    past->branch[past->count++] = (struct culm_gnn_branch){attempt, version};
}

uint32_t culm_gnn_past_branch(const struct culm_gnn_past *past) {
    return past->count > 0 ? past->branch[past->count - 1].attempt : 0;
}

bool culm_gnn_past_names(const struct culm_gnn_past *past, int64_t version, uint32_t branch) {
    int64_t most = INT64_MAX;
    for (int32_t b = past->count - 1; b >= 0; b--) {
        if (branch >= past->branch[b].attempt) {
            return version <= most;
        }
        most = past->branch[b].version;
    }
    return !past->cut && version <= most;
}

uint32_t culm_gnn_branch_read(const json_t *progress) {
    const json_int_t branch = json_integer_value(json_object_get(progress, "branch"));
    return branch > 0 && branch <= UINT32_MAX ? (uint32_t)branch : 0;
}
