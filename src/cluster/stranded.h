/*
 * What the processes of a machine and their agent tell each other about a leader that is missed: a few numbers in memory that they
 * share, made before the processes are.
 *
 * A process without a leader ends after a while (member.h). But where who leads is found at a store, and the store cannot be reached
 * from here, nobody could have called it: that time does not count. The agent knows, and asks the store only while it is missed.
 *
 * Thread: any; the numbers are atomic.
 */
#ifndef CULM_CLUSTER_STRANDED_H
#define CULM_CLUSTER_STRANDED_H

#include <stdbool.h>
#include <stdint.h>

struct culm_stranded;

struct culm_stranded *culm_stranded_new(void); /* NULL: no memory. It goes with the processes */
/* For a process: it hears no leader, and asks again within for_ms if that is still so. Is its machine cut off from the store? */
bool culm_stranded_miss(struct culm_stranded *stranded, int64_t for_ms);
/* For the agent: whether a process misses a leader, and whether the store answers. */
bool culm_stranded_is_missed(const struct culm_stranded *stranded);
void culm_stranded_say(struct culm_stranded *stranded, bool cut);

#endif
