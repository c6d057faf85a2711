/*
 * The simulated fabric: streams as TCP gives them, and what goes wrong with them.
 *
 *     write ─▶ pieces, at most `buffer` bytes written and not yet read ─▶ read, a piece at a time
 *
 * A piece is a run of bytes that arrives at once; where a write is cut into pieces is random, down
 * to single bytes. Pieces of a direction keep their order. A direction has a delay and a rate, and
 * may be *dropped*: then nothing arrives until it is healed, acknowledgements of the other
 * direction included, and nobody is told. A reset takes what is on its way. When a process dies the
 * system closes its streams; what it had on the way may be lost from any byte on.
 *
 * Streams stay allocated until the simulator ends, so an event may always look at one.
 */
#include "sim/sim_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SYN_TRIES 7 /* at 0, 1, 3, 7, ... s: the connect then fails after 127 s */
#define SECOND 1000000000ull
#define PIECES_MAX 64 /* of one write */

struct piece {
    struct piece *next;
    uint64_t at_ns;
    size_t len, taken;
    uint8_t bytes[];
};

struct end {
    struct culm_stream stream; /* first */
    struct culm_sim *sim;
    struct process *owner;
    struct end *other; /* NULL: still connecting */
    struct end *next;  /* of all */
    struct way *out, *in;
    /* What comes in. */
    struct piece *first, **last;
    size_t inside;             /* bytes that the other side's send buffer still holds */
    size_t unacked;            /* of those, read here, and the news of it cannot pass */
    uint64_t last_ns;          /* when the newest of it arrives; CULM_NEVER: dropped */
    uint64_t fin_ns, reset_ns; /* CULM_NEVER: not yet */
    bool fin, reset;           /* on the way, or here */
    uint64_t connected_ns;
    int connect_error;
    int events;
    uint64_t wake_ns, wake_generation;
    bool closed, shut_out, shut_in, unbounded;
    bool impatient; /* an event looks after what it sent and was not acknowledged */
};

static struct end *self(struct culm_stream *stream) { return (struct end *)stream; }

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* --- ways --- */

/* Leaders first. */
static int32_t slot_of(int32_t id) {
    return id >= 0 ? CULM_SIM_LEADERS + id : id == CULM_LEADER ? 0 : 1 + CULM_SIM_FIRST_LATER - id;
}

static struct way *way_of(struct culm_sim *sim, int32_t from, int32_t to) {
    struct process *process = sim_process(sim, from);
    int32_t slot = slot_of(to);
    if (slot >= process->ways) {
        int32_t ways = process->ways ? process->ways : 16;
        while (ways <= slot) {
            ways *= 2;
        }
        process->way = realloc(process->way, (size_t)ways * sizeof(struct way *));
        if (!process->way) {
            abort();
        }
        memset(process->way + process->ways, 0,
               (size_t)(ways - process->ways) * sizeof(struct way *));
        process->ways = ways;
    }
    if (!process->way[slot]) {
        struct way *way = calloc(1, sizeof *way);
        if (!way) {
            abort();
        }
        *way = (struct way){.flip_at = -1, .from = from, .to = to};
        process->way[slot] = way;
    }
    return process->way[slot];
}

static uint64_t delay(struct culm_sim *sim) {
    return sim->o.latency_ns + sim_draw(sim, sim->o.jitter_ns);
}

/* --- waking whoever watches --- */

static uint64_t readable_at(const struct end *end) {
    uint64_t at = end->first ? end->first->at_ns : end->fin_ns;
    at = end->shut_in ? 0 : at;
    return at < end->reset_ns ? at : end->reset_ns;
}

static size_t room(const struct end *end) {
    size_t buffer = end->sim->o.buffer_bytes;
    if (!buffer || end->unbounded || !end->other || end->other->closed) {
        return SIZE_MAX;
    }
    return end->other->inside < buffer ? buffer - end->other->inside : 0;
}

static uint64_t writable_at(const struct end *end) {
    uint64_t at = CULM_NEVER;
    if (end->connected_ns > end->sim->now_ns) {
        return end->connected_ns;
    }
    if (end->connect_error || room(end)) {
        at = 0;
    }
    return at < end->reset_ns ? at : end->reset_ns;
}

static uint64_t ready_at(const struct end *end) {
    uint64_t at = CULM_NEVER, write = CULM_NEVER;
    at = end->events & CULM_STREAM_READ ? readable_at(end) : at;
    write = end->events & CULM_STREAM_WRITE ? writable_at(end) : write;
    return at < write ? at : write;
}

