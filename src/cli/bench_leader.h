/* What `culm bench leader` prints. Thread: the caller's. */
#ifndef CULM_CLI_BENCH_LEADER_H
#define CULM_CLI_BENCH_LEADER_H

#include "run/bench_leader.h"

void culm_cli_report_leader(const struct culm_leader_bench *bench, bool as_json);

#endif
