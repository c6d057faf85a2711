/*
 * Keys in etcd, version 3, by its JSON gateway. libcurl is loaded when it is first needed.
 *
 *     etcd://HOST:PORT[,HOST:PORT]...[/PREFIX]     etcds://: by TLS
 *
 * The user and the password are in CULM_ETCD_USER and CULM_ETCD_PASSWORD, certificates of its own in CULM_ETCD_CACERT,
 * CULM_ETCD_CERT and CULM_ETCD_KEY; what etcdctl calls ETCDCTL_* counts where those are not set. Each member is asked for a
 * second at most, then the next one, and whoever answered last is asked first. All keys are below PREFIX ("culm").
 *
 * Thread: one at a time for each handle.
 */
#ifndef CULM_CLOUD_ETCD_H
#define CULM_CLOUD_ETCD_H

#include "net/keys.h"

struct culm_etcd_options {
    const char *place;
    int64_t ask_ms; /* how long a member is waited for; 0: 1000 */
};

/* Whether it begins as such an address does. */
bool culm_etcd_is_place(const char *text);
/* Asks nobody yet. CULM_ERR_CONFIG: it is none; CULM_ERR_MACHINE: libcurl is missing; CULM_ERR_MEMORY. */
enum culm_status culm_etcd_open(const struct culm_etcd_options *options,
                                struct culm_keys **ret_keys, struct culm_error *error);

#endif
