/* What the commands see would bring training along. */

#include "train/network.h"
