/* What `culm bench leader` prints. See bench_leader.h. */
#include "cli/bench_leader.h"

#include "cli/command.h"

#include <jansson.h>
#include <stdio.h>

void culm_cli_report_leader(const struct culm_leader_bench *b, bool as_json) {
    if (as_json) {
        culm_cli_print_json(json_pack(
            "{s:s, s:i, s:i, s:I, s:f, s:{s:f, s:f}, s:{s:f, s:f}, s:{s:i, s:f, s:f, s:I, s:I}}",
            "job", b->job, "workers", b->workers, "nodes", b->nodes, "rounds",
            (json_int_t)b->rounds, "join_s", b->join_s, "round_cpu_s", "median", b->round_median_s,
            "max", b->round_most_s, "commit_s", "median", b->commit_median_s, "max",
            b->commit_most_s, "loss", "nodes", b->lost, "views", b->views, "seconds", b->lost_s,
            "queued_bytes", (json_int_t)b->queued_bytes, "bytes_per_node",
            (json_int_t)b->bytes_per_node));
        return;
    }
    printf("%s, %d nodes: joined in %.1f ms; round %.3f ms of the leader's processor (max %.3f); "
           "last message to last COMMIT %.3f ms (max %.3f); %d lost at once: %.3g view%s, %.1f ms, "
           "%lld bytes a node, %.1f MB in all\n",
           b->job, b->nodes, b->join_s * 1e3, b->round_median_s * 1e3, b->round_most_s * 1e3,
           b->commit_median_s * 1e3, b->commit_most_s * 1e3, b->lost, b->views,
           b->views == 1 ? "" : "s", b->lost_s * 1e3, (long long)b->bytes_per_node,
           (double)b->queued_bytes / 1e6);
}
