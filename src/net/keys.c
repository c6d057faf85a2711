/* What all stores of keys have in common. See keys.h. */
#include "net/keys.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

void culm_keys_close(struct culm_keys *keys) {
    if (keys) {
        keys->ops->close(keys);
    }
}

void culm_keys_list_release(struct culm_keys_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->pair[i].key);
        free(list->pair[i].value);
    }
    free(list->pair);
    *list = (struct culm_keys_list){0};
}

const struct culm_keys_pair *culm_keys_find(const struct culm_keys_list *list, const char *key) {
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->pair[i].key, key) == 0) {
            return &list->pair[i];
        }
    }
    return NULL;
}

bool culm_keys_list_add(struct culm_keys_list *list, const struct culm_keys_pair *pair) {
    struct culm_keys_pair copy = *pair;
    const bool room = CULM_GROW(list->pair, list->capacity, list->count + 1);
    copy.key = strdup(pair->key);
    copy.value = malloc(pair->len + 1);
    if (!room || !copy.key || !copy.value) {
        free(copy.key);
        free(copy.value);
        return false;
    }
    if (pair->len > 0) {
        memcpy(copy.value, pair->value, pair->len);
    }
    copy.value[pair->len] = '\0';
    list->pair[list->count++] = copy;
    return true;
}

static bool is_key(const char *key) { return key[0] && strlen(key) <= CULM_KEYS_KEY_MAX; }

enum culm_status culm_keys_check(const struct culm_keys_transaction *what,
                                 struct culm_error *error) {
    if (what->condition_count > CULM_KEYS_PARTS_MAX || what->change_count > CULM_KEYS_PARTS_MAX) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "a transaction of %zu conditions and %zu changes; %d are the most",
                              what->condition_count, what->change_count, CULM_KEYS_PARTS_MAX);
    }
    for (size_t i = 0; i < what->condition_count; i++) {
        if (!is_key(what->condition[i].key)) {
            return culm_error_set(error, CULM_ERR_ARGUMENT, "a key that is empty or too long");
        }
    }
    for (size_t i = 0; i < what->change_count; i++) {
        const struct culm_keys_change *change = &what->change[i];
        if (!is_key(change->key)) {
            return culm_error_set(error, CULM_ERR_ARGUMENT, "a key that is empty or too long");
        }
        if (change->value && change->len > CULM_KEYS_VALUE_MAX) {
            return culm_error_set(error, CULM_ERR_ARGUMENT,
                                  "the value of '%.200s' has %zu bytes; %zu are the most",
                                  change->key, change->len, CULM_KEYS_VALUE_MAX);
        }
    }
    return CULM_OK;
}
