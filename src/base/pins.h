/*
 * Pins: what the files that a run reads held when it began, so that nobody reads anything else.
 *
 * Whoever opens an input shows the open descriptor to culm_pins_file before it believes a byte, and
 * reads by culm_pins_read, which compares again when the file's *stamp* (inode, size, times) is no
 * longer the one that the opener saw. The launcher's pins are open: a file that is shown for the
 * first time is pinned as it is. A worker's are sealed: a file must be pinned, and hold the same.
 *
 *     up to CULM_PINS_WHOLE bytes      SHA-256 of the content, at each opening
 *     larger                           SHA-256 of the size and of 64 blocks at each opening; of the
 *                                      whole when the stamp is another one than that of the pin
 *
 * The pinned whole of a large file is found out when somebody asks for it (culm_pins_complete), and
 * whoever holds a list without it may ask who has (culm_pins_ask). While nobody knows it another
 * stamp counts as a difference. A folder is one pin: names, sizes, and the
 * contents of all files, or of 256 of them when they are larger in all. A *group* is the same of
 * files that are read in parts, and may be large: of those above CULM_PINS_WHOLE 64 blocks count.
 *
 * A stamp changes with each write and each rename, also where somebody puts the time of change back
 * (the inode has a time of its own); another stamp alone is no difference. Two changes within one
 * tick of the file system's clock, some milliseconds, have one stamp; so nothing is compared before
 * the tick of the last change is over. (Not noticed: a page that a process has mapped and changed,
 * changed again before the kernel has written it.) Thread: any; internally locked.
 */
#ifndef CULM_BASE_PINS_H
#define CULM_BASE_PINS_H

#include "base/sha256.h"

#include <sys/stat.h>

#define CULM_PINS_WHOLE ((uint64_t)64 << 20)

struct culm_stamp {
    uint64_t inode, bytes;
    int64_t mtime_ns, ctime_ns;
};

void culm_stamp_of(const struct stat *info, struct culm_stamp *ret_stamp);
bool culm_stamp_same(const struct culm_stamp *a, const struct culm_stamp *b);

struct culm_pin {
    char *path;
    uint64_t files; /* of a folder; 0: a plain file */
    uint64_t bytes;
    struct culm_stamp stamp;     /* of a folder: of all files in it */
    char part[CULM_SHA256_HEX];  /* of blocks, or of some files; "" where the whole is known at once
                                  */
    char whole[CULM_SHA256_HEX]; /* "": not known */
};

struct culm_pins;

struct culm_pins *culm_pins_new(void);       /* open; NULL: out of memory */
void culm_pins_free(struct culm_pins *pins); /* NULL is fine */
/* Adds one as it was said; copies it. False: out of memory. */
bool culm_pins_add(struct culm_pins *pins, const struct culm_pin *pin);
void culm_pins_seal(struct culm_pins *pins);

/* NULL: false. */
bool culm_pins_sealed(const struct culm_pins *pins);
/* Sealed, and without a pin for `path`, which so cannot be read. */
bool culm_pins_exclude(const struct culm_pins *pins, const char *path);

size_t culm_pins_count(const struct culm_pins *pins);
/* A copy, whose path lives as long as the pins. */
struct culm_pin culm_pins_at(struct culm_pins *pins, size_t index);

/* What is open as `fd`, under the name that the configuration gives it, is what was pinned.
 * CULM_ERR_CHANGED, naming it; CULM_ERR_IO. `pins` NULL: CULM_OK. */
enum culm_status culm_pins_file(struct culm_pins *pins, const char *path, int fd,
                                struct culm_error *error);
struct culm_pins_reader {
    struct culm_pins *pins; /* NULL: whatever is there is read */
    const char *what;       /* in messages: "text" */
    const char *path;
    const char *group; /* that it is a member of; NULL: it is pinned by itself */
    size_t member;
    int fd;
    struct culm_stamp stamp; /* the descriptor's, before it was shown to culm_pins_file; or what
                              * culm_pins_member gave */
};
/* Bytes [at, at + len) as they were pinned, though the file be edited meanwhile and put back; one
 * fstat more than reading takes when nothing has changed. CULM_ERR_CHANGED when it is edited for
 * good, or again and again; CULM_ERR_IO. */
