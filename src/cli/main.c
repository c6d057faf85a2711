/* The command line: finds the command and hands over. */
#include "cli/dispatch.h"

int main(int argc, char **argv) { return culm_dispatch(argc, argv); }
