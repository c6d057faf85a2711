/*
 * The keys of a workload, and the checks that involve several of them. No other file knows a key's
 * name, default or range.
 */
#include "query/workload.h"
#include "query/feed_words.h"

#include "base/words.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys with CULM_CONFIG_RESUMABLE may change on --resume: time limits, threads, everything about
 * the edge, and queries and where their frames come from, which starts new rounds. */

/* --- feeds --- */

#define FPS_LEAST 1e-6 /* at least a frame every eleven days */

#define F struct culm_feed_config
static enum culm_status finish_feed(void *object, const struct culm_config_place *place,
                                    struct culm_error *error) {
    const F *feed = object;
    if (culm_config_given(place, "crop") && (feed->crop[2] < 1 || feed->crop[3] < 1) &&
        (feed->crop[0] || feed->crop[1] || feed->crop[2] || feed->crop[3])) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("crop"), error,
                                  "width and height are at least 1; write [x, y, width, height]");
    }
    if (feed->fps > 0 && feed->fps < FPS_LEAST) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("fps"), error,
                                  "%g is out of range; allowed: 0, or %g to 1000", feed->fps,
                                  FPS_LEAST);
    }
    if (feed->to > 0 && feed->to <= feed->from) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("to", "from"), error,
                                  "%g is not after feeds.X.from, %g; allowed: 0 (until the end), "
                                  "or more seconds than that",
                                  feed->to, feed->from);
    }
    struct culm_error why;
    return culm_feed_words_check(feed->options, feed->option_count, &why)
               ? culm_config_refuse(place, CULM_CONFIG_KEYS("options"), error, "%s", why.text)
               : CULM_OK;
}

static const struct culm_config_row feed_rows[] = {
    CULM_CONFIG_TEXT("file", F, file, NULL, NULL, 0,
                     "video that ffmpeg opens, a folder of pictures, or IDX images"),
    CULM_CONFIG_REAL("fps", F, fps, "0", 0, 1000, 0,
                     "frames per second to process; 0: the rate of the file, or 25 for pictures"),
    CULM_CONFIG_BOOL("loop", F, loop, "false", 0, "start over at the end of the file"),
    CULM_CONFIG_BOOL(
        "ends", F, ends, "false", 0,
        "the feed is over when its stream, device or pipe ends, or it has had all pictures of its "
        "folder; false: `culm edge run` connects again and takes what comes into the folder, for "
        "ever"),
    CULM_CONFIG_INT("stall_ms", F, stall_ms, "10000", 100, 3600000, 0,
                    "milliseconds without a byte after which a stream or device is connected anew"),
    CULM_CONFIG_REAL(
        "from", F, from, "0", 0, 1e9, 0,
        "seconds of the recording before the first frame to take; of pictures, `fps` or "
        "25 count as a second; not of streams and devices"),
    CULM_CONFIG_REAL("to", F, to, "0", 0, 1e9, 0,
                     "where to stop, in seconds of the recording; 0: at its end"),
    CULM_CONFIG_INT("every", F, every, "1", 1, 1000000, 0, "take one in so many frames"),
    CULM_CONFIG_REAL("for_s", F, for_s, "0", 0, 1e9, 0,
                     "seconds after which the feed is over, also if it loops or is a stream; "
                     "0: never"),
    CULM_CONFIG_TEXTS("options", F, options, option_count, "", "words of ffmpeg", CULM_CONFIG_EMPTY,
                      "options of ffmpeg, each with its value, for opening and decoding the file: "
                      "`[-rtsp_transport, tcp]`, `[-hwaccel, vaapi]`"),
    CULM_CONFIG_INTS("crop", F, crop, 0, 65535, "[x, y, width, height] in pixels, or []", 0,
                     "part of each picture to use; []: all of it"),
};
static const struct culm_config_table feed_table = {CULM_CONFIG_ROWS(feed_rows, F),
                                                    .finish = finish_feed};

/* --- queries --- */

#define Q struct culm_query_config
static bool is_name(const char *text) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    size_t len = strlen(text);
    return len > 0 && len <= 64 && strspn(text, letters) == len;
}

