/*
 * Files and directories, with errors that name the path, and a table of operations underneath.
 *
 * Everything that changes a disk, and every read of a whole file, goes through `struct culm_fs`, so
 * that a test can make the n-th operation fail, or everything from it on (a crash). NULL means the
 * POSIX one. What only looks (listing, stat, mmap) calls POSIX at once.
 *
 * Durability: "sync" below means fsync, of the file and, where a name changed, of its directory.
 * Errors: CULM_ERR_NOT_FOUND when the path does not exist, CULM_ERR_CONFIG when a file to be read
 * may not be or is no plain file (input: exit 3), CULM_ERR_IO otherwise; `verb 'path': reason`.
 * Thread: any; one writer per path.
 */
#ifndef CULM_BASE_FILE_H
#define CULM_BASE_FILE_H

#include "base/status.h"

#include <sys/types.h>

#define CULM_PATH_MAX 4096

struct culm_fs {
    const struct culm_fs_ops *ops;
};

/* Each as its namesake in POSIX: -1 and errno on failure. */
struct culm_fs_ops {
    size_t size; /* sizeof(struct culm_fs_ops), for versioning */
    int (*open)(struct culm_fs *fs, const char *path, int flags, int mode);
    ssize_t (*read)(struct culm_fs *fs, int fd, void *data, size_t len);
    ssize_t (*write)(struct culm_fs *fs, int fd, const void *data, size_t len);
    int (*sync)(struct culm_fs *fs, int fd); /* fsync */
    int (*close)(struct culm_fs *fs, int fd);
    int (*rename)(struct culm_fs *fs, const char *from, const char *to);
    int (*unlink)(struct culm_fs *fs, const char *path);
    int (*rmdir)(struct culm_fs *fs, const char *path);
    int (*mkdir)(struct culm_fs *fs, const char *path, int mode);
};

/* Formats into ret_path[CULM_PATH_MAX]; CULM_ERR_ARGUMENT when too long. */
enum culm_status culm_path_format(char *ret_path, struct culm_error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The directory that holds the last component of `path`, into ret_parent[CULM_PATH_MAX]. */
enum culm_status culm_path_parent(const char *path, char *ret_parent, struct culm_error *error);

/* The whole of a regular file, plus a NUL that is not counted; the caller frees. More than
 * max_bytes is CULM_ERR_FORMAT. */
enum culm_status culm_file_read(struct culm_fs *fs, const char *path, size_t max_bytes,
                                char **ret_data, size_t *ret_len, struct culm_error *error);

/* Writing step by step: create (or empty) the file, append, then finish, which syncs and closes. On
 * a failure of append, call culm_file_abandon. The name is not yet durable: sync its directory. */
struct culm_file {
    struct culm_fs *fs;
    int fd;
    uint64_t bytes; /* appended so far */
    char path[CULM_PATH_MAX];
};
enum culm_status culm_file_create(struct culm_fs *fs, const char *path, struct culm_file *ret_file,
                                  struct culm_error *error);
enum culm_status culm_file_append(struct culm_file *file, const void *data, size_t len,
                                  struct culm_error *error);
/* Closes in any case; removes the file when it fails. */
enum culm_status culm_file_finish(struct culm_file *file, struct culm_error *error);
void culm_file_abandon(struct culm_file *file); /* closes and removes it */

/* CULM_ERR_CONFIG if `path` is a device, a pipe, or a link to what a process has open (such as
 * /dev/stdout): whoever names one as an output does not want it replaced by a plain file. To be
 * asked before work is done for the file. */
enum culm_status culm_file_may_replace(const char *path, struct culm_error *error);
/* The same for an output that is a file: a folder is refused, too. */
enum culm_status culm_file_may_write(const char *path, struct culm_error *error);
/* Renames and syncs the directory of `to`, if culm_file_may_replace that. When it fails, either may
 * be there. */
enum culm_status culm_file_rename(struct culm_fs *fs, const char *from, const char *to,
                                  struct culm_error *error);
/* Creates a file with a name of its own in the folder of `path`, to be renamed to it:
 * `ret_file->path` is .NAME.PID-N.tmp there. Nothing that is there is opened, and no link followed.
 * A process that is killed leaves it behind. */
enum culm_status culm_file_create_beside(struct culm_fs *fs, const char *path,
                                         struct culm_file *ret_file, struct culm_error *error);
/* Replaces `path` so that a reader, or a crash, finds the old or the new content whole: writes a
 * file beside it, syncs, renames, syncs the directory. */
enum culm_status culm_file_replace(struct culm_fs *fs, const char *path, const void *data,
                                   size_t len, struct culm_error *error);
enum culm_status culm_file_remove(struct culm_fs *fs, const char *path, struct culm_error *error);
/* Syncs what is there already; `path` may be a file or a directory. */
enum culm_status culm_file_sync(struct culm_fs *fs, const char *path, struct culm_error *error);

/* `mkdir -p`: every missing directory of the path, each synced into its parent; so is the last one
 * that is there already, since who made it may have died before. */
enum culm_status culm_dir_make(struct culm_fs *fs, const char *path, struct culm_error *error);

/* A new folder, TMPDIR/NAME-xxxxxx or in /tmp, for this user alone; the caller removes it. */
enum culm_status culm_dir_make_temporary(const char *name, char ret_path[CULM_PATH_MAX],
                                         struct culm_error *error);

struct culm_names {
    char **name; /* sorted bytewise; without "." and ".." */
    size_t count;
};
enum culm_status culm_dir_list(const char *path, struct culm_names *ret_names,
                               struct culm_error *error);
void culm_names_release(struct culm_names *names); /* fine on a zeroed struct */

/* Removes a file, a link (not what it points to) or a whole directory; nothing there is CULM_OK. */
enum culm_status culm_tree_remove(struct culm_fs *fs, const char *path, struct culm_error *error);

/* Whether there is anything of that name, a link that leads nowhere too. */
bool culm_file_exists(const char *path);
/* False when there is none. */
bool culm_file_is_regular(const char *path);
bool culm_file_is_directory(const char *path);
/* CULM_ERR_NOT_FOUND when there is none, CULM_ERR_FORMAT when it is no regular file. */
enum culm_status culm_file_size(const char *path, uint64_t *ret_bytes, struct culm_error *error);

#endif
