/* A leader's half of a crew: who is there, and what is said. See crew.h. */
#include "crew/crew_internal.h"

#include "base/grow.h"
#include "base/json.h"
#include "base/mark.h"
#include "base/rng.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define LEAVE_MS 2000 /* for one that failed, to say so in its log */
#define RESIGN_MS 500 /* from one attempt to the next */

void culm_crew_init(struct culm_crew *crew, const struct culm_crew_ops *ops,
                    struct culm_world *world, struct culm_agent *agent,
                    const struct culm_crew_settings *settings, size_t meta_max, int64_t version,
                    int32_t kinds, int32_t parts) {
    *crew = (struct culm_crew){
        .ops = ops, .agent = agent, .settings = *settings, .here_most = INT32_MAX};
    culm_teller_init(&crew->tell, world, meta_max);
    crew->led_ns = culm_crew_now(crew);
    culm_patience_init(&crew->patience, settings->stuck_ms, kinds, parts);
    culm_failures_init(&crew->failures, version);
}

void culm_crew_add_role(struct culm_crew *crew, const char *name, int32_t wanted) {
    crew->role[crew->roles++] =
        (struct culm_crew_role){.name = name, .wanted = wanted, .until_ns = CULM_NEVER};
}

/* Frees it, and what the owner has of it. */
static void forget(struct culm_crew *crew, struct culm_mate *mate) {
    crew->ops->forget_answer(crew, mate);
    if (crew->ops->forget) {
        crew->ops->forget(crew, mate);
    }
    culm_ids_release(&mate->broken);
    free(mate);
}

void culm_crew_release(struct culm_crew *crew) {
    for (int32_t i = 0; i < crew->mates.count; i++) {
        forget(crew, culm_crew_at(crew, i));
    }
    for (uint32_t r = 0; r < crew->roles; r++) {
        free(crew->role[r].due_ns);
    }
    culm_ids_release(&crew->mates);
    free(crew->link);
    free(crew->pause_ms);
    culm_teller_release(&crew->tell);
}

/* --- speaking --- */

uint64_t culm_crew_now(const struct culm_crew *crew) { return culm_tell_now(&crew->tell); }

struct culm_buf *culm_crew_meta(struct culm_crew *crew) {
    return culm_tell_meta(&crew->tell);
}

void culm_crew_send(struct culm_crew *crew, int32_t to, uint16_t type) {
    if (!culm_tell(&crew->tell, to, type, NULL, 0, 0)) {
        culm_crew_fail(crew, CULM_ERR_MEMORY, "out of memory for a message");
    }
}

void culm_crew_send_all(struct culm_crew *crew, uint16_t type) {
    for (int32_t i = 0; i < crew->mates.count; i++) {
        if (culm_crew_at(crew, i)->alive) {
            culm_crew_send(crew, culm_crew_at(crew, i)->id, type);
        }
    }
}

void culm_crew_event(struct culm_crew *crew, json_t *take_event_or_null) {
    if (take_event_or_null) {
        json_object_set_new(take_event_or_null, "view",
                            json_integer((json_int_t)(crew->view & UINT32_MAX)));
        crew->tell.world->ops->publish(crew->tell.world, take_event_or_null);
    }
}

const char *culm_cause_name(enum culm_cause cause) {
    static const char *const name[] = {
        [CULM_CAUSE_EOF] = "eof",
        [CULM_CAUSE_EXIT] = "exit",
        [CULM_CAUSE_HEARTBEAT] = "heartbeat",
        [CULM_CAUSE_STUCK] = "stuck",
        [CULM_CAUSE_STALLED] = "stalled",
        [CULM_CAUSE_FAILED] = "failed",
        [CULM_CAUSE_DIFFERS] = "differs",
        [CULM_CAUSE_REMOVED] = "removed",
        [CULM_CAUSE_PEER] = "peer",
        [CULM_CAUSE_LEFT] = "left",
    };
    return name[cause];
}