static bool read_float(const char *text, float *ret_value) {
    char *end;
    double value = strtod(text, &end);
    *ret_value = (float)value;
    return end != text && !*end && !text[strspn(text, "0123456789+-.eE")] && fabs(value) <= 1e6;
}

static enum culm_status read_normalize(Q *query, const struct culm_config_place *place,
                                       struct culm_error *error) {
    static const float mean[3] = {0.485f, 0.456f, 0.406f};
    static const float deviation[3] = {0.229f, 0.224f, 0.225f};
    size_t count = query->normalize_count;
    bool ok = false;
    query->normalized = count > 0;
    for (int i = 0; i < 3; i++) {
        query->mean[i] = 0;
        query->deviation[i] = 1;
    }
    if (count == 0 || (count == 1 && strcmp(query->normalize[0], "none") == 0)) {
        return CULM_OK;
    }
    if (count == 1 && strcmp(query->normalize[0], "bytes") == 0) {
        for (int i = 0; i < 3; i++) {
            query->deviation[i] = 1.0F / 255;
        }
        return CULM_OK;
    }
    if (count == 1 && strcmp(query->normalize[0], "imagenet") == 0) {
        memcpy(query->mean, mean, sizeof mean);
        memcpy(query->deviation, deviation, sizeof deviation);
        return CULM_OK;
    }
    if (count == 6) {
        ok = true;
        for (int i = 0; i < 3; i++) {
            ok = ok && read_float(query->normalize[i], &query->mean[i]) &&
                 read_float(query->normalize[i + 3], &query->deviation[i]) &&
                 fabsf(query->deviation[i]) > 1e-6f;
        }
    }
    return ok ? CULM_OK
              : culm_config_refuse(
                    place, CULM_CONFIG_KEYS("normalize"), error,
                    "not a normalization; allowed: none, imagenet, bytes, or six numbers: "
                    "three means, three deviations above 0");
}

static enum culm_status finish_query(void *object, const struct culm_config_place *place,
                                     struct culm_error *error) {
    Q *query = object;
    query->feed_index = -1;
    if (!is_name(query->name)) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("name"), error,
                                  "'%.40s' is not a name; allowed: up to 64 letters, digits, '_' "
                                  "and '-'",
                                  query->name);
    }
    query->reading = (struct culm_query_reading){.decode = query->decode,
                                                 .fit = query->fit,
                                                 .colors = query->colors,
                                                 .classes = (const char *const *)query->classes,
                                                 .class_count = query->class_count};
    if (query->size &&
        !culm_query_size_read(query->size, &query->reading.width, &query->reading.height)) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("size"), error,
                                  "'%.40s' is not a size; allowed: WIDTHxHEIGHT, or one number for "
                                  "both, each 1 to %d",
                                  query->size, CULM_QUERY_SIDE_MAX);
    }
    return read_normalize(query, place, error);
}

