/*
 * Encoding and decoding of VIEW.
 *
 * A view is told by what has changed since the one that its receiver knows, of which a whole view is the case that
 * none is known. Only nodes are told: who is there no longer, who sits elsewhere or holds something else, and who
 * has come. Roles and lanes follow from that (view.h), so both ends work them out, and what the leader decided
 * otherwise, for want of memory, is told as well. So is which copies are new, beside those that still go on.
 *
 * Lists give the distance of each item from the one before, at least 1; 0 ends them.
 */
#include "pipeline/message.h"

/* How `node`'s slot is told. */
enum { SAME_SLOT, STANDS_BY, SITS /* + pipeline; the stage follows */ };
/* How a copy is told. */
enum { NO_MORE_COPIES, FROM_OWNER, FROM, GOES_ON /* + how many known ones before it do not */ };

/* --- lists --- */

/* `last`: the item before; -1 at first. */
static void list(struct culm_buf *buf, int32_t *last, int32_t item) {
    culm_buf_varint(buf, (uint64_t)((int64_t)item - *last));
    *last = item;
}

static void end_list(struct culm_buf *buf) { culm_buf_varint(buf, 0); }

/* False: the list has ended. */
static bool read_list(struct culm_reader *in, int32_t *last, int32_t below) {
    const uint64_t distance = culm_read_varint(in, (uint64_t)((int64_t)below - 1 - *last));
    *last += (int32_t)distance;
    return distance > 0;
}

/* A number that may go down as well as up, as its distance from another one. */
static void put_near(struct culm_buf *buf, int64_t near, int64_t value) {
    const int64_t by = value - near;
    culm_buf_varint(buf, by < 0 ? 2 * (uint64_t)-by - 1 : 2 * (uint64_t)by);
}

static int64_t read_near(struct culm_reader *in, int64_t near, int64_t most) {
    const uint64_t by = culm_read_varint(in, 2 * (uint64_t)most);
    const int64_t value = by & 1 ? near - (int64_t)(by / 2) - 1 : near + (int64_t)(by / 2);
    in->failed |= value < 0 || value > most;
    return in->failed ? 0 : value;
}

/* -1, or a number below `below`. */
static void put_or_none(struct culm_buf *buf, int32_t value) {
    culm_buf_varint(buf, (uint64_t)((int64_t)value + 1));
}

static int32_t read_or_none(struct culm_reader *in, int32_t below) {
    return (int32_t)((int64_t)culm_read_varint(in, (uint64_t)below) - 1);
}

/* --- nodes --- */

static const struct culm_view_node unknown = {.pipeline = -1, .stage = -1};

static bool same_node(const struct culm_view_node *a, const struct culm_view_node *b) {
    return a->pipeline == b->pipeline && a->stage == b->stage &&
           culm_stage_set_same(&a->holds, &b->holds);
}

static void put_node(struct culm_buf *buf, const struct culm_view_node *node,
                     const struct culm_view_node *known) {
    if (node->pipeline == known->pipeline && node->stage == known->stage) {
        culm_buf_varint(buf, SAME_SLOT);
    } else if (node->pipeline < 0) {
        culm_buf_varint(buf, STANDS_BY);
    } else {
        culm_buf_varint(buf, SITS + (uint64_t)node->pipeline);
        culm_buf_varint(buf, (uint64_t)(int64_t)node->stage);
    }
    const struct culm_stage_set differ = culm_stage_set_differ(&node->holds, &known->holds);
    culm_stage_set_write(buf, &differ);
}

/* `node` is what was known of it. */
static void read_node(struct culm_reader *in, const struct culm_run_shape *shape,
                      struct culm_view_node *node) {
    const uint64_t slot = culm_read_varint(in, SITS + (uint64_t)shape->pipelines - 1);
    if (slot >= SITS) {
        node->pipeline = (int32_t)slot - SITS;
        node->stage = (int32_t)culm_read_varint(in, (uint64_t)shape->stages - 1);
    } else if (slot == STANDS_BY) {
        node->pipeline = node->stage = -1;
    }
    const struct culm_stage_set differ = culm_stage_set_read(in, shape->stages);
    node->holds = culm_stage_set_differ(&node->holds, &differ);
}

/* The place in `view` of the first node that is not before `id`, from `at` on. */
static int32_t place_from(const struct culm_view *view, int32_t at, int32_t id) {
    while (at < view->node_count && view->node[at].id < id) {
        at++;
    }
    return at;
}

static bool is_at(const struct culm_view *view, int32_t at, int32_t id) {
    return at < view->node_count && view->node[at].id == id;
}