json_t *culm_crew_lost_event(const struct culm_crew *crew, const struct culm_mate *mate,
                             enum culm_cause cause, const char *why_or_null) {
    json_t *event = json_pack("{s:s, s:i, s:s}", "event", "lost", "node", (int)mate->id, "cause",
                              culm_cause_name(cause));
    if (!event) {
        return NULL;
    }
    if (mate->pid > 0) {
        json_object_set_new(event, "pid", json_integer((json_int_t)mate->pid));
    }
    if (crew->names_roles) {
        json_object_set_new(event, "role", json_string(crew->role[mate->role].name));
    }
    if (cause == CULM_CAUSE_HEARTBEAT || cause == CULM_CAUSE_STUCK) {
        double silent_ms = (double)(culm_crew_now(crew) - mate->heard_ns) / 1e6;
        json_object_set_new(
            event, "for_ms",
            json_real(cause == CULM_CAUSE_STUCK ? (double)mate->beat.task_ms : silent_ms));
    }
    if (why_or_null) {
        json_object_set_new(event, "message", culm_json_text(why_or_null));
    }
    return event;
}

void culm_crew_leave(struct culm_crew *crew, int exit_code,
                     const struct culm_error *error_or_null) {
    if (crew->left) {
        return;
    }
    crew->left = true;
    if (crew->ops->over) {
        crew->ops->over(crew);
    }
    const struct culm_end end = {exit_code & 255};
    culm_end_encode(&end, culm_crew_meta(crew));
    culm_crew_send_all(crew, CULM_WORD_END);
    crew->tell.world->ops->leave(crew->tell.world, exit_code, error_or_null);
}

void culm_crew_is_vain(struct culm_crew *crew) {
    const uint64_t now = culm_crew_now(crew), limit = (uint64_t)crew->settings.suspect_ms * MS;
    if (!crew->record || !crew->record->ops->give_up || crew->left || now < crew->led_ns + limit ||
        now < crew->vain_ns + limit) {
        return;
    }
    CULM_MARK(crew_another_one_is_to_try);
    crew->vain_ns = now;
    crew->record->ops->give_up(crew->record);
}

/* One that is released has ended first: else the next leader waits for it. */
void crew_resign_if_due(struct culm_crew *crew) {
    const uint64_t now = culm_crew_now(crew);
    bool waits = !crew->resigns || !crew->resign_due || crew->left || !crew->record ||
                 !crew->record->ops->give_up ||
                 (crew->resigned_ns > 0 && now < crew->resigned_ns + RESIGN_MS * MS);
    for (int32_t i = 0; i < crew->mates.count && !waits; i++) {
        waits = culm_crew_at(crew, i)->released && !culm_crew_at(crew, i)->ended;
    }
    if (!waits) {
        CULM_MARK(crew_resigns_after_a_boundary);
        crew->resigned_ns = now;
        crew->record->ops->give_up(crew->record);
    }
}

void culm_crew_boundary(struct culm_crew *crew) {
    crew->resign_due = crew->resigns;
    crew_resign_if_due(crew);
}

void culm_crew_on_resign(void *actor) { ((struct culm_crew *)actor)->resigns = true; }

static bool write_about(struct culm_crew *crew, enum culm_deed deed, int64_t step,
                        const char *about) {
    if (!crew->record || crew->left) {
        return false;
    }
    assert(!crew->writing);
    if (deed == CULM_DEED_ROLL_BACK) {
        culm_crew_is_vain(crew);
    }
    crew->writing = true;
    crew->record->ops->write(crew->record, deed, step, about);
    return true;
}

bool culm_crew_write(struct culm_crew *crew, enum culm_deed deed, int64_t step) {
    return write_about(crew, deed, step, "");
}

bool culm_crew_write_commit(struct culm_crew *crew, int64_t version, const char *about) {
    return write_about(crew, CULM_DEED_COMMIT, version, about);
}

void culm_crew_on_written(void *actor, enum culm_deed deed) {
    struct culm_crew *crew = actor;
    crew->writing = false;
    if (!crew->left) {
        crew->ops->written(crew, deed);
    }
}

void culm_crew_on_deposed(void *actor, uint64_t term) { culm_crew_give_way(actor, term); }

