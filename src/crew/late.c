/* Copies that come too late. See late.h. */
#include "crew/late.h"

#define MS 1000000ull
#define LATE_DOUBLED 6 /* times, at most: the pause */

void culm_late_once_more(struct culm_late *late, uint64_t now_ns, int64_t join_ms) {
    const int32_t doubled = late->times < LATE_DOUBLED ? late->times : LATE_DOUBLED;
    late->times++;
    late->again_ns = now_ns + ((uint64_t)join_ms * MS << doubled);
}

bool culm_late_pauses(const struct culm_late *late, uint64_t now_ns) {
    return late->times > 0 && now_ns < late->again_ns;
}