static const struct culm_config_row query_rows[] = {
    CULM_CONFIG_TEXT("name", Q, name, NULL, "up to 64 letters, digits, `_` and `-`", 0,
                     "name of the query"),
    CULM_CONFIG_TEXT("model", Q, model, NULL, NULL, 0,
                     "model that answers: `FILE.cfg`, `FILE.onnx`, a configuration, a run, or "
                     "`PACKAGE:QUERY`"),
    CULM_CONFIG_TEXT("weights", Q, weights, "", "a path", CULM_CONFIG_EMPTY,
                     "the model's weights: a file or, for a trained model, also a folder of "
                     "shards, a checkpoint or a run; empty: the model's own"),
    CULM_CONFIG_TEXT("names", Q, names, "", "a path", CULM_CONFIG_EMPTY,
                     "file with the names of the classes, one per line; empty: the names that come "
                     "with the model"),
    CULM_CONFIG_TEXT("feed", Q, feed, "", "the name of a feed",
                     CULM_CONFIG_EMPTY | CULM_CONFIG_RESUMABLE,
                     "feed whose frames the query answers"),
    CULM_CONFIG_TEXT(
        "labels", Q, labels, "", "a path", CULM_CONFIG_EMPTY | CULM_CONFIG_RESUMABLE,
        "for classifiers: an IDX file of labels (of one, two or four bytes each), or `folders`, "
        "where each label is the number of "
        "the picture's folder; for boxes and landmarks: a line of JSON for each frame, as `culm "
        "predict --json` writes it; empty: the original model's answers count as right"),
    CULM_CONFIG_REAL("target", Q, target, "0.95", 0, 1, CULM_CONFIG_ABOVE,
                     "share of the original's accuracy that must remain"),
    CULM_CONFIG_REAL("deadline_ms", Q, deadline_ms, "200", 0.001, 3600000, CULM_CONFIG_RESUMABLE,
                     "milliseconds after a frame by which its answer is due"),
    CULM_CONFIG_REAL("score", Q, score, "0.25", 0, 1, 0, "boxes with a lower score are dropped"),
    CULM_CONFIG_BOOL(
        "pin", Q, pin, "false", CULM_CONFIG_RESUMABLE,
        "`culm edge`: once loaded, its weights stay in memory, whatever else has to be "
        "loaded again and again for that"),
    CULM_CONFIG_BOOL(
        "preload", Q, preload, "false", CULM_CONFIG_RESUMABLE,
        "`culm edge`: its weights are loaded at the start, before its first frame comes; "
        "those of pinned queries are, too"),
    CULM_CONFIG_TEXTS("normalize", Q, normalize, normalize_count, "",
                      "none, imagenet, bytes, or six numbers", CULM_CONFIG_EMPTY,
                      "how pixels are scaled: (x / 255 - mean) / deviation, with three means and "
                      "three deviations; `bytes`: 0 to 255 as they are; []: as the model says"),
    CULM_CONFIG_ENUM(
        "decode", Q, decode, "auto", culm_query_decode_names, 0,
        "what the outputs of an ONNX file are, as for `culm predict --decode`; `auto`: as "
        "the file says, and what cannot be told apart is refused"),
    CULM_CONFIG_ENUM("fit", Q, fit, "auto", culm_query_fit_names, 0,
                     "how a frame gets into the model's input: `stretch`: to all of it; "
                     "`letterbox`: in its own proportions, with grey around it; `auto`: "
                     "`letterbox` for `yolov5` and `yolov8`, else `stretch`"),
    CULM_CONFIG_ENUM("colors", Q, colors, "rgb", culm_query_colors_names, 0,
                     "order of the colours that the model reads"),
    CULM_CONFIG_TEXTS("classes", Q, classes, class_count, "", "numbers or names of classes",
                      CULM_CONFIG_EMPTY,
                      "classes of a detector that count: boxes of others are neither reported nor "
                      "judged, whoever finds them; []: all"),
    CULM_CONFIG_TEXT("size", Q, size, "", "`WIDTHxHEIGHT`, or one number for both",
                     CULM_CONFIG_EMPTY,
                     "size of the input of an ONNX file that leaves it open; empty: as the file "
                     "says"),
};
static const struct culm_config_table query_table = {CULM_CONFIG_ROWS(query_rows, Q),
                                                     .finish = finish_query};

/* --- merge --- */

const char *const culm_merge_method_names[] = {[CULM_MERGE_CULM] = "culm",
                                               [CULM_MERGE_GEMEL] = "gemel",
                                               [CULM_MERGE_GEMEL_FIXED] = "gemel-fixed",
                                               [CULM_MERGE_STEM] = "stem",
                                               [CULM_MERGE_MAX] = "max",
                                               [CULM_MERGE_NONE] = "none",
                                               NULL};

const char *const culm_merge_accuracy_names[] = {[CULM_ACCURACY_LEAST] = "least",
                                                 [CULM_ACCURACY_BOXES] = "boxes",
                                                 [CULM_ACCURACY_CLASSES] = "classes",
                                                 NULL};

