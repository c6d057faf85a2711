/*
 * A crew: nodes that cannot reach each other. See crew.h.
 *
 * A node that has lost the link to another one says so. If the other one has died, the leader notices that as
 * well; so for suspect_ms it does nothing. If both are still there then, and have been heard since, the link between
 * them is broken, and one of them has to go: the one with more such links, since it is rather one node that reaches nobody, such as a
 * newcomer behind a firewall, than all others. If both have as many, it is the newcomer; else the one that the
 * owner says, usually the younger, unless the other one has just outlived another such node.
 */
#include "crew/crew_internal.h"

#include "base/grow.h"
#include "base/mark.h"

#include <stdio.h>

#define MS 1000000ull
#define FORGET_NS 600000000000ull /* what a node has outlived counts for so long */

static struct culm_mate *living(const struct culm_crew *crew, int32_t id) {
    struct culm_mate *mate = culm_crew_find(crew, id);
    return mate && mate->alive ? mate : NULL;
}

void crew_peer_lost(struct culm_crew *crew, struct culm_mate *by,
                    const struct culm_message *message) {
    struct culm_peer_lost said;
    if (culm_peer_lost_decode(message->meta, message->meta_bytes, &said) != CULM_OK ||
        said.node == by->id ||
        (crew->ops->does_without && crew->ops->does_without(crew, by->role))) {
        return; /* one that nobody depends on, and that reaches nobody, fails by itself */
    }
    struct culm_mate *other = living(crew, said.node);
    if (!other) {
        return;
    }
    if (culm_ids_has(&by->broken, other->id)) {
        CULM_MARK(crew_broken_link_is_known);
        return;
    }
    if (!CULM_GROW(crew->link, crew->link_capacity, crew->link_count + 1) ||
        !culm_ids_put(&by->broken, other->id, NULL) ||
        !culm_ids_put(&other->broken, by->id, NULL)) {
        culm_crew_fail(crew, CULM_ERR_MEMORY, "out of memory");
        return;
    }
    crew->link[crew->link_count++] =
        (struct culm_crew_link){by->id, other->id, culm_crew_now(crew)};
}

/* Forgets links of those who are gone. */
static void forget(struct culm_crew *crew) {
    int32_t kept = 0;
    for (int32_t i = 0; i < crew->link_count; i++) {
        const struct culm_crew_link link = crew->link[i];
        struct culm_mate *a = living(crew, link.a), *b = living(crew, link.b);
        if (a && b) {
            crew->link[kept++] = link;
        } else if (a) {
            (void)culm_ids_take(&a->broken, link.b);
        } else if (b) {
            (void)culm_ids_take(&b->broken, link.a);
        }
    }
    crew->link_count = kept;
}

static int32_t outlived_by(const struct culm_crew *crew, const struct culm_mate *mate) {
    bool lately = culm_crew_now(crew) - mate->outlived_ns < FORGET_NS;
    return lately ? mate->outlived : 0;
}

/* Which end goes: `a`? *ret_guess: nothing but age spoke for that. */
static bool rather(const struct culm_crew *crew, const struct culm_mate *a,
                   const struct culm_mate *b, bool *ret_guess) {
    int32_t more = a->broken.count - b->broken.count;
    *ret_guess = false;
    if (more != 0) {
        CULM_MARK(crew_more_links_are_broken);
        return more > 0;
    }
    if (a->newcomer != b->newcomer) {
        CULM_MARK(crew_newcomer_goes);
        return a->newcomer;
    }
    int32_t outlived = outlived_by(crew, a) - outlived_by(crew, b);
    *ret_guess = outlived == 0;
    if (outlived != 0) {
        CULM_MARK(crew_one_has_outlived_another);
    }
    return outlived == 0 ? crew->ops->rather(a, b) : outlived > 0;
}

/* One end of a link that has been broken for long enough, which goes, and the other; NULL: there is
 * none. An end that has not been heard meanwhile is about to be lost for its silence. */
static struct culm_mate *blamed(struct culm_crew *crew, struct culm_mate **ret_other) {
    uint64_t limit = (uint64_t)crew->settings.suspect_ms * MS;
    for (int32_t i = 0; i < crew->link_count; i++) {
        const struct culm_crew_link *link = &crew->link[i];
        struct culm_mate *a = living(crew, link->a), *b = living(crew, link->b);
        const bool heard = a->heard_ns > link->since_ns && b->heard_ns > link->since_ns;
        if (culm_crew_now(crew) - link->since_ns >= limit && heard) {
            bool guess, first = rather(crew, a, b, &guess);
            *ret_other = first ? b : a;
            if (guess) {
                (*ret_other)->outlived = outlived_by(crew, *ret_other) + 1;
                (*ret_other)->outlived_ns = culm_crew_now(crew);
            }
            return first ? a : b;
        }
    }
    return NULL;
}

void crew_check_links(struct culm_crew *crew, bool slept) {
    struct culm_mate *mate, *other;
    forget(crew);
    for (int32_t i = 0; i < crew->link_count && slept; i++) {
        CULM_MARK(crew_broken_link_while_it_slept);
        crew->link[i].since_ns = culm_crew_now(crew);
    }
    while (!crew->left && (mate = blamed(crew, &other))) {
        CULM_MARK(crew_broken_link_costs_one);
        char why[120];
        snprintf(why, sizeof why, "it and node %d cannot reach each other", other->id);
        culm_crew_lose(crew, mate, crew->ops->unreachable, why);
        forget(crew);
    }
}
