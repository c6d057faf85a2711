/*
 * Fuzz target: the share map of a package. Any bytes are accepted or refused with a message of one line;
 * of what is accepted every index is in range, and its sums can be counted.
 */
#include "fuzz.h"

#include "query/package.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct culm_package_round round;
    struct culm_package_sums sums;
    struct culm_error error = {0};
    if (culm_package_parse((const char *)data, size, "fuzz", &round, &error) != CULM_OK) {
        FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'", error.text);
        return 0;
    }
    for (int32_t q = 0; q < round.query_count; q++) {
        const struct culm_package_query *query = &round.query[q];
        FUZZ_REQUIRE(culm_package_query_find(&round, query->name) == q, "%s", query->name);
        for (int32_t i = 0; i < query->param_count; i++) {
            const struct culm_package_param *param = &query->param[i];
            FUZZ_REQUIRE(param->tensor >= 0 && param->tensor < round.tensor_count, "%d",
                         param->tensor);
            FUZZ_REQUIRE(param->original >= 0 && param->original < round.tensor_count, "%d",
                         param->original);
        }
        FUZZ_REQUIRE(culm_package_shared_bytes(&round, q) >= 0, "%d", q);
    }
    FUZZ_REQUIRE(culm_package_sum(&round, &sums, &error) == CULM_OK, "%s", error.text);
    FUZZ_REQUIRE(sums.distinct_bytes <= sums.tensor_distinct, "%lld",
                 (long long)sums.distinct_bytes);
    culm_package_round_release(&round);
    return 0;
}