#define M struct culm_merge_config
static const struct culm_config_row merge_rows[] = {
    CULM_CONFIG_ENUM("method", M, method, "culm", culm_merge_method_names, 0,
                     "how merging finds layers to share"),
    CULM_CONFIG_ENUM("accuracy", M, accuracy, "least", culm_merge_accuracy_names, 0,
                     "accuracy of detectors: average precision over all `boxes`, its mean over "
                     "`classes` that are wanted at least ten times, or the `least` of the two"),
    CULM_CONFIG_REAL("iou", M, iou, "0.5", 0, 1, CULM_CONFIG_ABOVE,
                     "overlap with a wanted box from which on a box is right"),
    CULM_CONFIG_INT(
        "steps", M, steps, "2000", 0, 1000000000, 0,
        "largest number of training steps, for a model alone and for each joint attempt; 0: no "
        "training (the only value that `gemel` and `gemel-fixed` look at)"),
    CULM_CONFIG_REAL("minutes", M, minutes, "0", 0, 1e6, CULM_CONFIG_RESUMABLE,
                     "minutes after which no new attempt begins; 0: no limit"),
    CULM_CONFIG_REAL("cpu_minutes", M, cpu_minutes, "0", 0, 1e6, CULM_CONFIG_RESUMABLE,
                     "minutes of processor time after which no new attempt begins; `--resume` "
                     "starts counting anew; 0: no limit"),
    CULM_CONFIG_REAL("held_out", M, held_out, "0.3", 0, 1, CULM_CONFIG_ABOVE | CULM_CONFIG_BELOW,
                     "share of each feed, at its end, that merging never sees"),
    CULM_CONFIG_INT(
        "frames", M, frames, "0", 0, 1000000000, 0,
        "largest number of frames of each feed to fit to; 0: as many as fit into 256 MB"),
    CULM_CONFIG_TEXT("pictures", M, pictures, "", "a path", CULM_CONFIG_EMPTY,
                     "folder of more pictures to fit to, or a clip, with `method: culm`; what the "
                     "originals make of them is learnt, so any will do; empty: none"),
    CULM_CONFIG_REAL("lr", M, lr, "1e-05", 0, 1000, CULM_CONFIG_ABOVE,
                     "learning rate of `gemel` and `gemel-fixed`"),
    CULM_CONFIG_INT("threads", M, threads, "1", 1, 256, CULM_CONFIG_RESUMABLE, "compute threads"),
    CULM_CONFIG_U64("seed", M, seed, "1", 0, "seed of all random choices"),
};
static const struct culm_config_table merge_table = {CULM_CONFIG_ROWS(merge_rows, M)};

/* --- edge --- */

const char *const culm_edge_rounds_names[] = {
    [CULM_EDGE_ROUNDS_MEASURED] = "measured", [CULM_EDGE_ROUNDS_ALL] = "all", NULL};
const char *const culm_edge_originals_names[] = {
    [CULM_EDGE_ORIGINALS_AUTO] = "auto", [CULM_EDGE_ORIGINALS_NEVER] = "never", NULL};
const char *const culm_edge_order_names[] = {
    [CULM_EDGE_ORDER_AUTO] = "auto", [CULM_EDGE_ORDER_GIVEN] = "given", NULL};

#define D struct culm_drift_config
static const struct culm_config_row drift_rows[] = {
    CULM_CONFIG_REAL("every_s", D, every_s, "10", 0, 1e6, CULM_CONFIG_RESUMABLE,
                     "seconds between checks of merged queries against their originals; 0: never"),
    CULM_CONFIG_INT("frames", D, frames, "16", 1, 1000000, CULM_CONFIG_RESUMABLE,
                    "frames compared in each check, spread over every_s"),
};
static const struct culm_config_table drift_table = {CULM_CONFIG_ROWS(drift_rows, D)};

#define LOAD_LEAST 0.001 /* MB/s */

