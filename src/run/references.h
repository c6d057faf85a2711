/*
 * What help, manual pages and completions say of configurations: references of their keys, for
 * `culm help config`; what `--resume` lets change; and of which commit this was built.
 *
 * Texts are the caller's to free. NULL: out of memory.
 */
#ifndef CULM_RUN_REFERENCES_H
#define CULM_RUN_REFERENCES_H

#include "base/config.h"

/* The commit that this was built of. */
const char *culm_build_commit(void);

/* All keys of a configuration: a Markdown table, or lines for a terminal. */
char *culm_config_reference(bool markdown);
char *culm_gnn_reference(bool markdown);
char *culm_merge_reference(bool markdown);
/* The same of `culm train` key by key. */
void culm_config_keys(culm_config_visit visit, void *ctx);

/* What `--resume` may change, in words; and what --set may change then as well. */
char *culm_config_resumable_keys(void);
char *culm_config_setting_keys(void);
char *culm_gnn_resumable_keys(void);
char *culm_gnn_setting_keys(void);

#endif
