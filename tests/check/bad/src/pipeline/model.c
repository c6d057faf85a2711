/* What the room check must refuse: the protocol knows models, and what a run is configured with. */
#include "net/world.h"
#include "model/model.h"
#include "train/config.h"
