/*
 * The run directory: refused when a run is there, claimed by one launcher at a time.
 *
 *     DIR/config.yaml       the configuration with every default filled in
 *     DIR/lock              locked (flock) and holding the pid while a launcher works
 *     DIR/nodes.jsonl       nodes from elsewhere, while a run with some is at work (roll.h)
 *     DIR/events.jsonl  DIR/plan.json  DIR/model.safetensors  DIR/checkpoints/  DIR/logs/
 *
 * A launcher first checks, which writes nothing, then checks everything else that can be wrong, and
 * claims the directory last. The lock goes with the process, however it ends, and is not inherited
 * by workers. Thread: the caller's.
 */
#ifndef CULM_LAUNCH_RUNDIR_H
#define CULM_LAUNCH_RUNDIR_H

#include "base/file.h"

struct culm_rundir {
    char path[CULM_PATH_MAX];
    int lock_fd;
    bool made;              /* by who claimed it */
    bool own_lock, own_log; /* the lock and events.jsonl, likewise: they were not there */
};

/* Only looks. Fresh: CULM_ERR_EXISTS when any file of a run is there, or a data graph. Resumed: CULM_ERR_NOT_FOUND
 * when there is no config.yaml. */
enum culm_status culm_rundir_check(const char *path, bool resume, struct culm_error *error);

/* Makes the directory, locks it and checks again; nothing but the lock is written. CULM_ERR_EXISTS
 * if another launcher still holds it after two seconds, in which one that was killed ends. Release with culm_rundir_release. */
enum culm_status culm_rundir_claim(const char *path, bool resume, struct culm_rundir *ret_dir,
                                   struct culm_error *error);
/* The same without a look at what is there, for who puts it right. */
enum culm_status culm_rundir_claim_held(const char *path, struct culm_rundir *ret_dir,
                                        struct culm_error *error);
/* For a job that begins anew in the directory of its last run, as `culm edge run`: made and locked,
 * unless there is a run or a package that it would write over (CULM_ERR_EXISTS). */
enum culm_status culm_rundir_claim_anew(const char *path, struct culm_rundir *ret_dir,
                                        struct culm_error *error);
/* Writes config.yaml: from here on it is a run. */
enum culm_status culm_rundir_begin(const struct culm_rundir *dir, const char *config_text,
                                   struct culm_error *error);
/* Whether what was claimed is still there under its name. It is not if somebody has removed it since,
 * even if its name is in use again. */
bool culm_rundir_is_there(const struct culm_rundir *dir);
/* Whether `path` is a file of a run: one that its directory has, or in a folder of it. */
bool culm_rundir_owns(const char *path);
/* The process of the launcher that is at work there, or 0. */
int64_t culm_rundir_pid(const char *path);
void culm_rundir_release(struct culm_rundir *dir);
/* Instead of that, for a run that came to nothing: config.yaml goes, and of events.jsonl and the lock what was
 * not there when it was claimed, and the directory if it was made for it and has nothing else. */
void culm_rundir_take_back(struct culm_rundir *dir);

#endif
