/* `culm data check`, and what `culm train` looks at before it starts. See samples.h. */
#include "run/data_check.h"

#include "base/file.h"
#include "data/check.h"
#include "run/samples.h"
#include "train/network.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIST_BYTES_MAX (1u << 30)

static int all_processors(void) {
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 1 ? (int)count : 1;
}

/* --- before a run --- */

static void keep_first(void *ctx, const struct culm_data_bad *bad) {
    char *first = ctx;
    if (!first[0] && !bad->usable) {
        snprintf(first, CULM_ERROR_MAX, "%s", bad->why);
    }
}

/* "3 minutes", for people. */
static void write_time(double seconds, char *ret_text, size_t size) {
    double minutes = seconds / 60, hours = minutes / 60;
    bool long_one = hours >= 2, short_one = minutes < 2;
    snprintf(ret_text, size, "%.0f %s",
             long_one    ? hours
             : short_one ? seconds
                         : minutes,
             long_one    ? "hours"
             : short_one ? "seconds"
                         : "minutes");
}

enum culm_status culm_data_check_before(const struct culm_source *source, double most_s,
                                        char *ret_note, struct culm_error *error) {
    char first[CULM_ERROR_MAX] = "", time[40];
    const struct culm_check_options options = {
        .threads = all_processors(), .most_s = most_s, .bad = keep_first, .ctx = first};
    struct culm_check_result result;
    ret_note[0] = '\0';
    if (most_s <= 0 || !culm_source_is_unseen(source)) {
        return CULM_OK;
    }
    enum culm_status status = culm_check_source(source, &options, &result, error);
    if (status != CULM_OK) {
        return status;
    }
    if (!result.all) {
        write_time(result.all_s, time, sizeof time);
        snprintf(
            ret_note, CULM_ERROR_MAX,
            "the %lld samples were not looked through, which would take %s (data.check_s): one "
            "that cannot be used would end the run where it is read; 'culm data check CONFIG' "
            "looks at all",
            (long long)result.samples, time);
    }
    return !result.bad
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_FORMAT,
                                "%.500s (%lld of %lld samples cannot be used; mend them, or leave "
                                "them out: 'culm data check CONFIG --out FILE' lists them, and "
                                "data.skip: FILE takes the list)",
                                first, (long long)result.bad,
                                (long long)(result.all ? result.samples : CULM_CHECK_FIRST));
}

/* --- the command --- */

struct checking {
    const struct culm_data_check_options *o;
    struct culm_buf list;
    enum culm_status status; /* of the list */
    struct culm_error error;
};

static const char header[] =
    "# Samples that 'culm data check' cannot use; data.skip takes this list.\n";

static void tell(void *ctx, const struct culm_data_bad *bad) {
    struct checking *c = ctx;
    const struct culm_data_place *place = &bad->place;
    const struct culm_bad_sample told = {
        .file = place->file,
        .line = place->unit == CULM_DATA_LINE ? place->number : -1,
        .index = place->unit == CULM_DATA_INDEX ? place->number : -1,
        .why = bad->why,
    };
    if (c->o->bad) {
        c->o->bad(c->o->ctx, &told);
    }
    if (c->o->out) {
        struct culm_error error;
        enum culm_status status = culm_data_place_write(place, bad->why, &c->list, &error);
        if (status != CULM_OK && c->status == CULM_OK) { /* the others are listed */
            c->status = status;
            c->error = error;
        }
    }
}

static void progress(void *ctx, int64_t done, int64_t total) {
    const struct checking *c = ctx;
    if (c->o->progress) {
        c->o->progress(c->o->ctx, done, total);
    }
}

/* What was left out already, then what was found. */
static enum culm_status write_list(struct checking *c, const struct culm_source_options *source,
                                   struct culm_error *error) {
    struct culm_skip *skip = NULL;
    struct culm_buf all;
    enum culm_status status = CULM_OK;
    culm_buf_init(&all, LIST_BYTES_MAX);
    culm_buf_printf(&all, "%s", header);
    if (source->skip) {
        status =
            culm_skip_read(source->skip, source->paths, source->path_count, NULL, &skip, error);
    }
    if (status == CULM_OK) {
        if (skip) {
            culm_skip_copy(skip, &all);
        }
        culm_buf_bytes(&all, c->list.data, c->list.len);
        status = all.failed || c->list.failed
                     ? culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", c->o->out)
                     : culm_file_replace(NULL, c->o->out, all.data, all.len, error);
    }
    culm_skip_free(skip);
    culm_buf_release(&all);
    return status == CULM_OK && c->status != CULM_OK
               ? culm_error_set(error, c->status, "%s", c->error.text)
               : status;
}

static enum culm_status check(struct checking *c, struct culm_train_config *config,
                              struct culm_data_check_result *ret_result, struct culm_error *error) {
    const struct culm_check_options how = {
        .threads = c->o->threads ? c->o->threads : all_processors(),
        .progress = progress,
        .bad = tell,
        .ctx = c,
    };
    struct culm_source_options source;
    struct culm_check_result result;
    culm_train_config_source(config, false, &source);
    enum culm_status status = culm_check_data(&source, &how, &result, error);
    if (status == CULM_OK && c->o->out) {
        status = write_list(c, &source, error);
    }
    if (status == CULM_OK) {
        *ret_result = (struct culm_data_check_result){
            .samples = result.samples,
            .left_out = result.left_out,
            .bad = result.bad + result.doubtful,
        };
    }
    return status;
}

enum culm_status culm_data_check(const char *config_path,
                                 const struct culm_data_check_options *options,
                                 struct culm_data_check_result *ret_result,
                                 struct culm_error *error) {
    struct culm_train_config config;
    struct culm_network *network = NULL;
    struct checking c = {.o = options};
    enum culm_status status =
        culm_train_config_load(config_path, options->sets, options->set_count, &config, error);
    if (status != CULM_OK) {
        return status;
    }
    culm_buf_init(&c.list, LIST_BYTES_MAX);
    if ((!options->out || !(status = culm_file_may_write(options->out, error))) &&
        !(status = culm_network_open(&config, &network, error))) {
        status = check(&c, &config, ret_result, error);
    }
    culm_network_close(network);
    culm_buf_release(&c.list);
    culm_train_config_release(&config);
    return status;
}
