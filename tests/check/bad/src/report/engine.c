/* What the room check must refuse: report reads events only. */
#include "base/status.h"
#include "pipeline/view.h"
