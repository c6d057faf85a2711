/* A list of all links, and one of unknown links ordered by age. See link.h. */
#include "cluster/link.h"

#include "base/mark.h"
#include "cluster/wire.h"

#include <stdlib.h>

static void unknown_add(struct culm_link *link) {
    struct culm_link_set *set = link->set;
    link->older = set->newest;
    link->newer = NULL;
    link->since_ns = set->fabric->ops->now_ns(set->fabric);
    *(link->older ? &link->older->newer : &set->oldest) = link;
    set->newest = link;
    set->unknown_count++;
}

static void unknown_remove(struct culm_link *link) {
    struct culm_link_set *set = link->set;
    *(link->older ? &link->older->newer : &set->oldest) = link->newer;
    *(link->newer ? &link->newer->older : &set->newest) = link->older;
    set->unknown_count--;
}

struct culm_link *culm_link_new(struct culm_link_set *set, int kind, int32_t node,
                                struct culm_stream *take_stream, bool connecting) {
    struct culm_link *link = calloc(1, sizeof *link);
    if (!link) {
        take_stream->ops->close(take_stream, NULL, NULL);
        return NULL;
    }
    bool trusted = kind != CULM_LINK_UNKNOWN;
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
    link->next = set->first;
    link->slot = &set->first;
    if (link->next) {
        link->next->slot = &link->next;
    }
    set->first = link;
    if (!trusted) {
        unknown_add(link);
    }
    return link;
}

bool culm_link_evict(struct culm_link_set *set) {
    bool any = set->oldest != NULL;
    if (any) {
        culm_link_free(set->oldest);
    }
    return any;
}

struct culm_link *culm_link_accepted(struct culm_link_set *set, struct culm_stream *take_stream,
                                     int64_t pid) {
    uint8_t nonce[CULM_NONCE_BYTES];
    if (set->unknown_count >= set->unknown_max) {
        CULM_MARK(cluster_crowd_pushes_the_oldest_out);
        (void)culm_link_evict(set);
    }
    if (set->fabric->ops->random(set->fabric, nonce, sizeof nonce) != CULM_OK) {
        CULM_MARK(cluster_no_random_numbers_for_a_caller);
        take_stream->ops->close(take_stream, NULL, NULL);
        return NULL;
    }
    struct culm_link *link = culm_link_new(set, CULM_LINK_UNKNOWN, -1, take_stream, false);
    if (link) {
        link->pid = pid;
        culm_handshake_listen(&link->handshake, set->token, set->self, nonce);
    }
    return link;
}

/* --- the handshake --- */

static enum culm_status say(struct culm_link *link, uint16_t type, struct culm_buf *meta,
                            struct culm_error *error) {
    enum culm_status status = meta->failed ? CULM_ERR_MEMORY : CULM_OK;
    if (status == CULM_OK) {
        culm_link_send(link, type, meta->data, meta->len);
    } else {
        culm_error_set(error, status, "out of memory for a handshake");
    }
    culm_buf_release(meta);
    return status;
}

enum culm_status culm_link_call(struct culm_link_set *set, int kind, int32_t node,
                                const char *address, struct culm_link **ret_link,
                                struct culm_error *error) {
    struct culm_fabric *fabric = set->fabric;
    struct culm_stream *stream = NULL;
    uint8_t nonce[CULM_NONCE_BYTES];
    enum culm_status status = fabric->ops->random(fabric, nonce, sizeof nonce);
    if (status != CULM_OK) {
        CULM_MARK(cluster_no_random_numbers_to_call);
        return culm_error_set(error, status, "the system provides no random numbers");
    }
    status = fabric->ops->connect(fabric, address, &stream, error);
    if (status != CULM_OK) {
        return status;
    }
    struct culm_link *link = culm_link_new(set, kind, node, stream, true);
    if (!link) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a connection");
    }
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_call(&link->handshake, set->token, set->self, node, nonce);
    culm_handshake_hello(&link->handshake, &meta);
    status = say(link, CULM_WIRE_HELLO, &meta, error);
    if (status == CULM_OK) {
        *ret_link = link;
    } else {
        culm_link_free(link);
    }
    return status;
}

enum culm_status culm_link_greeted(struct culm_link *link, const struct culm_message *hello,
                                   struct culm_error *error) {
    enum culm_status status = culm_handshake_greeted(&link->handshake, hello, error);
    if (status != CULM_OK) {
        return status;
    }
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_challenge(&link->handshake, &meta);
    return say(link, CULM_WIRE_CHALLENGE, &meta, error);
}

enum culm_status culm_link_challenged(struct culm_link *link, const struct culm_message *challenge,
                                      const struct culm_introduction *introduction,
                                      struct culm_error *error) {
    enum culm_status status = culm_handshake_challenged(&link->handshake, challenge, error);
    if (status != CULM_OK) {
        return status;
    }
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_proof(&link->handshake, introduction, &meta);
    return say(link, CULM_WIRE_PROOF, &meta, error);
}

/* --- who is known --- */

void culm_link_known(struct culm_link *link, int kind, int32_t node) {
    link->kind = kind;
    link->node = node;
    unknown_remove(link);
    culm_conn_limits(link->conn, CULM_FRAME_META_MAX, link->set->payload_max);
}

/* All but the connection. */
static void leave_set(struct culm_link *link) {
    if (link->kind == CULM_LINK_UNKNOWN) {
        unknown_remove(link);
    }
    *link->slot = link->next;
    if (link->next) {
        link->next->slot = link->slot;
    }
    free(link->held);
    free(link->origin);
    free(link);
}

void culm_link_free(struct culm_link *link) {
    culm_conn_close(link->conn);
    leave_set(link);
}

bool culm_link_release(struct culm_link *link, uint64_t deadline_ns,
                       struct culm_channel *ret_channel) {
    const bool released = culm_conn_release(link->conn, deadline_ns, ret_channel);
    leave_set(link);
    return released;
}

void culm_link_sweep(struct culm_link_set *set) {
    uint64_t now = set->fabric->ops->now_ns(set->fabric);
    while (set->oldest && now > set->oldest->since_ns + set->hello_ns) {
        CULM_MARK(cluster_silent_link_is_closed);
        (void)culm_link_evict(set);
    }
}

void culm_link_send(struct culm_link *link, uint16_t type, const void *meta, size_t meta_bytes) {
    const struct culm_message message = {
        .type = type, .meta = meta, .meta_bytes = (uint32_t)meta_bytes};
    culm_conn_send(link->conn, &message);
}
