/*
 * Whether a live feed gives frames: when it is to be opened again, and how long it has been away.
 *
 * A feed is down from the first end, failure or stall until its next frame. It is opened again for
 * ever: after 1 s, 2 s, 4 s, ... up to 30 s. Off from the beginning is an outage like any other.
 *
 * Times are passed in. Thread: one at a time.
 */
#ifndef CULM_EDGE_OUTAGE_H
#define CULM_EDGE_OUTAGE_H

#include <stdbool.h>
#include <stdint.h>

#define CULM_EDGE_BACK_OFF_LEAST_NS UINT64_C(1000000000)
#define CULM_EDGE_BACK_OFF_MOST_NS UINT64_C(30000000000)

struct culm_edge_outage { /* zeroed: the feed has been opened, and nothing has come so far */
    bool down;
    uint64_t since_ns; /* while down: since when */
    uint64_t wait_ns;  /* the last wait of this outage */
    uint64_t past_ns;  /* how long earlier outages have lasted, all together */
    int64_t reconnects;
};

/* It has ended, failed or stalled. When to open it again; *ret_goes_down: this begins an outage. */
uint64_t culm_edge_outage_fails(struct culm_edge_outage *outage, uint64_t now_ns,
                                bool *ret_goes_down);
/* A frame has come. True: that ends an outage, which has lasted for *ret_after_ns. */
bool culm_edge_outage_frame(struct culm_edge_outage *outage, uint64_t now_ns,
                            uint64_t *ret_after_ns);
/* How long it has been down so far, in all outages. */
uint64_t culm_edge_outage_down_ns(const struct culm_edge_outage *outage, uint64_t now_ns);

#endif
