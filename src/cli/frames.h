/* Which frames of a file a command is asked for, as text. Thread: any. */
#ifndef CULM_CLI_FRAMES_H
#define CULM_CLI_FRAMES_H

#include "base/status.h"

/* "A:B", "A:", ":B" or "A" (that frame alone): the frames from *ret_first to *ret_end - 1; 0: to the last.
 * CULM_ERR_ARGUMENT: none of these. */
enum culm_status culm_cli_read_frames(const char *text, int64_t *ret_first, int64_t *ret_end,
                                      struct culm_error *error);

#endif
