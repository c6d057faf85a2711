/* How an actor with peers speaks. See tell.h. */
#include "crew/tell.h"

#define MS 1000000ull

void culm_teller_init(struct culm_teller *teller, struct culm_world *world, size_t meta_max) {
    teller->world = world;
    culm_buf_init(&teller->meta, meta_max);
}

void culm_teller_release(struct culm_teller *teller) { culm_buf_release(&teller->meta); }

uint64_t culm_tell_now(const struct culm_teller *teller) {
    return teller->world->ops->now_ns(teller->world);
}

struct culm_buf *culm_tell_meta(struct culm_teller *teller) {
    culm_buf_clear(&teller->meta);
    return &teller->meta;
}

static bool tell(struct culm_teller *teller, int32_t to, struct culm_message message) {
    if (teller->meta.failed) {
        return false;
    }
    message.meta = teller->meta.data;
    message.meta_bytes = (uint32_t)teller->meta.len;
    teller->world->ops->send(teller->world, to, &message);
    return true;
}

bool culm_tell(struct culm_teller *teller, int32_t to, uint16_t type, struct culm_blob *payload,
               size_t offset_bytes, size_t size_bytes) {
    return tell(teller, to,
                (struct culm_message){.type = type,
                                      .payload = payload,
                                      .payload_offset = offset_bytes,
                                      .payload_bytes = size_bytes});
}

bool culm_tell_yielding(struct culm_teller *teller, int32_t to, uint16_t type,
                        struct culm_blob *payload, size_t offset_bytes, size_t size_bytes) {
    return tell(teller, to,
                (struct culm_message){.type = type,
                                      .payload = payload,
                                      .payload_offset = offset_bytes,
                                      .payload_bytes = size_bytes,
                                      .yields = true});
}

void culm_tell_timer(struct culm_teller *teller, uint32_t timer, int64_t ms) {
    teller->world->ops->timer(teller->world, timer, (uint64_t)ms * MS);
}
