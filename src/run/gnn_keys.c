/* What help says of the configuration of runs on graphs. See references.h. */
#include "run/references.h"

#include "gnn/config.h"

char *culm_gnn_resumable_keys(void) { return culm_gnn_config_resumable_keys(); }

char *culm_gnn_setting_keys(void) { return culm_gnn_config_setting_keys(); }

char *culm_gnn_reference(bool markdown) { return culm_gnn_config_reference(markdown); }
