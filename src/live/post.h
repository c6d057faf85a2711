/*
 * Feeds whose frames the program posts. One entry stands for all feeds of a name that a run has one
 * after the other, as the workload changes; numbers of frames go on.
 *
 * Thread: the loop's, but for culm_live_post and culm_live_end (live.h), which take an entry's lock.
 */
#ifndef CULM_LIVE_POST_H
#define CULM_LIVE_POST_H

#include "live/feed.h"
#include "live/live.h"

struct live_posted {
    const char *name;       /* the options' */
    pthread_mutex_t lock;   /* guards the rest, and the handing over of its frames */
    struct live_feed *feed; /* which takes them; NULL: none does */
    bool begun;             /* some feed has */
    bool ended;             /* the program has said that no more will come */
    bool over;              /* the run has ended */
    int64_t number;         /* of the next frame */
    uint64_t at_ns;         /* when the last one came */
    struct live_pace pace;
};

/* The names of the options as entries. Must be released after a failure too. */
enum culm_status live_make_posted(struct culm_live *run, struct culm_error *error);
void live_release_posted(struct culm_live *run);
struct live_posted *live_posted_of(const struct culm_live *run, const char *feed); /* NULL: none */
/* Any thread. */
bool live_is_posted(const struct culm_live_options *options, const char *feed);
/* Refuses labels by folders of files for frames that come from none. Any thread. */
enum culm_status live_check_posted(const struct culm_live_options *options,
                                   const struct culm_workload *workload, struct culm_error *error);

/* The feed takes frames from now on, in the place of the one before it; or ends, if no more will come. */
void live_begin_posts(struct live_feed *feed);
/* The feed has gone. */
void live_drop_posts(struct live_feed *feed);
/* No feed takes any more: nothing is handed over once this has returned. */
void live_end_posts(struct culm_live *run);

#endif
