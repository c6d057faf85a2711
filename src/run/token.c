/* A new token. See launches.h. */
#include "launch/token.h"

#include "run/launches.h"

enum culm_status culm_token_new(const char *path, struct culm_error *error) {
    char token[CULM_TOKEN_SIZE];
    enum culm_status status = culm_token_draw(token, error);
    return status == CULM_OK ? culm_token_write(path, token, error) : status;
}