enum culm_status culm_pins_read(const struct culm_pins_reader *reader, uint64_t at, void *ret_data,
                                size_t len, struct culm_error *error);

/* A folder: `path_of` gives the path of each of its `count` files, in an order that its content
 * alone decides; ctx is for it. To be shown once, before culm_pins_inside. */
typedef const char *culm_pins_path_of(const void *ctx, size_t index);
enum culm_status culm_pins_folder(struct culm_pins *pins, const char *folder, size_t count,
                                  culm_pins_path_of *path_of, const void *ctx,
                                  struct culm_error *error);
/* What was read of a file of a folder that was shown: `data`, while `stamp` was that of its
 * descriptor before and after. */
enum culm_status culm_pins_inside(struct culm_pins *pins, const char *folder, size_t index,
                                  const char *path, const struct culm_stamp *stamp,
                                  const void *data, size_t len, struct culm_error *error);

/* Files that are pinned together under a name, that of a folder or a pattern, in an order that the
 * names decide; as culm_pins_folder. */
enum culm_status culm_pins_group(struct culm_pins *pins, const char *name, size_t count,
                                 culm_pins_path_of *path_of, const void *ctx,
                                 struct culm_error *error);
/* Whether such a name is a group: as it was pinned, or where that is open, as is asked for. */
bool culm_pins_is_group(struct culm_pins *pins, const char *name, bool wanted);
/* What is open as `fd` is what the shown group has in that place; *ret_stamp: of the descriptor,
 * for culm_pins_read. CULM_ERR_CHANGED, naming `path`; CULM_ERR_IO. `pins` NULL: CULM_OK. */
enum culm_status culm_pins_member(struct culm_pins *pins, const char *group, size_t member,
                                  const char *path, int fd, struct culm_stamp *ret_stamp,
                                  struct culm_error *error);

/* In an error that tells of a difference: `advice` in the place of what a run is told to do about it. */
void culm_pins_advise(struct culm_error *error, const char *advice);
/* The same advice, for other differences of inputs. */
extern const char culm_pins_back[];

/* All pinned files are there and have their sizes: what can be said at once, and clearly. */
enum culm_status culm_pins_look(struct culm_pins *pins, struct culm_error *error);

/* Reads files until each pin has its whole digest; may take long, may run beside all else, returns
 * early when *stop. What has changed meanwhile stays without. `found` (may be NULL) is told after
 * each. */
void culm_pins_complete(struct culm_pins *pins, const bool *stop, void (*found)(void *ctx),
                        void *ctx);

/* Who may know the whole digest of `pin` when the list has none: ret_hex, which is "" before. `wait`:
 * until it is known, or known not to come; the file has been read meanwhile. False: it is of no use
 * to ask again. Is called under the lock. */
typedef bool culm_pins_teller(void *ctx, const struct culm_pin *pin, bool wait, char *ret_hex);
void culm_pins_ask(struct culm_pins *pins, culm_pins_teller *teller, void *ctx);

/* `now` holds what `before` held; what `before` knew of wholes is taken over. CULM_ERR_CHANGED
 * names the first difference. ret_note[CULM_ERROR_MAX]: what could not be found out; "" otherwise.
 */
enum culm_status culm_pins_compare(struct culm_pins *before, struct culm_pins *now, char *ret_note,
                                   struct culm_error *error);
/* The same; differences are no failure, and `changed` is told of the path of each. NULL: they are. */
typedef void culm_pins_changed(void *ctx, const char *path);
enum culm_status culm_pins_compare_all(struct culm_pins *before, struct culm_pins *now,
                                       culm_pins_changed *changed, void *ctx, char *ret_note,
                                       struct culm_error *error);

#endif
