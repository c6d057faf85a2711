/* The launcher's steps: directory, host, run, end. Events are in launcher_events.c. See launcher.h. */
#include "launch/launcher_internal.h"

#include "base/hex.h"
#include "base/secret.h"
#include "net/socket.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define POOL_BYTES ((size_t)256 << 20)

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

/* --- before anything is written --- */

bool culm_launcher_read_place(const struct culm_launcher_role *role, uint32_t role_count,
                              const char *text, int64_t *ret_value) {
    size_t len = strcspn(text, ":"), digits = text[len] ? strspn(text + len + 1, "0123456789") : 0;
    if (!digits || digits > 9 || text[len + 1 + digits]) {
        return false;
    }
    for (uint32_t i = 0; i < role_count; i++) {
        if (role[i].name && strlen(role[i].name) == len && !strncmp(role[i].name, text, len)) {
            *ret_value = (int64_t)i << 32 | atoi(text + len + 1);
            return true;
        }
    }
    return false;
}

static enum culm_status draw_run(char ret_run[CULM_RUN_ID_SIZE], struct culm_error *error) {
    unsigned char bytes[CULM_RUN_ID_SIZE / 2];
    enum culm_status status = culm_secret_random(bytes, sizeof bytes, error);
    if (status == CULM_OK) {
        culm_hex(bytes, sizeof bytes, ret_run);
    }
    return status;
}

