/*
 * Configurations of Culm: the same object for every job.
 *
 *     struct culm_config *config = NULL;
 *     if (culm_config_open("main.yaml", &config, &error) ||
 *         culm_config_set(config, "steps", "500", &error)) ...
 *
 * Which keys there are is a matter of the job that reads it: `culm help config` lists those of
 * train.h. Relative paths start at the working directory of the process. What <culm.h> says of errors,
 * ownership, threads and versions holds here.
 */
#ifndef CULM_CONFIG_H
#define CULM_CONFIG_H

#include <stddef.h>

#include <culm/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Values of some of the keys of a job. */
struct culm_config;

/* Opens a YAML file, or reads `len` bytes of YAML, which messages then call `name`. Whether keys and
 * values are right is not checked yet. */
CULM_API enum culm_status culm_config_open(const char *path, struct culm_config **ret_config,
                                           struct culm_error *error);
CULM_API enum culm_status culm_config_read(const char *text, size_t len, const char *name,
                                           struct culm_config **ret_config,
                                           struct culm_error *error);
CULM_API void culm_config_free(struct culm_config *config);
/* Sets a key, such as "steps" or "optimizer.lr", to a value written as in YAML. The last value set
 * wins. It is checked together with all others, by every function that uses the configuration. If a
 * key or a value is wrong, that function returns CULM_ERR_CONFIG, with "FILE:LINE: key: what is
 * wrong; what is allowed", or "--set: ..." for a key that was set. */
CULM_API enum culm_status culm_config_set(struct culm_config *config, const char *key,
                                          const char *value, struct culm_error *error);

#ifdef __cplusplus
}
#endif

#endif
