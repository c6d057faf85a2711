/*
 * A crew: nothing moves, though everyone is alive and nobody works. See crew.h, stall.h.
 *
 * A link may swallow frames in one direction while both its ends talk on to the leader. So when no task runs, none
 * has ended and no frame has come anywhere for some time, everyone is asked, and by the answers the owner says who
 * is to go. Who does not answer goes first. If nobody can be blamed, all say once more what they have.
 */
#include "crew/crew_internal.h"

#include "base/mark.h"

#include <stdio.h>

static bool is_asked(const struct culm_crew *crew, const struct culm_mate *mate) {
    return mate->alive && (!crew->ops->asked || crew->ops->asked(crew, mate));
}

static void forget_answers(struct culm_crew *crew) {
    for (int32_t i = 0; i < crew->mates.count; i++) {
        culm_crew_at(crew, i)->answered = false;
        crew->ops->forget_answer(crew, culm_crew_at(crew, i));
    }
}

static void ask(struct culm_crew *crew) {
    forget_answers(crew);
    const struct culm_ask ask = {.question = crew->stall.question};
    culm_ask_encode(&ask, culm_crew_meta(crew));
    for (int32_t i = 0; i < crew->mates.count; i++) {
        if (is_asked(crew, culm_crew_at(crew, i))) {
            culm_crew_send(crew, culm_crew_at(crew, i)->id, CULM_WORD_ASK);
        }
    }
}

bool culm_crew_answers(struct culm_crew *crew, struct culm_mate *mate, uint64_t question) {
    if (!crew->stall.asked_ns || mate->answered || question != crew->stall.question) {
        return false;
    }
    mate->answered = true;
    return true;
}

static void judge(struct culm_crew *crew, uint64_t now) {
    struct culm_mate *silent = NULL;
    for (int32_t i = 0; i < crew->mates.count; i++) {
        struct culm_mate *mate = culm_crew_at(crew, i);
        if (is_asked(crew, mate) && !mate->answered &&
            (!silent || crew->ops->rather(mate, silent))) {
            CULM_MARK(crew_stalled_and_it_does_not_answer);
            silent = mate;
        }
    }
    const int64_t silent_ms = culm_stall_silent_ms(&crew->stall, now);
    struct culm_mate *out = crew->ops->judge(crew, silent, silent_ms);
    const bool heard = out && out->answered;
    forget_answers(crew);
    culm_stall_judged(&crew->stall, now, out != NULL);
    char why[160], place[64];
    crew->ops->name_place(crew, place, sizeof place);
    if (crew->stall.vain > CULM_STALL_VAIN_MAX) {
        CULM_MARK(crew_stalled_for_good);
        culm_crew_fail(crew, CULM_ERR_TIMEOUT,
                       "nothing has moved in %s for %lld ms, and no %s can be blamed; events.jsonl "
                       "says what is missing where; please report this",
                       place, (long long)silent_ms, crew->ops->noun);
    } else if (out) {
        snprintf(why, sizeof why,
                 heard ? "nothing moved for %lld ms, and messages between it and other %ss did "
                         "not arrive"
                       : "nothing moved for %lld ms, and it did not answer",
                 (long long)silent_ms, crew->ops->noun);
        culm_crew_lose(crew, out, CULM_CAUSE_STALLED, why);
    } else {
        CULM_MARK(crew_stalled_and_nobody_is_to_blame);
        snprintf(why, sizeof why, "nothing moved for %lld ms", (long long)silent_ms);
        crew->ops->nobody(crew, why);
    }
}

void crew_watch_stall(struct culm_crew *crew, uint64_t now, bool slept) {
    bool moves = slept || !crew->ops->watched(crew), answered = true;
    int64_t progress = crew->ops->progress(crew);
    for (int32_t i = 0; i < crew->mates.count; i++) {
        const struct culm_mate *mate = culm_crew_at(crew, i);
        if (mate->alive) {
            moves = moves || mate->beat.kind >= 0 || mate->kept; /* else it waits for that one */
            progress += mate->beat.progress + 1;
            answered = answered && (mate->answered || !is_asked(crew, mate));
        }
    }
    switch (culm_stall_tick(&crew->stall, now, moves, progress, answered, crew->settings.stuck_ms,
                            crew->settings.suspect_ms)) {
    case CULM_STALL_MOVES: forget_answers(crew); break;
    case CULM_STALL_ASK: ask(crew); break;
    case CULM_STALL_JUDGE: judge(crew, now); break;
    case CULM_STALL_WAIT: break;
    }
}
