/* A crew: who is silent, who is stuck, who failed. See crew.h, patience.h, failures.h. */
#include "crew/crew_internal.h"

#include "base/mark.h"

#include <stdio.h>

#define MS 1000000ull

void crew_heartbeat(struct culm_mate *mate, const struct culm_message *message) {
    struct culm_heartbeat beat;
    if (culm_heartbeat_decode(message->meta, message->meta_bytes, &beat) != CULM_OK) {
        return;
    }
    uint64_t ran_ns = beat.task_ms > 0 ? (uint64_t)beat.task_ms * MS : 0;
    mate->beat = beat;
    mate->task_began_ns = ran_ns < mate->heard_ns ? mate->heard_ns - ran_ns : 0;
}

void crew_took(struct culm_crew *crew, struct culm_mate *mate, const struct culm_message *message) {
    struct culm_took took;
    if (culm_took_decode(message->meta, message->meta_bytes, &took) == CULM_OK) {
        culm_patience_took(&crew->patience, took.kind, took.part, took.task_ms);
        culm_crew_worked(crew, mate);
    }
}

/* Loses it if its task has taken too long; ends the run if nobody finishes such tasks. */
static void check_task(struct culm_crew *crew, struct culm_mate *mate) {
    const struct culm_heartbeat beat = mate->beat;
    const uint64_t began = mate->task_began_ns;
    if (beat.kind < 0) {
        return;
    }
    int64_t limit = culm_patience_limit_ms(&crew->patience, beat.kind, beat.part, began);
    if (beat.task_ms <= limit) {
        return;
    }
    CULM_MARK(crew_stuck_is_lost);
    char task[64], why[160];
    crew->ops->name_task(beat.kind, beat.part, task, sizeof task);
    snprintf(why, sizeof why, "%s has taken %lld ms; the limit was %lld ms", task,
             (long long)beat.task_ms, (long long)limit);
    const struct culm_patience_row *row = culm_patience_lost(
        &crew->patience, beat.kind, beat.part, beat.task_ms, began, culm_crew_now(crew));
    culm_crew_lose(crew, mate, CULM_CAUSE_STUCK, why);
    if (row && row->tries >= CULM_PATIENCE_TRIES) {
        CULM_MARK(crew_nobody_finishes_a_task);
        culm_crew_fail(crew, CULM_ERR_TIMEOUT,
                       "no %s finishes %s: %d limits from %lld ms to %lld ms were too short; if it "
                       "takes longer, raise cluster.stuck_ms, or %s",
                       crew->ops->noun, task, row->tries, (long long)row->first_ms,
                       (long long)limit, crew->ops->shorter);
    }
}

/* --- those who fail --- */

void crew_failed(struct culm_crew *crew, struct culm_mate *mate,
                 const struct culm_message *message) {
    struct culm_failed failed;
    if (culm_failed_decode(message->meta, message->meta_bytes, &failed) == CULM_OK) {
        culm_crew_failed(crew, mate, &failed);
    }
}

/* Counts it, of its origin. How many now speak against the work itself, or 0. */
static int32_t add_failure(struct culm_crew *crew, const struct culm_mate *mate, int64_t version,
                           enum culm_status status) {
    /* Of a newcomer there may still be one that is started here. */
    bool others = mate->origin != 0 && !crew->traced && crew->settings.replace_ms >= 0;
    for (int32_t i = 0; i < crew->mates.count; i++) {
        const struct culm_mate *other = culm_crew_at(crew, i);
        others |= other->alive && other->role == mate->role && other->origin != mate->origin;
    }
    if (others) {
        CULM_MARK(crew_failed_and_there_are_others);
    }
    return culm_failures_add(&crew->failures, version, (int32_t)status, mate->origin, others);
}

/* Ends the run if so many failures speak against the work itself. */
static void end_if(struct culm_crew *crew, int32_t failures, uint32_t role, int32_t id,
                   enum culm_status status, const char *why) {
    char place[64];
    if (failures > 0 && !crew->left) {
        CULM_MARK(crew_failed_too_often);
        crew->ops->name_place(crew, place, sizeof place);
        culm_crew_fail(crew, status, "%s: %s %d failed, as %d others did before%s: %s", place,
                       crew->role[role].name, id, failures - 1,
                       failures < CULM_FAILURES_KEPT ? "" : " while nothing new was done", why);
    }
}

void culm_crew_failed(struct culm_crew *crew, struct culm_mate *mate,
                      const struct culm_failed *failed) {
    const int32_t id = mate->id;
    const uint32_t role = mate->role;
    if (crew->ops->failed && crew->ops->failed(crew, mate, failed)) {
        culm_crew_lose(crew, mate, CULM_CAUSE_FAILED, failed->why);
        return;
    }
    if (failed->status == CULM_ERR_CHANGED && !mate->newcomer) { /* for all who read that file */
        CULM_MARK(crew_inputs_have_changed);
        culm_crew_fail(crew, failed->status, "%s %d: %s", crew->role[role].name, id, failed->why);
        return;
    }
    int32_t failures = add_failure(crew, mate, crew->ops->version(crew), failed->status);
    culm_crew_lose(crew, mate, CULM_CAUSE_FAILED, failed->why);
    end_if(crew, failures, role, id, failed->status, failed->why);
    if (culm_crew_alive(crew) == 0 && culm_crew_nobody_comes(crew, role)) {
        CULM_MARK(crew_last_one_failed);
        culm_crew_fail(crew, failed->status, "%s %d: %s", crew->role[role].name, id, failed->why);
    }
}

