/*
 * A crew: those without whom the run cannot go on. See crew.h.
 *
 * The owner says what it waits for whenever it finds that it has to, and when that is over. Why a run waits, who is
 * missing, and when the next one is asked for is an event. After wait_ms it is in vain. But one that starts is
 * on its way, or its end is told, and one that opens large data takes its time; and starts that have failed in few
 * rounds only are tried again, since each may have taken all that time.
 */
#include "crew/crew_internal.h"

#include "base/json.h"
#include "base/mark.h"

#include <stdio.h>

#define MS 1000000ull

static void tell(struct culm_crew *crew, const struct culm_crew_role *role) {
    json_t *event = json_pack("{s:s, s:i, s:i}", "event", "waiting", "need", (int)role->need,
                              "have", (int)role->have);
    if (event && crew->names_roles) {
        json_object_set_new(event, "role", json_string(role->name));
    }
    if (event && role->why[0]) {
        json_object_set_new(event, "message", culm_json_text(role->why));
    }
    if (event && role->failed_rounds > 0 && role->failed.status != CULM_OK) {
        json_object_set_new(event, "failed", culm_json_text(role->failed.text));
    }
    if (event && role->due_count > 0) {
        uint64_t now = culm_crew_now(crew);
        uint64_t due = role->due_ns[0] > now ? role->due_ns[0] - now : 0;
        json_object_set_new(event, "again_ms", json_integer((json_int_t)(due / MS)));
    }
    culm_crew_event(crew, event);
}

void culm_crew_wait(struct culm_crew *crew, uint32_t number, int32_t need, int32_t have,
                    const char *why_or_null) {
    struct culm_crew_role *role = &crew->role[number];
    if (crew->left || (role->waits && role->need == need && role->have == have)) {
        return;
    }
    if (!role->waits && crew->settings.wait_ms > 0) {
        role->until_ns = culm_crew_now(crew) + (uint64_t)crew->settings.wait_ms * MS;
    }
    CULM_MARK(crew_waits);
    role->waits = true;
    role->need = need;
    role->have = have;
    snprintf(role->why, sizeof role->why, "%s", why_or_null ? why_or_null : "");
    tell(crew, role);
    crew_arm(crew);
}

void culm_crew_wait_over(struct culm_crew *crew, uint32_t role) {
    crew->role[role].waits = false;
    crew->role[role].until_ns = CULM_NEVER;
}

enum culm_status culm_crew_vain_status(const struct culm_crew *crew, uint32_t role) {
    const enum culm_status status = crew->role[role].failed.status;
    return status == CULM_ERR_CHANGED || status == CULM_ERR_MEMORY ? status : CULM_ERR_IO;
}

void crew_wait_news(struct culm_crew *crew, uint32_t role) {
    if (crew->role[role].waits && !crew->left) {
        tell(crew, &crew->role[role]);
    }
}

void crew_wait_check(struct culm_crew *crew) {
    uint64_t now = culm_crew_now(crew);
    for (uint32_t r = 0; r < crew->roles && !crew->left; r++) {
        struct culm_crew_role *role = &crew->role[r];
        const bool tried = role->due_count == 0 || role->failed_rounds == 0 ||
                           role->failed_rounds >= CULM_CREW_START_ROUNDS;
        if (role->waits && role->until_ns <= now && role->starting == 0 && tried) {
            CULM_MARK(crew_waited_in_vain);
            crew->ops->in_vain(crew, r);
        }
    }
}

void crew_arm(struct culm_crew *crew) {
    uint64_t now = culm_crew_now(crew), next = CULM_NEVER;
    for (uint32_t r = 0; r < crew->roles; r++) {
        const struct culm_crew_role *role = &crew->role[r];
        if (role->due_count > 0 && role->due_ns[0] > now && role->due_ns[0] < next) {
            next = role->due_ns[0];
        }
        if (role->waits && role->until_ns > now && role->until_ns < next) {
            next = role->until_ns;
        }
    }
    crew->tell.world->ops->timer(crew->tell.world, CULM_CREW_DUE,
                                 next == CULM_NEVER ? CULM_NEVER : next - now);
}
