/*
 * The address that others are told of a listener: another than it listens at where that is nowhere to
 * call, as 0.0.0.0, or not the way that others have. Internal to the room. Thread: any.
 */
#ifndef CULM_CLUSTER_ADVERTISE_H
#define CULM_CLUSTER_ADVERTISE_H

#include "net/address.h"

/* Of a listener at `listening`: `advertise`, with the listener's port where that gives 0; NULL:
 * `listening` itself. CULM_ERR_CONFIG: nobody could call there. */
enum culm_status culm_advertise(const char *advertise, const char *listening,
                                char ret_address[CULM_ADDRESS_SIZE], struct culm_error *error);

#endif
