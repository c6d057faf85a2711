/*
 * The network that a darknet configuration describes: a list of sections with all sizes worked out,
 * from front to back. Everything in it has been checked, so builders and readers need not.
 *
 *     [net] width height channels, then the sections, numbered from 0.
 *
 * For a convolution `pad=1` means a padding of size / 2. For a maxpool `padding` is the total, size
 * - 1 by default, with the smaller half in front. A negative `from` or `layers` counts back from
 * its own section. Keys that matter in training only are ignored; keys that would change the
 * computation in a way not supported are refused by name.
 *
 * Private to src/darknet and its fuzz target. Thread: constant after parsing.
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
    CULM_DARKNET_SCALE, /* scale_channels: section `from` times this input, by channel */
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
    int64_t h, w, c; /* of the output */
    enum culm_darknet_function function;
    int64_t size, stride, pad, pad_end, dilation; /* conv, maxpool; stride: upsample too */
    int64_t groups;                               /* conv; route: takes group `group` of so many */
    int64_t group;
    bool batch_norm;
    int32_t conv;  /* number of the convolution, from 0 */
    int64_t first; /* conv: index of its first number in the weights */
    int32_t from[CULM_DARKNET_ROUTE_MAX], from_count; /* route, shortcut, scale: sections */
    bool taken; /* conv, and yolo: its sigmoids are read by a head, and its map by nobody else */
    struct culm_yolo_head head; /* yolo */
};

struct culm_darknet_net {
    int64_t width, height, channels;
    struct culm_darknet_section *section;
    int32_t count, convs, heads;
    int64_t numbers; /* of all convolutions */
};

/* `name` is used in messages: "darknet 'NAME': line 12: ...". CULM_ERR_FORMAT: the text does not
 * describe a network; CULM_ERR_UNSUPPORTED: an unknown section or setting. The caller releases the
 * net; on failure there is nothing to release. */
enum culm_status culm_darknet_parse(const char *text, size_t len, const char *name,
                                    struct culm_darknet_net *ret_net, struct culm_error *error);
void culm_darknet_net_release(struct culm_darknet_net *net); /* fine on a zeroed struct */

/* The channels of a section's input: the output of the section before it. */
static inline int64_t culm_darknet_channels_before(const struct culm_darknet_net *net, int32_t i) {
    return i > 0 ? net->section[i - 1].c : net->channels;
}

/* Builds the graph for `batch` pictures. Parameters: convI.weight, convI.bias, and with batch norm
 * convI.scale, convI.mean and convI.variance (convI.bias is then the batch norm's). Outputs: head0,
 * head1, ... */
enum culm_status culm_darknet_build(const struct culm_darknet_net *net, int64_t batch,
                                    struct culm_graph **ret_graph, struct culm_error *error);

/* --- weights --- */

/* An open weights file, all little-endian: three i32 (major, minor, revision); the number of images
 * seen (i64; before version 0.2 i32); then for each convolution, as f32: bias; with batch norm
 * scale, mean and variance; the weights [O,I/groups,kh,kw]. */
struct culm_darknet_weights {
    int fd;
    uint64_t begin; /* offset of the first number, in bytes */
    char *path;
};
/* CULM_ERR_FORMAT unless the file has exactly the size that the network needs. */
enum culm_status culm_darknet_weights_open(const char *path, const struct culm_darknet_net *net,
                                           struct culm_darknet_weights *ret_weights,
                                           struct culm_error *error);
void culm_darknet_weights_close(struct culm_darknet_weights *weights);
/* Reads the parameter `name`, of `count` numbers. CULM_ERR_FORMAT: a number is not finite, or a
 * variance is too far below zero to take the root of. CULM_ERR_NOT_FOUND: the network has no
 * parameter of this name and size. */
enum culm_status culm_darknet_weights_read(const struct culm_darknet_weights *weights,
                                           const struct culm_darknet_net *net, const char *name,
                                           int64_t count, float *ret_data,
                                           struct culm_error *error);

#endif
