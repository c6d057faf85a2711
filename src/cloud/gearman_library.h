/*
 * libgearman, loaded at run time, so that only those who use Gearman need it. The table has its
 * functions under their names without "gearman_".
 *
 * Thread: any.
 */
#ifndef CULM_CLOUD_GEARMAN_LIBRARY_H
#define CULM_CLOUD_GEARMAN_LIBRARY_H

#include "base/status.h"

#include <libgearman/gearman.h>

#define CULM_GEARMAN_FUNCTIONS(row)                                                                \
    row(client_create) row(client_free) row(client_error) row(client_add_server)                   \
        row(client_set_timeout) row(client_set_options) row(client_add_task) row(client_run_tasks) \
            row(client_wait) row(client_echo) row(client_set_complete_fn) row(client_set_fail_fn)  \
                row(task_context) row(task_data) row(task_data_size) row(worker_create)            \
                    row(worker_free) row(worker_error) row(worker_add_server) row(worker_register) \
                        row(worker_grab_job) row(job_workload) row(job_workload_size)              \
                            row(job_send_complete) row(job_send_fail) row(job_free)

struct culm_gearman {
#define CULM_GEARMAN_ROW(name) __typeof__(&gearman_##name) name;
    CULM_GEARMAN_FUNCTIONS(CULM_GEARMAN_ROW)
#undef CULM_GEARMAN_ROW
};

/* The table; the same at each call. NULL: libgearman is not installed, or too old (CULM_ERR_MACHINE).
 */
const struct culm_gearman *culm_gearman_load(struct culm_error *error);

/* The function under which jobs are submitted; the same for all runs that share a job server. */
#define CULM_GEARMAN_FUNCTION "culm-gnn-worker"
#define CULM_GEARMAN_FORMAT 1 /* version of the JSON in jobs */
#define CULM_GEARMAN_PORT 4730

struct culm_gearman_server {
    char host[256];
    uint16_t port;
};
/* Parses "HOST:PORT", "HOST" or "[ADDRESS]:PORT". CULM_ERR_CONFIG; the message begins with `what`.
 */
enum culm_status culm_gearman_server_read(const char *text, const char *what,
                                          struct culm_gearman_server *ret_server,
                                          struct culm_error *error);
/* Checks that a job server answers there. CULM_ERR_IO; the message begins with `what`. */
enum culm_status culm_gearman_server_check(const struct culm_gearman *gearman,
                                           const struct culm_gearman_server *server,
                                           const char *what, struct culm_error *error);

#endif
