/* The protocol of graph networks would compute. */

#include "graph/stage.h"