static void rewake(struct end *end);

static void wake(struct culm_sim *sim, const struct happen *happen) {
    struct end *end = happen->of;
    if (end->closed || happen->generation != end->wake_generation) {
        return;
    }
    end->wake_ns = CULM_NEVER;
    if (ready_at(end) <= sim->now_ns) {
        end->stream.ready(end->stream.ctx);
    }
    rewake(end);
}

/* Makes sure that it will be woken in time. */
static void rewake(struct end *end) {
    uint64_t at = end->closed ? CULM_NEVER : ready_at(end);
    if (at == CULM_NEVER) {
        return;
    }
    at = later(at, end->sim->now_ns);
    if (at < end->wake_ns) {
        end->wake_ns = at;
        sim_schedule(
            end->sim, at,
            (struct happen){
                .to = end->owner, .call = wake, .of = end, .generation = ++end->wake_generation});
    }
}

/* --- the ends of a stream --- */

static void forget_pieces(struct end *end, uint64_t after_ns) {
    struct piece **at = &end->first;
    while (*at && (*at)->at_ns <= after_ns) {
        at = &(*at)->next;
    }
    struct piece *piece = *at;
    *at = NULL;
    end->last = at;
    while (piece) {
        struct piece *next = piece->next;
        end->inside -= piece->len - piece->taken;
        free(piece);
        piece = next;
    }
}

/* What `end` sent last was the end of its stream. */
static void send_fin(struct end *end) {
    struct end *other = end->other;
    if (!end->shut_out && other && !other->closed && !other->fin) {
        other->fin = true;
        other->fin_ns = end->out->dropped
                            ? CULM_NEVER
                            : later(other->last_ns, end->sim->now_ns + delay(end->sim));
        rewake(other);
    }
    end->shut_out = true;
}

/* The other side's system says that there is no such connection. */
static void send_reset(struct end *end, uint64_t at_ns) {
    struct end *other = end->other;
    if (other && !other->closed && !other->reset) {
        other->reset = true;
        other->reset_ns = end->out->dropped ? CULM_NEVER : at_ns;
        forget_pieces(other, at_ns);
        rewake(other);
    }
}

static void close_end(struct end *end) {
    if (end->closed) {
        return;
    }
    bool unread = end->first != NULL;
    end->closed = true;
    forget_pieces(end, 0);
    if (unread) {
        send_reset(end, end->sim->now_ns + delay(end->sim));
    } else {
        send_fin(end);
    }
    if (end->other) { /* what it could not write before goes nowhere now */
        rewake(end->other);
    }
}

/* --- the table of a stream --- */

static ssize_t stream_read(struct culm_stream *stream, const struct iovec *to, int count) {
    struct end *end = self(stream);
    struct piece *piece = end->first;
    uint64_t now = end->sim->now_ns;
    if (!piece || piece->at_ns > now) {
        return end->reset_ns <= now                 ? -ECONNRESET
               : end->shut_in || end->fin_ns <= now ? 0
                                                    : -EAGAIN;
    }
    size_t got = 0;
    for (int i = 0; i < count && piece->taken < piece->len; i++) {
        size_t some = piece->len - piece->taken;
        some = some < to[i].iov_len ? some : to[i].iov_len;
        memcpy(to[i].iov_base, piece->bytes + piece->taken, some);
        piece->taken += some;
        got += some;
    }
    if (piece->taken == piece->len) {
        end->first = piece->next;
        end->last = end->first ? end->last : &end->first;
        free(piece);
    }
    if (end->out->dropped) {
        end->unacked += got;
    } else {
        end->inside -= got;
        rewake(end->other);
    }
    return (ssize_t)got;
}

/* A bit that flips in memory, a cable or a card, past all checksums but ours. */
static void flip(struct end *end, struct piece *piece) {
    struct way *way = end->out;
    if (way->flip_at < 0) {
        return;
    }
    if ((size_t)way->flip_at < piece->len) {
        piece->bytes[way->flip_at] ^= (uint8_t)(1u << sim_draw(end->sim, 8));
        culm_sim_log(end->sim, "a bit flips on the way from %d to %d", way->from, way->to);
        end->sim->totals.flips++;
        way->flip_at = -1;
    } else {
        way->flip_at -= (int64_t)piece->len;
    }
}