static void put_nodes(struct culm_buf *buf, const struct culm_view *view,
                      const struct culm_view *known) {
    int32_t last = -1;
    for (int32_t k = 0, at = 0; k < known->node_count; k++) {
        at = place_from(view, at, known->node[k].id);
        if (!is_at(view, at, known->node[k].id)) {
            list(buf, &last, k);
        }
    }
    end_list(buf);
    last = -1;
    for (int32_t i = 0, at = 0, place = 0; i < view->node_count; i++) { /* of those who stay */
        at = place_from(known, at, view->node[i].id);
        const bool stays = is_at(known, at, view->node[i].id);
        if (stays && !same_node(&view->node[i], &known->node[at])) {
            list(buf, &last, place);
            put_node(buf, &view->node[i], &known->node[at]);
        }
        place += stays;
    }
    end_list(buf);
    last = -1;
    for (int32_t i = 0, at = 0; i < view->node_count; i++) {
        at = place_from(known, at, view->node[i].id);
        if (!is_at(known, at, view->node[i].id)) {
            list(buf, &last, view->node[i].id);
            put_node(buf, &view->node[i], &unknown);
        }
    }
    end_list(buf);
}

/* Puts one who has come where its id belongs. False: out of memory. */
static bool take_in(struct culm_reader *in, struct culm_view *view,
                    const struct culm_view_node *node) {
    int32_t at = view->node_count;
    in->failed |= at == CULM_MAX_NODES || culm_view_find(view, node->id);
    if (in->failed) {
        return true;
    }
    if (!culm_view_reserve(view, at + 1)) {
        return false;
    }
    for (; at > 0 && view->node[at - 1].id > node->id; at--) {
        view->node[at] = view->node[at - 1];
    }
    view->node[at] = *node;
    view->node_count++;
    return true;
}

/* False: out of memory. */
static bool read_nodes(struct culm_reader *in, const struct culm_run_shape *shape,
                       const struct culm_view *known, struct culm_view *view) {
    int32_t from = 0;
    bool room = culm_view_reserve(view, known->node_count);
    if (!room) {
        return false;
    }
    for (int32_t gone = -1; read_list(in, &gone, known->node_count); from = gone + 1) {
        for (; from < gone; from++) {
            view->node[view->node_count++] = known->node[from];
        }
    }
    for (; from < known->node_count; from++) {
        view->node[view->node_count++] = known->node[from];
    }
    for (int32_t place = -1; read_list(in, &place, view->node_count);) {
        read_node(in, shape, &view->node[place]);
    }
    for (int32_t id = -1; room && read_list(in, &id, INT32_MAX);) {
        struct culm_view_node node = unknown;
        node.id = id;
        read_node(in, shape, &node);
        room = take_in(in, view, &node);
    }
    return room;
}

/* --- what follows from the nodes --- */

/* The view in whose place this one comes inside an iteration; NULL: it begins one, or everyone loads. */
static const struct culm_view *goes_on_from(const struct culm_view *view,
                                            const struct culm_view *known) {
    const bool inside = known->number > 0 && known->phase == CULM_VIEW_RUN &&
                        view->phase == CULM_VIEW_RUN && view->iteration == known->iteration;
    return inside ? known : NULL;
}

/* What does not follow as `follows` says. */
static void put_exceptions(struct culm_buf *buf, const struct culm_view *view,
                           const struct culm_view *follows) {
    int32_t last = -1;
    for (int32_t p = 0; p < view->pipelines; p++) {
        for (int32_t s = 0; s < view->stages; s++) {
            const struct culm_role *role = &view->role[p][s], *other = &follows->role[p][s];
            if (role->owner != other->owner || role->shadow != other->shadow) {
                list(buf, &last, p * view->stages + s);
                put_or_none(buf, role->owner);
                put_or_none(buf, role->shadow);
            }
        }
    }
    end_list(buf);
    last = -1;
    for (int32_t l = 0; l < view->lanes; l++) {
        if (view->lane_pipeline[l] != follows->lane_pipeline[l]) {
            list(buf, &last, l);
            put_or_none(buf, view->lane_pipeline[l]);
        }
    }
    end_list(buf);
}

static void read_exceptions(struct culm_reader *in, struct culm_view *view) {
    for (int32_t slot = -1; read_list(in, &slot, view->pipelines * view->stages);) {
        struct culm_role *role = &view->role[slot / view->stages][slot % view->stages];
        role->owner = read_or_none(in, INT32_MAX);
        role->shadow = read_or_none(in, INT32_MAX);
    }
    for (int32_t lane = -1; read_list(in, &lane, view->lanes);) {
        view->lane_pipeline[lane] = read_or_none(in, view->pipelines);
    }
}

