/*
 * Feeds: each has a thread that reads frames, paces them and stretches them into slots of the arena.
 *
 * Thread: the loop's, unless a function or a member says otherwise.
 */
#ifndef CULM_LIVE_FEED_H
#define CULM_LIVE_FEED_H

#include "base/blob.h"
#include "data/feed.h"
#include "edge/due.h"
#include "edge/layout.h"
#include "edge/outage.h"
#include "query/workload.h"
#include "vision/model.h"

#include <jansson.h>
#include <pthread.h>

struct culm_live;
struct live_posted;

#define CULM_LIVE_FRAME_SLOTS (CULM_EDGE_VISIT_MAX + 3)

/* A frame: its pixels, and what else has to be known of it. */
struct live_frame {
    int64_t source;                /* its number in the file */
    int32_t width, height, folder; /* as recorded; folder: the number of its folder, -1: none */
    uint8_t *pixels;               /* stretched to each input size of its feed, one by one */
};

struct live_input {
    struct culm_vision_input input; /* its bytes: culm_vision_same_bytes */
    size_t offset;
};

/* The pace of a live feed. */
#define CULM_LIVE_PACED 16 /* its rate is measured over so many frames */
struct live_pace {
    uint64_t due_ns;                 /* when the next frame is due */
    uint64_t at_ns[CULM_LIVE_PACED]; /* when the last ones came; a ring */
    int64_t count;                   /* frames taken */
};

struct live_feed {
    struct culm_live *run;
    struct culm_feed_config *config;
    int32_t number;
    struct live_posted *posted; /* the program posts its frames; NULL: a thread reads its file */
    /* What the workload now says of the same file, to be read anew as it says; NULL: nothing else. The
     * loop's, while a workload is being taken up. */
    const struct culm_feed_config *next;
    bool again; /* its thread is to end and to begin anew, as to_be says; the loop's */
    struct culm_feed_config to_be, own;
    uint64_t
        over_ns; /* when it is over, as feeds.X.for_s says; 0: not known; the thread's until it has ended */
    int64_t first;              /* the number of the first frame of its thread */
    int64_t frames_given;       /* how many frames there were, of all its threads; the thread's */
    bool gone, started, joined; /* joined: no thread is left, or there was none */
    bool counted;               /* `frames` is valid */
    int64_t frames; /* in the file; -1: that cannot be told. Needed to read labels only */
    pthread_t thread;
    int stop;           /* atomic */
    int retry;          /* atomic: if it is down, connect now, without waiting any longer */
    uint64_t period_ns; /* the period that plans assume */
    /* The measured period of a live feed, which sets its own pace; 0: not known. Atomic. */
    uint64_t seen_ns;
    int labelled;      /* atomic: some query has labels, one for each frame that the source gives */
    uint64_t slack_ns; /* atomic: how late a frame that has its time may come (edge/due.h) */
    size_t frame_bytes;
    struct live_input input[CULM_EDGE_QUERIES_MAX];
    int32_t inputs;
    /* Frames handed to the loop; when the last one was (0: none yet), and how long after its time.
     * Atomic. */
    int64_t handed;
    uint64_t handed_ns, lag_ns;
    char *slots_at; /* addresses for the pixels of all slots, whole pages for each */
    /* Each holds a struct live_frame. A slot is free when nobody else has a reference. */
    struct culm_blob *slot[CULM_LIVE_FRAME_SLOTS];
    bool held[CULM_LIVE_FRAME_SLOTS]; /* its pixels are in memory */
    int32_t slots, slots_held;        /* how many there are to be, and are */
    pthread_mutex_t slots_lock;       /* guards these four */
    pthread_mutex_t lock;
    char said[CULM_ERROR_MAX]; /* a message to publish, "": none; guarded by lock */
    char left_out[400];        /* a warning to publish, likewise */
    struct culm_edge_outage
        outage; /* of a feed that lasts; guarded by lock, as are the next three */
    char went_down[CULM_ERROR_MAX]; /* why, to be published; "": it was */
    bool came_up;                   /* to be published */
    uint64_t up_after_ns;
    int64_t came, missed; /* frames that were due and came, or did not; guarded by lock, too */
    int64_t queued_up;    /* frames left out as older than they seem; likewise */
    /* What was looked at last of these, and when; whether it is told to be slow. The loop's. */
    struct live_rate {
        int64_t came, missed;
        uint64_t at_ns;
        bool slow;
    } rate;
    /* failed: it ended with an error, set before `ended`. ended: its end was published; loop thread
     * only. */
    bool failed, ended;
    /* Valid once its thread was joined: why it failed; whether it has ever given a frame. */
    struct culm_error why;
    bool any;
};

/* feed.c */
/* Starts the threads of feeds that have none yet. Starts none if the run was asked to stop before
 * it began, since the loop would handle frames before the signal. CULM_ERR_MEMORY. */
enum culm_status live_feeds(struct culm_live *run, struct culm_error *error);
/* The workload says something else of its file, or it has ended and may have more: it is to begin anew, with its number and
 * its queries; frames' numbers go on. */
void live_begin_again(struct live_feed *feed);
/* A feed that is to begin anew has ended. */
void live_ended_to_begin(struct live_feed *feed);
/* Has a feed end that has gone; does not wait for it. */
void live_stop_feed(struct live_feed *feed);
void live_stop_feeds(struct culm_live *run);
/* Whether to take a frame of a live feed that came at this time. Frames that come faster than `fps`
 * are left out; they would queue up and get older and older. One thread at a time. */
bool live_take_frame(struct live_feed *feed, struct live_pace *pace, uint64_t at_ns);
/* Stretches a frame into a slot and hands it to the loop; without its pixels if no slot is free. at_ns:
 * when it came. False: out of memory. One thread at a time. */
bool live_hand_over(struct live_feed *feed, const struct culm_feed_frame *frame, uint64_t at_ns);
/* What `done` says of feeds: how often each that lasts came back, and how long it was away. */
json_t *live_outages(struct culm_live *run);
/* What feeds have to know of their queries: whether there are labels; how late frames may come: half of the shortest deadline, so that the other half is left for the
 * answer. */
void live_tell_feeds(struct culm_live *run);
/* Publishes what feeds have to say. */
void live_hear(struct culm_live *run);
/* To be called once the feeds have stopped: fails with the error of the first feed if every feed
 * failed without giving a single frame. */
enum culm_status live_any_frame(const struct culm_live *run, struct culm_error *error);
/* Likewise: fails if the run ended because every feed that was left has failed, even if that was
 * after many frames. */
enum culm_status live_any_feed(const struct culm_live *run, struct culm_error *error);

/* slots.c */
/* Gives back the pixels of frames beyond what the plan says, as far as nobody uses them, and gives
 * every feed memory for as many slots as it says, as far as that leaves room: to be called again
 * until it does. */
enum culm_status live_slots(struct culm_live *run, struct culm_error *error);

/* queries.c */
/* The period that plans assume before frames come. */
/* A folder that neither loops nor ends goes on with the pictures that come into it. */
bool live_feed_follows(const struct live_feed *feed);
uint64_t live_period_ns(const struct culm_feed_config *config);
void live_open_feed(struct culm_live *run, struct culm_feed_config *config, int32_t feed);
void live_add_input(struct live_feed *feed, const struct culm_vision_input *input);
void live_round_frame(struct live_feed *feed);

#endif
