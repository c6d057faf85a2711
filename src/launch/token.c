/* Tokens and their files. See token.h. */
#include "launch/token.h"

#include "base/file.h"
#include "base/hex.h"
#include "base/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANDOM_BYTES 32

enum culm_status culm_token_draw(char ret_token[CULM_TOKEN_SIZE], struct culm_error *error) {
    unsigned char bytes[RANDOM_BYTES];
    enum culm_status status = culm_secret_random(bytes, sizeof bytes, error);
    if (status == CULM_OK) {
        culm_hex(bytes, sizeof bytes, ret_token);
    }
    return status;
}

enum culm_status culm_token_read(const char *path, char ret_token[CULM_TOKEN_SIZE],
                                 struct culm_error *error) {
    char *text = NULL;
    size_t len;
    enum culm_status status = culm_file_read(NULL, path, CULM_TOKEN_SIZE, &text, &len, error);
    if (status != CULM_OK) {
        return status;
    }
    len = strcspn(text, "\r\n");
    if (!len || len >= CULM_TOKEN_SIZE) {
        status =
            culm_error_set(error, CULM_ERR_FORMAT,
                           "'%s' has no token in its first line; copy DIR/token of the run, or "
                           "the file that the run was given",
                           path);
    } else {
        memcpy(ret_token, text, len);
        ret_token[len] = '\0';
    }
    free(text);
    return status;
}

enum culm_status culm_token_write(const char *path, const char *token, struct culm_error *error) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == EEXIST) {
        return culm_error_set(error, CULM_ERR_EXISTS,
                              "'%s' is there already, and is not written over; name a new file",
                              path);
    }
    if (fd < 0) {
        return culm_error_errno(error, errno, "create '%s'", path);
    }
    bool written = dprintf(fd, "%s\n", token) > 0 && fsync(fd) == 0;
    int problem = errno;
    written = close(fd) == 0 && written;
    if (!written) {
        (void)unlink(path);
        return culm_error_errno(error, problem, "write '%s'", path);
    }
    return CULM_OK;
}
