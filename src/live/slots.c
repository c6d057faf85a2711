/*
 * Slots: the memory of frames that wait. Each feed has as many as the plan says. When there are to be
 * fewer, those in use go once nobody uses them any more, and new ones have to wait for that, so that
 * all frames together never hold more than a layout, this one or the one before, says.
 */
#include "live/feed.h"
#include "live/run.h"

static char *pixels_of(const struct culm_blob *slot) {
    return (char *)((struct live_frame *)slot->data)->pixels;
}

/* Gives back the pixels of slots that are free until at most `wanted` are left. With slots_lock
 * held, as all of these. */
static void give_back(struct culm_live *run, struct live_feed *feed, int32_t wanted) {
    for (int32_t i = CULM_LIVE_FRAME_SLOTS - 1; i >= 0 && feed->slots_held > wanted; i--) {
        if (feed->held[i] && __atomic_load_n(&feed->slot[i]->refs, __ATOMIC_ACQUIRE) == 1) {
            culm_live_arena_give_back(&run->arena, pixels_of(feed->slot[i]), feed->frame_bytes);
            feed->held[i] = false;
            feed->slots_held--;
            run->frames_held -= feed->frame_bytes;
        }
    }
}

static enum culm_status hold_slot(struct culm_live *run, struct live_feed *feed, int32_t i,
                                  struct culm_error *error) {
    if (!feed->slot[i]) {
        enum culm_status status =
            culm_blob_pool_get(run->headers, sizeof(struct live_frame), &feed->slot[i]);
        if (status != CULM_OK) {
            return culm_error_set(error, status, "out of memory for frames");
        }
        size_t apart = culm_live_arena_round(&run->arena, feed->frame_bytes);
        *(struct live_frame *)feed->slot[i]->data = (struct live_frame){
            .folder = -1, .pixels = (uint8_t *)feed->slots_at + (size_t)i * apart};
    }
    enum culm_status status =
        culm_live_arena_hold(&run->arena, pixels_of(feed->slot[i]), feed->frame_bytes, error);
    if (status == CULM_OK) {
        feed->held[i] = true;
        feed->slots_held++;
        run->frames_held += feed->frame_bytes;
    }
    return status;
}

/* Takes slots until there are `wanted`, as long as all frames together hold at most `most` bytes. */
static enum culm_status hold(struct culm_live *run, struct live_feed *feed, int32_t wanted,
                             size_t most, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (int32_t i = 0; i < CULM_LIVE_FRAME_SLOTS && feed->slots_held < wanted &&
                        run->frames_held + feed->frame_bytes <= most && status == CULM_OK;
         i++) {
        status = feed->held[i] ? CULM_OK : hold_slot(run, feed, i, error);
    }
    return status;
}

static int32_t slots_wanted(const struct culm_live *run, int32_t f) {
    const struct live_feed *feed = &run->feed[f];
    bool watched = false;
    for (int32_t q = 0; q < run->query_count; q++) {
        watched |= !run->query[q].gone && run->query[q].feed == f;
    }
    return feed->gone || !watched || feed->inputs == 0 ? 0 : run->plan.slots + 1;
}

enum culm_status live_slots(struct culm_live *run, struct culm_error *error) {
    const size_t most = culm_edge_frames_bytes(&run->laid->layout, run->plan.slots);
    enum culm_status status = CULM_OK;
    for (int take = 0; take < 2; take++) { /* first gives back everywhere, then takes */
        for (int32_t f = 0; f < run->feed_count && status == CULM_OK; f++) {
            struct live_feed *feed = &run->feed[f];
            pthread_mutex_lock(&feed->slots_lock);
            feed->slots = slots_wanted(run, f);
            if (take) {
                status = hold(run, feed, feed->slots, most, error);
            } else {
                give_back(run, feed, feed->slots);
            }
            pthread_mutex_unlock(&feed->slots_lock);
        }
    }
    return status;
}
