/* Fuzz target: profiles of `culm edge`. What is accepted gives a time and a size for every batch. */
#include "fuzz.h"

#include "live/profile.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct culm_live_profile profile;
    struct culm_error error = {0};
    if (culm_live_profile_parse((const char *)data, size, "fuzz", &profile, &error) != CULM_OK) {
        FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'", error.text);
        return 0;
    }
    for (int32_t m = 0; m < profile.model_count; m++) {
        const struct culm_live_profile_model *model = &profile.model[m];
        FUZZ_REQUIRE(culm_live_profile_find(&profile, model->name) == model, "model '%s'",
                     model->name);
        for (int32_t batch = 1; batch <= CULM_EDGE_VISIT_MAX; batch++) {
            uint64_t run_ns;
            size_t bytes;
            culm_live_times_of(&model->times, batch, &run_ns, &bytes);
            FUZZ_REQUIRE(run_ns > 0, "no time for %d", batch);
            for (int32_t p = 0; p < model->times.prefixes; p++) {
                double share =
                    culm_live_times_share(&model->times, model->times.prefix[p].operators, batch);
                FUZZ_REQUIRE(share >= 0 && share <= 1, "%g of a batch of %d", share, batch);
            }
        }
    }
    culm_live_profile_release(&profile);
    return 0;
}