/* Not 0, which means none, nor another of the numbers that a program expects to be free. */
static enum culm_status open_stop(int *ret_fd, struct culm_error *error) {
    int made = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    int fd = made < 0 ? -1 : fcntl(made, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int problem = errno;
    if (made >= 0) {
        close(made);
    }
    if (fd < 0) {
        return culm_error_errno(error, problem, "make an eventfd");
    }
    *ret_fd = fd;
    return CULM_OK;
}

enum culm_status culm_launcher_options_init(struct culm_launcher_options *options,
                                            struct culm_error *error) {
    enum culm_status status = open_stop(&options->stop_fd, error);
    if (status == CULM_OK) {
        status = draw_run(options->run, error);
    }
    return status ? status : culm_token_draw(options->token, error);
}

void culm_launcher_options_release(struct culm_launcher_options *options) {
    if (options->stop_fd > 0) {
        close(options->stop_fd);
    }
    options->stop_fd = 0;
}

static void ask(const struct culm_launcher_options *options, uint64_t what) {
    int before = errno;
    (void)eventfd_write(options->stop_fd, what);
    errno = before;
}

void culm_launcher_stop(const struct culm_launcher_options *options) {
    ask(options, CULM_HOST_STOP);
}

void culm_launcher_abort(const struct culm_launcher_options *options) {
    ask(options, CULM_HOST_ABORT);
}

void culm_launcher_resign(const struct culm_launcher_options *options) {
    ask(options, CULM_HOST_RESIGN);
}

bool culm_launcher_stop_asked(const struct culm_launcher_options *options) {
    struct pollfd stop = {.fd = options->stop_fd, .events = POLLIN};
    return options->stop_fd > 0 && poll(&stop, 1, 0) > 0;
}

void culm_launcher_result_init(struct culm_launcher_result *result,
                               const struct culm_summary_job *job) {
    *result = (struct culm_launcher_result){0};
    culm_summary_init(&result->summary, job);
}

void culm_launcher_result_release(struct culm_launcher_result *result) {
    culm_summary_release(&result->summary);
    free(result->fired);
    result->fired = NULL;
}

enum culm_status culm_launcher_new(const struct culm_launcher_options *options,
                                   const struct culm_launcher_job *job,
                                   struct culm_launcher **ret_launcher, struct culm_error *error) {
    struct culm_launcher *l = calloc(1, sizeof *l);
    if (!l) {
        return no_memory(error);
    }
    l->o = options;
    l->stored = options->stored;
    l->job = *job;
    l->warnings = (struct culm_warnings){.say = options->warn, .ctx = options->ctx};
    *ret_launcher = l;
    return CULM_OK;
}

void culm_launcher_warn(struct culm_launcher *l, const char *format, ...) {
    va_list args;
    va_start(args, format);
    culm_warnings_add_list(&l->warnings, format, args);
    va_end(args);
}

enum culm_status culm_launcher_check(struct culm_launcher *l, struct culm_error *error) {
    return l->o->trace_path ? culm_trace_read(l->o->trace_path, &l->trace, error) : CULM_OK;
}

/* --- the run directory --- */

enum culm_status culm_launcher_claim(struct culm_launcher *l, struct culm_error *error) {
    enum culm_status status = culm_rundir_claim(l->o->dir, l->o->resume, &l->dir, error);
    l->claimed = status == CULM_OK;
    return status ? status : culm_roll_read(l->o->dir, &l->roll, error);
}

enum culm_status culm_launcher_stand(struct culm_launcher *l, const char *config_text,
                                     const char *signature, struct culm_error *error) {
    return l->o->stand(l->o->stand_ctx, config_text, signature, &l->candidate, &l->reserved_fd,
                       error);
}

struct culm_record *culm_launcher_record(struct culm_launcher *l) {
    return l->candidate ? culm_candidate_record(l->candidate) : NULL;
}

const char *culm_launcher_committed(const struct culm_launcher *l) {
    return l->candidate ? culm_candidate_reign(l->candidate)->committed : NULL;
}

struct culm_apart *culm_launcher_apart(struct culm_launcher *l) {
    return l->apart;
}

int64_t culm_launcher_saved(struct culm_launcher *l) {
    const int64_t saved = culm_candidate_reign(l->candidate)->saved;
    l->stored = saved > 0 ? saved : -1;
    return saved;
}

/* Who takes part, as the store says. */
static enum culm_status take_reign(struct culm_launcher *l, struct culm_error *error) {
    const struct culm_reign *reign = culm_candidate_reign(l->candidate);
    l->roll.node = calloc((size_t)reign->count + 1, sizeof *l->roll.node);
    if (!l->roll.node) {
        return no_memory(error);
    }
    if (reign->count > 0) {
        memcpy(l->roll.node, reign->node, (size_t)reign->count * sizeof *l->roll.node);
    }
    l->roll.count = reign->count;
    l->roll.term = reign->term;
    l->roll.next_node = reign->first_node;
    return CULM_OK;
}

int32_t culm_launcher_left(const struct culm_launcher *l) { return l->roll.count; }

enum culm_status culm_launcher_recall(struct culm_launcher *l, bool with_them,
                                      struct culm_error *error) {
    enum culm_status status =
        l->candidate ? take_reign(l, error) : culm_roll_begin(&l->roll, with_them, error);
    if (status != CULM_OK) {
        return status;
    }
    l->calls = true;
    l->known = calloc((size_t)l->roll.count + 1, sizeof *l->known);
    if (!l->known) {
        return no_memory(error);
    }
    for (; l->known_count < l->roll.count; l->known_count++) {
        const struct culm_host_node *node = &l->roll.node[l->known_count];
        l->known[l->known_count] = (struct culm_known_node){node->node,
                                                            {.role = node->role,
                                                             .name = node->name,
                                                             .signature = "",
                                                             .host = node->place.host,
                                                             .zone = node->place.zone,
                                                             .machine = node->place.machine}};
    }
    return CULM_OK;
}

uint64_t culm_launcher_term(const struct culm_launcher *l, const struct culm_known_node **ret_known,
                            int32_t *ret_count) {
    *ret_known = l->known;
    *ret_count = l->known_count;
    return l->known_count > 0 ? l->roll.term
                              : 1; /* where nobody is left, it leads as the first one did */
}

static bool came(void *launcher, const struct culm_host_node *node) {
    struct culm_launcher *l = launcher;
    if (!l->candidate) {
        culm_roll_came(&l->roll, node);
        return true;
    }
    (void)culm_candidate_enter(l->candidate, node); /* else it waits in vain, and comes again */
    return false;
}

static void went(void *launcher, int32_t node) {
    struct culm_launcher *l = launcher;
    if (l->candidate) {
        culm_candidate_gone(l->candidate, node);
    } else {
        culm_roll_went(&l->roll, node);
    }
}

/* --- what the candidate says, on its own thread --- */

static void on_written(void *launcher, enum culm_deed deed) {
    culm_host_written(((struct culm_launcher *)launcher)->host, deed);
}

static void on_entered(void *launcher, int32_t node) {
    culm_host_entered(((struct culm_launcher *)launcher)->host, node);
}

static void on_deposed(void *launcher) {
    culm_host_deposed(((struct culm_launcher *)launcher)->host);
}

static void on_away(void *launcher, int64_t ms) {
    culm_host_away(((struct culm_launcher *)launcher)->host, ms);
}

static void on_asked(void *launcher) { culm_launcher_stop(((struct culm_launcher *)launcher)->o); }

static const struct culm_candidate_ops candidate_ops = {
    sizeof candidate_ops, on_written, on_entered, on_deposed, on_away, on_asked};

enum culm_status culm_launcher_begin(struct culm_launcher *l, const char *config_text,
                                     struct culm_error *error) {
    enum culm_status status = culm_rundir_begin(&l->dir, config_text, error);
    if (status == CULM_OK) {
        status = culm_path_format(l->logs, error, "%s/logs", l->o->dir);
    }
    return status ? status : culm_dir_make(NULL, l->logs, error);
}

enum culm_status culm_launcher_write_plan(const struct culm_launcher *l, json_t *take_plan,
                                          struct culm_error *error) {
    char path[CULM_PATH_MAX];
    char *text = take_plan ? json_dumps(take_plan, JSON_INDENT(2)) : NULL;
    json_decref(take_plan);
    enum culm_status status = culm_path_format(path, error, "%s/plan.json", l->o->dir);
    if (status == CULM_OK) {
        status = text ? culm_file_replace(NULL, path, text, strlen(text), error) : no_memory(error);
    }
    free(text);
    return status;
}

/* --- processes --- */

static char *text_of(const char *format, long number) {
    char text[32];
    snprintf(text, sizeof text, format, number);
    return strdup(text);
}

static size_t count_words(const char *const *words) {
    size_t count = 0;
    while (words && words[count]) {
        count++;
    }
    return count;
}

static size_t add_words(char **argv, size_t count, const char *const *words) {
    for (size_t i = 0; words && words[i]; i++) {
        argv[count++] = strdup(words[i]);
    }
    return count;
}

/* As participant.h reads it. */
static void command(void *ctx, const struct culm_agent_starting *start, char ***ret_argv) {
    const struct culm_launcher *l = ctx;
    assert(start->role < l->job.role_count && l->job.role[start->role].name);
    const char *const *words = l->job.role[start->role].words;
    size_t count = 0;
    char **argv = calloc(7 + count_words(l->o->program_arguments) + count_words(words) +
                             2 * l->o->fault_count,
                         sizeof(char *));
    if (argv) {
        argv[count++] = strdup(l->o->program);
        count = add_words(argv, count, l->o->program_arguments);
        count = add_words(argv, count, words);
        argv[count++] = strdup(l->o->dir);
        argv[count++] = text_of("%ld", start->node);
        argv[count++] = strdup(start->address);
        argv[count++] = strdup(start->name);
        argv[count++] = text_of("%ld", start->fault_fd);
        for (size_t i = 0; i < l->o->fault_count; i++) {
            if (culm_agent_fault_meets(&l->faults[i], start->node, start->role, start->index)) {
                argv[count++] = text_of("%ld", (long)i);
                argv[count++] = strdup(l->o->fault_texts[i]);
            }
        }
    }
    *ret_argv = argv;
}

static bool brief(void *ctx, uint32_t role, bool newcomer, struct culm_buf *out) {
    const struct culm_launcher *l = ctx;
    return l->doors.brief(l->job.job, role, newcomer, out);
}

/* For newcomers: new, so that nobody has it open already who may not read it. */
static enum culm_status write_token(struct culm_launcher *l, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(path, error, "%s/token", l->o->dir);
    if (status != CULM_OK) {
        return status;
    }
    (void)unlink(path); /* of a run that was killed */
    status = culm_token_write(path, l->o->token, error);
    l->has_token = status == CULM_OK;
    return status;
}

static void remove_token(struct culm_launcher *l) {
    char path[CULM_PATH_MAX];
    if (l->has_token && culm_path_format(path, NULL, "%s/token", l->o->dir) == CULM_OK) {
        (void)unlink(path);
    }
}

/* Faults that name a role are told by its name. */
static enum culm_status take_faults(struct culm_launcher *l, struct culm_error *error) {
    l->faults = calloc(l->o->fault_count + 1, sizeof *l->faults);
    if (!l->faults) {
        return no_memory(error);
    }
    for (size_t i = 0; i < l->o->fault_count; i++) {
        l->faults[i] = l->job.faults[i];
        if (l->faults[i].node < 0 && l->faults[i].role < l->job.role_count) {
            l->faults[i].role_name = l->job.role[l->faults[i].role].name;
        }
    }
    return CULM_OK;
}

static void visit(void *launcher, struct culm_channel *take_channel) {
    const struct culm_launcher *l = launcher;
    culm_depot_keeper_visit(l->depot, take_channel);
}

static enum culm_status open_host(struct culm_launcher *l, struct culm_error *error) {
    const struct culm_host_options options = {
        .listen = l->doors.listen,
        .reserved_fd = l->reserved_fd,
        .advertise = l->doors.advertise,
        .token = l->o->token,
        .plain = l->doors.plain,
        .signature = l->doors.signature,
        .brief = l->doors.brief ? brief : NULL,
        .visit = l->depot ? visit : NULL,
        .payload_max = l->doors.payload_max,
        .pool = l->pool,
        .alive_ms = l->doors.alive_ms,
        .stop_fd = l->o->stop_fd,
        .publish = launcher_hear,
        .ctx = l,
        .command = command,
        .log_dir = l->logs,
        .trace = l->o->trace_path ? &l->trace : NULL,
        .trace_role = l->job.trace_role,
        .time_scale = l->o->time_scale,
        .max_nodes = l->doors.max_nodes,
        .trace_max = l->doors.trace_max,
        .faults = l->faults,
        .fault_count = l->o->fault_count,
        .start_limit_ms = l->doors.start_limit_ms,
        .engine = l->doors.engine,
        .engine_role = l->doors.engine_role,
        .term = l->calls ? l->roll.term : 1,
        .known = l->roll.node,
        .known_count = l->calls ? l->roll.count : 0,
        .first_node = l->calls ? l->roll.next_node : 0,
        .came = l->calls ? came : NULL,
        .went = l->calls ? went : NULL,
    };
    culm_socket_raise_limit();
    l->reserved_fd = 0; /* the host's, also if it cannot be made */
    return culm_host_new(&options, &l->host, error);
}

/* Where checkpoints go. False: out of memory. */
static bool open_places(struct culm_launcher *l) {
    if (l->o->storage) {
        l->uploads = culm_uploads_new(l->o->storage, l->o->dir, l->job.result->summary.job->step,
                                      l->stored, l->o->stored_keep);
    }
    if (l->candidate && l->uploads) {
        l->apart = culm_stored_new(l->o->storage, l->uploads, l->o->dir);
    }
    if (l->doors.depot) {
        l->depot = culm_depot_keeper_new(l->o->dir, l->apart);
    }
    return l->pool && (l->uploads || !l->o->storage) && (l->apart || !l->candidate) &&
           (l->depot || !l->doors.depot);
}

enum culm_status culm_launcher_open(struct culm_launcher *l,
                                    const struct culm_launcher_doors *doors,
                                    struct culm_error *error) {
    l->doors = *doors;
    enum culm_status status = launcher_open_sinks(l, error);
    if (status == CULM_OK) {
        status = take_faults(l, error);
    }
    if (status == CULM_OK) {
        l->pool = culm_blob_pool_new(doors->pool_bytes ? doors->pool_bytes : POOL_BYTES);
        status = open_places(l) ? open_host(l, error) : no_memory(error);
    }
    return status == CULM_OK && doors->newcomers && !l->o->own_token ? write_token(l, error)
                                                                     : status;
}

void culm_launcher_news(struct culm_launcher *launcher, const void *news, size_t len) {
    (void)culm_host_add_news(launcher->host, news, len); /* without memory, nobody hears of it */
}

struct culm_world *culm_launcher_world(struct culm_launcher *l) {
    return culm_host_world(l->host);
}

struct culm_agent *culm_launcher_agent(struct culm_launcher *l) {
    return culm_host_agent(l->host);
}

struct culm_blob_pool *culm_launcher_pool(struct culm_launcher *l) {
    return l->pool;
}

const char *culm_launcher_address(const struct culm_launcher *l) {
    return l->doors.advertise ? culm_host_address(l->host) : culm_host_listening(l->host);
}

/* --- the run --- */

static void note_fired(const struct culm_launcher *l, bool **ret_fired) {
    *ret_fired = calloc(l->o->fault_count + 1, sizeof **ret_fired);
    for (size_t i = 0; i < l->o->fault_count && *ret_fired; i++) {
        (*ret_fired)[i] = culm_host_fired(l->host, i) > 0;
    }
}

/* What is written by name goes into a new directory then, without a word from anybody. */
static void look_for_dir(struct culm_launcher *l) {
    if (l->claimed && !culm_rundir_is_there(&l->dir)) {
        culm_launcher_warn(l,
                           "'%s' was removed or replaced during the run: its configuration and its "
                           "events are lost, so it can be neither resumed nor reported on",
                           l->o->dir);
    }
}

/* "stopped" is a promise that nothing has to be done again. */
static int check_stopped(struct culm_launcher *l, struct culm_error *ret_error) {
    const char *step = l->job.result->summary.job->step;
    const int64_t again = l->committed - l->saved;
    if (again <= 0) {
        return 75;
    }
    struct culm_error error;
    char newest[96] = "there is none, so --resume begins anew";
    if (l->saved > 0) {
        snprintf(newest, sizeof newest, "the newest is of %s %lld, from which --resume goes on",
                 step, (long long)l->saved);
    }
    culm_error_set(&error, CULM_ERR_AGAIN,
                   "stopped without a checkpoint of %s %lld: %s, and %lld %s%s again", step,
                   (long long)l->committed, newest, (long long)again, step,
                   again > 1 ? "s are done" : " is done");
    launcher_tell_error(l, &error);
    if (ret_error) {
        *ret_error = error;
    }
    return culm_status_exit_code(error.status);
}

/* What was published is to be where it was asked for, when a run says that it is done, or stopped. */
static int check_stored(struct culm_launcher *l, int code, struct culm_error *ret_error) {
    char why[CULM_ERROR_MAX];
    struct culm_error error;
    int64_t step;
    launcher_await_uploads(l);
    if (culm_uploads_done(l->uploads, &step, why)) {
        return code;
    }
    culm_error_set(&error, CULM_ERR_AGAIN,
                   "'%.150s' lacks the checkpoint of %s %lld, which '%.150s' has: %.200s; --resume "
                   "sends it",
                   l->o->storage->place, l->job.result->summary.job->step, (long long)step,
                   l->o->dir, why);
    launcher_tell_error(l, &error);
    if (ret_error) {
        *ret_error = error;
    }
    return culm_status_exit_code(error.status);
}

int culm_launcher_run(struct culm_launcher *l, const struct culm_actor_ops *ops, void *actor,
                      struct culm_error *ret_error) {
    if (l->candidate) {
        culm_candidate_serve(l->candidate, &candidate_ops, l);
    }
    int code = culm_host_run(l->host, ops, actor, ret_error);
    culm_roll_end(&l->roll); /* all were told to end */
    if (code == culm_status_exit_code(CULM_ERR_STOPPED)) {
        code = check_stopped(l, ret_error);
    }
    if (l->uploads && (code == 0 || code == culm_status_exit_code(CULM_ERR_STOPPED))) {
        code = check_stored(l, code, ret_error);
    }
    look_for_dir(l);
    launcher_tell_done(l);
    note_fired(l, &l->job.result->fired);
    return code;
}

void culm_launcher_free(struct culm_launcher *l) {
    if (!l) {
        return;
    }
    json_decref(l->done);
    json_decref(l->latest);
    json_decref(l->inexact);
    remove_token(l);
    culm_candidate_free(l->candidate); /* it tells the host, and others may lead from now on */
    culm_host_free(l->host);
    if (l->reserved_fd > 0) {
        close(l->reserved_fd);
    }
    culm_depot_keeper_free(l->depot);
    culm_stored_free(l->apart);
    culm_uploads_free(l->uploads);
    culm_sink_free(l->sink);
    culm_warnings_release(&l->warnings);
    if (l->claimed) {
        culm_rundir_release(&l->dir);
    }
    if (l->claimed) {
        culm_roll_release(&l->roll);
    }
    free(l->known);
    free(l->faults);
    culm_trace_release(&l->trace);
    culm_blob_pool_free(l->pool);
    free(l);
}