/* It does not go on for as long as it likes where another one may lead, whom nodes that it cannot reach obey. */
void culm_crew_on_away(void *actor, int64_t ms) {
    struct culm_crew *crew = actor;
    const bool cut_off = crew->settings.store_ms > 0 && ms >= crew->settings.store_ms;
    if (crew->left || cut_off == crew->cut_off) {
        return;
    }
    crew->cut_off = cut_off;
    if (cut_off) {
        CULM_MARK(crew_is_cut_off);
        culm_crew_event(crew, json_pack("{s:s, s:s}", "event", "warning", "message",
                                        "what decides who leads does not answer: nothing is "
                                        "committed until it does"));
    }
    if (crew->ops->cut) {
        crew->ops->cut(crew);
    }
}

void culm_crew_give_way(struct culm_crew *crew, uint64_t term) {
    struct culm_error error;
    if (crew->left) {
        return;
    }
    CULM_MARK(crew_gives_way_to_another_leader);
    crew->left = true;
    if (crew->ops->over) {
        crew->ops->over(crew);
    }
    char which[40] = "";
    if (term > 0) {
        snprintf(which, sizeof which, " (term %llu)", (unsigned long long)term);
    }
    culm_error_set(&error, CULM_ERR_CLOSED,
                   "another process leads this run now%s; this one leads no more", which);
    crew->tell.world->ops->leave(crew->tell.world, 1, &error);
}

void culm_crew_fail(struct culm_crew *crew, enum culm_status status, const char *format, ...) {
    if (crew->left) {
        return;
    }
    struct culm_error error;
    va_list args;
    va_start(args, format);
    culm_error_setv(&error, status, format, args);
    va_end(args);
    culm_crew_event(crew,
                    json_pack("{s:s, s:s, s:o}", "event", "error", "code", culm_status_name(status),
                              "message", culm_json_text(error.text)));
    culm_crew_leave(crew, culm_status_exit_code(status), &error);
}

/* --- who is there --- */

struct culm_mate *culm_crew_find(const struct culm_crew *crew, int32_t id) {
    return culm_ids_find(&crew->mates, id);
}

int32_t culm_crew_present(const struct culm_crew *crew, uint32_t role) {
    return crew->role[role].present;
}

int32_t culm_crew_alive(const struct culm_crew *crew) { return crew->alive; }

/* Never 0. */
static uint64_t hash_of(const char *name) { return culm_rng_mix_bytes(0, name, strlen(name)) | 1; }

/* What is started elsewhere, and does not say where, is named after its machine. */
static uint64_t origin_of(const struct culm_node_info *info) {
    return info->machine && !info->machine[0] ? 0
                                              : hash_of(info->machine ? info->machine : info->name);
}

static void count_present(struct culm_crew *crew, const struct culm_mate *mate, int32_t by) {
    crew->role[mate->role].present += by;
    crew->role[mate->role].here += mate->newcomer ? 0 : by;
}

/* NULL: out of memory. */
static struct culm_mate *add(struct culm_crew *crew, int32_t id,
                             const struct culm_node_info *info) {
    struct culm_mate *mate = calloc(1, crew->ops->mate_bytes);
    if (!mate || !culm_ids_put(&crew->mates, id, mate)) {
        free(mate);
        return NULL;
    }
    *mate = (struct culm_mate){.id = id,
                               .role = info->role,
                               .alive = true,
                               .newcomer = crew->agent->ops->role(crew->agent, id) >= crew->roles,
                               .pid = info->pid,
                               .joined_ns = culm_crew_now(crew),
                               .heard_ns = culm_crew_now(crew),
                               .kill_ns = CULM_NEVER,
                               .beat = {.kind = -1}};
    snprintf(mate->name, sizeof mate->name, "%s", info->name);
    snprintf(mate->host, sizeof mate->host, "%s", info->host ? info->host : "");
    snprintf(mate->zone_name, sizeof mate->zone_name, "%s", info->zone ? info->zone : "");
    mate->origin = mate->newcomer ? origin_of(info) : 0;
    mate->zone = mate->zone_name[0] ? hash_of(mate->zone_name) : 0;
    crew->alive++;
    count_present(crew, mate, 1);
    return mate;
}

