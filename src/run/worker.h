/*
 * A worker of a training run: a participant (participant.h) whose one word is "worker". It prints
 * nothing.
 *
 * DIR is where checkpoints are; all else that it needs to know comes with the leader's welcome.
 */
#ifndef CULM_RUN_WORKER_H
#define CULM_RUN_WORKER_H

#include "device/device.h"
#include "launch/participant.h"
#include "run/signature.h"
#include "train/plan.h"

/* Works until it is told to end, or its launcher is gone; the exit code. *ret_error has a text when
 * there is something to say. *ret_memory is untouched when it did not join. argv[0] is "worker". */
int culm_run_worker(int argc, char **argv, struct culm_participant_memory *ret_memory,
                    struct culm_error *ret_error);

#define CULM_WORKER_REFUSED 5 /* an exit code */
/* The same for one that comes from elsewhere: it joins at call->address, and call->dir is a folder of its own, into which it
 * fetches checkpoints, and writes its pieces before it sends them (launch/depot.h). Exit code 0: the run is over; 75: it was
 * stopped; 3: what it reads here is not what the run reads; CULM_WORKER_REFUSED; 4: nobody listens there. */
int culm_run_worker_newcomer(const struct culm_participant_call *call,
                             struct culm_participant_memory *ret_memory,
                             struct culm_error *ret_error);

/* Everything of build and machine that can change bits, with the libraries that make samples of
 * this run's data: a worker with another one is refused. */
void culm_signature(const struct culm_device *device, const struct culm_train_config *config,
                    char ret_text[CULM_SIGNATURE_SIZE]);
/* The largest payload of any frame of this plan. */
size_t culm_payload_max(const struct culm_plan *plan);

#endif
