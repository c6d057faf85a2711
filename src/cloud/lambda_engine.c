/* The engine `lambda`: a thread that makes the wanted invocations. See lambda_engine.h. */
#include "cloud/lambda_engine.h"

#include "base/clock.h"
#include "base/rng.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define SECOND (1000 * MS)
#define TRIES_MAX 8           /* of failed requests; throttled ones are not counted */
#define COME_NS (60 * SECOND) /* from a request until its worker must have joined */
#define WAKE_MS 500

/* A start, until its request has been answered. */
struct call {
    struct call *next;
    int32_t number;
    char *payload;
    struct culm_lambda_request request; /* none: it is not sent before `due_ns` */
    uint64_t due_ns, sent_ns;
    uint32_t pauses, tries;
    bool came, told, ended; /* its worker has joined; its end has been reported; it is not wanted */
};

struct lambda_engine {
    struct culm_engine engine; /* first */
    struct culm_lambda_target target;
    int64_t memory_mb, most; /* requests at once */
    json_t *(*event)(const char *address, const char *token, const char *name, int64_t memory_mb);
    struct culm_engine_report *report;
    CURLM *multi;
    pthread_t thread;
    bool runs, expired;   /* expired: the keys, as the service has said */
    pthread_mutex_t lock; /* protects what follows; only the thread uses requests */
    struct call *calls;
    uint64_t looked_ns;
    bool closing;
};

static struct lambda_engine *of(struct culm_engine *engine) {
    return (struct lambda_engine *)engine;
}

static void end_request(struct lambda_engine *lambda, struct call *call) {
    if (call->request.easy) {
        (void)lambda->target.curl->multi_remove_handle(lambda->multi, call->request.easy);
        culm_lambda_request_release(&lambda->target, &call->request);
    }
}

static void free_call(struct lambda_engine *lambda, struct call *call) {
    end_request(lambda, call);
    free(call->payload);
    free(call);
}

/* --- the thread --- */

/* Reports the end of a start, once; not if its worker has joined, as its connection shows that. */
static void tell_end(struct lambda_engine *lambda, struct call *call,
                     const struct culm_error *why) {
    if (!call->told && !call->came && !call->ended) {
        culm_engine_ended(lambda->report, call->number, why);
    }
    call->told = true;
}

static void drop(struct lambda_engine *lambda, struct call *call) {
    struct call **at = &lambda->calls;
    while (*at != call) {
        at = &(*at)->next;
    }
    *at = call->next;
    free_call(lambda, call);
}

/* Has the request sent again after a pause. */
static void pause_call(struct lambda_engine *lambda, struct call *call) {
    uint64_t ms =
        culm_lambda_pause_ms(&call->request.reply, (uint64_t)call->number, call->pauses++);
    end_request(lambda, call);
    call->due_ns = culm_clock_ns() + ms * MS;
}

static void answered(struct lambda_engine *lambda, struct call *call, CURLcode code) {
    struct culm_error why = {0};
    enum culm_lambda_verdict verdict =
        culm_lambda_judge(&lambda->target, &call->request, code, &why);
    bool later = verdict == CULM_LAMBDA_THROTTLED || verdict == CULM_LAMBDA_EXPIRED;
    bool over = call->came || call->ended || call->told; /* nobody waits for this start */
    lambda->expired = lambda->expired || verdict == CULM_LAMBDA_EXPIRED;
    if (!over && (later || (verdict == CULM_LAMBDA_AGAIN && ++call->tries < TRIES_MAX))) {
        culm_error_prefix(&why, "%s",
                          verdict == CULM_LAMBDA_EXPIRED &&
                                  lambda->target.aws.source == CULM_AWS_ENVIRONMENT
                              ? "asks again, but keys in the environment stay as they are: stop "
                                "the run, and continue with others and --resume"
                              : "asks again");
        culm_engine_complain(lambda->report, &why);
        pause_call(lambda, call);
        return;
    }
    tell_end(lambda, call, &why);
    drop(lambda, call);
}

static void hear_answers(struct lambda_engine *lambda) {
    CURLMsg *message;
    int left;
    while ((message = lambda->target.curl->multi_info_read(lambda->multi, &left))) {
        char *call;
        CURLcode code = message->data.result;
        if (message->msg == CURLMSG_DONE &&
            lambda->target.curl->easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call) ==
                CURLE_OK) {
            answered(lambda, (struct call *)call, code);
        }
    }
}

