/* See dial.h. */
#include "cluster/dial.h"

#define MS 1000000ull
#define PAUSE_NS (10 * MS) /* before the second attempt; doubled by each */
#define PAUSE_MAX_NS (500 * MS)
#define LOOK_NS (100 * MS) /* more time than that between two looks is not counted */

void culm_dial_start(struct culm_dial *dial, uint64_t now_ns, int64_t limit_ms) {
    *dial = (struct culm_dial){
        .on = true, .left_ns = (uint64_t)limit_ms * MS, .looked_ns = now_ns, .pause_ns = PAUSE_NS};
}

bool culm_dial_is_over(struct culm_dial *dial, uint64_t now_ns) {
    uint64_t passed = now_ns - dial->looked_ns;
    passed = passed < LOOK_NS ? passed : LOOK_NS;
    dial->looked_ns = now_ns;
    dial->left_ns -= passed < dial->left_ns ? passed : dial->left_ns;
    return dial->left_ns == 0;
}

bool culm_dial_again(struct culm_dial *dial, uint64_t now_ns, enum culm_status why) {
    dial->again_ns = now_ns + dial->pause_ns;
    dial->pause_ns = 2 * dial->pause_ns < PAUSE_MAX_NS ? 2 * dial->pause_ns : PAUSE_MAX_NS;
    return why == CULM_ERR_AGAIN || why == CULM_ERR_CLOSED || why == CULM_ERR_MEMORY;
}
