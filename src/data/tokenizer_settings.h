/*
 * Internal to data: settings that lie beside the files of a tokenizer, as Hugging Face's programs
 * write them: added_tokens.json, tokenizer_config.json, special_tokens_map.json. Each is obeyed, or
 * refused by name; what has nothing to do with ids is a list here.
 *
 * Beside a tokenizer.json, which says all by itself, they may add tokens and name roles; where they
 * say something else than it does, they are refused.
 */
#ifndef CULM_DATA_TOKENIZER_SETTINGS_H
#define CULM_DATA_TOKENIZER_SETTINGS_H

#include "base/file.h"
#include "base/pins.h"
#include "data/tokenizer_load.h"

enum { CULM_SETTINGS_ADDED, CULM_SETTINGS_CONFIG, CULM_SETTINGS_MAP, CULM_SETTINGS_FILES };

struct culm_settings {
    char path[CULM_SETTINGS_FILES][CULM_PATH_MAX];
    json_t *json[CULM_SETTINGS_FILES]; /* NULL: there is none */
};

/* Which files the settings are beside. */
enum culm_settings_beside {
    CULM_BESIDE_JSON,       /* tokenizer.json */
    CULM_BESIDE_VOCAB_JSON, /* vocab.json and merges.txt */
    CULM_BESIDE_VOCAB_TEXT  /* vocab.txt */
};

/* Those in the folder of the file `path`; release even after a failure. CULM_ERR_FORMAT: one is no
 * JSON; else as of files.h. */
enum culm_status culm_settings_open(const char *path, struct culm_pins *pins,
                                    struct culm_settings *settings, struct culm_error *error);
void culm_settings_release(struct culm_settings *settings); /* fine on a zeroed struct */

/* Both are of load->settings (NULL: there are none), and refuse with CULM_ERR_FORMAT. The first
 * comes when all of the tokenizer is set that is no token, which it changes or compares. The second
 * adds tokens and names roles; `vocab` has the ids, NULL: the tokenizer's vocabulary. */
enum culm_status culm_settings_apply(struct culm_load *load, enum culm_settings_beside beside);
enum culm_status culm_settings_tokens(struct culm_load *load, const json_t *vocab);
/* When all is read: that ids of added tokens are not others'. */
enum culm_status culm_settings_check_ids(struct culm_load *load);

#endif
