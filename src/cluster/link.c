/* One list of links. See link.h. */
#include "cluster/link.h"

#include "cluster/wire.h"

#include <stdlib.h>

struct culm_link *culm_link_new(struct culm_link_set *set, int kind, int32_t node,
                                struct culm_stream *take_stream, bool connecting) {
    struct culm_link *link = calloc(1, sizeof *link);
    if (!link) {
        take_stream->ops->close(take_stream, NULL, NULL);
        return NULL;
    }
    bool trusted = kind != CULM_LINK_STRANGER;
    const struct culm_conn_options options = {
        .pool = set->pool,
        .meta_max = trusted ? CULM_FRAME_META_MAX : CULM_WIRE_HELLO_MAX,
        .payload_max = trusted ? set->payload_max : 0,
        .scratch_bytes = set->scratch_bytes,
        .ops = set->ops,
        .ctx = link,
    };
    *link = (struct culm_link){.set = set, .kind = kind, .node = node};
    if (culm_conn_over(&options, take_stream, connecting, &link->conn, NULL) != CULM_OK) {
        free(link);
        return NULL;
    }
    link->since_ns = set->network->ops->now_ns(set->network);
    link->next = set->first;
    link->slot = &set->first;
    if (link->next) {
        link->next->slot = &link->next;
    }
    set->first = link;
    set->strangers += !trusted;
    return link;
}

struct culm_link *culm_link_accepted(struct culm_link_set *set, struct culm_stream *take_stream) {
    if (set->strangers >= set->strangers_max) {
        take_stream->ops->close(take_stream, NULL, NULL);
        return NULL;
    }
    return culm_link_new(set, CULM_LINK_STRANGER, -1, take_stream, false);
}

void culm_link_known(struct culm_link *link, int kind, int32_t node) {
    link->kind = kind;
    link->node = node;
    link->set->strangers--;
    culm_conn_limits(link->conn, CULM_FRAME_META_MAX, link->set->payload_max);
}

void culm_link_free(struct culm_link *link) {
    link->set->strangers -= link->kind == CULM_LINK_STRANGER;
    *link->slot = link->next;
    if (link->next) {
        link->next->slot = link->slot;
    }
    culm_conn_close(link->conn);
    free(link);
}

void culm_link_sweep(struct culm_link_set *set) {
    uint64_t now = set->network->ops->now_ns(set->network);
    for (struct culm_link *link = set->first, *next; link; link = next) {
        next = link->next;
        if (link->kind == CULM_LINK_STRANGER && now > link->since_ns + set->hello_ns) {
            culm_link_free(link);
        }
    }
}

void culm_link_send(struct culm_link *link, uint16_t type, const void *meta, size_t meta_bytes) {
    const struct culm_message message = {
        .type = type, .meta = meta, .meta_bytes = (uint32_t)meta_bytes};
    culm_conn_send(link->conn, &message);
}
