/* The command line would work on models itself, and see the insides of run. */

#include "train/config.h"
#include "run/train_launch.h"
#include "run/launches.h"
