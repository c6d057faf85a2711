/* A node's half of a crew. See self.h. */
#include "crew/self.h"

#include "base/mark.h"

#include <stdio.h>

void culm_self_init(struct culm_self *self, struct culm_world *world, int32_t id,
                    int64_t heartbeat_ms, size_t meta_max) {
    *self = (struct culm_self){.id = id};
    culm_teller_init(&self->tell, world, meta_max);
    culm_pulse_init(&self->pulse, heartbeat_ms);
}

void culm_self_release(struct culm_self *self) { culm_teller_release(&self->tell); }

uint64_t culm_self_now(const struct culm_self *self) { return culm_tell_now(&self->tell); }

/* --- speaking --- */

struct culm_buf *culm_self_meta(struct culm_self *self) {
    return culm_tell_meta(&self->tell);
}

void culm_self_send(struct culm_self *self, int32_t to, uint16_t type, struct culm_blob *payload,
                    size_t offset_bytes, size_t size_bytes) {
    if (!culm_tell(&self->tell, to, type, payload, offset_bytes, size_bytes)) {
        culm_self_fail(self, CULM_ERR_MEMORY, "out of memory for a message");
    }
}

void culm_self_send_yielding(struct culm_self *self, int32_t to, uint16_t type,
                             struct culm_blob *payload, size_t offset_bytes, size_t size_bytes) {
    if (!culm_tell_yielding(&self->tell, to, type, payload, offset_bytes, size_bytes)) {
        culm_self_fail(self, CULM_ERR_MEMORY, "out of memory for a message");
    }
}

void culm_self_tell(struct culm_self *self, uint16_t type) {
    culm_self_send(self, CULM_LEADER, type, NULL, 0, 0);
}

void culm_self_complain(struct culm_self *self, int32_t peer) {
    culm_peer_lost_encode(&(struct culm_peer_lost){peer}, culm_self_meta(self));
    culm_self_tell(self, CULM_WORD_PEER_LOST);
}

/* --- leaving --- */

static void leave(struct culm_self *self, int exit_code, const struct culm_error *error) {
    self->left = true;
    self->tell.world->ops->leave(self->tell.world, exit_code, error);
}

void culm_self_fail(struct culm_self *self, enum culm_status status, const char *format, ...) {
    if (self->left) {
        return;
    }
    struct culm_error error;
    va_list args;
    va_start(args, format);
    culm_error_setv(&error, status, format, args);
    va_end(args);
    struct culm_failed failed = {.status = status};
    snprintf(failed.why, sizeof failed.why, "%s", error.text);
    culm_failed_encode(&failed, culm_self_meta(self));
    (void)culm_tell(&self->tell, CULM_LEADER, CULM_WORD_FAILED, NULL, 0, 0);
    leave(self, culm_status_exit_code(status), &error);
}

void culm_self_leave(struct culm_self *self) {
    leave(self, self->leaving ? CULM_SELF_RELEASED : 0, NULL);
}

void culm_self_ask_leave(struct culm_self *self, int64_t within_ms) {
    if (!self->left && !self->leaving) {
        self->leaving = true;
        self->within_ms = within_ms;
        culm_self_ask_again(self);
    }
}

void culm_self_ask_again(struct culm_self *self) {
    if (self->leaving && !self->left) {
        culm_notice_encode(&(struct culm_notice){self->within_ms}, culm_self_meta(self));
        culm_self_tell(self, CULM_WORD_NOTICE);
    }
}

bool culm_self_heard(struct culm_self *self, int32_t from, const struct culm_message *message) {
    if (self->left) {
        return true;
    }
    if (from == CULM_LEADER && message->type == CULM_WORD_END) {
        const int stopped = culm_status_exit_code(CULM_ERR_STOPPED);
        struct culm_end end = {0};
        (void)culm_end_decode(message->meta, message->meta_bytes, &end);
        leave(self, self->stops && end.code == stopped ? stopped : 0, NULL);
    } else if (from == CULM_LEADER && message->type == CULM_WORD_RELEASED) {
        CULM_MARK(crew_leaves_since_it_is_released);
        leave(self, CULM_SELF_RELEASED, NULL);
    } else if (from == CULM_LEADER && message->type == CULM_WORD_FENCED) {
        CULM_MARK(crew_leaves_since_it_is_fenced);
        struct culm_fenced fenced = {""};
        struct culm_error error;
        (void)culm_fenced_decode(message->meta, message->meta_bytes, &fenced);
        culm_error_set(&error, CULM_ERR_CLOSED, "fenced: %s", fenced.why);
        leave(self, 1, &error);
    }
    return self->left;
}

/* --- signs of life --- */

void culm_self_point(struct culm_self *self, uint32_t phase, int64_t step, int64_t part) {
    const struct culm_fault_point point = {phase, step, part};
    self->tell.world->ops->fault(self->tell.world, &point);
}

void culm_self_beat(struct culm_self *self) {
    struct culm_heartbeat beat;
    culm_pulse_beat(&self->pulse, self->progress, culm_self_now(self), &beat);
    culm_heartbeat_encode(&beat, culm_self_meta(self));
    culm_self_tell(self, CULM_WORD_HEARTBEAT);
    culm_tell_timer(&self->tell, CULM_SELF_TIMER_HEARTBEAT, self->pulse.every_ms);
}

void culm_self_begins(struct culm_self *self, int32_t line, int32_t kind, int32_t part) {
    culm_pulse_begin(&self->pulse, line, kind, part, culm_self_now(self));
}

void culm_self_ends(struct culm_self *self, int32_t line, bool well) {
    struct culm_took took;
    if (culm_pulse_end(&self->pulse, line, well, culm_self_now(self), &took)) {
        culm_took_encode(&took, culm_self_meta(self));
        culm_self_tell(self, CULM_WORD_TOOK);
    }
}
