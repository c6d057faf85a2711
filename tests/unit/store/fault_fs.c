/* Fault injection under the file table; see the header. Paths of tests are short. */
#include "fault_fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct fault_fs *self(struct culm_fs *fs) { return (struct fault_fs *)fs; }

/* True when this operation has to fail; counts it. */
static bool fails(struct fault_fs *fault) {
    fault->calls++;
    bool now = fault->fail_at && (fault->calls == fault->fail_at ||
                                  (fault->mode != FAULT_ONCE && fault->calls > fault->fail_at));
    if (now) {
        fault->fired = true;
        errno = fault->errno_value;
    }
    return now;
}

static void copy_path(char *to, const char *from) {
    if (strlen(from) > 255) {
        abort();
    }
    strcpy(to, from);
}

static bool is_in(const char *path, const char *dir) {
    size_t len = strlen(dir);
    return strncmp(path, dir, len) == 0 && path[len] == '/' && !strchr(path + len + 1, '/');
}

static void note_name(struct fault_fs *fault, int kind, const char *path, const char *from,
                      const char *saved) {
    if (fault->journal_count == FAULT_JOURNAL_MAX) {
        abort();
    }
    int i = fault->journal_count++;
    fault->journal[i].kind = kind;
    copy_path(fault->journal[i].path, path);
    copy_path(fault->journal[i].from, from);
    copy_path(fault->journal[i].saved, saved);
}

static uint64_t inode_of(int fd) {
    struct stat info;
    return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

static void set_synced(struct fault_fs *fault, uint64_t inode) {
    for (int i = 0; i < fault->unsynced_count; i++) {
        if (fault->unsynced[i] == inode) {
            fault->unsynced[i] = 0;
        }
    }
}

static void note_unsynced(struct fault_fs *fault, int fd) {
    uint64_t inode = inode_of(fd);
    set_synced(fault, inode); /* once is enough */
    int at = 0;
    while (at < fault->unsynced_count && fault->unsynced[at]) {
        at++;
    }
    if (at == FAULT_JOURNAL_MAX) {
        abort();
    }
    fault->unsynced[at] = inode;
    fault->unsynced_count += at == fault->unsynced_count;
}

static int fault_open(struct culm_fs *fs, const char *path, int flags, int mode) {
    struct fault_fs *fault = self(fs);
    if (fails(fault)) {
        return -1;
    }
    bool is_new = (flags & O_CREAT) && access(path, F_OK) != 0;
    int fd = open(path, flags, mode);
    if (fd >= 0) {
        if (fd >= 64) {
            abort();
        }
        copy_path(fault->open[fd].path, path);
        fault->open[fd].writable = (flags & O_ACCMODE) != O_RDONLY;
        if (is_new) {
            note_name(fault, ENTRY_NAME, path, "", "");
        }
        if (flags & O_TRUNC) {
            note_unsynced(fault, fd);
        }
    }
    return fd;
}

static ssize_t fault_read(struct culm_fs *fs, int fd, void *data, size_t len) {
    return fails(self(fs)) ? -1 : read(fd, data, len);
}

static ssize_t fault_write(struct culm_fs *fs, int fd, const void *data, size_t len) {
    bool failing = fails(self(fs));
    note_unsynced(self(fs), fd);
    if (failing) {
        if (self(fs)->calls == self(fs)->fail_at && write(fd, data, len / 2) < 0) {
            abort(); /* a torn write is part of the fault */
        }
        errno = self(fs)->errno_value;
        return -1;
    }
    /* Short writes are legal: let callers meet them. */
    return write(fd, data, len > 100 ? len - len / 3 : len);
}

static int fault_sync(struct culm_fs *fs, int fd) {
    struct fault_fs *fault = self(fs);
    struct stat info;
    if (fails(fault)) {
        return -1;
    }
    set_synced(fault, inode_of(fd));
    if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
        for (int i = 0; i < fault->journal_count; i++) {
            if (is_in(fault->journal[i].path, fault->open[fd].path)) {
                fault->journal[i].kind = ENTRY_GONE;
                unlink(fault->journal[i].saved);
            }
        }
    }
    return 0;
}

