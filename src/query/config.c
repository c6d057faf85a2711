/* Configurations in the making. See config.h and culm/config.h. */
#include "query/config.h"

#include "base/file.h"
#include "base/grow.h"
#include "base/yaml.h"

#include <culm/train.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum culm_status no_memory(const char *name, struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", name);
}

enum culm_status culm_config_read(const char *text, size_t len, const char *name,
                                  struct culm_config **ret_config, struct culm_error *error) {
    if (!text || !name || !ret_config) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_config_read: an argument is NULL");
    }
    if (len > CULM_YAML_MAX_BYTES) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "%s: has %zu bytes; a configuration has at most %u", name, len,
                              CULM_YAML_MAX_BYTES);
    }
    struct culm_config *config = calloc(1, sizeof *config);
    if (config) {
        config->name = strdup(name);
        config->text = malloc(len + 1);
    }
    if (!config || !config->name || !config->text) {
        culm_config_free(config);
        return no_memory(name, error);
    }
    memcpy(config->text, text, len);
    config->text[len] = '\0';
    config->len = len;
    *ret_config = config;
    return CULM_OK;
}

enum culm_status culm_config_open(const char *path, struct culm_config **ret_config,
                                  struct culm_error *error) {
    char *text;
    size_t len;
    if (!path || !ret_config) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_config_open: an argument is NULL");
    }
    enum culm_status status = culm_file_read(NULL, path, CULM_YAML_MAX_BYTES, &text, &len, error);
    if (status == CULM_OK) {
        status = culm_config_read(text, len, path, ret_config, error);
        free(text);
    }
    return status;
}

void culm_config_free(struct culm_config *config) {
    if (config) {
        for (size_t i = 0; i < config->set_count; i++) {
            free(config->set[i]);
        }
        free(config->set);
        free(config->name);
        free(config->text);
        free(config->dump);
        free(config);
    }
}

struct culm_config *culm_config_copy(const struct culm_config *config) {
    struct culm_config *copy = NULL;
    enum culm_status status =
        culm_config_read(config->text, config->len, config->name, &copy, NULL);
    for (size_t i = 0; i < config->set_count && status == CULM_OK; i++) {
        status = culm_config_append(copy, config->set[i], NULL);
    }
    if (status != CULM_OK) {
        culm_config_free(copy);
        return NULL;
    }
    return copy;
}

enum culm_status culm_config_append(struct culm_config *config, const char *set,
                                    struct culm_error *error) {
    char *copy = strdup(set);
    if (!copy || !CULM_GROW(config->set, config->set_capacity, config->set_count + 1)) {
        free(copy);
        return no_memory(config->name, error);
    }
    config->set[config->set_count++] = copy;
    free(config->dump);
    config->dump = NULL;
    return CULM_OK;
}

/* What was set for the key before counts no more, right or wrong. */
static void forget(struct culm_config *config, const char *key) {
    size_t len = strlen(key), kept = 0;
    for (size_t i = 0; i < config->set_count; i++) {
        char *set = config->set[i];
        if (strncmp(set, key, len) == 0 && set[len] == '=') {
            free(set);
        } else {
            config->set[kept++] = set;
        }
    }
    config->set_count = kept;
}

enum culm_status culm_config_set(struct culm_config *config, const char *key, const char *value,
                                 struct culm_error *error) {
    if (!config || !key || !value || !*key || strchr(key, '=')) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "culm_config_set: needs a configuration, a key and a value");
    }
    size_t size = strlen(key) + strlen(value) + 2;
    char *set = malloc(size);
    if (!set) {
        return no_memory(config->name, error);
    }
    snprintf(set, size, "%s=%s", key, value);
    forget(config, key);
    enum culm_status status = culm_config_append(config, set, error);
    free(set);
    return status;
}

enum culm_status culm_config_resolve(const struct culm_config *config, struct culm_pins *pins,
                                     struct culm_train_config *ret_config,
                                     struct culm_network **ret_network, struct culm_error *error) {
    enum culm_status status = culm_train_config_parse(config->text, config->len, config->name,
                                                      (const char *const *)config->set,
                                                      config->set_count, ret_config, error);
    if (status != CULM_OK) {
        return status;
    }
    ret_config->pins = pins;
    status = culm_network_open(ret_config, ret_network, error);
    if (status != CULM_OK) {
        culm_train_config_release(ret_config);
        ret_config->pins = NULL;
    }
    return status;
}

enum culm_status culm_config_check(struct culm_config *config, struct culm_error *error) {
    const char *text;
    return culm_config_text(config, &text, error);
}

enum culm_status culm_config_text(struct culm_config *config, const char **ret_text,
                                  struct culm_error *error) {
    struct culm_train_config resolved;
    struct culm_network *network = NULL;
    if (!config || !ret_text) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_config_text: an argument is NULL");
    }
    if (!config->dump) {
        enum culm_status status = culm_config_resolve(config, NULL, &resolved, &network, error);
        if (status != CULM_OK) {
            return status;
        }
        config->dump = culm_train_config_dump(&resolved);
        culm_network_close(network);
        culm_train_config_release(&resolved);
        if (!config->dump) {
            return no_memory(config->name, error);
        }
    }
    *ret_text = config->dump;
    return CULM_OK;
}
