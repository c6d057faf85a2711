/* Looking before touching, and flock for the rest. */
#include "launch/rundir.h"

#include "report/summary.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* What a run or a package has in its directory; the last one, what any job has. */
static const char *const names[] = {
    "config.yaml", "plan.json", "checkpoints", "model.safetensors", "best.safetensors",
    "logs",        "current",   "cut.npy",     "nodes.jsonl",       "events.jsonl"};
#define NAMES (sizeof names / sizeof *names)
#define ENDING_MS 2000 /* how long a launcher may take to end after it was killed */
#define ENDING_LOOK_MS 10

static bool has(const char *dir, const char *file) {
    char path[CULM_PATH_MAX];
    struct stat info;
    return culm_path_format(path, NULL, "%s/%s", dir, file) == CULM_OK && lstat(path, &info) == 0;
}

/* The name of a run's file or folder. */
static bool is_name(const char *name) {
    for (size_t i = 0; i < NAMES; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return strcmp(name, "lock") == 0 || strcmp(name, "token") == 0;
}

bool culm_rundir_owns(const char *path) {
    char parent[CULM_PATH_MAX], real[PATH_MAX];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (culm_path_parent(path, parent, NULL) != CULM_OK || !realpath(parent, real)) {
        return false;
    }
    for (;;) {
        if (is_name(name) && has(real, "config.yaml") && has(real, "events.jsonl")) {
            return true;
        }
        char *above = strrchr(real, '/');
        if (!above || !above[1]) {
            return false;
        }
        /* NAME is now the last part of the folder, which is shortened by it. */
        name = strcpy(parent, above + 1);
        above[above == real] = '\0';
    }
}

static enum culm_status check_none(const char *path, size_t count, const char *help,
                                   struct culm_error *error) {
    struct stat info;
    char inside[CULM_PATH_MAX];
    if (lstat(path, &info) == 0 && !S_ISDIR(info.st_mode) && !S_ISLNK(info.st_mode)) {
        return culm_error_set(error, CULM_ERR_EXISTS,
                              "'%s' is not a directory; choose another --out", path);
    }
    if (has(path, "graph.json")) {
        return culm_error_set(error, CULM_ERR_EXISTS,
                              "'%s' is the folder of a graph ('graph.json'); choose another --out",
                              path);
    }
    for (size_t i = 0; i < count; i++) {
        enum culm_status status = culm_path_format(inside, error, "%s/%s", path, names[i]);
        if (status != CULM_OK) {
            return status;
        }
        if (lstat(inside, &info) == 0) {
            char job[CULM_SUMMARY_JOB_NAME] = "";
            (void)culm_summary_job_name(path, job, NULL); /* it may have no events */
            return culm_error_set(error, CULM_ERR_EXISTS,
                                  "'%s': a run%s%s is already there ('%s'); %schoose another --out",
                                  path, *job ? " of culm " : "", job, names[i], help);
        }
    }
    return CULM_OK;
}

enum culm_status culm_rundir_check(const char *path, bool resume, struct culm_error *error) {
    char config[CULM_PATH_MAX];
    if (!resume) {
        return check_none(path, NAMES, "continue it with --resume, or ", error);
    }
    enum culm_status status = culm_path_format(config, error, "%s/config.yaml", path);
    if (status == CULM_OK && !culm_file_is_regular(config)) {
        status = culm_error_set(error, CULM_ERR_NOT_FOUND,
                                "'%s': no run to resume (no config.yaml); leave out --resume to "
                                "start one",
                                path);
    }
    return status;
}

/* A launcher that has just been killed holds its lock until the kernel has freed its memory. Whoever
 * resumes its run at once is not told that it is at work. False: errno says why. */
static bool lock_now_or_soon(int fd) {
    const struct timespec pause = {.tv_nsec = ENDING_LOOK_MS * 1000000};
    for (int waited_ms = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; waited_ms += ENDING_LOOK_MS) {
        if (errno != EWOULDBLOCK || waited_ms >= ENDING_MS) {
            return false;
        }
        (void)nanosleep(&pause, NULL);
    }
    return true;
}

static enum culm_status lock(const char *path, int *ret_fd, struct culm_error *error) {
    char name[CULM_PATH_MAX], pid[24] = "";
    enum culm_status status = culm_path_format(name, error, "%s/lock", path);
    if (status != CULM_OK) {
        return status;
    }
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) {
        return culm_error_errno(error, errno, "open '%s'", name);
    }
    if (!lock_now_or_soon(fd)) {
        int reason = errno;
        if (reason == EWOULDBLOCK) {
            ssize_t len = pread(fd, pid, sizeof pid - 1, 0);
            status = culm_error_set(error, CULM_ERR_EXISTS,
                                    "'%s': another launcher (pid %d) is at work there; wait for it "
                                    "or choose another --out",
                                    path, len > 0 ? atoi(pid) : 0);
        } else {
            status = culm_error_errno(error, reason, "lock '%s'", name);
        }
        close(fd);
        return status;
    }
    int len = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t)len, 0) != len) {
        status = culm_error_errno(error, errno, "write '%s'", name);
        close(fd);
        return status;
    }
    *ret_fd = fd;
    return CULM_OK;
}

