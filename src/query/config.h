/*
 * A configuration in the making: what is behind culm_config_* of culm/config.h. It is text and what was set
 * after it, so that keys may be set in any order and are judged together. Thread: one at a time.
 */
#ifndef CULM_QUERY_CONFIG_H
#define CULM_QUERY_CONFIG_H

#include "train/network.h"

#include <culm/config.h>

struct culm_config {
    char *name, *text; /* FILE of messages, and its content */
    size_t len;
    char **set; /* "key=value", in order */
    size_t set_count, set_capacity;
    char *dump; /* of the last culm_config_text; NULL: none since a change */
};

/* What it comes to, and the network that it names, which borrows it: *ret_config stays where it is
 * until culm_network_close. The caller releases both; after a failure there is neither. `pins`,
 * borrowed by ret_config, may be NULL. */
enum culm_status culm_config_resolve(const struct culm_config *config, struct culm_pins *pins,
                                     struct culm_train_config *ret_config,
                                     struct culm_network **ret_network, struct culm_error *error);
/* Adds "key=value" as it stands on a command line; its form is judged with the rest. */
enum culm_status culm_config_append(struct culm_config *config, const char *set,
                                    struct culm_error *error);
/* NULL: out of memory. */
struct culm_config *culm_config_copy(const struct culm_config *config);

#endif
