#include "sample.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmocka.h>

void sample_init(struct sample *sample, int64_t step) {
    static const char *const suffix[3] = {"", ".exp_avg", ".exp_avg_sq"};
    for (int s = 0; s < SAMPLE_STAGES; s++) {
        for (int t = 0; t < SAMPLE_TENSORS; t++) {
            char *name = sample->names[s][t];
            snprintf(name, sizeof sample->names[s][t], "transformer.h.%d.%s%s", s,
                     t < 3 ? "attn.weight" : "attn.bias", suffix[t % 3]);
            for (int i = 0; i < 24; i++) {
                sample->data[s][t][i] = (float)step + (float)(s * 1000 + t * 100 + i) / 1024.0f;
            }
            sample->tensors[s][t] =
                (struct culm_tensor_ref){.name = name,
                                         .rank = t < 3 ? 2 : 1,
                                         .shape = {t < 3 ? 4 : 24, t < 3 ? 6 : 0},
                                         .data = sample->data[s][t]};
        }
    }
    sample->info = (struct culm_checkpoint_info){.step = step,
                                                 .samples = (uint64_t)step * 32,
                                                 .seed = UINT64_MAX - 1,
                                                 .signature = "test \"signature\"",
                                                 .config = "seed: 1\nsteps: 100\n"};
}

enum culm_status sample_publish(struct culm_fs *fs, const char *run_dir,
                                const struct sample *sample, struct culm_error *error) {
    struct culm_piece pieces[SAMPLE_STAGES];
    for (int s = 0; s < SAMPLE_STAGES; s++) {
        char owner[CULM_OWNER_SIZE];
        snprintf(owner, sizeof owner, "stage-%d", s);
        enum culm_status status = culm_checkpoint_write_piece(
            fs, run_dir, sample->info.step, owner, 10 * s, sample->tensors[s], SAMPLE_TENSORS, NULL,
            &pieces[s], error);
        if (status != CULM_OK) {
            return status;
        }
    }
    return culm_checkpoint_publish(fs, run_dir, &sample->info, pieces, SAMPLE_STAGES, error);
}

void sample_expect(const char *path, const struct sample *sample) {
    struct culm_checkpoint *checkpoint = NULL;
    struct culm_error error = {0};
    if (culm_checkpoint_open(path, true, &checkpoint, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    const struct culm_checkpoint_info *info = culm_checkpoint_info_of(checkpoint);
    assert_int_equal(info->step, sample->info.step);
    assert_int_equal(info->samples, sample->info.samples);
    assert_true(info->seed == sample->info.seed);
    assert_string_equal(info->signature, sample->info.signature);
    assert_string_equal(info->config, sample->info.config);
    assert_int_equal(culm_checkpoint_count(checkpoint), SAMPLE_STAGES * SAMPLE_TENSORS);
    for (int s = 0; s < SAMPLE_STAGES; s++) {
        for (int t = 0; t < SAMPLE_TENSORS; t++) {
            const struct culm_tensor_ref *ref = &sample->tensors[s][t];
            float data[24];
            assert_int_equal(
                culm_checkpoint_tensor(checkpoint, ref->name, ref->rank, ref->shape, data, &error),
                CULM_OK);
            assert_memory_equal(data, ref->data, sizeof data);
        }
    }
    culm_checkpoint_close(checkpoint);
}

void temp_dir_make(char *ret_dir) {
    strcpy(ret_dir,
           access("/dev/shm", W_OK) == 0 ? "/dev/shm/culm-test-XXXXXX" : "/tmp/culm-test-XXXXXX");
    assert_non_null(mkdtemp(ret_dir));
}

void temp_dir_drop(const char *dir) {
    assert_int_equal(culm_tree_remove(NULL, dir, NULL), CULM_OK);
}

static bool write_text(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t put = fd < 0 ? -1 : write(fd, text, strlen(text));
    if (fd >= 0) {
        close(fd);
    }
    return put == (ssize_t)strlen(text);
}

/* Root may; anybody else becomes root of a user namespace for the rest of this program. */
static bool own_mounts(void) {
    if (unshare(CLONE_NEWNS) == 0) {
        return true;
    }
    char users[64], groups[64];
    snprintf(users, sizeof users, "0 %u 1", (unsigned)getuid());
    snprintf(groups, sizeof groups, "0 %u 1", (unsigned)getgid());
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
           write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/uid_map", users) &&
           write_text("/proc/self/gid_map", groups);
}

void small_disk(const char *dir, const char *size) {
    if (!own_mounts() || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", dir, "tmpfs", 0, size) != 0) {
        printf("SKIPPED: cannot mount a small tmpfs (%s); needs root, or a user namespace\n",
               strerror(errno));
        temp_dir_drop(dir);
        skip();
    }
}
