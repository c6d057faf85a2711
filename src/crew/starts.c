/*
 * A crew: starts that fail, and replacements. See crew.h.
 *
 * How many of a role are missing follows from how many are wanted, there, starting, due, and never to be replaced.
 * A start that fails is due again after a pause, which doubles with each round that fails: those that had been asked
 * for when one failed, or were about to be, are of the same round, since whatever was wrong then may have met them
 * too. One that joins and fails before it has done anything is such a start as well, and where the run does not need
 * it so is one that is lost before it has. Before anything is committed, five rounds are the end of a run that cannot
 * begin; later it goes on trying, and only wait_ms without what it needs end it.
 */
#include "crew/crew_internal.h"

#include "base/grow.h"
#include "base/mark.h"

#include <string.h>

#define MS 1000000ull
#define START_AGAIN_MS 200         /* doubled with each round that fails */
#define START_AGAIN_MOST_MS 5000   /* of a role that the run needs */
#define START_AGAIN_FREE_MS 640000 /* of one that it does without */

int32_t culm_crew_coming(const struct culm_crew *crew, uint32_t role) {
    return crew->role[role].starting + crew->role[role].due_count;
}

bool culm_crew_nobody_comes(const struct culm_crew *crew, uint32_t role) {
    return !crew->traced && !crew->open && culm_crew_coming(crew, role) == 0;
}

/* Another is asked for then. */
static void add_due(struct culm_crew *crew, struct culm_crew_role *role, uint64_t due_ns) {
    if (!CULM_GROW(role->due_ns, role->due_capacity, role->due_count + 1)) {
        culm_crew_fail(crew, CULM_ERR_MEMORY, "out of memory");
        return;
    }
    int32_t at = role->due_count++;
    for (; at > 0 && role->due_ns[at - 1] > due_ns; at--) {
        role->due_ns[at] = role->due_ns[at - 1];
    }
    role->due_ns[at] = due_ns;
}

/* Of the role, whom nothing was done about yet; below 0: so many are there, or will be, beyond what is wanted. */
static int32_t missing(const struct culm_crew *crew, uint32_t number) {
    const struct culm_crew_role *role = &crew->role[number];
    const int32_t coming = role->starting + role->due_count;
    const int32_t lacks = role->wanted - role->never - culm_crew_present(crew, number) - coming;
    const int32_t room = crew->here_most - role->here - coming;
    return lacks < room ? lacks : room;
}

void crew_fill(struct culm_crew *crew, uint32_t number) {
    struct culm_crew_role *role = &crew->role[number];
    if (crew->traced || crew->left) {
        return;
    }
    int32_t lacking = missing(crew, number);
    for (; lacking > 0 && !crew->left; lacking--) {
        add_due(crew, role, culm_crew_now(crew));
    }
    for (; lacking < 0 && role->due_count > 0; lacking++) {
        CULM_MARK(crew_start_is_not_needed_any_more);
        role->due_count--;
    }
}

void culm_crew_want(struct culm_crew *crew, uint32_t role, int32_t count) {
    crew->role[role].wanted = count;
    crew_fill(crew, role);
    culm_crew_start_due(crew);
}

/* Processes there are, or will be: suspects not yet ended still take their place. */
static int32_t processes(const struct culm_crew *crew) {
    int32_t count = crew->alive + crew->suspects;
    for (uint32_t r = 0; r < crew->roles; r++) {
        count += crew->role[r].starting;
    }
    return count;
}

void culm_crew_start_due(struct culm_crew *crew) {
    uint64_t now = culm_crew_now(crew);
    for (uint32_t r = 0; r < crew->roles && !crew->left && !crew->closing; r++) {
        struct culm_crew_role *role = &crew->role[r];
        int32_t started = 0;
        while (started < role->due_count && role->due_ns[started] <= now) {
            if (processes(crew) >= crew->settings.max_nodes) {
                CULM_MARK(crew_replacement_waits_for_room);
                break;
            }
            CULM_MARK(crew_start_is_due);
            started++;
            role->starting++;
            crew->agent->ops->start(crew->agent, r);
        }
        role->due_count -= started;
        if (started > 0) {
            memmove(role->due_ns, role->due_ns + started,
                    (size_t)role->due_count * sizeof *role->due_ns);
        }
    }
    if (!crew->left) {
        crew_arm(crew);
    }
}

void crew_start_came(struct culm_crew *crew, struct culm_mate *mate) {
    struct culm_crew_role *role = &crew->role[mate->role];
    mate->failed_before = role->failed_rounds;
    if (!mate->newcomer) {
        role->starting -= role->starting > 0;
        mate->of_failed_round = role->round_left > 0;
        role->round_left -= role->round_left > 0;
    }
    crew_fill(crew, mate->role);
}