static void send_call(struct lambda_engine *lambda, struct call *call) {
    struct culm_error error;
    bool made = culm_lambda_request_make(&lambda->target, call->payload, strlen(call->payload),
                                         &call->request, call);
    call->sent_ns = culm_clock_ns();
    if (!made || lambda->target.curl->multi_add_handle(lambda->multi, call->request.easy)) {
        culm_lambda_request_release(&lambda->target,
                                    &call->request); /* which nobody would answer */
        culm_error_set(&error, CULM_ERR_MEMORY, "out of memory for an invocation");
        tell_end(lambda, call, &error);
    }
}

static void give_up(struct lambda_engine *lambda, struct call *call) {
    struct culm_error error;
    culm_error_set(
        &error, CULM_ERR_TIMEOUT,
        "%s was invoked, but no worker has joined within %llu s; can it reach the run's address?",
        lambda->target.name, (unsigned long long)(COME_NS / SECOND));
    tell_end(lambda, call, &error);
}

/* Its request is still to be sent. */
static bool waits(const struct call *call) {
    return !call->request.easy && !call->told && !call->ended &&
           !call->came; /* came: the request was delivered, though its answer was lost */
}

/* Whether requests are to be sent. */
static bool is_about_to_send(struct lambda_engine *lambda) {
    const uint64_t now = culm_clock_ns();
    int64_t out = 0;
    bool due = false;
    pthread_mutex_lock(&lambda->lock);
    for (const struct call *call = lambda->calls; call; call = call->next) {
        out += call->request.easy != NULL;
        due = due || (waits(call) && call->due_ns <= now);
    }
    pthread_mutex_unlock(&lambda->lock);
    return due && out < lambda->most;
}

/* Without the lock, since an endpoint may be slow. Keys that cannot be renewed may still be good. */
static void renew(struct lambda_engine *lambda) {
    struct culm_error error;
    if (culm_lambda_target_renew(&lambda->target, lambda->expired, &error) != CULM_OK) {
        culm_engine_complain(lambda->report, &error);
    }
    lambda->expired = false;
}

/* Sends the requests that are due, as `concurrency` allows: a function runs until its request is
 * answered, be its worker lost or not wanted any more. Without `renewed` keys it sends none. Returns the
 * ms until the next look. */
static int look(struct lambda_engine *lambda, bool renewed) {
    uint64_t now = culm_clock_ns(), wake = now + WAKE_MS * MS;
    int64_t out = 0;
    bool still = culm_clock_stood_still(&lambda->looked_ns, now, COME_NS);
    for (struct call *call = lambda->calls, *next; call; call = next) {
        next = call->next;
        call->sent_ns = still ? now : call->sent_ns;
        if (!call->request.easy && (call->ended || call->told)) {
            drop(lambda, call);
        } else if (call->request.easy) {
            out++;
            if (!call->came && now > call->sent_ns + COME_NS) {
                give_up(lambda, call);
            }
        }
    }
    for (struct call *call = lambda->calls; call; call = call->next) {
        if (!waits(call)) {
            continue;
        }
        if (call->due_ns > now) {
            wake = call->due_ns < wake ? call->due_ns : wake;
        } else if (out < lambda->most && !renewed) {
            wake = now; /* it has become due just now */
        } else if (out < lambda->most) {
            send_call(lambda, call);
            out++;
        }
    }
    return (int)((wake - now) / MS) + 1;
}

static void *run(void *engine) {
    struct lambda_engine *lambda = engine;
    const struct culm_curl *curl = lambda->target.curl;
    for (;;) {
        int running;
        bool sends = is_about_to_send(lambda);
        if (sends) {
            renew(lambda);
        }
        pthread_mutex_lock(&lambda->lock);
        bool closing = lambda->closing;
        int ms = closing ? 0 : look(lambda, sends);
        pthread_mutex_unlock(&lambda->lock);
        if (closing) {
            return NULL;
        }
        (void)curl->multi_perform(lambda->multi, &running);
        pthread_mutex_lock(&lambda->lock);
        hear_answers(lambda);
        pthread_mutex_unlock(&lambda->lock);
        (void)curl->multi_poll(lambda->multi, NULL, 0, ms, NULL);
    }
}

/* --- the table --- */

