/* A running edge would print, as commands do. */

#include "cli/command.h"
