/* The folder of a merge: starting it, resuming it, and taking it back. */
#include "run/merge_internal.h"

#include "launch/told.h"
#include "run/merge_kept.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum culm_status merging_same_workload(struct culm_merging *m, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct culm_workload before;
    struct culm_config_difference d;
    enum culm_status status = culm_path_format(path, error, "%s/config.yaml", m->options.dir);
    if (status == CULM_OK) {
        status = culm_workload_load(path, NULL, 0, &before, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    if (culm_config_differ(&culm_workload_table, &before, &m->workload, CULM_CONFIG_RESUMABLE,
                           &d)) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "'%s' was started with %s: %s; --resume needs the same, not %s",
                                m->options.dir, d.key, d.a, d.b);
    }
    status = status ? status : merging_compare(m, &before, error);
    culm_workload_release(&before);
    return status;
}

/* For other queries or frames: rounds continue from the current one, and the state of the old
 * search is dropped. */
static enum culm_status begin_after(struct culm_merging *m, struct culm_error *error) {
    enum culm_status status = merging_write_after(m, error);
    return status == CULM_OK ? culm_merge_kept_forget(m->options.dir, error) : status;
}

/* A round that was told of and is gone is no reason to begin again before it without a word. */
static enum culm_status compare_told(struct culm_merging *m, struct culm_error *error) {
    const char *dir = m->options.dir;
    const int64_t have = m->have > 0 ? m->have : 0;
    char text[CULM_ERROR_MAX];
    struct culm_told told;
    if (culm_told_read(dir, "round", &told, NULL) != CULM_OK || told.saved <= have) {
        return CULM_OK;
    }
    if (m->have < 0) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "'%.160s/events.jsonl' tells of round %lld of the package, and there is "
            "none in '%.160s'; bring it back (mount its volume?), or choose another "
            "--out",
            dir, (long long)told.saved, dir);
    }
    snprintf(
        text, sizeof text,
        "round %lld, of which '%.160s/events.jsonl' tells, is gone; merging goes on after round "
        "%lld",
        (long long)told.saved, dir, (long long)have);
    merging_warn(m, text);
    return CULM_OK;
}

/* The last round of a merge that ended. Queries that another merge goes on with may be measured in
 * rounds before that. */
static bool is_measured(const struct culm_package_round *round) {
    bool measured = round->query_count > 0;
    for (int32_t q = 0; q < round->query_count; q++) {
        measured = measured && round->query[q].merged >= 0;
    }
    return measured;
}

/* Finds the current round, and behind which one rounds are by the present queries and frames. */
static enum culm_status find_rounds(struct culm_merging *m, struct culm_error *error) {
    struct culm_package_round round;
    struct culm_package_sums sums;
    bool goes_with = true;
    if (!m->options.resume) {
        return CULM_OK;
    }
    enum culm_status status = culm_package_open(m->options.dir, &round, error);
    if (status == CULM_OK) {
        m->have = m->counts = round.number;
        m->have_measured = is_measured(&round);
        goes_with = !merging_has_changed(m, &round);
        if (!merging_has_any(m, &round)) {
            status = culm_error_set(error, CULM_ERR_CONFIG,
                                    "'%s' has none of the workload's queries; choose another --out",
                                    m->options.dir);
        } else if (!(status = culm_package_sum(&round, &sums, error))) {
            m->have_saves = sums.total_bytes - sums.distinct_bytes;
        }
        culm_package_round_release(&round);
    } else if (status == CULM_ERR_NOT_FOUND) { /* no round was finished */
        status = CULM_OK;
    }
    if (status == CULM_OK) {
        status = compare_told(m, error);
    }
    if (status != CULM_OK) { /* a round that cannot be read is no reason to begin again over it */
        return status;
    }
    if (!m->changed && !(status = merging_read_after(m, error))) {
        /* A round from before what changed last is to be gone on from. */
        m->changed = !goes_with && (m->have > m->after || !m->goes_on);
        if (m->changed) {
            memset(m->again, 0, m->workload.query_count * sizeof *m->again);
        }
    }
    if (m->changed) {
        m->after = m->have > 0 ? m->have : 0;
        m->goes_on = m->have >= 0;
    }
    return status;
}

bool culm_merging_is_settled(const struct culm_merging *m) {
    struct culm_package_round round;
    if (m->changed || culm_package_open(m->options.dir, &round, NULL) != CULM_OK) {
        return false;
    }
    const bool settled = is_measured(&round) && !merging_has_changed(m, &round);
    culm_package_round_release(&round);
    return settled;
}

static enum culm_status write_config(struct culm_merging *m, struct culm_error *error) {
    char *text = culm_config_dump_text(&culm_workload_table, &m->workload);
    enum culm_status status =
        text ? culm_rundir_begin(&m->dir, text, error) : merging_no_memory(error);
    free(text);
    return status;
}

enum culm_status merging_claim(struct culm_merging *m, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_rundir_claim(m->options.dir, m->options.resume, &m->dir, error);
    if (status != CULM_OK) {
        return status;
    }
    m->claimed = true;
    if (!(status = find_rounds(m, error)) && !m->options.resume) {
        status = write_config(m, error);
    }
    if (status == CULM_OK && !(status = culm_package_make(NULL, m->options.dir, error)) &&
        !(status = culm_path_format(path, error, "%s/events.jsonl", m->options.dir))) {
        status = culm_sink_jsonl_open(path, &m->log, error);
    }
    return status;
}

/* config.yaml comes last: until it is written, the package still belongs to the old queries and
 * frames. */
enum culm_status merging_begin(struct culm_merging *m, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    if (m->options.resume && m->changed) {
        status = begin_after(m, error);
    }
    return status == CULM_OK && m->options.resume ? write_config(m, error) : status;
}

void merging_take_back(struct culm_merging *m) {
    static const char *const folders[] = {"tensors", "rounds"};
    char path[CULM_PATH_MAX];
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (culm_path_format(path, NULL, "%s/%s", m->options.dir, folders[i]) == CULM_OK) {
            (void)rmdir(path);
        }
    }
    culm_rundir_take_back(&m->dir);
    m->claimed = false;
}
