/*
 * PACKAGE:QUERY as a model of pictures: that of the query, with the numbers that the package has for it.
 * Thread: as vision/model.h.
 */
#ifndef CULM_RUN_VISION_PACKAGE_H
#define CULM_RUN_VISION_PACKAGE_H

#include "run/vision_open.h"

/* Whether `what` names a query of a package: a folder that is one, ':', anything. */
bool culm_vision_is_package(const char *what);
/* Whether it is a package, and no query is named. */
bool culm_vision_is_package_alone(const char *what);
/* The model is opened by its name in the package, for its structure: the file that the workload named has
 * to be there. The errors of culm_package_open and culm_vision_open; CULM_ERR_CONFIG: no such query. */
enum culm_status culm_vision_open_package(const char *what,
                                          const struct culm_vision_open_options *options,
                                          struct culm_vision_model **ret_model,
                                          struct culm_error *error);

#endif
