/*
 * The network that a darknet configuration describes: sections with their sizes, worked out from front
 * to back. Nothing here is larger than what was checked, so that builders and readers only follow it.
 *
 *     [net] width height channels, then sections, of which the first has number 0.
 *
 * `pad=1` of a convolution means size / 2; `padding` of a maxpool is size - 1 in all unless it is said,
 * the smaller half in front. A negative `from` or `layers` counts back from its section. Keys of
 * training are not read; keys that would change what the network computes in a way that is not known
 * are refused by name.
 *
 * Internal to darknet, and for its fuzz target. Thread: constant after parsing.
 */
#ifndef CULM_DARKNET_NET_H
#define CULM_DARKNET_NET_H

#include "vision/model.h"

#define CULM_DARKNET_SECTIONS_MAX 2048
#define CULM_DARKNET_ROUTE_MAX 8
#define CULM_DARKNET_TEXT_MAX (1u << 22)
#define CULM_DARKNET_SIDE_MAX 8192           /* of the input, in pixels */
#define CULM_DARKNET_NUMBERS_MAX (1LL << 33) /* in a weights file */

enum culm_darknet_kind {
    CULM_DARKNET_CONV,
    CULM_DARKNET_MAXPOOL,
    CULM_DARKNET_AVGPOOL,
    CULM_DARKNET_UPSAMPLE,
    CULM_DARKNET_ROUTE,
    CULM_DARKNET_SHORTCUT,
    CULM_DARKNET_SCALE, /* scale_channels: section `from`, times this input by channel */
    CULM_DARKNET_DROPOUT,
    CULM_DARKNET_YOLO,
};

enum culm_darknet_function {
    CULM_DARKNET_LINEAR,
    CULM_DARKNET_RELU,
    CULM_DARKNET_LEAKY, /* slope 0.1 */
    CULM_DARKNET_RELU6,
    CULM_DARKNET_LOGISTIC,
    CULM_DARKNET_SWISH,
    CULM_DARKNET_TANH,
    CULM_DARKNET_MISH,
};

struct culm_darknet_section {
    enum culm_darknet_kind kind;
    int32_t line;    /* of the file, from 1 */
    int64_t h, w, c; /* of what it makes */
    enum culm_darknet_function function;
    int64_t size, stride, pad, pad_end, dilation; /* conv, maxpool; stride: upsample too */
    int64_t groups;                               /* conv; route: of which `group` is taken */
    int64_t group;
    bool batch_norm;
    int32_t conv;  /* number among convolutions */
    int64_t first; /* conv: where its numbers begin in the weights */
    int32_t from[CULM_DARKNET_ROUTE_MAX], from_count; /* route, shortcut, scale: section numbers */
    struct culm_yolo_head head;                       /* yolo */
};

struct culm_darknet_net {
    int64_t width, height, channels;
    struct culm_darknet_section *section;
    int32_t count, convs, heads;
    int64_t numbers; /* of all convolutions */
};

/* `name` stands in messages: "darknet 'NAME': line 12: ...". CULM_ERR_FORMAT for a text that makes no
 * network, CULM_ERR_UNSUPPORTED for a section or a setting that is not known. */
enum culm_status culm_darknet_parse(const char *text, size_t len, const char *name,
                                    struct culm_darknet_net *ret_net, struct culm_error *error);
void culm_darknet_net_release(struct culm_darknet_net *net); /* fine on a zeroed struct */

/* The channels that a section reads: those of the one before it. */
static inline int64_t culm_darknet_channels_before(const struct culm_darknet_net *net, int32_t i) {
    return i > 0 ? net->section[i - 1].c : net->channels;
}

/* Its graph, for `batch` pictures: parameters convI.weight, convI.bias, and with batch norm convI.scale,
 * convI.mean, convI.variance (convI.bias is then the batch norm's); outputs head0, head1, .. */
enum culm_status culm_darknet_build(const struct culm_darknet_net *net, int64_t batch,
                                    struct culm_graph **ret_graph, struct culm_error *error);

/* --- numbers --- */

/* A file of weights, open: three i32 (major, minor, revision), images seen (i64, before version 0.2
 * i32), then for each convolution, f32: bias, with batch norm scale, mean and variance, and the weights
 * [O,I/groups,kh,kw]. All little-endian. */
struct culm_darknet_weights {
    int fd;
    uint64_t begin; /* of the numbers, in bytes */
    char *path;
};
/* The size must be what the network says, to the byte: else CULM_ERR_FORMAT. */
enum culm_status culm_darknet_weights_open(const char *path, const struct culm_darknet_net *net,
                                           struct culm_darknet_weights *ret_weights,
                                           struct culm_error *error);
void culm_darknet_weights_close(struct culm_darknet_weights *weights);
/* Reads the parameter called `name`, of `count` numbers. CULM_ERR_FORMAT when one is not finite, or a
 * variance is so far below zero that nothing can be divided by its root; CULM_ERR_NOT_FOUND: the
 * network has none of that name and size. */
enum culm_status culm_darknet_weights_read(const struct culm_darknet_weights *weights,
                                           const struct culm_darknet_net *net, const char *name,
                                           int64_t count, float *ret_data,
                                           struct culm_error *error);

#endif
