/* See outage.h. */
#include "edge/outage.h"

uint64_t culm_edge_outage_fails(struct culm_edge_outage *outage, uint64_t now_ns,
                                bool *ret_goes_down) {
    *ret_goes_down = !outage->down;
    if (!outage->down) {
        outage->down = true;
        outage->since_ns = now_ns;
        outage->wait_ns = CULM_EDGE_BACK_OFF_LEAST_NS;
    } else {
        outage->wait_ns *= 2;
        if (outage->wait_ns > CULM_EDGE_BACK_OFF_MOST_NS) {
            outage->wait_ns = CULM_EDGE_BACK_OFF_MOST_NS;
        }
    }
    return now_ns + outage->wait_ns;
}

bool culm_edge_outage_frame(struct culm_edge_outage *outage, uint64_t now_ns,
                            uint64_t *ret_after_ns) {
    if (!outage->down) {
        return false;
    }
    *ret_after_ns = now_ns - outage->since_ns;
    outage->past_ns += *ret_after_ns;
    outage->down = false;
    outage->reconnects++;
    return true;
}

uint64_t culm_edge_outage_down_ns(const struct culm_edge_outage *outage, uint64_t now_ns) {
    return outage->past_ns + (outage->down ? now_ns - outage->since_ns : 0);
}
