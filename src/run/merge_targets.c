/* A workload merged for several targets: for the curve of what is saved over accuracy. See launches.h. */
#include "query/config.h"
#include "run/launches.h"
#include "run/merge_internal.h"

#include <culm/merge.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum culm_status culm_merge_for_target(const struct culm_config *workload, double target,
                                       struct culm_config **ret_workload,
                                       struct culm_error *error) {
    struct culm_workload parsed;
    enum culm_status status = merging_load(workload, &parsed, error);
    if (status != CULM_OK) {
        return status;
    }
    bool own = true;
    for (size_t q = 0; q < parsed.query_count; q++) {
        own = own && fabs(parsed.queries[q].target - target) < 1e-12;
        parsed.queries[q].target = target;
    }
    *ret_workload = NULL;
    char *text = own ? NULL : culm_config_dump_text(&culm_workload_table, &parsed);
    culm_workload_release(&parsed);
    if (!own) {
        status = text ? culm_config_read(text, strlen(text), workload->name, ret_workload, error)
                      : merging_no_memory(error);
    }
    free(text);
    return status;
}

enum culm_status culm_merge_curve(const char *dir, double target, json_t **ret_json,
                                  struct culm_error *error) {
    struct culm_package_round round;
    struct culm_package_sums sums;
    enum culm_status status = culm_package_open(dir, &round, error);
    if (status != CULM_OK) {
        return status;
    }
    status = culm_package_sum(&round, &sums, error);
    json_t *queries = json_array();
    for (int32_t q = 0; q < round.query_count && status == CULM_OK; q++) {
        const struct culm_package_query *query = &round.query[q];
        json_array_append_new(
            queries, json_pack("{s:s, s:f, s:f, s:f, s:I}", "query", query->name, "original",
                               query->original, "merged", query->merged, "target", query->target,
                               "shared_bytes", (json_int_t)culm_package_shared_bytes(&round, q)));
    }
    culm_package_round_release(&round);
    if (status != CULM_OK) {
        json_decref(queries);
        return status;
    }
    const int64_t saved = sums.total_bytes - sums.distinct_bytes;
    *ret_json = json_pack(
        "{s:s, s:o, s:s, s:I, s:I, s:I, s:f, s:o}", "event", "curve", "target",
        target > 0 ? json_real(target) : json_null(), "package", dir, "bytes",
        (json_int_t)sums.total_bytes, "distinct_bytes", (json_int_t)sums.distinct_bytes,
        "saved_bytes", (json_int_t)saved, "saved",
        sums.total_bytes > 0 ? (double)saved / (double)sums.total_bytes : 0.0, "queries", queries);
    return *ret_json ? CULM_OK : merging_no_memory(error);
}