/* What was sent into a way that is dropped is still not acknowledged. */
static void give_up(struct culm_sim *sim, const struct happen *happen) {
    struct end *end = happen->of;
    end->impatient = false;
    if (!end->closed && !end->reset && end->out->dropped && end->other->inside) {
        culm_sim_log(sim, "%d gives up a stream to %d", end->out->from, end->out->to);
        end->reset = true;
        end->reset_ns = sim->now_ns;
        rewake(end);
    }
}

static void grow_impatient(struct end *end) {
    if (end->out->dropped && end->sim->o.unacked_ns && !end->impatient) {
        end->impatient = true;
        sim_schedule(end->sim, end->sim->now_ns + end->sim->o.unacked_ns,
                     (struct happen){.call = give_up, .of = end});
    }
}

/* When something given to the way now is all on its way. */
static uint64_t line(struct end *end, size_t bytes) {
    struct culm_sim *sim = end->sim;
    struct way *way = end->out;
    uint64_t slowness = way->slow_until_ns > sim->now_ns ? way->slowness : 1;
    uint64_t own = sim->o.rate ? sim->o.rate(sim->o.event_context, way->from, way->to) : 0;
    uint64_t rate = own ? own : sim->o.bytes_per_ms;
    uint64_t took = rate ? (uint64_t)bytes * 1000000 * slowness / rate : 0;
    took += slowness > 1 ? 1000000 : 0;
    way->line_free_ns = later(way->line_free_ns, sim->now_ns) + took;
    return way->line_free_ns;
}

static void add_piece(struct end *end, size_t bytes, const struct iovec *from, size_t *iov_at,
                      size_t *byte_at) {
    struct end *other = end->other;
    struct piece *piece = malloc(sizeof *piece + bytes);
    if (!piece) {
        abort();
    }
    *piece = (struct piece){.len = bytes};
    for (size_t got = 0; got < bytes;) {
        size_t some = from[*iov_at].iov_len - *byte_at;
        some = some < bytes - got ? some : bytes - got;
        memcpy(piece->bytes + got, (const uint8_t *)from[*iov_at].iov_base + *byte_at, some);
        got += some;
        *byte_at += some;
        if (*byte_at == from[*iov_at].iov_len) {
            ++*iov_at;
            *byte_at = 0;
        }
    }
    flip(end, piece);
    uint64_t at = CULM_NEVER, leaves = line(end, bytes);
    if (!end->out->dropped && other->last_ns != CULM_NEVER) {
        /* Most pieces of a write travel together: that is what cuts a frame, not a time. */
        bool alone = other->last_ns <= end->sim->now_ns || sim_draw(end->sim, 4) == 0;
        at = later(other->last_ns, leaves + (alone ? delay(end->sim) : end->sim->o.latency_ns));
    }
    piece->at_ns = other->last_ns = at;
    *other->last = piece;
    other->last = &piece->next;
    other->inside += bytes;
    grow_impatient(end);
}

static ssize_t stream_write(struct culm_stream *stream, const struct iovec *from, int count) {
    struct end *end = self(stream);
    struct culm_sim *sim = end->sim;
    size_t total = 0, space = room(end), iov_at = 0, byte_at = 0;
    if (end->reset_ns <= sim->now_ns) {
        return -ECONNRESET;
    }
    if (end->shut_out || end->connect_error) {
        return -EPIPE;
    }
    if (end->connected_ns > sim->now_ns || space == 0) {
        return -EAGAIN;
    }
    for (int i = 0; i < count; i++) {
        total += from[i].iov_len;
    }
    total = total < space ? total : space;
    if (end->other->closed) { /* it will be told that nobody listens */
        if (!end->reset && !end->out->dropped) {
            end->reset = true;
            end->reset_ns = end->in->dropped ? CULM_NEVER : sim->now_ns + 2 * delay(sim);
            rewake(end);
        }
        return (ssize_t)total;
    }
    if (!end->unbounded && total > 1 && sim_draw(sim, 100) < sim->o.short_percent) {
        total = 1 + sim_draw(sim, total);
    }
    size_t left = total, limit = sim->o.piece_bytes;
    for (int i = 1; left; i++) {
        size_t some = limit && left > 1 && i < PIECES_MAX
                          ? 1 + sim_draw(sim, limit < left ? limit : left)
                          : left;
        add_piece(end, some, from, &iov_at, &byte_at);
        left -= some;
    }
    sim->totals.bytes += total;
    rewake(end->other);
    return (ssize_t)total;
}