#define E struct culm_edge_config
static enum culm_status read_memory(E *edge, const struct culm_config_place *place,
                                    struct culm_error *error) {
    const char *text = edge->memory;
    char *end = NULL;
    edge->memory_bytes = 0;
    edge->memory_share = 0;
    if (strcmp(text, "min") == 0) {
        return CULM_OK;
    }
    if (strcmp(text, "all") == 0) {
        edge->memory_share = 1;
        return CULM_OK;
    }
    if (*text && strspn(text, "0123456789.%") == strlen(text)) {
        double value = strtod(text, &end);
        if (end != text && strcmp(end, "%") == 0 && value <= 100) {
            edge->memory_share = value / 100;
            return CULM_OK;
        }
        if (end != text && !*end && value > 0 && value <= 1e9 && value * (1 << 20) >= 1) {
            edge->memory_bytes = (uint64_t)(value * (1 << 20));
            return CULM_OK;
        }
    }
    return culm_config_refuse(place, CULM_CONFIG_KEYS("memory"), error,
                              "'%.40s' is not a limit; allowed: min, all, a share of the way "
                              "between (50%%), or megabytes",
                              text);
}

static enum culm_status finish_edge(void *object, const struct culm_config_place *place,
                                    struct culm_error *error) {
    E *edge = object;
    if (edge->batch[0] == 0) {
        edge->batch[0] = 1;
        edge->batch[1] = 2;
        edge->batch[2] = 4;
    }
    for (int i = 1; i < CULM_EDGE_BATCHES_MAX && edge->batch[i] != 0; i++) {
        if (edge->batch[i] <= edge->batch[i - 1]) {
            return culm_config_refuse(place, CULM_CONFIG_KEYS("batch"), error,
                                      "%lld after %lld; allowed: rising numbers",
                                      (long long)edge->batch[i], (long long)edge->batch[i - 1]);
        }
    }
    if (edge->load_mb_per_s > 0 && edge->load_mb_per_s < LOAD_LEAST) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("load_mb_per_s"), error,
                                  "%g is out of range; allowed: 0, or %g to 1e+09",
                                  edge->load_mb_per_s, LOAD_LEAST);
    }
    return read_memory(edge, place, error);
}

static const struct culm_config_row edge_rows[] = {
    CULM_CONFIG_TEXT("memory", E, memory, "50%", "min, all, a percentage, or megabytes",
                     CULM_CONFIG_RESUMABLE,
                     "memory limit: `min`: what the largest model needs; `all`: what all models "
                     "need; a percentage, that far between the two; or megabytes"),
    CULM_CONFIG_REAL(
        "load_mb_per_s", E, load_mb_per_s, "0", 0, 1e9, CULM_CONFIG_RESUMABLE,
        "megabytes per second at which weights are loaded; 0: as fast as files can be read"),
    CULM_CONFIG_INTS("batch", E, batch, 1, 1024, "up to eight rising numbers",
                     CULM_CONFIG_RESUMABLE,
                     "numbers of frames that a model may process at once; []: [1, 2, 4]"),
    CULM_CONFIG_INT("threads", E, threads, "1", 1, 256, CULM_CONFIG_RESUMABLE, "compute threads"),
    CULM_CONFIG_ENUM("order", E, order, "auto", culm_edge_order_names, CULM_CONFIG_RESUMABLE,
                     "order in which models run: `auto`: the order that loads least; `given`: the "
                     "order in the file"),
    CULM_CONFIG_ENUM("originals", E, originals, "auto", culm_edge_originals_names,
                     CULM_CONFIG_RESUMABLE,
                     "which queries run on their own weights although the package has merged ones: "
                     "`auto`: those where that does not lose more frames; `never`: none, so that "
                     "as little as possible is loaded"),
    CULM_CONFIG_ENUM("rounds", E, rounds, "measured", culm_edge_rounds_names, CULM_CONFIG_RESUMABLE,
                     "which rounds of a package are used: `measured`: those whose queries merging "
                     "has measured on frames that it had not seen; `all`: also those that it "
                     "delivers before that"),
    CULM_CONFIG_BOOL("remerge", E, remerge, "false", CULM_CONFIG_RESUMABLE,
                     "`culm edge run` has `culm merge --watch` merge its package on beside it, at "
                     "the lowest priority, after drift and with new queries"),
    CULM_CONFIG_SECTION("drift", E, drift, &drift_table),
    CULM_CONFIG_TEXT("health", E, health, "", "an address",
                     CULM_CONFIG_EMPTY | CULM_CONFIG_RESUMABLE,
                     "`HOST:PORT` or `PORT` at which a run answers monitors by HTTP: `/healthz`, "
                     "`/metrics`, `/status`; `PORT` alone is of this machine, `:PORT` any of its "
                     "addresses, 0 a free port"),
};
static const struct culm_config_table edge_table = {CULM_CONFIG_ROWS(edge_rows, E),
                                                    .finish = finish_edge};

