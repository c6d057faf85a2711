/* The hidden command `culm worker`: what the launcher starts. Its output is the worker's log. */
#include "cli/command.h"

#include <culm/train.h>

int culm_cli_worker(int argc, char **argv) { return culm_worker_main(argc, argv); }