/* --- copies --- */

static bool same_copy(const struct culm_transfer *a, const struct culm_transfer *b) {
    return a->id == b->id && a->source == b->source && a->destination == b->destination &&
           a->stage == b->stage;
}

/* Who owns the stage in the destination's pipeline, and so mostly sends it. */
static int32_t owner_for(const struct culm_view *view, int32_t destination, int32_t stage) {
    const struct culm_view_node *to = culm_view_find(view, destination);
    return to && to->pipeline >= 0 && stage >= 0 && stage < view->stages
               ? view->role[to->pipeline][stage].owner
               : -1;
}

static void put_copies(struct culm_buf *buf, const struct culm_view *view,
                       const struct culm_view *known) {
    uint32_t newest = 0;
    for (int32_t k = 0; k < known->transfer_count; k++) {
        newest = known->transfer[k].id > newest ? known->transfer[k].id : newest;
    }
    struct culm_transfer before = {0};
    for (int32_t t = 0, from = 0; t < view->transfer_count; t++) {
        const struct culm_transfer *copy = &view->transfer[t];
        int32_t k = copy->id > newest ? known->transfer_count : from;
        while (k < known->transfer_count && !same_copy(&known->transfer[k], copy)) {
            k++;
        }
        if (k < known->transfer_count) {
            culm_buf_varint(buf, GOES_ON + (uint64_t)(k - from));
            from = k + 1;
        } else {
            const bool by_owner = copy->source >= 0 &&
                                  copy->source == owner_for(view, copy->destination, copy->stage);
            culm_buf_varint(buf, by_owner ? FROM_OWNER : FROM);
            put_near(buf, before.id, copy->id);
            put_near(buf, before.destination, copy->destination);
            culm_buf_varint(buf, (uint64_t)(int64_t)copy->stage);
            if (!by_owner) {
                culm_buf_varint(buf, (uint64_t)(int64_t)copy->source);
            }
        }
        before = *copy;
    }
    culm_buf_varint(buf, NO_MORE_COPIES);
}

/* False: out of memory. */
static bool read_copies(struct culm_reader *in, const struct culm_view *known,
                        struct culm_view *view) {
    struct culm_transfer before = {0};
    int32_t from = 0;
    bool room = true;
    for (uint64_t how;
         room &&
         (how = culm_read_varint(in, GOES_ON + (uint64_t)CULM_MAX_TRANSFERS)) != NO_MORE_COPIES;) {
        struct culm_transfer copy;
        if (how >= GOES_ON) {
            from += (int32_t)(how - GOES_ON);
            in->failed |= from >= known->transfer_count;
            copy = in->failed ? before : known->transfer[from];
            from++;
        } else {
            copy.id = (uint32_t)read_near(in, before.id, UINT32_MAX);
            copy.destination = (int32_t)read_near(in, before.destination, INT32_MAX);
            copy.stage = (int32_t)culm_read_varint(in, (uint64_t)view->stages - 1);
            copy.source = how == FROM_OWNER ? owner_for(view, copy.destination, copy.stage)
                                            : (int32_t)culm_read_varint(in, INT32_MAX);
        }
        before = copy;
        in->failed |= view->transfer_count == CULM_MAX_TRANSFERS || copy.source < 0;
        room = in->failed || culm_view_add_transfer(view, &copy);
    }
    return room;
}

/* --- a view --- */

static const struct culm_view none; /* is known */

void culm_content_write(struct culm_buf *buf, const struct culm_content *content) {
    culm_buf_u64(buf, (uint64_t)content->iteration);
    culm_buf_f64(buf, content->clip);
    culm_buf_f64(buf, content->loss);
    culm_buf_f64(buf, content->norm);
}

struct culm_content culm_content_read(struct culm_reader *in) {
    struct culm_content content = {.iteration = culm_read_count(in)};
    content.clip = culm_read_f64(in);
    content.loss = culm_read_f64(in);
    content.norm = culm_read_f64(in);
    return content;
}

void culm_totals_write(struct culm_buf *buf, const struct culm_totals *totals) {
    culm_buf_varint(buf, (uint64_t)totals->losses);
    culm_buf_varint(buf, (uint64_t)totals->rollbacks);
    culm_buf_varint(buf, (uint64_t)totals->steps_redone);
    culm_buf_varint(buf, (uint64_t)totals->recovered);
    culm_buf_varint(buf, (uint64_t)totals->copied);
}

