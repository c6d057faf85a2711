/*
 * What the launcher does about the inputs of a run: it holds them against those of the run that is
 * resumed, and finds out the whole digests of large files while the run goes on.
 */
#ifndef CULM_LAUNCH_INPUTS_H
#define CULM_LAUNCH_INPUTS_H

#include "launch/resume.h"
#include "store/inputs.h"

#include <pthread.h>

/* Before a run is resumed at resume->path ("": at its beginning): the list of that checkpoint, or of
 * plan.json, is compared with `now`. CULM_ERR_CONFIG, naming the file that changed; with
 * o->accept_inputs it is taken up, which is warned of, told (resume->inputs) and noted. */
enum culm_status culm_launch_inputs_resume(struct culm_launcher *launcher,
                                           const struct culm_launcher_options *o,
                                           const struct culm_inputs *now,
                                           struct culm_resume *resume, struct culm_error *error);

/* Of a model that has been taken up changed: the checkpoint has its tensor of that name and shape [rank].
 * CULM_ERR_CONFIG. */
enum culm_status culm_launch_inputs_check_tensor(const struct culm_resume *resume,
                                                 const struct culm_checkpoint *checkpoint,
                                                 const char *name, int rank, const int64_t *shape,
                                                 struct culm_error *error);

/* Of a run that other machines compare theirs with as it is created: finds out all whole digests, which takes as long as reading
 * all large files. CULM_ERR_CHANGED: one is being written to. */
enum culm_status culm_launch_inputs_complete(struct culm_launcher *launcher, struct culm_pins *pins,
                                             struct culm_error *error);

/* A thread of low priority. After each digest all processes of the run are told it, also those that come
 * later, and `found` is called from the thread: plan.json is for --resume, too. */
struct culm_launch_inputs_thread {
    struct culm_pins *pins; /* NULL: it does not run */
    struct culm_launcher *launcher;
    void (*found)(void *ctx);
    void *ctx;
    bool *told; /* [told_count] pins whose whole digest was told */
    size_t told_count;
    pthread_t thread;
    bool stop; /* atomic */
};
/* Without memory or a thread no digest is found, and only other times of large files are differences. */
void culm_launch_inputs_start(struct culm_launch_inputs_thread *thread, struct culm_pins *pins,
                              struct culm_launcher *launcher, void (*found)(void *ctx), void *ctx);
void culm_launch_inputs_stop(
    struct culm_launch_inputs_thread *thread); /* fine on a zeroed struct */

#endif