/* --- answers --- */

#define A struct culm_answers_config
static enum culm_status finish_answers(void *object, const struct culm_config_place *place,
                                       struct culm_error *error) {
    const A *answers = object;
    if (answers->to_count > CULM_RECEIVERS_MAX) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("to"), error,
                                  "%zu places are too many; name up to %d", answers->to_count,
                                  CULM_RECEIVERS_MAX);
    }
    if (answers->keep_mb > 0 && answers->rotate_mb == 0) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("keep_mb", "rotate_mb"), error,
                                  "without answers.rotate_mb nothing can be removed; say after how "
                                  "many megabytes a file is to be renamed");
    }
    if (answers->keep_mb > 0 && answers->keep_mb < 2 * answers->rotate_mb) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("keep_mb", "rotate_mb"), error,
                                  "%lld is less than two files of %lld MB; allowed: 0, or from "
                                  "twice answers.rotate_mb",
                                  (long long)answers->keep_mb, (long long)answers->rotate_mb);
    }
    return CULM_OK;
}

static const struct culm_config_row answers_rows[] = {
    CULM_CONFIG_TEXTS(
        "to", A, to, to_count, "file",
        "file, unix:PATH, http://..., https://..., mqtt://HOST/TOPIC, or a list of "
        "these",
        CULM_CONFIG_RESUMABLE,
        "where answers go: `file`: to `QUERY.jsonl`; `unix:PATH`: to the program that "
        "listens at that socket; `http://...`: by POST, several lines at a time; "
        "`mqtt://[USER:PASSWORD@]HOST[:PORT]/TOPIC`: to a broker, a message each; up "
        "to eight"),
    CULM_CONFIG_INT("rotate_mb", A, rotate_mb, "0", 0, 1000000, CULM_CONFIG_RESUMABLE,
                    "megabytes after which `QUERY.jsonl` is renamed to `QUERY.jsonl.N`, N rising, "
                    "and a new one is begun, and `events.jsonl` likewise; 0: never, but events "
                    "after 64"),
    CULM_CONFIG_INT("keep_mb", A, keep_mb, "0", 0, 100000000, CULM_CONFIG_RESUMABLE,
                    "megabytes that a query's answers may take, and the run's events: the oldest "
                    "of their renamed files are removed while there are more; 0: all are kept "
                    "(of events 256, where answers.rotate_mb is 0); at least twice "
                    "`answers.rotate_mb`"),
};
static const struct culm_config_table answers_table = {CULM_CONFIG_ROWS(answers_rows, A),
                                                       .finish = finish_answers};

/* --- the whole --- */

#define W struct culm_workload
static enum culm_status find_feed(const W *workload, size_t index,
                                  const struct culm_config_place *place, struct culm_error *error) {
    Q *query = &workload->queries[index];
    for (size_t i = 0; query->feed && i < workload->feed_count; i++) {
        if (strcmp(workload->feeds[i].name, query->feed) == 0) {
            query->feed_index = (int32_t)i;
        }
    }
    if (query->feed && query->feed_index < 0) {
        char key[48];
        snprintf(key, sizeof key, "queries[%zu].feed", index);
        return culm_config_refuse(place, CULM_CONFIG_KEYS(key), error,
                                  "'feeds' has no '%.40s'; name one of those that it has",
                                  query->feed);
    }
    return CULM_OK;
}

