/*
 * Culm: training on machines that may be lost at any moment, and using the models that result.
 *
 * This header includes one for each job, which may also be included alone; each is its manual:
 *
 *     culm/train.h        training in workers that may be lost, the summary of a run, evaluation
 *     culm/infer.h        models on arrays, text, tensors of checkpoints and files
 *     culm/vision.h       models of pictures on pixels, files and clips
 *     culm/gnn.h          graph networks: graphs, training on them, evaluation, predictions
 *     culm/merge.h        models of pictures that share layers, in the memory of few
 *     culm/edge.h         many such models on live video, in time and in little memory
 *     culm/prediction.h   pictures of a program, and what a model says of one
 *     culm/config.h       configurations, which every job reads
 *     culm/status.h       enum culm_status and struct culm_error
 *
 * WHAT HOLDS EVERYWHERE
 *
 * Errors. A function that can fail returns `enum culm_status`, in which CULM_OK is 0, and fills the
 * caller's `struct culm_error` with one line for a person: what failed, where, and what to do about
 * it. `error` may be NULL. The line is what the program `culm` would print. An option in it is the
 * member of that name in a structure of options (`--accept-inputs` is `accept_inputs`), but `--out`
 * may also be `dir`, `--data` is `paths`, and `--for` is `seconds`; `--set KEY=VALUE` is
 * culm_config_set. What `ret_` arguments point to is as it was after a call unless the function has
 * succeeded; culm_training_plan alone has an exception. A wrong argument (a NULL object, an index out
 * of range) results in CULM_ERR_ARGUMENT or, from a function that returns no status, in the value
 * that stands for "nothing".
 *
 * Ownership. The caller owns what a function creates, and frees it with the function named for that;
 * these functions accept NULL. Strings and arrays that a function returns by pointer belong to the
 * object and live as long as it does. Where there is no object, a header says that the text is the
 * caller's (`char **ret_...`), who frees it with culm_text_free. Strings that are passed in are copied.
 *
 * Threads. One thread at a time may use an object, unless a function says otherwise. Any number of
 * threads may use different objects at once. Functions of the caller that an object calls are called
 * by the thread that is in one of its functions, unless a header says otherwise.
 *
 * The process. The library prints nothing, never ends the process, installs no signal handler and
 * leaves the signal masks of the caller's threads alone; whenever it changes the floating-point mode
 * of a thread, it restores it. It starts threads and, to train, to cut graphs and to read clips,
 * processes; and it raises the soft limit on open files.
 *
 * Compatibility. A structure that the caller fills begins with `size`, which the caller sets to its
 * sizeof. Later versions add members at the end, where 0 means what this version does. A structure
 * that the library fills begins with `size` too, and the library writes no more than that. Names,
 * values of enumerations, and what is promised here will stay.
 *
 * Names. Functions are culm_<object>_<verb>, or culm_<job>_<verb> where there is no object. What takes
 * time is an object: _new checks everything that can be checked and starts nothing, _run does the work
 * in the calling thread, _stop ends it early and may be called by any thread and from a signal
 * handler, _free accepts an object in any state. What a call may be told beside its object is a
 * structure of options, culm_<object>_options; what it results in is a structure with numbers or, if
 * that is a document (an event, a plan), JSON text in one line, as `culm ... --json` prints it.
 *
 * What options have in common, by name. `dir`: the folder that is written. `resume`: goes on with what
 * `dir` holds. `threads`: 1 to 256; 0: as many as the function says. `event` receives every event as
 * the line of JSON that is written to events.jsonl, without its end of line (docs/formats.md,
 * "Events"). `warning` receives, as one line, what is no error but worth knowing, as soon as it is
 * found. `context` is passed to both. Either may be NULL. A callback may call its object's _stop
 * function, but no other function on it unless a header says otherwise.
 *
 * Numbers are native-endian. Arrays are contiguous and row-major: the last dimension varies fastest.
 */
#ifndef CULM_H
#define CULM_H

#include <culm/config.h>
#include <culm/edge.h>
#include <culm/gnn.h>
#include <culm/infer.h>
#include <culm/merge.h>
#include <culm/prediction.h>
#include <culm/status.h>
#include <culm/train.h>
#include <culm/vision.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0": the version of the library that is linked. CULM_VERSION_NUMBER is that of the header. */
CULM_API const char *culm_version(void);
#define CULM_VERSION_NUMBER 100 /* 10000 * major + 100 * minor + patch */

#ifdef __cplusplus
}
#endif

#endif
