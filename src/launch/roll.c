/* Lines of JSON, appended one by one. See roll.h. */
#include "launch/roll.h"

#include "base/grow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096

/* --- reading --- */

static int32_t place_of(const struct culm_roll *roll, int32_t node) {
    int32_t at = 0;
    while (at < roll->count && roll->node[at].node != node) {
        at++;
    }
    return at;
}

static void forget(struct culm_roll *roll, int32_t node) {
    const int32_t at = place_of(roll, node);
    if (at < roll->count) {
        roll->count--;
        memmove(&roll->node[at], &roll->node[at + 1],
                (size_t)(roll->count - at) * sizeof *roll->node);
    }
}

static void take_text(const json_t *line, const char *key, char *ret_text, size_t size) {
    const char *text = json_string_value(json_object_get(line, key));
    snprintf(ret_text, size, "%s", text ? text : "");
}

bool culm_roll_node_read(const json_t *json, struct culm_host_node *ret_node) {
    const json_int_t id = json_integer_value(json_object_get(json, "node"));
    if (!json_is_integer(json_object_get(json, "node")) || id < 0 || id >= CULM_NODE_IDS) {
        return false;
    }
    *ret_node = (struct culm_host_node){
        .node = (int32_t)id, .role = (uint32_t)json_integer_value(json_object_get(json, "role"))};
    take_text(json, "address", ret_node->address, sizeof ret_node->address);
    take_text(json, "name", ret_node->name, sizeof ret_node->name);
    take_text(json, "host", ret_node->place.host, sizeof ret_node->place.host);
    take_text(json, "zone", ret_node->place.zone, sizeof ret_node->place.zone);
    take_text(json, "machine", ret_node->place.machine, sizeof ret_node->place.machine);
    return true;
}

static bool take_node(struct culm_roll *roll, const json_t *line) {
    struct culm_host_node node;
    if (!culm_roll_node_read(line, &node)) {
        return true;
    }
    roll->next_node = node.node >= roll->next_node ? node.node + 1 : roll->next_node;
    forget(roll, node.node);
    if (!node.address[0] || !CULM_GROW(roll->node, roll->capacity, roll->count + 1)) {
        return !node.address[0];
    }
    roll->node[roll->count++] = node;
    return true;
}

static bool take_line(struct culm_roll *roll, const json_t *line) {
    const json_t *term = json_object_get(line, "term"), *gone = json_object_get(line, "gone");
    const json_t *next = json_object_get(line, "next");
    if (json_is_integer(next) && json_integer_value(next) < CULM_NODE_IDS) {
        roll->next_node = (int32_t)json_integer_value(next);
    }
    if (json_is_integer(term) && json_integer_value(term) > 0) {
        roll->term = (uint64_t)json_integer_value(term);
    } else if (json_is_integer(gone)) {
        forget(roll, (int32_t)json_integer_value(gone));
    } else if (json_is_integer(json_object_get(line, "node"))) {
        return take_node(roll, line);
    }
    return true;
}

enum culm_status culm_roll_read(const char *dir, struct culm_roll *ret_roll,
                                struct culm_error *error) {
    struct culm_roll roll = {.fd = -1};
    enum culm_status status = culm_path_format(roll.path, error, "%s/nodes.jsonl", dir);
    FILE *file = status == CULM_OK ? fopen(roll.path, "re") : NULL;
    char text[LINE_MAX_BYTES];
    bool room = true;
    if (status == CULM_OK && !file && errno != ENOENT) {
        status = culm_error_errno(error, errno, "read '%.300s'", roll.path);
    }
    while (file && room && fgets(text, sizeof text, file)) {
        json_t *line = json_loads(text, 0, NULL); /* NULL: cut off, or somebody's edit */
        if (json_is_object(line)) {
            room = take_line(&roll, line);
        }
        json_decref(line);
    }
    if (file) {
        fclose(file);
    }
    if (status == CULM_OK && !room) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    if (status != CULM_OK) {
        culm_roll_release(&roll);
        return status;
    }
    *ret_roll = roll;
    return CULM_OK;
}

/* --- writing --- */

/* In one write, so that a crash leaves whole lines or a torn last one. */
static bool say(struct culm_roll *roll, json_t *take_line_or_null) {
    char *text = take_line_or_null ? json_dumps(take_line_or_null, JSON_COMPACT) : NULL;
    char whole[LINE_MAX_BYTES];
    const int len = text ? snprintf(whole, sizeof whole, "%s\n", text) : -1;
    json_decref(take_line_or_null);
    free(text);
    return roll->fd >= 0 && len > 0 && (size_t)len < sizeof whole &&
           write(roll->fd, whole, (size_t)len) == len;
}

json_t *culm_roll_node_json(const struct culm_host_node *node) {
    return json_pack("{s:i, s:i, s:s, s:s, s:s, s:s, s:s}", "node", (int)node->node, "role",
                     (int)node->role, "address", node->address, "name", node->name, "host",
                     node->place.host, "zone", node->place.zone, "machine", node->place.machine);
}

enum culm_status culm_roll_begin(struct culm_roll *roll, bool with_them, struct culm_error *error) {
    roll->term++;
    roll->count = with_them ? roll->count : 0;
    /* Under another name first: with the old one the term would be lost, which must not be lower than what nodes have promised. */
    char fresh[CULM_PATH_MAX];
    const enum culm_status status = culm_path_format(fresh, error, "%s.tmp", roll->path);
    if (status != CULM_OK) {
        return status;
    }
    roll->fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    if (roll->fd < 0) {
        return culm_error_errno(error, errno, "create '%.300s'", roll->path);
    }
    bool written = say(roll, json_pack("{s:I, s:i}", "term", (json_int_t)roll->term, "next",
                                       (int)roll->next_node));
    for (int32_t i = 0; i < roll->count && written; i++) {
        written = say(roll, culm_roll_node_json(&roll->node[i]));
    }
    if (!written || rename(fresh, roll->path) != 0) {
        const int code = errno;
        close(roll->fd);
        roll->fd = -1; /* the old one stays as it is */
        (void)unlink(fresh);
        return culm_error_errno(error, code, "write '%.300s'", roll->path);
    }
    return CULM_OK;
}

void culm_roll_came(struct culm_roll *roll, const struct culm_host_node *node) {
    (void)say(roll, culm_roll_node_json(node)); /* else it is not found again, and ends by itself */
}

void culm_roll_went(struct culm_roll *roll, int32_t node) {
    (void)say(roll, json_pack("{s:i}", "gone", (int)node));
}

void culm_roll_end(struct culm_roll *roll) {
    if (roll->fd >= 0) {
        (void)unlink(roll->path);
    }
}

void culm_roll_release(struct culm_roll *roll) {
    if (roll->fd >= 0 && roll->path[0]) {
        close(roll->fd);
    }
    free(roll->node);
    *roll = (struct culm_roll){.fd = -1};
}
