/* Signs of life. See pulse.h. */
#include "crew/pulse.h"

#include <string.h>

#define MS 1000000ull

void culm_pulse_init(struct culm_pulse *pulse, int64_t every_ms) {
    memset(pulse, 0, sizeof *pulse);
    pulse->every_ms = every_ms;
}

void culm_pulse_begin(struct culm_pulse *pulse, int32_t line, int32_t kind, int32_t part,
                      uint64_t now_ns) {
    pulse->line[line] = (struct culm_pulse_line){true, now_ns, kind, part};
}

void culm_pulse_moved(struct culm_pulse *pulse, int32_t line, uint64_t now_ns) {
    pulse->line[line].since_ns = now_ns;
}

/* Four heartbeats in a row that never were: nothing of this process ran. */
static void forgive_sleep(struct culm_pulse *pulse, uint64_t now) {
    uint64_t period = (uint64_t)pulse->every_ms * MS;
    uint64_t silent = pulse->beat_ns ? now - pulse->beat_ns : 0;
    if (silent <= 4 * period) {
        return;
    }
    for (int32_t i = 0; i < CULM_PULSE_LINES; i++) {
        uint64_t *since = &pulse->line[i].since_ns;
        *since = *since + silent - period < now ? *since + silent - period : now;
    }
    pulse->beat_ns = now;
}

static int64_t ran_ms(const struct culm_pulse *pulse, int32_t line, uint64_t now) {
    int64_t ms = (int64_t)((now - pulse->line[line].since_ns) / MS);
    return line > 0 ? ms / CULM_PULSE_WRITE_FACTOR : ms;
}

bool culm_pulse_end(struct culm_pulse *pulse, int32_t line, bool well, uint64_t now_ns,
                    struct culm_took *ret_took) {
    struct culm_pulse_line *at = &pulse->line[line];
    if (!at->runs) {
        return false;
    }
    forgive_sleep(pulse, now_ns);
    int64_t ms = ran_ms(pulse, line, now_ns);
    int64_t *told = &pulse->told_ms[at->kind][at->part];
    /* Shorter than what a heartbeat can see, or no news. */
    bool news = well && ms >= pulse->every_ms && ms > *told + *told / 4;
    if (news) {
        *told = ms;
        *ret_took = (struct culm_took){at->kind, at->part, ms};
    }
    at->runs = false;
    return news;
}

void culm_pulse_beat(struct culm_pulse *pulse, int64_t progress, uint64_t now_ns,
                     struct culm_heartbeat *ret_heartbeat) {
    struct culm_heartbeat beat = {.progress = progress, .kind = -1, .task_ms = -1};
    forgive_sleep(pulse, now_ns);
    pulse->beat_ns = now_ns;
    for (int32_t i = 0; i < CULM_PULSE_LINES; i++) {
        int64_t ms = pulse->line[i].runs ? ran_ms(pulse, i, now_ns) : -1;
        if (ms > beat.task_ms) {
            beat.kind = pulse->line[i].kind;
            beat.part = pulse->line[i].part;
            beat.task_ms = ms;
        }
    }
    beat.task_ms = beat.task_ms < 0 ? 0 : beat.task_ms;
    *ret_heartbeat = beat;
}

void culm_heartbeat_encode(const struct culm_heartbeat *heartbeat, struct culm_buf *buf) {
    culm_buf_u64(buf, (uint64_t)heartbeat->progress);
    culm_buf_i32(buf, heartbeat->kind);
    culm_buf_i32(buf, heartbeat->part);
    culm_buf_u64(buf, (uint64_t)heartbeat->task_ms);
}

enum culm_status culm_heartbeat_decode(const uint8_t *meta, size_t len,
                                       struct culm_heartbeat *ret_heartbeat) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_heartbeat heartbeat = {0};
    heartbeat.progress = culm_read_count(&in);
    heartbeat.kind = culm_read_i32(&in);
    heartbeat.part = culm_read_i32(&in);
    heartbeat.task_ms = culm_read_count(&in);
    if (!culm_reader_done(&in)) {
        return CULM_ERR_FORMAT;
    }
    *ret_heartbeat = heartbeat;
    return CULM_OK;
}

void culm_took_encode(const struct culm_took *took, struct culm_buf *buf) {
    culm_buf_i32(buf, took->kind);
    culm_buf_i32(buf, took->part);
    culm_buf_u64(buf, (uint64_t)took->task_ms);
}

enum culm_status culm_took_decode(const uint8_t *meta, size_t len, struct culm_took *ret_took) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_took took = {0};
    took.kind = culm_read_i32(&in);
    took.part = culm_read_i32(&in);
    took.task_ms = culm_read_count(&in);
    if (!culm_reader_done(&in)) {
        return CULM_ERR_FORMAT;
    }
    *ret_took = took;
    return CULM_OK;
}