void culm_crew_add_place(json_t *event, const struct culm_mate *mate) {
    if (mate->host[0]) {
        json_object_set_new(event, "host", culm_json_text(mate->host));
    }
    if (mate->zone_name[0]) {
        json_object_set_new(event, "zone", culm_json_text(mate->zone_name));
    }
}

bool culm_crew_await(struct culm_crew *crew, const struct culm_known_node *known) {
    struct culm_mate *mate = add(crew, known->node, &known->info);
    if (mate) {
        mate->known = mate->awaited = true;
    }
    return mate != NULL;
}

bool culm_crew_is_silent(const struct culm_crew *crew, const struct culm_mate *mate, int64_t ms) {
    return culm_crew_now(crew) > mate->heard_ns + (uint64_t)ms * MS;
}

bool culm_crew_is_heard(const struct culm_crew *crew, const struct culm_mate *mate) {
    return mate->alive && !culm_crew_is_silent(crew, mate, crew->settings.suspect_ms / 3);
}

bool culm_crew_has_ended(const struct culm_crew *crew, const struct culm_mate *mate) {
    return culm_crew_is_silent(crew, mate, crew->orphan_ms * 3 / 2);
}

/* It has promised this leader. */
static void came_back(struct culm_crew *crew, struct culm_mate *mate) {
    CULM_MARK(crew_awaited_has_come);
    mate->awaited = false;
    mate->heard_ns = culm_crew_now(crew);
}

void culm_crew_on_joined(void *actor, int32_t node, const struct culm_node_info *info) {
    struct culm_crew *crew = actor;
    struct culm_mate *known = culm_crew_find(crew, node);
    if (!crew->left && known && known->awaited) {
        came_back(crew, known);
        return;
    }
    if (crew->left || info->role >= crew->roles || known) {
        return;
    }
    if (crew->most > 0 && culm_crew_alive(crew) >= crew->most) {
        CULM_MARK(crew_joins_and_there_is_no_room);
        crew->agent->ops->end(crew->agent,
                              node); /* of which it is told, as of one that never joined */
        return;
    }
    struct culm_mate *mate = add(crew, node, info);
    if (!mate) {
        culm_crew_fail(crew, CULM_ERR_MEMORY, "out of memory");
        return;
    }
    crew_start_came(crew, mate);
    crew->ops->came(crew, mate);
    crew_wait_check(crew);
}

static void end_later(struct culm_crew *crew, struct culm_mate *mate, int64_t ms) {
    mate->kill_ns = culm_crew_now(crew) + (uint64_t)ms * MS;
    crew->suspects++;
}

void crew_end_never(struct culm_crew *crew, struct culm_mate *mate) {
    crew->suspects -= mate->kill_ns != CULM_NEVER;
    mate->kill_ns = CULM_NEVER;
}

static void tell_fenced(struct culm_crew *crew, const struct culm_mate *mate, const char *why) {
    struct culm_fenced fenced;
    snprintf(fenced.why, sizeof fenced.why, "node %d was put out of the run %s; the view is %llu",
             mate->id, why, (unsigned long long)(crew->view & UINT32_MAX));
    culm_fenced_encode(&fenced, culm_crew_meta(crew));
    culm_crew_send(crew, mate->id, CULM_WORD_FENCED);
}

