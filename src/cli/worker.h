/*
 * The hidden command that the launcher starts: one worker process.
 *
 *     culm worker DIR NODE ADDRESS NAME FAULT_FD [INDEX FAULT]...
 *
 * DIR is where checkpoints are; the run's token comes on standard input; all else that it needs to
 * know comes with the coordinator's welcome.
 */
#ifndef CULM_CLI_WORKER_H
#define CULM_CLI_WORKER_H

#include "device/cpu/kernels.h"
#include "train/plan.h"

#define CULM_SIGNATURE_SIZE 256

int culm_cli_worker(int argc, char **argv);

/* Everything of build and machine that can change bits, with the libraries that make samples of
 * this run's data: a worker with another one is refused. */
void culm_signature(const struct culm_cpu *cpu, const struct culm_train_config *config,
                    char ret_text[CULM_SIGNATURE_SIZE]);
/* The largest payload of any frame of this plan. */
size_t culm_payload_max(const struct culm_plan *plan);

#endif