static bool is_free(const struct culm_rundir *dir, const char *name) {
    char path[CULM_PATH_MAX];
    struct stat info;
    return culm_path_format(path, NULL, "%s/%s", dir->path, name) == CULM_OK &&
           lstat(path, &info) != 0 && errno == ENOENT;
}

static enum culm_status hold(const char *path, struct culm_rundir *dir, struct culm_error *error) {
    enum culm_status status = culm_path_format(dir->path, error, "%s", path);
    dir->own_lock = status == CULM_OK && is_free(dir, "lock");
    dir->own_log = status == CULM_OK && is_free(dir, "events.jsonl");
    return status == CULM_OK ? lock(path, &dir->lock_fd, error) : status;
}

enum culm_status culm_rundir_claim(const char *path, bool resume, struct culm_rundir *ret_dir,
                                   struct culm_error *error) {
    struct culm_rundir dir = {.lock_fd = -1};
    enum culm_status status = culm_rundir_check(path, resume, error);
    if (status == CULM_OK && !resume) {
        dir.made = !culm_file_is_directory(path);
        status = culm_dir_make(NULL, path, error);
    }
    if (status == CULM_OK) {
        status = hold(path, &dir, error);
    }
    if (status == CULM_OK) {
        /* Another launcher may have started and finished between the first look and the lock. */
        status = culm_rundir_check(path, resume, error);
    }
    if (status != CULM_OK) {
        culm_rundir_release(&dir);
        return status;
    }
    *ret_dir = dir;
    return CULM_OK;
}

enum culm_status culm_rundir_claim_held(const char *path, struct culm_rundir *ret_dir,
                                        struct culm_error *error) {
    struct culm_rundir dir = {.lock_fd = -1};
    enum culm_status status = hold(path, &dir, error);
    if (status != CULM_OK) {
        culm_rundir_release(&dir);
        return status;
    }
    *ret_dir = dir;
    return CULM_OK;
}

enum culm_status culm_rundir_claim_anew(const char *path, struct culm_rundir *ret_dir,
                                        struct culm_error *error) {
    struct culm_rundir dir = {.lock_fd = -1};
    enum culm_status status = check_none(path, NAMES - 1, "", error);
    dir.made = !culm_file_is_directory(path);
    if (status == CULM_OK) {
        status = culm_dir_make(NULL, path, error);
    }
    if (status == CULM_OK) {
        status = hold(path, &dir, error);
    }
    if (status == CULM_OK) {
        status = check_none(path, NAMES - 1, "", error);
    }
    if (status != CULM_OK) {
        culm_rundir_release(&dir);
        return status;
    }
    *ret_dir = dir;
    return CULM_OK;
}

enum culm_status culm_rundir_begin(const struct culm_rundir *dir, const char *config_text,
                                   struct culm_error *error) {
    char config[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(config, error, "%s/config.yaml", dir->path);
    return status ? status
                  : culm_file_replace(NULL, config, config_text, strlen(config_text), error);
}

bool culm_rundir_is_there(const struct culm_rundir *dir) {
    char path[CULM_PATH_MAX];
    struct stat held, found;
    return fstat(dir->lock_fd, &held) == 0 &&
           culm_path_format(path, NULL, "%s/lock", dir->path) == CULM_OK &&
           lstat(path, &found) == 0 && held.st_ino == found.st_ino && held.st_dev == found.st_dev;
}

int64_t culm_rundir_pid(const char *path) {
    char name[CULM_PATH_MAX], pid[24] = "";
    int fd = culm_path_format(name, NULL, "%s/lock", path) == CULM_OK
                 ? open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
                 : -1;
    if (fd < 0) {
        return 0;
    }
    bool held = flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    ssize_t len = pread(fd, pid, sizeof pid - 1, 0);
    close(fd);
    return held && len > 0 ? atoll(pid) : 0;
}

void culm_rundir_release(struct culm_rundir *dir) {
    if (dir->lock_fd >= 0) {
        close(dir->lock_fd);
    }
    dir->lock_fd = -1;
}

void culm_rundir_take_back(struct culm_rundir *dir) {
    const struct {
        const char *name;
        bool own;
    } file[] = {{"config.yaml", true},
                {"nodes.jsonl", true},
                {"events.jsonl", dir->own_log},
                {"lock", dir->own_lock}};
    char path[CULM_PATH_MAX];
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        if (file[i].own &&
            culm_path_format(path, NULL, "%s/%s", dir->path, file[i].name) == CULM_OK) {
            (void)unlink(path);
        }
    }
    if (dir->made) {
        (void)rmdir(dir->path);
    }
    culm_rundir_release(dir);
}
