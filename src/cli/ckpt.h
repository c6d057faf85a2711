/*
 * `culm ckpt`: see ckpt.c.
 *
 * PATH is a checkpoint directory, a run directory (its newest whole checkpoint) or a .safetensors
 * file. Exit codes: 0 done or bit-equal; 1 different; 2 usage; 3 wrong input; 4 environment.
 */
#ifndef CULM_CLI_CKPT_H
#define CULM_CLI_CKPT_H

/* argv[0] is "ckpt". Prints; returns the exit code. */
int culm_cli_ckpt(int argc, char **argv);

#endif
