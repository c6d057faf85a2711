/*
 * A crew whose leader takes over from another one: who has reported what it has, who still may, and whom to ask for the
 * newest view. What the reports say, and what follows from them, is the owner's.
 *
 *     begin ──▶ each of those who took part: reported, or dead, or silent ──▶ heard ──▶ one is asked, and shows ──▶ end
 *
 * A node that is silent may have the last copy of something: as long as it may live, which is one and a half times as long
 * as a node without a leader lives, the owner decides nothing for which it would have to be dead.
 *
 * Thread: the actor's.
 */
#ifndef CULM_CREW_TAKE_H
#define CULM_CREW_TAKE_H

#include "crew/crew.h"

/* Awaits those who took part: in place of what a leader that is the first one does. False: out of memory. */
bool culm_take_begin(struct culm_crew *crew, const struct culm_known_node *known, int32_t count);
/* It is known what there is. */
void culm_take_end(struct culm_crew *crew);

/* Its report has come: the newest view that it has seen (0: none), and the first commit that it could tell of (0: of none). Once
 * more, if it is called once more. */
void culm_take_reported(struct culm_mate *mate, uint64_t view, int64_t first);
/* Why one whose report cannot be read is lost: it is not waited for. */
#define CULM_TAKE_UNREADABLE "its report to a leader that takes over cannot be read"
/* Whether it has reported, and lives. NULL: no. */
bool culm_take_has_reported(const struct culm_mate *mate_or_null);
/* Whether it may still be alive, though it has not been heard. NULL: no. */
bool culm_take_may_live(const struct culm_crew *crew, const struct culm_mate *mate_or_null);

/* Whether nobody is about to be heard any more: then the newest view that any of those who live has seen (0: none), and whether
 * one who is silent may live. Loses those who have reported, and have been silent since for so long that they have ended: false
 * then, and it is asked again. */
bool culm_take_is_heard(struct culm_crew *crew, uint64_t *ret_newest, bool *ret_lives);
/* Asks one that has seen the newest view, and can tell of most commits, to show that with a message of that type, unless one has
 * shown it. True: it is waited for. */
bool culm_take_asks(struct culm_crew *crew, uint64_t newest, uint16_t type);
bool culm_take_is_asked(const struct culm_crew *crew, const struct culm_mate *mate);
void culm_take_shown(struct culm_crew *crew); /* all of it has come */

/* Says once that it waits, and why. */
void culm_take_waits(struct culm_crew *crew, const char *why);
/* The event `leader`: how it goes on, and how long it took to find out. */
void culm_take_tell(struct culm_crew *crew, uint64_t term, const char *reason);

#endif
