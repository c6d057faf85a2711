/*
 * libmosquitto, loaded at run time when it is first needed: few runs send anything to a broker.
 */
#ifndef CULM_CLOUD_MOSQUITTO_LIBRARY_H
#define CULM_CLOUD_MOSQUITTO_LIBRARY_H

#include "base/status.h"

#include <mosquitto.h>

#define CULM_MOSQUITTO_FUNCTIONS(ROW)                                                              \
    ROW(lib_init)                                                                                  \
    ROW(new)                                                                                       \
    ROW(destroy)                                                                                   \
    ROW(username_pw_set)                                                                           \
    ROW(connect_callback_set)                                                                      \
    ROW(publish_callback_set)                                                                      \
    ROW(connect_async)                                                                             \
    ROW(disconnect)                                                                                \
    ROW(publish)                                                                                   \
    ROW(loop)                                                                                      \
    ROW(socket)                                                                                    \
    ROW(strerror)                                                                                  \
    ROW(connack_string)

struct culm_mosquitto {
#define ROW(name) __typeof__(mosquitto_##name) *name;
    CULM_MOSQUITTO_FUNCTIONS(ROW)
#undef ROW
};

/* The table; the same at each call. NULL: libmosquitto is not installed, or too old (CULM_ERR_MACHINE).
 * Thread: any. */
const struct culm_mosquitto *culm_mosquitto_load(struct culm_error *error);

#endif
