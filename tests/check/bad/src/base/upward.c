/* What the room check must refuse: base uses a room above it, and a header without its room. */
#include "base/status.h"
#include "train/view.h"
#include "view.h"
