/* What executors do with a depot, or without one. See depot.h. */
#include "store/depot.h"

const char *culm_depot_folder(const struct culm_depot *depot, const char *run_dir, const char *to) {
    return to[0] && !depot ? to : run_dir;
}

enum culm_status culm_depot_hand_over(struct culm_depot *depot, const char *run_dir, int64_t step,
                                      enum culm_status written, const struct culm_piece *piece,
                                      const char *to, const struct culm_read_hook *hook,
                                      struct culm_error *error) {
    enum culm_status status = written;
    if (!depot) {
        return status;
    }
    if (status == CULM_OK) {
        status = depot->ops->put(depot, run_dir, step, piece, to, hook, error);
    }
    (void)culm_checkpoint_discard(NULL, run_dir, step, NULL);
    return status;
}

enum culm_status culm_depot_find(struct culm_depot *depot, const char *run_dir, int64_t step,
                                 const char *path, char ret_path[CULM_PATH_MAX],
                                 const struct culm_read_hook *hook, struct culm_error *error) {
    return depot ? depot->ops->get(depot, run_dir, step, ret_path, hook, error)
                 : culm_path_format(ret_path, error, "%s", path);
}
