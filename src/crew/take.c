/* A leader that takes over. See take.h. */
#include "crew/take.h"

#include "base/json.h"
#include "base/mark.h"

#define NOBODY (-1)

bool culm_take_begin(struct culm_crew *crew, const struct culm_known_node *known, int32_t count) {
    bool room = true;
    crew->taking = crew->committed = true; /* the run has begun before */
    crew->take = (struct culm_crew_take){.began_ns = culm_crew_now(crew), .asked = NOBODY};
    for (int32_t i = 0; i < count && room; i++) {
        room = culm_crew_await(crew, &known[i]);
    }
    return room;
}

void culm_take_end(struct culm_crew *crew) {
    for (int32_t i = 0; i < crew->mates.count; i++) {
        culm_crew_at(crew, i)->reported = false;
    }
    crew->taking = false;
}

/* --- who has reported --- */

void culm_take_reported(struct culm_mate *mate, uint64_t view, int64_t first) {
    mate->reported = true;
    mate->reported_view = view;
    mate->reported_first = first;
}

bool culm_take_has_reported(const struct culm_mate *mate) {
    return mate && mate->alive && mate->reported;
}

/* May it still be heard before long? */
static bool is_expected(const struct culm_crew *crew, const struct culm_mate *mate) {
    return mate->alive && mate->known && !mate->reported &&
           !culm_crew_is_silent(crew, mate, crew->settings.suspect_ms);
}

bool culm_take_may_live(const struct culm_crew *crew, const struct culm_mate *mate) {
    return mate && mate->alive && mate->known && !mate->reported &&
           !culm_crew_has_ended(crew, mate);
}

/* One that has reported, and then nothing more for so long that it has ended. */
static bool lose_ended(struct culm_crew *crew) {
    for (int32_t i = 0; i < crew->mates.count; i++) {
        struct culm_mate *mate = culm_crew_at(crew, i);
        if (culm_take_has_reported(mate) && culm_crew_has_ended(crew, mate)) {
            CULM_MARK(crew_reported_and_fell_silent);
            culm_crew_lose(crew, mate, CULM_CAUSE_HEARTBEAT, NULL);
            return true;
        }
    }
    return false;
}

bool culm_take_is_heard(struct culm_crew *crew, uint64_t *ret_newest, bool *ret_lives) {
    *ret_newest = 0;
    *ret_lives = false;
    if (lose_ended(crew)) {
        return false;
    }
    for (int32_t i = 0; i < crew->mates.count; i++) {
        const struct culm_mate *mate = culm_crew_at(crew, i);
        if (is_expected(crew, mate)) {
            return false;
        }
        if (culm_take_has_reported(mate) && mate->reported_view > *ret_newest) {
            *ret_newest = mate->reported_view;
        }
        *ret_lives |= culm_take_may_live(crew, mate);
    }
    return true;
}

/* --- what one of them shows --- */

/* Of those with that view who are heard, the one who can tell of most commits. */
static const struct culm_mate *best_to_ask(const struct culm_crew *crew, uint64_t newest) {
    const struct culm_mate *best = NULL;
    for (int32_t i = 0; i < crew->mates.count; i++) {
        const struct culm_mate *mate = culm_crew_at(crew, i);
        if (culm_take_has_reported(mate) && mate->reported_view == newest &&
            !culm_crew_is_silent(crew, mate, crew->settings.suspect_ms) &&
            (!best ||
             (mate->reported_first > 0 &&
              (best->reported_first == 0 || mate->reported_first < best->reported_first)))) {
            best = mate;
        }
    }
    return best;
}

bool culm_take_asks(struct culm_crew *crew, uint64_t newest, uint16_t type) {
    struct culm_crew_take *take = &crew->take;
    const struct culm_mate *asked = take->asked < 0 ? NULL : culm_crew_find(crew, take->asked);
    if (take->asked_for == newest && take->shown) {
        return false;
    }
    if (culm_take_has_reported(asked) && take->asked_for == newest &&
        !culm_crew_is_silent(crew, asked, crew->settings.suspect_ms)) {
        return true;
    }
    const struct culm_mate *best = best_to_ask(crew, newest);
    if (!best) {
        return true; /* until one is heard again, or has ended */
    }
    take->asked = best->id;
    take->asked_for = newest;
    take->shown = false;
    culm_buf_clear(culm_crew_meta(crew));
    culm_crew_send(crew, take->asked, type);
    return true;
}

bool culm_take_is_asked(const struct culm_crew *crew, const struct culm_mate *mate) {
    return mate->id == crew->take.asked;
}

void culm_take_shown(struct culm_crew *crew) { crew->take.shown = true; }

/* --- what is said of it --- */

void culm_take_waits(struct culm_crew *crew, const char *why) {
    culm_crew_is_vain(crew);
    if (!crew->take.told) {
        crew->take.told = true;
        culm_crew_event(crew, json_pack("{s:s, s:i, s:i, s:o}", "event", "waiting", "need",
                                        crew->mates.count, "have", culm_crew_alive(crew), "message",
                                        culm_json_text(why)));
    }
}

void culm_take_tell(struct culm_crew *crew, uint64_t term, const char *reason) {
    const double took = (double)(culm_crew_now(crew) - crew->take.began_ns) / 1e6;
    culm_crew_event(crew, json_pack("{s:s, s:I, s:s, s:f}", "event", "leader", "term",
                                    (json_int_t)term, "reason", reason, "took_ms", took));
}
