/* What help says of workloads. See references.h. */
#include "run/references.h"

#include "query/workload.h"

char *culm_merge_reference(bool markdown) { return culm_workload_reference(markdown); }