static int stream_connected(struct culm_stream *stream) { return self(stream)->connect_error; }

static void stream_shutdown(struct culm_stream *stream, bool both) {
    struct end *end = self(stream);
    send_fin(end);
    if (both) {
        end->shut_in = true;
        rewake(end);
    }
}

static void stream_watch(struct culm_stream *stream, int events) {
    struct end *end = self(stream);
    if (events != end->events) {
        end->events = events;
        rewake(end);
    }
}

/* Nobody can wait in virtual time. Who waits for room gets all the room there is, as if the other
 * side had read. */
static bool stream_wait(struct culm_stream *stream, int events, uint64_t deadline_ns) {
    struct end *end = self(stream);
    (void)deadline_ns;
    if (events & CULM_STREAM_WRITE) {
        end->unbounded = end->connected_ns <= end->sim->now_ns && !end->connect_error;
        return end->unbounded;
    }
    return readable_at(end) <= end->sim->now_ns;
}

static uint64_t stream_now(struct culm_stream *stream) { return self(stream)->sim->now_ns; }

struct going {
    void (*gone)(void *ctx);
    void *ctx;
};

static void go(struct culm_sim *sim, const struct happen *happen) {
    struct going *going = happen->of;
    (void)sim;
    going->gone(going->ctx);
    free(going);
}

static void stream_close(struct culm_stream *stream, void (*gone)(void *ctx), void *ctx) {
    struct end *end = self(stream);
    close_end(end);
    if (gone) {
        struct going *going = malloc(sizeof *going);
        if (!going) {
            abort();
        }
        *going = (struct going){gone, ctx};
        sim_schedule(end->sim, end->sim->now_ns, (struct happen){.call = go, .of = going});
    }
}

static const struct culm_stream_ops stream_ops = {
    .size = sizeof stream_ops,
    .read = stream_read,
    .write = stream_write,
    .connected = stream_connected,
    .shutdown = stream_shutdown,
    .watch = stream_watch,
    .wait = stream_wait,
    .now_ns = stream_now,
    .close = stream_close,
};

/* --- connecting --- */

static struct end *end_new(struct process *owner) {
    struct culm_sim *sim = owner->sim;
    struct end *end = calloc(1, sizeof *end);
    if (!end) {
        abort();
    }
    end->stream.ops = &stream_ops;
    end->sim = sim;
    end->owner = owner;
    end->last = &end->first;
    end->fin_ns = end->reset_ns = end->connected_ns = end->wake_ns = CULM_NEVER;
    end->next = sim->ends;
    sim->ends = end;
    sim->totals.streams++;
    return end;
}

static void refuse(struct end *end, int error, uint64_t at_ns) {
    end->connect_error = error;
    end->connected_ns = at_ns;
    rewake(end);
}

static void accept_end(struct culm_sim *sim, const struct happen *happen) {
    struct end *end = happen->of;
    struct process *process = happen->to;
    if (end->closed) {
        return;
    }
    if (process->no_descriptors_until_ns > sim->now_ns) { /* it waits in the backlog */
        struct happen again = *happen;
        sim_schedule(sim, sim->now_ns + 100000000, again);
        return;
    }
    sim_accepted(process, &end->stream);
}

/* The first frame of the protocol below arrives, or does not. */
static void knock(struct culm_sim *sim, const struct happen *happen) {
    struct end *end = happen->of;
    uint64_t tries = happen->number;
    struct process *target = sim_process(sim, happen->from);
    if (end->closed) {
        return;
    }
    bool lost =
        end->out->dropped || end->in->dropped || sim_draw(sim, 100) < sim->o.backlog_full_percent;
    if (lost) {
        struct happen again = *happen;
        again.number = tries + 1;
        if (tries + 1 < SYN_TRIES) {
            sim_schedule(sim, sim->now_ns + (SECOND << tries), again);
        } else {
            refuse(end, ETIMEDOUT, sim->now_ns + (SECOND << tries));
        }
        return;
    }
    if (!target->alive || !target->listening || end->out->cut) {
        refuse(end, end->out->cut ? EHOSTUNREACH : ECONNREFUSED, sim->now_ns + delay(sim));
        return;
    }
    struct end *other = end_new(target);
    *other = (struct end){.stream = other->stream,
                          .sim = sim,
                          .owner = target,
                          .other = end,
                          .next = other->next,
                          .out = end->in,
                          .in = end->out,
                          .last = &other->first,
                          .fin_ns = CULM_NEVER,
                          .reset_ns = CULM_NEVER,
                          .wake_ns = CULM_NEVER,
                          .connected_ns = sim->now_ns};
    end->other = other;
    end->connected_ns = sim->now_ns + delay(sim);
    rewake(end);
    sim_schedule(sim, sim->now_ns, (struct happen){.to = target, .call = accept_end, .of = other});
}