struct culm_totals culm_totals_read(struct culm_reader *in) {
    struct culm_totals totals = {.losses = (int64_t)culm_read_varint(in, CULM_COUNT_MAX)};
    totals.rollbacks = (int64_t)culm_read_varint(in, CULM_COUNT_MAX);
    totals.steps_redone = (int64_t)culm_read_varint(in, CULM_COUNT_MAX);
    totals.recovered = (int64_t)culm_read_varint(in, CULM_COUNT_MAX);
    totals.copied = (int64_t)culm_read_varint(in, CULM_COUNT_MAX);
    return totals;
}

void culm_view_encode(const struct culm_view *view, const struct culm_view *known,
                      const struct culm_run_shape *shape, struct culm_buf *buf) {
    struct culm_view follows;
    if (!culm_view_init(&follows, shape)) {
        buf->failed = true;
        return;
    }
    known = known ? known : &none;
    const uint64_t base = known->number;
    follows.node = view->node; /* lent */
    follows.node_count = view->node_count;
    culm_view_assign(&follows, shape, goes_on_from(view, known));
    follows.node = NULL;
    culm_buf_varint(buf, view->number);
    culm_buf_varint(buf, base);
    culm_buf_u8(buf, (uint8_t)view->phase);
    culm_buf_varint(buf, (uint64_t)view->iteration);
    culm_buf_varint(buf, view->attempt);
    culm_buf_u8(buf, view->frc);
    culm_buf_varint(buf, (uint64_t)view->pipelines);
    culm_buf_varint(buf, (uint64_t)view->stages);
    culm_buf_varint(buf, (uint64_t)view->lanes);
    culm_buf_u8(buf, (uint8_t)shape->redundancy);
    put_nodes(buf, view, known);
    put_exceptions(buf, view, &follows);
    put_copies(buf, view, known);
    culm_content_write(buf, &view->last);
    culm_totals_write(buf, &view->totals);
    culm_buf_string(buf, view->reason);
    culm_buf_string(buf, view->source);
    culm_view_release(&follows);
}

static void read_same(struct culm_reader *in, int32_t value) {
    in->failed |= culm_read_varint(in, INT32_MAX) != (uint64_t)value;
}

static enum culm_status view_decode(struct culm_reader *in, const struct culm_view *known,
                                    const struct culm_run_shape *shape, struct culm_view *view) {
    view->number = culm_read_varint(in, UINT64_MAX);
    const uint64_t base = culm_read_varint(in, UINT64_MAX);
    const uint8_t phase = culm_read_u8(in);
    view->phase = phase == CULM_VIEW_LOAD ? CULM_VIEW_LOAD : CULM_VIEW_RUN;
    view->iteration = (int64_t)culm_read_varint(in, CULM_COUNT_MAX);
    view->attempt = culm_read_varint(in, UINT64_MAX);
    const bool frc = culm_read_u8(in);
    read_same(in, shape->pipelines);
    read_same(in, shape->stages);
    read_same(in, shape->lanes);
    in->failed |= culm_read_u8(in) != shape->redundancy;
    const bool right = phase == CULM_VIEW_LOAD || (phase == CULM_VIEW_RUN && view->iteration > 0);
    known = base == 0 || !known ? &none : known;
    if (in->failed || !right || base != known->number) {
        return CULM_ERR_FORMAT;
    }
    if (!read_nodes(in, shape, known, view)) {
        return CULM_ERR_MEMORY;
    }
    if (in->failed) {
        return CULM_ERR_FORMAT;
    }
    culm_view_assign(view, shape, goes_on_from(view, known));
    view->frc = frc;
    read_exceptions(in, view);
    if (!read_copies(in, known, view)) {
        return CULM_ERR_MEMORY;
    }
    view->last = culm_content_read(in);
    view->totals = culm_totals_read(in);
    culm_read_string(in, view->reason, sizeof view->reason);
    culm_read_string(in, view->source, sizeof view->source);
    return culm_reader_done(in) ? CULM_OK : CULM_ERR_FORMAT;
}

enum culm_status culm_view_decode(const uint8_t *meta, size_t len, const struct culm_view *known,
                                  const struct culm_run_shape *shape, struct culm_view *ret_view) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_view view;
    if (!culm_view_init(&view, shape)) {
        return CULM_ERR_MEMORY;
    }
    const enum culm_status status = view_decode(&in, known, shape, &view);
    if (status == CULM_OK) {
        struct culm_view before = *ret_view;
        *ret_view = view;
        view = before;
    }
    culm_view_release(&view);
    return status;
}
