/* One row of a table: what it may hold, and where it stands. */
#include "base/config_row.h"
#include "base/words.h"

#include <math.h>
#include <stdio.h>

const char *culm_config_row_noun(const struct culm_config_row *row) {
    switch (row->type) {
    case CULM_CONFIG_TYPE_INT:
    case CULM_CONFIG_TYPE_INTS:
    case CULM_CONFIG_TYPE_U64: return "a whole number";
    case CULM_CONFIG_TYPE_REAL: return "a number";
    case CULM_CONFIG_TYPE_ENUM:
    case CULM_CONFIG_TYPE_BOOL: return "a word";
    case CULM_CONFIG_TYPE_TEXT:
    case CULM_CONFIG_TYPE_TEXTS: return row->allowed ? "a text" : "a path";
    case CULM_CONFIG_TYPE_SECTIONS: return "a list of sections";
    case CULM_CONFIG_TYPE_SECTION:
    case CULM_CONFIG_TYPE_NAMED: break;
    }
    return "a map of sections";
}

static void real_range(const struct culm_config_row *row, char *buffer, size_t size) {
    bool above = row->flags & CULM_CONFIG_ABOVE, below = row->flags & CULM_CONFIG_BELOW;
    if (isinf(row->high)) {
        snprintf(buffer, size, "%s %g", above ? "above" : "at least", row->low);
    } else if (above || below) {
        snprintf(buffer, size, "%s %g and %s %g", above ? "above" : "at least", row->low,
                 below ? "below" : "at most", row->high);
    } else {
        snprintf(buffer, size, "%g to %g", row->low, row->high);
    }
}

void culm_config_row_range(const struct culm_config_row *row, char *buffer, size_t size) {
    switch (row->type) {
    case CULM_CONFIG_TYPE_INT:
        snprintf(buffer, size, "%lld to %lld", (long long)row->min, (long long)row->max);
        break;
    case CULM_CONFIG_TYPE_INTS:
        snprintf(buffer, size, "%s, %lld to %lld", row->allowed, (long long)row->min,
                 (long long)row->max);
        break;
    case CULM_CONFIG_TYPE_U64: snprintf(buffer, size, "0 to 18446744073709551615"); break;
    case CULM_CONFIG_TYPE_REAL: real_range(row, buffer, size); break;
    case CULM_CONFIG_TYPE_ENUM:
    case CULM_CONFIG_TYPE_BOOL: culm_words_list(row->words, buffer, size); break;
    case CULM_CONFIG_TYPE_TEXT:
        snprintf(buffer, size, "%s", row->allowed ? row->allowed : "a path");
        break;
    case CULM_CONFIG_TYPE_TEXTS:
        snprintf(buffer, size, "%s", row->allowed ? row->allowed : "a path or a list of paths");
        break;
    case CULM_CONFIG_TYPE_SECTION: snprintf(buffer, size, "a section"); break;
    case CULM_CONFIG_TYPE_SECTIONS: snprintf(buffer, size, "a list of sections"); break;
    case CULM_CONFIG_TYPE_NAMED: snprintf(buffer, size, "sections with names"); break;
    }
}

bool culm_config_is_list(const struct culm_config_row *row) {
    return row->type == CULM_CONFIG_TYPE_SECTIONS || row->type == CULM_CONFIG_TYPE_NAMED;
}

size_t culm_config_row_append(char *buffer, size_t used, size_t size, const char *text) {
    for (; *text && used + 1 < size; text++) {
        buffer[used++] = (unsigned char)*text < 0x20 || *text == 0x7F ? '?' : *text;
    }
    buffer[used] = '\0';
    return used;
}

static size_t append_path(const struct culm_config_place *place, char *buffer, size_t size) {
    if (!place->up) {
        buffer[0] = '\0';
        return 0;
    }
    size_t used = append_path(place->up, buffer, size);
    used = used ? culm_config_row_append(buffer, used, size, ".") : used;
    used = culm_config_row_append(buffer, used, size, place->row->key);
    if (place->row->type == CULM_CONFIG_TYPE_SECTIONS) {
        char index[24];
        snprintf(index, sizeof index, "[%zu]", place->index);
        used = culm_config_row_append(buffer, used, size, index);
    } else if (place->row->type == CULM_CONFIG_TYPE_NAMED) {
        used = culm_config_row_append(buffer, used, size, ".");
        used = culm_config_row_append(buffer, used, size,
                                      *culm_config_name(place->row, place->object));
    }
    return used;
}

void culm_config_path(const struct culm_config_place *place, const char *key, char *buffer,
                      size_t size) {
    size_t used = append_path(place, buffer, size);
    if (key) {
        used = used ? culm_config_row_append(buffer, used, size, ".") : used;
        culm_config_row_append(buffer, used, used + 61 < size ? used + 61 : size, key);
    }
}
