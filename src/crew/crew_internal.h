/* What the files of a crew call of each other. Not for others. See crew.h. */
#ifndef CULM_CREW_CREW_INTERNAL_H
#define CULM_CREW_CREW_INTERNAL_H

#include "crew/crew.h"

/* --- crew.c --- */

/* After a commit: those that are lost and have ended. In a tick only. */
void crew_forget_ended(struct culm_crew *crew);

/* If it resigns, and a round has been committed since: another one is to lead, if one waits. */
void crew_resign_if_due(struct culm_crew *crew);
/* Its process is not to be ended any more, or has been. */
void crew_end_never(struct culm_crew *crew, struct culm_mate *mate);

/* --- starts.c --- */

/* One that was asked for has joined. */
void crew_start_came(struct culm_crew *crew, struct culm_mate *mate);
/* One that was asked for has ended before it joined. */
void crew_start_failed(struct culm_crew *crew, uint32_t role, const struct culm_error *why_or_null);
/* It was lost: another is due; later, if it `failed`, or had not done anything yet. */
void crew_vacate(struct culm_crew *crew, const struct culm_mate *mate, bool failed);
/* As many as are missing are due; those that are not needed any more are not. */
void crew_fill(struct culm_crew *crew, uint32_t role);

/* --- wait.c --- */

/* Says once more that it waits, with what has changed. */
void crew_wait_news(struct culm_crew *crew, uint32_t role);
/* Ends the run if it has waited for too long. */
void crew_wait_check(struct culm_crew *crew);
/* Sets the timer to whatever is due next. */
void crew_arm(struct culm_crew *crew);

/* --- watch.c --- */

void crew_heartbeat(struct culm_mate *mate, const struct culm_message *message);
void crew_took(struct culm_crew *crew, struct culm_mate *mate, const struct culm_message *message);
/* The system has killed it for want of memory, as is known only now: it has failed at a task, whatever it was lost
 * for. */
void crew_out_of_memory(struct culm_crew *crew, struct culm_mate *mate,
                        const struct culm_error *why);
/* FAILED has come. */
void crew_failed(struct culm_crew *crew, struct culm_mate *mate,
                 const struct culm_message *message);
bool crew_has_slept(const struct culm_crew *crew);
void crew_tick(struct culm_crew *crew);

/* --- links.c --- */

void crew_peer_lost(struct culm_crew *crew, struct culm_mate *by,
                    const struct culm_message *message);
/* Links that have been broken for suspect_ms cost one of their ends; if the leader `slept`, they begin anew. */
void crew_check_links(struct culm_crew *crew, bool slept);

/* --- ask.c --- */

void crew_watch_stall(struct culm_crew *crew, uint64_t now, bool slept);

#endif
