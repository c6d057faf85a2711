/* A tiny model's state whose values follow from the step, and a place to keep it: for tests. */
#ifndef TESTS_STORE_SAMPLE_H
#define TESTS_STORE_SAMPLE_H

#include "store/checkpoint.h"

#define SAMPLE_STAGES 3
#define SAMPLE_TENSORS 6 /* a stage: two parameters, each with its two states */

struct sample {
    char names[SAMPLE_STAGES][SAMPLE_TENSORS][64];
    float data[SAMPLE_STAGES][SAMPLE_TENSORS][24];
    struct culm_tensor_ref tensors[SAMPLE_STAGES][SAMPLE_TENSORS];
    struct culm_checkpoint_info info;
};

void sample_init(struct sample *sample, int64_t step);
/* Writes all pieces and publishes; nodes are 10 * stage. */
enum culm_status sample_publish(struct culm_fs *fs, const char *run_dir,
                                const struct sample *sample, struct culm_error *error);
/* Fails the test unless `path` is whole and holds exactly this state. */
void sample_expect(const char *path, const struct sample *sample);

/* Makes an empty directory in memory where there is such a place; ret_dir[64]. */
void temp_dir_make(char *ret_dir);
void temp_dir_drop(const char *dir);
/* Mounts a tmpfs of that "size=..." there, in a mount namespace of this program's own: nothing is left
 * behind, whatever happens. Skips the test where that is not possible. */
void small_disk(const char *dir, const char *size);

#endif
