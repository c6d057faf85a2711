/* What others are told of a listener. See advertise.h. */
#include "cluster/advertise.h"

enum culm_status culm_advertise(const char *advertise, const char *listening,
                                char ret_address[CULM_ADDRESS_SIZE], struct culm_error *error) {
    struct culm_address told, at;
    enum culm_status status = culm_address_parse(listening, &at, error);
    if (status == CULM_OK) {
        status = culm_address_parse(advertise ? advertise : listening, &told, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    if (culm_address_is_any(&told)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%.100s' is every address of this machine, and not one to connect "
                              "to; name the one to advertise",
                              advertise ? advertise : listening);
    }
    if (culm_address_is_tcp(&told) != culm_address_is_tcp(&at)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "cannot advertise '%.100s' when listening on '%.100s'", advertise,
                              listening);
    }
    if (culm_address_is_tcp(&told) && told.port == 0) {
        told.port = at.port;
    }
    culm_address_print(&told, ret_address);
    return CULM_OK;
}
