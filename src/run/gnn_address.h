/* Addresses at which the nodes of a run on a graph find each other, as people write them. */
#ifndef CULM_RUN_GNN_ADDRESS_H
#define CULM_RUN_GNN_ADDRESS_H

#include "net/address.h"

/* "HOST:PORT", or as in net/address.h. ret_text has it in the latter form. CULM_ERR_ARGUMENT, with the
 * name of the option in front. */
enum culm_status culm_gnn_address_read(const char *option, const char *text,
                                       char ret_text[CULM_ADDRESS_SIZE],
                                       struct culm_address *ret_address, struct culm_error *error);
/* --advertise. CULM_ERR_CONFIG: nobody can connect to it. */
enum culm_status culm_gnn_address_advertise(const char *text, char ret_text[CULM_ADDRESS_SIZE],
                                            struct culm_error *error);

#endif