static enum culm_status fabric_connect(struct culm_fabric *fabric, const char *address,
                                       struct culm_stream **ret_stream, struct culm_error *error) {
    struct process *process = sim_process_of_fabric(fabric);
    struct culm_sim *sim = process->sim;
    int32_t to;
    if (sscanf(address, CULM_SIM_ADDRESS, &to) != 1 || !sim_process(sim, to)) {
        return culm_error_set(error, CULM_ERR_CONFIG, "'%s': nobody was ever there", address);
    }
    if (process->no_descriptors_until_ns > sim->now_ns) {
        sim->totals.connects_failed++;
        return culm_error_set(error, CULM_ERR_AGAIN, "no descriptors");
    }
    struct end *end = end_new(process);
    end->out = way_of(sim, process->id, to);
    end->in = way_of(sim, to, process->id);
    sim_schedule(sim, sim->now_ns + delay(sim),
                 (struct happen){.call = knock, .of = end, .from = to});
    *ret_stream = &end->stream;
    return CULM_OK;
}

static void ring(struct culm_sim *sim, const struct happen *happen) {
    struct process *process = happen->to;
    (void)sim;
    if (happen->generation == process->alarm_generation) {
        if (process->member) {
            culm_member_alarm(process->member);
        } else {
            culm_roster_alarm(process->roster);
        }
    }
}

static void fabric_alarm(struct culm_fabric *fabric, uint64_t delay_ns) {
    struct process *process = sim_process_of_fabric(fabric);
    process->alarm_generation++;
    if (delay_ns != CULM_NEVER) {
        sim_schedule(process->sim, process->sim->now_ns + delay_ns,
                     (struct happen){.to = process,
                                     .timer = true,
                                     .call = ring,
                                     .generation = process->alarm_generation});
    }
}

static uint64_t fabric_now(struct culm_fabric *fabric) {
    return sim_process_of_fabric(fabric)->sim->now_ns;
}

static enum culm_status fabric_random(struct culm_fabric *fabric, void *ret_bytes, size_t len) {
    struct culm_sim *sim = sim_process_of_fabric(fabric)->sim;
    for (size_t i = 0; i < len; i++) {
        ((uint8_t *)ret_bytes)[i] = (uint8_t)sim_draw(sim, 256);
    }
    return CULM_OK;
}

const struct culm_fabric_ops sim_fabric_ops = {
    .size = sizeof sim_fabric_ops,
    .now_ns = fabric_now,
    .connect = fabric_connect,
    .random = fabric_random,
    .alarm = fabric_alarm,
};

/* --- faults --- */

/* A random suffix of what is on the way to `end` never arrives; it may be cut within a frame. */
static void tear(struct end *end) {
    struct culm_sim *sim = end->sim;
    uint64_t horizon = sim->now_ns + sim_draw(sim, sim->o.latency_ns + sim->o.jitter_ns + 1);
    for (struct piece *piece = end->first; piece; piece = piece->next) {
        if (piece->at_ns > horizon) {
            size_t kept = sim_draw(sim, piece->len);
            uint64_t at = piece->at_ns;
            if (at != CULM_NEVER && kept) {
                end->inside -= piece->len - kept;
                piece->len = kept;
                sim->totals.torn++;
                for (struct piece *rest = piece->next; rest; rest = rest->next) {
                    rest->at_ns = CULM_NEVER;
                }
                forget_pieces(end, at);
            } else {
                forget_pieces(end, horizon);
            }
            end->last_ns = at == CULM_NEVER ? horizon : at;
            return;
        }
    }
}

void sim_fabric_end(struct process *process) {
    struct culm_sim *sim = process->sim;
    for (struct end *end = sim->ends; end; end = end->next) {
        if (end->owner == process && !end->closed) {
            if (end->other && !end->out->dropped && sim_draw(sim, 2)) {
                tear(end->other);
            }
            close_end(end);
        }
    }
}

