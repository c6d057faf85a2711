/* Configurations as commands see them: what is set on a command line, and what keys there are. */
#include "query/config.h"
#include "run/launches.h"
#include "run/references.h"

enum culm_status culm_config_add(struct culm_config *config, const char *set,
                                 struct culm_error *error) {
    return culm_config_append(config, set, error);
}

char *culm_config_resumable_keys(void) { return culm_train_config_resumable_keys(); }

char *culm_config_setting_keys(void) { return culm_train_config_setting_keys(); }

char *culm_config_reference(bool markdown) { return culm_train_config_reference(markdown); }

void culm_config_keys(culm_config_visit visit, void *ctx) { culm_train_config_each(visit, ctx); }