void culm_crew_worked(struct culm_crew *crew, struct culm_mate *mate) {
    if (!mate->worked) {
        mate->worked = true;
        crew->role[mate->role].failed_rounds = crew->role[mate->role].round_left = 0;
    }
}

/* --- starts that fail --- */

static bool does_without(const struct culm_crew *crew, uint32_t role) {
    return crew->ops->does_without && crew->ops->does_without(crew, role);
}

static void count_failure(struct culm_crew_role *role) {
    if (role->round_left > 0) {
        CULM_MARK(crew_start_failed_with_others);
        role->round_left--;
    } else {
        role->failed_rounds++;
        role->round_left = role->starting + role->due_count;
    }
}

/* The pause after so many rounds. */
static uint64_t pause_ns(const struct culm_crew *crew, uint32_t role) {
    uint64_t most_ms = does_without(crew, role) ? START_AGAIN_FREE_MS : START_AGAIN_MOST_MS;
    uint64_t ms = START_AGAIN_MS;
    for (int32_t i = 1; i < crew->role[role].failed_rounds && ms < most_ms; i++) {
        ms *= 2;
    }
    return (ms < most_ms ? ms : most_ms) * MS;
}

void culm_crew_hurry(struct culm_crew *crew, uint32_t number) {
    struct culm_crew_role *role = &crew->role[number];
    const uint64_t soon =
        culm_crew_now(crew) + (role->failed_rounds > 0 ? pause_ns(crew, number) : 0);
    for (int32_t i = 0; i < role->due_count; i++) {
        CULM_MARK(crew_replacement_is_needed_now);
        role->due_ns[i] = role->due_ns[i] < soon ? role->due_ns[i] : soon;
    }
    culm_crew_start_due(crew);
}

void crew_start_failed(struct culm_crew *crew, uint32_t number,
                       const struct culm_error *why_or_null) {
    struct culm_crew_role *role = &crew->role[number];
    const bool lacks = crew->ops->lacks(crew, number);
    role->starting -= role->starting > 0;
    if (why_or_null && why_or_null->status == CULM_ERR_CHANGED && lacks) {
        CULM_MARK(crew_start_finds_other_inputs);
        culm_crew_fail(crew, why_or_null->status, "%s", why_or_null->text);
        return;
    }
    if (crew->traced) {
        CULM_MARK(crew_taken_away_before_it_joined);
        return;
    }
    count_failure(role);
    role->failed = why_or_null ? *why_or_null : (struct culm_error){.status = CULM_OK};
    if (!crew->committed && lacks && role->failed_rounds >= CULM_CREW_START_ROUNDS) {
        CULM_MARK(crew_starts_failed_too_often);
        culm_crew_fail(crew, why_or_null ? why_or_null->status : CULM_ERR_IO, "no %s can start: %s",
                       role->name,
                       why_or_null ? why_or_null->text
                                   : "they end before they join; see the logs folder of the run");
        return;
    }
    CULM_MARK(crew_start_is_tried_again);
    add_due(crew, role, culm_crew_now(crew) + pause_ns(crew, number));
    crew_fill(crew, number); /* unless it is not missing any more */
    crew_wait_news(crew, number);
    crew_arm(crew);
}

void crew_vacate(struct culm_crew *crew, const struct culm_mate *mate, bool failed) {
    struct culm_crew_role *role = &crew->role[mate->role];
    uint64_t now = culm_crew_now(crew), after_ms = (uint64_t)crew->settings.replace_ms;
    if (crew->traced) {
        return;
    }
    if (crew->settings.replace_ms < 0) {
        CULM_MARK(crew_lost_for_good);
        int32_t lacking = missing(crew, mate->role);
        role->never += lacking > 0 ? lacking : 0;
        return;
    }
    uint64_t pause = after_ms * MS;
    if (!mate->worked && (failed || does_without(crew, mate->role))) {
        CULM_MARK(crew_joined_in_vain);
        if (mate->failed_before > role->failed_rounds) {
            role->failed_rounds = mate->failed_before;
        }
        if (!mate->of_failed_round) {
            count_failure(role);
        }
        pause = pause > pause_ns(crew, mate->role) ? pause : pause_ns(crew, mate->role);
    }
    add_due(crew, role, now + pause);
    crew_fill(crew, mate->role);
}

/* --- newcomers --- */

bool culm_crew_has_room(const struct culm_crew *crew, uint32_t role, struct culm_error *ret_error) {
    int32_t count = crew->suspects;
    for (uint32_t r = 0; r < crew->roles; r++) { /* of its own role it takes the place */
        count += crew->role[r].present + (r != role ? crew->role[r].due_count : 0);
    }
    if (count >= crew->settings.max_nodes) {
        culm_error_set(ret_error, CULM_ERR_CONFIG,
                       "the run has %d nodes, and cluster.max_nodes is %lld", count,
                       (long long)crew->settings.max_nodes);
        return false;
    }
    return true;
}