void culm_crew_lose(struct culm_crew *crew, struct culm_mate *mate, enum culm_cause cause,
                    const char *why_or_null) {
    if (!mate->alive || crew->left) {
        return;
    }
    if (mate->leaving && !mate->asks && (cause == CULM_CAUSE_EOF || cause == CULM_CAUSE_EXIT)) {
        CULM_MARK(crew_left_as_it_said);
        mate->alive = false;
        crew->alive--;
        crew->ops->went(crew, mate);
        return;
    }
    const bool counts = !mate->leaving; /* else another was asked for when it began to */
    mate->alive = false;
    crew->alive--;
    count_present(crew, mate, mate->leaving ? 0 : -1);
    mate->lost_version = crew->ops->version(crew);
    crew->lost++;
    if (cause == CULM_CAUSE_HEARTBEAT || cause == CULM_CAUSE_STUCK) {
        CULM_MARK(crew_suspect_may_wake);
        end_later(crew, mate, crew->settings.kill_suspect_ms);
    } else if (cause == CULM_CAUSE_DIFFERS) {
        CULM_MARK(crew_differs_and_may_have_to_say_so_again);
        end_later(crew, mate, crew->settings.kill_suspect_ms);
    } else if (cause == CULM_CAUSE_FAILED) {
        CULM_MARK(crew_failed_may_leave);
        end_later(crew, mate, LEAVE_MS);
    } else {
        if (cause != CULM_CAUSE_EOF && cause != CULM_CAUSE_EXIT) {
            CULM_MARK(
                crew_put_out_is_told_so); /* who outlives a leader would wait for another one */
            tell_fenced(crew, mate,
                        cause == CULM_CAUSE_REMOVED
                            ? "as a trace says"
                            : "since messages between it and others did not arrive");
        }
        crew->agent->ops->end(crew->agent, mate->id);
    }
    if (counts) {
        crew_vacate(crew, mate, cause == CULM_CAUSE_FAILED);
    }
    crew->ops->lost(crew, mate, cause, why_or_null);
    culm_crew_start_due(crew);
    crew_wait_check(crew);
}

void culm_crew_let_go(struct culm_crew *crew, struct culm_mate *mate) {
    if (!mate->leaving) {
        mate->leaving = true;
        count_present(crew, mate, mate->alive ? -1 : 0);
        crew_fill(crew, mate->role);
    }
}

static void tell_released(struct culm_crew *crew, const struct culm_mate *mate) {
    (void)culm_crew_meta(crew);
    culm_crew_send(crew, mate->id, CULM_WORD_RELEASED);
}

void culm_crew_release_mate(struct culm_crew *crew, struct culm_mate *mate) {
    if (!mate->alive || crew->left) {
        return;
    }
    CULM_MARK(crew_asked_to_leave_and_is_released);
    mate->alive = false;
    mate->released = true;
    mate->lost_version = crew->ops->version(crew);
    crew->alive--;
    tell_released(crew, mate);
    end_later(crew, mate, LEAVE_MS);
    culm_crew_start_due(crew);
    crew_wait_check(crew);
}

/* NOTICE has come, perhaps once more: another one is asked for now, so that it is there in time. */
static void asks_to_leave(struct culm_crew *crew, struct culm_mate *mate,
                          const struct culm_message *message) {
    struct culm_notice said;
    if (mate->asks || culm_notice_decode(message->meta, message->meta_bytes, &said) != CULM_OK) {
        return;
    }
    CULM_MARK(crew_asks_to_leave);
    mate->asks = true;
    culm_crew_event(crew,
                    json_pack("{s:s, s:i, s:s, s:I}", "event", "notice", "node", (int)mate->id,
                              "source", "sigterm", "deadline_ms", (json_int_t)said.within_ms));
    if (!mate->leaving) {
        mate->leaving = true;
        count_present(crew, mate, -1);
        crew_vacate(crew, mate, false);
    }
    crew->ops->leaves(crew, mate);
    culm_crew_start_due(crew);
}

void culm_crew_recovered(struct culm_crew *crew, double pause_ms) {
    if (CULM_GROW(crew->pause_ms, crew->pause_capacity, crew->pause_count + 1)) {
        crew->pause_ms[crew->pause_count++] = pause_ms; /* else it is missing from statistics */
    }
}

void culm_crew_pauses(struct culm_crew *crew, double *ret_median_ms, double *ret_longest_ms) {
    *ret_median_ms = culm_median(crew->pause_ms, (size_t)crew->pause_count); /* sorts */
    *ret_longest_ms = crew->pause_count ? crew->pause_ms[crew->pause_count - 1] : 0;
}

void culm_crew_committed(struct culm_crew *crew, int64_t version, double round_ms) {
    crew->committed = crew->forgets = true;
    culm_failures_committed(&crew->failures, version);
    culm_patience_committed(&crew->patience);
    if (crew->slept_round || crew_has_slept(crew)) {
        CULM_MARK(crew_round_of_a_leader_that_slept);
        round_ms = -1; /* others were not as slow */
    }
    crew->slept_round = false;
    culm_stall_round(&crew->stall, round_ms);
}