static enum culm_status lambda_open(struct culm_engine *engine, struct culm_engine_report *report,
                                    struct culm_error *error) {
    struct lambda_engine *lambda = of(engine);
    lambda->report = report;
    lambda->runs = pthread_create(&lambda->thread, NULL, run, lambda) == 0;
    return lambda->runs ? CULM_OK
                        : culm_error_set(error, CULM_ERR_IO, "start a thread for invocations");
}

static void lambda_start(struct culm_engine *engine, const struct culm_engine_start *start) {
    struct lambda_engine *lambda = of(engine);
    struct culm_error error;
    struct call *call = calloc(1, sizeof *call);
    json_t *event = lambda->event(start->address, start->token, start->name, lambda->memory_mb);
    char *payload = event ? json_dumps(event, JSON_COMPACT) : NULL;
    json_decref(event);
    if (!call || !payload) {
        free(call);
        free(payload);
        culm_error_set(&error, CULM_ERR_MEMORY, "out of memory for an invocation");
        culm_engine_ended(lambda->report, start->number, &error);
        return;
    }
    call->number = start->number;
    call->payload = payload;
    pthread_mutex_lock(&lambda->lock);
    struct call **at = &lambda->calls;
    while (*at) { /* append, to keep the order of starts */
        at = &(*at)->next;
    }
    *at = call;
    pthread_mutex_unlock(&lambda->lock);
    (void)lambda->target.curl->multi_wakeup(lambda->multi);
}

static struct call *find(struct lambda_engine *lambda, int32_t number) {
    struct call *call = lambda->calls;
    while (call && call->number != number) {
        call = call->next;
    }
    return call;
}

static void lambda_came(struct culm_engine *engine, int32_t number) {
    struct lambda_engine *lambda = of(engine);
    pthread_mutex_lock(&lambda->lock);
    struct call *call = find(lambda, number);
    if (call) {
        call->came = true;
    }
    pthread_mutex_unlock(&lambda->lock);
}

static void lambda_end(struct culm_engine *engine, int32_t number) {
    struct lambda_engine *lambda = of(engine);
    pthread_mutex_lock(&lambda->lock);
    struct call *call = find(lambda, number);
    if (call) {
        call->ended = true;
    }
    pthread_mutex_unlock(&lambda->lock);
    (void)lambda->target.curl->multi_wakeup(lambda->multi);
}

static void lambda_close(struct culm_engine *engine) {
    struct lambda_engine *lambda = of(engine);
    if (!lambda->runs) {
        return;
    }
    pthread_mutex_lock(&lambda->lock);
    lambda->closing = true;
    pthread_mutex_unlock(&lambda->lock);
    (void)lambda->target.curl->multi_wakeup(lambda->multi);
    pthread_join(lambda->thread, NULL);
    lambda->runs = false;
}

static void lambda_free(struct culm_engine *engine) {
    struct lambda_engine *lambda = of(engine);
    while (lambda->calls) {
        drop(lambda, lambda->calls);
    }
    if (lambda->multi) {
        (void)lambda->target.curl->multi_cleanup(lambda->multi);
    }
    culm_lambda_target_release(&lambda->target);
    pthread_mutex_destroy(&lambda->lock);
    free(lambda);
}

static const struct culm_engine_ops lambda_ops = {
    .size = sizeof lambda_ops,
    .name = "lambda",
    .open = lambda_open,
    .start = lambda_start,
    .came = lambda_came,
    .end = lambda_end,
    .close = lambda_close,
    .free = lambda_free,
};

enum culm_status culm_lambda_engine_new(const struct culm_lambda_engine_options *options,
                                        struct culm_engine **ret_engine, struct culm_error *error) {
    struct lambda_engine *lambda = calloc(1, sizeof *lambda);
    if (!lambda) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for an engine");
    }
    lambda->engine.ops = &lambda_ops;
    pthread_mutex_init(&lambda->lock, NULL);
    lambda->memory_mb = options->memory_mb;
    lambda->most = options->concurrency;
    lambda->event = options->event;
    enum culm_status status = culm_lambda_target_init(&lambda->target, &options->function, error);
    if (status == CULM_OK) {
        lambda->multi = lambda->target.curl->multi_init();
        status = lambda->multi ? culm_lambda_target_check(&lambda->target, error)
                               : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    if (status != CULM_OK) {
        lambda_free(&lambda->engine);
        return status;
    }
    *ret_engine = &lambda->engine;
    return CULM_OK;
}
