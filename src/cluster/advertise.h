/*
 * The address of a listener that others are told. It differs from the one listened at if nobody
 * can connect to that, such as 0.0.0.0, or if others reach it by another one. Internal to the room.
 * Thread: any.
 */
#ifndef CULM_CLUSTER_ADVERTISE_H
#define CULM_CLUSTER_ADVERTISE_H

#include "net/address.h"

/* `advertise`, with the listener's port if its own is 0; if NULL, `listening`. CULM_ERR_CONFIG:
 * nobody could connect to the result. */
enum culm_status culm_advertise(const char *advertise, const char *listening,
                                char ret_address[CULM_ADDRESS_SIZE], struct culm_error *error);

#endif