/* A timer without delay fires after what a world has to tell already. */
void culm_crew_review_soon(struct culm_crew *crew, const char *why) {
    if (crew->review_why || crew->left) {
        return;
    }
    crew->review_why = why;
    culm_tell_timer(&crew->tell, CULM_CREW_REVIEW, 0);
}

void culm_crew_review_now(struct culm_crew *crew) {
    const char *why = crew->review_why;
    crew->review_why = NULL;
    if (why && !crew->left) {
        crew->ops->review(crew, why);
    }
}

void crew_forget_ended(struct culm_crew *crew) {
    for (int32_t i = crew->mates.count - 1; i >= 0 && crew->forgets; i--) {
        struct culm_mate *mate = culm_crew_at(crew, i);
        if (!mate->alive && mate->ended) {
            CULM_MARK(crew_ended_is_forgotten);
            forget(crew, culm_ids_take(&crew->mates, mate->id));
        }
    }
    crew->forgets = false;
}

void culm_crew_on_lost(void *actor, int32_t node) {
    struct culm_crew *crew = actor;
    struct culm_mate *mate = culm_crew_find(crew, node);
    if (mate) {
        culm_crew_lose(crew, mate, CULM_CAUSE_EOF, NULL);
    }
}

void culm_crew_on_ended(void *actor, int32_t node, const struct culm_error *why) {
    struct culm_crew *crew = actor;
    struct culm_mate *mate = culm_crew_find(crew, node);
    if (crew->left) {
        return;
    }
    if (mate) {
        if (mate->alive) {
            CULM_MARK(crew_ended_before_its_link);
        }
        culm_crew_lose(crew, mate, CULM_CAUSE_EXIT, why ? why->text : NULL);
        mate->ended = true;
        crew_end_never(crew, mate); /* a closed connection alone ends no process */
        if (why && why->status == CULM_ERR_MEMORY) {
            crew_out_of_memory(crew, mate, why);
        }
        return;
    }
    uint32_t role = crew->agent->ops->role(crew->agent, node);
    if (role < crew->roles) {
        crew_start_failed(crew, role, why);
    } else {
        CULM_MARK(crew_newcomer_ended); /* it was not asked for */
    }
}

void culm_crew_on_removed(void *actor, int32_t node) {
    struct culm_crew *crew = actor;
    struct culm_mate *mate = culm_crew_find(crew, node);
    if (mate) {
        culm_crew_lose(crew, mate, CULM_CAUSE_REMOVED, NULL);
    }
}

/* --- messages --- */

/* One that is lost has spoken: it is told to end, each time. */
static void fence(struct culm_crew *crew, struct culm_mate *mate) {
    tell_fenced(crew, mate, "while it was silent");
    if (!mate->fenced) {
        CULM_MARK(crew_fenced);
        mate->fenced = true;
        culm_crew_event(crew, json_pack("{s:s, s:i}", "event", "fenced", "node", (int)mate->id));
    }
}

void culm_crew_on_message(void *actor, int32_t from, const struct culm_message *message) {
    struct culm_crew *crew = actor;
    struct culm_mate *mate = crew->left ? NULL : culm_crew_find(crew, from);
    if (!mate) {
        return;
    }
    if (mate->released) {
        tell_released(crew, mate); /* it may not have heard it */
        return;
    }
    if (!mate->alive) {
        fence(crew, mate);
        return;
    }
    mate->heard_ns = culm_crew_now(crew);
    switch (message->type) {
    case CULM_WORD_HEARTBEAT: crew_heartbeat(mate, message); break;
    case CULM_WORD_TOOK: crew_took(crew, mate, message); break;
    case CULM_WORD_PEER_LOST: crew_peer_lost(crew, mate, message); break;
    case CULM_WORD_FAILED: crew_failed(crew, mate, message); break;
    case CULM_WORD_NOTICE: asks_to_leave(crew, mate, message); break;
    default: crew->ops->message(crew, mate, message); break;
    }
}

void culm_crew_begin(struct culm_crew *crew) {
    for (uint32_t r = 0; r < crew->roles; r++) {
        crew_fill(crew, r);
    }
    culm_crew_start_due(crew);
    crew_tick(crew);
}