static bool between(const struct end *end, int32_t one, int32_t other) {
    return (end->out->from == one && end->out->to == other) ||
           (end->out->from == other && end->out->to == one);
}

void culm_sim_cut(struct culm_sim *sim, int32_t one, int32_t other) {
    if (one == other || !sim_process(sim, one) || !sim_process(sim, other) ||
        way_of(sim, one, other)->cut) {
        return;
    }
    culm_sim_log(sim, "%d and %d are cut off from each other", one, other);
    way_of(sim, one, other)->cut = way_of(sim, other, one)->cut = true;
    for (struct end *end = sim->ends; end; end = end->next) {
        if (between(end, one, other) && !end->closed && !end->reset) {
            end->reset = true;
            end->reset_ns = sim->now_ns + delay(sim);
            forget_pieces(end, end->reset_ns);
            rewake(end);
        }
    }
}

/* What was held back goes on. */
static void heal(struct culm_sim *sim, const struct happen *happen) {
    struct way *way = happen->of;
    way->dropped = false;
    culm_sim_log(sim, "the way from %d to %d is healed", way->from, way->to);
    for (struct end *end = sim->ends; end; end = end->next) {
        if (end->in == way) {
            uint64_t at = sim->now_ns + delay(sim);
            for (struct piece *piece = end->first; piece; piece = piece->next) {
                piece->at_ns = piece->at_ns == CULM_NEVER ? at : piece->at_ns;
            }
            end->last_ns = end->last_ns == CULM_NEVER ? at : end->last_ns;
            end->fin_ns = end->fin && end->fin_ns == CULM_NEVER ? at : end->fin_ns;
            end->reset_ns = end->reset && end->reset_ns == CULM_NEVER ? at : end->reset_ns;
            rewake(end);
        } else if (end->out == way && end->unacked) {
            end->inside -= end->unacked;
            end->unacked = 0;
            rewake(end->other);
        }
    }
}

void culm_sim_drop(struct culm_sim *sim, int32_t from, int32_t to, uint64_t for_ns) {
    if (from == to || !sim_process(sim, from) || !sim_process(sim, to)) {
        return;
    }
    struct way *way = way_of(sim, from, to);
    if (way->dropped) {
        return;
    }
    culm_sim_log(sim, "nothing passes from %d to %d any more, and nobody is told", from, to);
    way->dropped = true;
    for (struct end *end = sim->ends; end; end = end->next) {
        if (end->in == way) { /* what is on its way is lost and sent again */
            for (struct piece *piece = end->first; piece; piece = piece->next) {
                piece->at_ns = piece->at_ns > sim->now_ns ? CULM_NEVER : piece->at_ns;
            }
            end->last_ns = end->last_ns > sim->now_ns ? CULM_NEVER : end->last_ns;
            end->fin_ns = end->fin_ns > sim->now_ns ? CULM_NEVER : end->fin_ns;
            end->reset_ns = end->reset_ns > sim->now_ns ? CULM_NEVER : end->reset_ns;
            if (end->other && !end->other->closed) {
                grow_impatient(end->other);
            }
        }
    }
    if (for_ns != CULM_NEVER) {
        sim_schedule(sim, sim->now_ns + for_ns, (struct happen){.call = heal, .of = way});
    }
}

void culm_sim_slow(struct culm_sim *sim, int32_t from, int32_t to, uint32_t times,
                   uint64_t for_ns) {
    if (from != to && sim_process(sim, from) && sim_process(sim, to)) {
        culm_sim_log(sim, "the way from %d to %d is %u times as slow", from, to, times);
        struct way *way = way_of(sim, from, to);
        way->slowness = times;
        way->slow_until_ns = sim->now_ns + for_ns;
    }
}

void culm_sim_flip(struct culm_sim *sim, int32_t from, int32_t to, int64_t after_bytes) {
    if (from != to && sim_process(sim, from) && sim_process(sim, to)) {
        way_of(sim, from, to)->flip_at = after_bytes;
    }
}

void sim_fabric_free(struct culm_sim *sim) {
    for (size_t i = 0; i < sim->heap_count; i++) {
        if (sim->heap[i].call == go) {
            go(sim, &sim->heap[i]);
        }
    }
    while (sim->ends) {
        struct end *end = sim->ends;
        sim->ends = end->next;
        forget_pieces(end, 0);
        while (end->first) { /* what had arrived at once */
            struct piece *piece = end->first;
            end->first = piece->next;
            free(piece);
        }
        free(end);
    }
}
