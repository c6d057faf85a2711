/*
 * PACKAGE:QUERY as a model of pictures: the model of the query, with the weights that the package
 * has for it.
 *
 * Thread: as vision/model.h.
 */
#ifndef CULM_QUERY_OPEN_PACKAGE_H
#define CULM_QUERY_OPEN_PACKAGE_H

#include "query/open.h"

/* Whether `what` names a query of a package: an existing folder, ':', and anything. */
bool culm_query_is_package(const char *what);
/* Whether `what` is a package, without a query. */
bool culm_query_is_package_alone(const char *what);
/* The structure comes from the model that the package names for the query, so the file that the
 * workload named has to exist. Errors: those of culm_package_open and culm_query_open;
 * CULM_ERR_CONFIG: no such query, or weights are given. */
enum culm_status culm_query_open_package(const char *what,
                                         const struct culm_query_open_options *options,
                                         struct culm_vision_model **ret_model,
                                         struct culm_error *error);

#endif
