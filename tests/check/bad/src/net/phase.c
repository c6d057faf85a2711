/* What the room check must refuse: the network names a phase of training. */
#include "base/status.h"
#include "pipeline/phase.h"