static enum culm_status finish(void *object, const struct culm_config_place *place,
                               struct culm_error *error) {
    W *workload = object;
    enum culm_status status = CULM_OK;
    for (size_t i = 0; i < workload->query_count && status == CULM_OK; i++) {
        Q *query = &workload->queries[i];
        if (culm_workload_find(workload, query->name) < (int32_t)i) {
            char key[48];
            snprintf(key, sizeof key, "queries[%zu].name", i);
            return culm_config_refuse(place, CULM_CONFIG_KEYS(key), error,
                                      "another query is called '%s' too; give each its own name",
                                      query->name);
        }
        status = find_feed(workload, i, place, error);
    }
    return status;
}

static const struct culm_config_row rows[] = {
    CULM_CONFIG_NAMED("feeds", W, feeds, feed_count, F, name, &feed_table,
                      CULM_CONFIG_EMPTY | CULM_CONFIG_RESUMABLE, "where frames come from, by name"),
    CULM_CONFIG_SECTIONS("queries", W, queries, query_count, &query_table, CULM_CONFIG_RESUMABLE,
                         "which model answers for which feed"),
    CULM_CONFIG_SECTION("merge", W, merge, &merge_table),
    CULM_CONFIG_SECTION("edge", W, edge, &edge_table),
    CULM_CONFIG_SECTION("answers", W, answers, &answers_table),
};
const struct culm_config_table culm_workload_table = {CULM_CONFIG_ROWS(rows, W), .finish = finish};

enum culm_status culm_workload_load(const char *path, const char *const *sets, size_t set_count,
                                    W *ret_workload, struct culm_error *error) {
    return culm_config_load(&culm_workload_table, path, sets, set_count, ret_workload, error);
}

enum culm_status culm_workload_parse(const char *text, size_t len, const char *name,
                                     const char *const *sets, size_t set_count, W *ret_workload,
                                     struct culm_error *error) {
    return culm_config_parse(&culm_workload_table, text, len, name, sets, set_count, ret_workload,
                             error);
}

char *culm_workload_reference(bool markdown) {
    return culm_config_document_text(&culm_workload_table, markdown);
}

void culm_workload_release(W *workload) { culm_config_release(&culm_workload_table, workload); }

int32_t culm_workload_find(const W *workload, const char *query) {
    for (size_t i = 0; i < workload->query_count; i++) {
        if (strcmp(workload->queries[i].name, query) == 0) {
            return (int32_t)i;
        }
    }
    return -1;
}

enum culm_status culm_workload_need_feeds(const W *workload, const char *name,
                                          struct culm_error *error) {
    for (size_t i = 0; i < workload->query_count; i++) {
        if (workload->queries[i].feed_index < 0) {
            return culm_error_set(
                error, CULM_ERR_CONFIG,
                "%s: queries[%zu].feed: query '%s' has no feed; name one of 'feeds'", name, i,
                workload->queries[i].name);
        }
    }
    return CULM_OK;
}

bool culm_feed_same_options(const F *a, const F *b) {
    bool same = a->option_count == b->option_count;
    for (size_t i = 0; i < a->option_count && same; i++) {
        same = strcmp(a->options[i], b->options[i]) == 0;
    }
    return same;
}

bool culm_feed_same_frames(const F *a, const F *b) {
    const bool timed = a->from > 0 || a->to > 0 || a->for_s > 0; /* in seconds, at that rate */
    return culm_words_same(a->file, b->file) && a->from == b->from && a->to == b->to &&
           a->every == b->every && a->for_s == b->for_s && (!timed || a->fps == b->fps) &&
           culm_feed_same_options(a, b) && memcmp(a->crop, b->crop, sizeof a->crop) == 0;
}

bool culm_workload_same_frames(const W *a, size_t p, const W *b, size_t q) {
    const Q *one = &a->queries[p], *other = &b->queries[q];
    if ((one->feed_index < 0) != (other->feed_index < 0) ||
        !culm_words_same(one->labels, other->labels)) {
        return false;
    }
    if (one->feed_index < 0) {
        return true;
    }
    return culm_feed_same_frames(&a->feeds[one->feed_index], &b->feeds[other->feed_index]);
}
