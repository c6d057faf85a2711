/* Failures that are a run's own. See failures.h. */
#include "crew/failures.h"

void culm_failures_init(struct culm_failures *failures, int64_t version) {
    *failures = (struct culm_failures){.version = version};
}

void culm_failures_committed(struct culm_failures *failures, int64_t version) {
    if (version > failures->version) {
        failures->version = version;
        failures->count = 0;
    }
}

int32_t culm_failures_add(struct culm_failures *failures, int64_t version, int32_t status,
                          uint64_t origin, bool others) {
    if (failures->count < CULM_FAILURES_KEPT) {
        failures->kept[failures->count].version = version;
        failures->kept[failures->count].origin = origin;
        failures->kept[failures->count++].status = status;
    }
    int32_t alike = 0;
    for (int32_t i = 0; i < failures->count; i++) {
        bool same = failures->kept[i].version == version && failures->kept[i].status == status;
        alike += same;
        others = others && !(same && failures->kept[i].origin != origin);
    }
    if (failures->count == CULM_FAILURES_KEPT) {
        return CULM_FAILURES_KEPT;
    }
    return alike >= CULM_FAILURES_MAX && !others ? alike : 0;
}