void crew_out_of_memory(struct culm_crew *crew, struct culm_mate *mate,
                        const struct culm_error *why) {
    CULM_MARK(crew_killed_for_memory);
    if (crew->left || (crew->ops->does_without && crew->ops->does_without(crew, mate->role))) {
        return;
    }
    int32_t failures = add_failure(crew, mate, mate->lost_version, why->status);
    end_if(crew, failures, mate->role, mate->id, why->status, why->text);
}

/* --- at every tick --- */

/* Whether it is kept in the run though it is silent: its copy may be the last one of something. Only where nodes outlive their
 * leader: others end with it. */
static bool is_kept(struct culm_crew *crew, struct culm_mate *mate) {
    char what[40], why[120];
    const bool kept = crew->record && crew->ops->last_copy && !culm_crew_has_ended(crew, mate) &&
                      crew->ops->last_copy(crew, mate, what, sizeof what);
    if (kept && !mate->kept) {
        CULM_MARK(crew_silent_may_have_the_last_copy);
        snprintf(why, sizeof why, "node %d is silent, and may have the last copy of %s",
                 (int)mate->id, what);
        culm_crew_event(crew, json_pack("{s:s, s:i, s:i, s:s}", "event", "waiting", "need",
                                        crew->alive, "have", crew->alive - 1, "message", why));
    }
    mate->kept = kept;
    if (kept) {
        culm_crew_is_vain(crew);
    }
    return kept;
}

static void check_mates(struct culm_crew *crew, uint64_t now, bool slept) {
    uint64_t suspect = (uint64_t)crew->settings.suspect_ms * MS;
    for (int32_t i = 0; i < crew->mates.count && !crew->left; i++) {
        struct culm_mate *mate = culm_crew_at(crew, i);
        if (mate->kill_ns <= now && crew->writing) {
            CULM_MARK(
                crew_suspect_lives_while_a_deed_is_in_doubt); /* another leader may have to hear of it */
        } else if (mate->kill_ns <= now) {
            CULM_MARK(crew_suspect_is_ended);
            crew_end_never(crew, mate);
            crew->agent->ops->end(crew->agent, mate->id);
        }
        if (slept) { /* what they said meanwhile is still to be read */
            mate->heard_ns = now;
        }
        if (!mate->alive || crew->taking) {
            continue;
        }
        if (now <= mate->heard_ns + suspect) {
            mate->kept = false;
        }
        if (now > mate->heard_ns + suspect && is_kept(crew, mate)) {
            continue;
        }
        if (now > mate->heard_ns + suspect) {
            CULM_MARK(crew_silent_is_lost);
            culm_crew_lose(crew, mate, CULM_CAUSE_HEARTBEAT, NULL);
        } else {
            check_task(crew, mate);
        }
    }
}

/* A leader that was frozen itself has heard nobody. Half a limit is not enough to miss a node. */
bool crew_has_slept(const struct culm_crew *crew) {
    const uint64_t limit = (uint64_t)crew->settings.suspect_ms * MS;
    return crew->tick_ns && culm_crew_now(crew) - crew->tick_ns > limit / 2;
}

void crew_tick(struct culm_crew *crew) {
    const uint64_t now = culm_crew_now(crew);
    const bool slept = crew_has_slept(crew);
    if (slept) {
        CULM_MARK(crew_leader_slept);
        crew->slept_round = true;
    }
    crew->tick_ns = now;
    crew_forget_ended(crew);
    check_mates(crew, now, slept);
    crew_check_links(crew, slept);
    culm_crew_review_now(crew);
    culm_crew_start_due(crew);
    if (!crew->left) {
        crew->ops->tick(crew, now);
    }
    if (!crew->left) {
        crew_watch_stall(crew, now, slept);
    }
    crew_resign_if_due(crew);
    crew_wait_check(crew);
    if (!crew->left) {
        culm_tell_timer(&crew->tell, CULM_CREW_TICK, crew->settings.heartbeat_ms);
    }
}

void culm_crew_on_timer(void *actor, uint32_t timer) {
    struct culm_crew *crew = actor;
    if (crew->left) {
        return;
    }
    if (timer == CULM_CREW_TICK) {
        crew_tick(crew);
    } else if (timer == CULM_CREW_DUE) {
        culm_crew_review_now(crew);
        culm_crew_start_due(crew);
        crew->ops->tick(crew, culm_crew_now(crew));
        crew_wait_check(crew);
    } else if (timer == CULM_CREW_REVIEW) {
        culm_crew_review_now(crew);
    }
}