static int fault_close(struct culm_fs *fs, int fd) {
    bool failing = fails(self(fs));
    int result = close(fd); /* also when dead: the test process goes on and must not leak */
    return failing ? -1 : result;
}

/* Names below a renamed directory move with it. */
static void move_prefix(char *path, const char *from, const char *to) {
    size_t len = strlen(from);
    if (strncmp(path, from, len) == 0 && path[len] == '/') {
        char moved[512];
        snprintf(moved, sizeof moved, "%s%s", to, path + len);
        copy_path(path, moved);
    }
}

static int fault_rename(struct culm_fs *fs, const char *from, const char *to) {
    struct fault_fs *fault = self(fs);
    if (fails(fault)) {
        return -1;
    }
    char saved[300] = "";
    if (access(to, F_OK) == 0) {
        copy_path(saved, to);
        strcat(saved, ".saved");
        if (link(to, saved) != 0) {
            abort(); /* only files are replaced */
        }
    }
    int result = rename(from, to);
    if (result == 0) {
        for (int i = 0; i < fault->journal_count; i++) {
            move_prefix(fault->journal[i].path, from, to);
            move_prefix(fault->journal[i].from, from, to);
            if (strcmp(fault->journal[i].path, from) == 0) {
                fault->journal[i].kind = ENTRY_GONE; /* a new name's rename loses both at worst */
            }
        }
        note_name(fault, ENTRY_RENAME, to, from, saved);
    }
    return result;
}

static int fault_unlink(struct culm_fs *fs, const char *path) {
    return fails(self(fs)) ? -1 : unlink(path);
}

static int fault_rmdir(struct culm_fs *fs, const char *path) {
    return fails(self(fs)) ? -1 : rmdir(path);
}

static int fault_mkdir(struct culm_fs *fs, const char *path, int mode) {
    if (fails(self(fs))) {
        return -1;
    }
    int result = mkdir(path, (mode_t)mode);
    if (result == 0) {
        note_name(self(fs), ENTRY_NAME, path, "", "");
    }
    return result;
}

static const struct culm_fs_ops fault_ops = {
    .size = sizeof(struct culm_fs_ops),
    .open = fault_open,
    .read = fault_read,
    .write = fault_write,
    .sync = fault_sync,
    .close = fault_close,
    .rename = fault_rename,
    .unlink = fault_unlink,
    .rmdir = fault_rmdir,
    .mkdir = fault_mkdir,
};

void fault_fs_init(struct fault_fs *fault, enum fault_mode mode, int fail_at, int errno_value) {
    memset(fault, 0, sizeof *fault);
    fault->fs.ops = &fault_ops;
    fault->mode = mode;
    fault->fail_at = fail_at;
    fault->errno_value = errno_value;
}

/* Cuts every file below `path` whose contents were never synced. */
static void cut_unsynced(struct fault_fs *fault, const char *path) {
    struct culm_names names;
    struct stat info;
    if (culm_dir_list(path, &names, NULL) != CULM_OK) {
        return;
    }
    for (size_t i = 0; i < names.count; i++) {
        char child[1024];
        snprintf(child, sizeof child, "%s/%s", path, names.name[i]);
        if (lstat(child, &info) != 0) {
            abort();
        }
        if (S_ISDIR(info.st_mode)) {
            cut_unsynced(fault, child);
            continue;
        }
        for (int u = 0; u < fault->unsynced_count; u++) {
            if (fault->unsynced[u] == info.st_ino && truncate(child, info.st_size / 2) != 0) {
                abort();
            }
        }
    }
    culm_names_release(&names);
}

void fault_fs_power_off(struct fault_fs *fault, const char *root) {
    cut_unsynced(fault, root);
    for (int i = fault->journal_count - 1; i >= 0; i--) {
        if (fault->journal[i].kind == ENTRY_NAME) {
            culm_tree_remove(NULL, fault->journal[i].path, NULL);
        } else if (fault->journal[i].kind == ENTRY_RENAME &&
                   access(fault->journal[i].path, F_OK) == 0) {
            if (rename(fault->journal[i].path, fault->journal[i].from) != 0 ||
                (fault->journal[i].saved[0] &&
                 rename(fault->journal[i].saved, fault->journal[i].path) != 0)) {
                abort();
            }
        }
    }
}
