/* Parsing: from text to sections with sizes. See net.h. */
#include "darknet/net.h"

#include "base/grow.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_MAX 128 /* of a section */
#define MOST_CHANNELS (1 << 20)

static const char *const functions[] = {[CULM_DARKNET_LINEAR] = "linear",
                                        [CULM_DARKNET_RELU] = "relu",
                                        [CULM_DARKNET_LEAKY] = "leaky",
                                        [CULM_DARKNET_RELU6] = "relu6",
                                        [CULM_DARKNET_LOGISTIC] = "logistic",
                                        [CULM_DARKNET_SWISH] = "swish",
                                        [CULM_DARKNET_TANH] = "tanh",
                                        [CULM_DARKNET_MISH] = "mish",
                                        NULL};

struct key {
    const char *name, *value;
    int32_t line;
    int32_t again; /* a later line that gives it another value; 0: none */
    bool read;
};

/* The section being read. */
struct parser {
    const char *name; /* of the file */
    struct culm_darknet_net *net;
    struct culm_error *error;
    char section[32]; /* "": none yet */
    int32_t line;     /* where it begins */
    struct key key[KEYS_MAX];
    int32_t keys, capacity;
    bool have_net;
};

static enum culm_status refuse(struct parser *p, enum culm_status status, int32_t line,
                               const char *format, ...) __attribute__((format(printf, 4, 5)));
static enum culm_status refuse(struct parser *p, enum culm_status status, int32_t line,
                               const char *format, ...) {
    char what[400];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return culm_error_set(p->error, status, "darknet '%s': line %d: %s", p->name, (int)line, what);
}

/* --- values of keys --- */

static struct key *look(struct parser *p, const char *name) {
    for (int32_t i = 0; i < p->keys; i++) {
        if (strcmp(p->key[i].name, name) == 0) {
            return &p->key[i];
        }
    }
    return NULL;
}

/* What is found counts as read. */
static const struct key *find(struct parser *p, const char *name) {
    struct key *key = look(p, name);
    if (key) {
        key->read = true;
    }
    return key;
}

/* Whether a key that matters is given twice. Of others darknet takes the first, and nobody need. */
static enum culm_status check_twice(struct parser *p) {
    for (int32_t i = 0; i < p->keys; i++) {
        const struct key *key = &p->key[i];
        if (key->read && key->again) {
            return refuse(p, CULM_ERR_FORMAT, key->again,
                          "'%.40s' is given twice in [%s], and differs from line %d", key->name,
                          p->section, (int)key->line);
        }
    }
    return CULM_OK;
}

/* `other`: the default. */
static enum culm_status whole(struct parser *p, const char *name, int64_t other, int64_t least,
                              int64_t most, int64_t *ret_value) {
    const struct key *key = find(p, name);
    *ret_value = other;
    if (!key) {
        return CULM_OK;
    }
    char *end;
    errno = 0;
    long long value = strtoll(key->value, &end, 10);
    if (end == key->value || *end || errno || value < least || value > most) {
        return refuse(
            p, CULM_ERR_FORMAT, key->line,
            "'%.40s=%.40s' is not possible; it has to be a whole number from %lld to %lld",
            key->name, key->value, (long long)least, (long long)most);
    }
    *ret_value = value;
    return CULM_OK;
}

/* A list of numbers separated by commas, at most `most`. */
static enum culm_status numbers(struct parser *p, const struct key *key, int32_t most,
                                double *ret_values, int32_t *ret_count) {
    const char *at = key->value;
    *ret_count = 0;
    while (*at) {
        char *end;
        double value = strtod(at, &end);
        if (end == at || (*end && *end != ',') || !isfinite(value) || fabs(value) > 1e9) {
            return refuse(p, CULM_ERR_FORMAT, key->line, "'%.40s' is not a list of numbers",
                          key->name);
        }
        if (*ret_count == most) {
            return refuse(p, CULM_ERR_UNSUPPORTED, key->line, "'%.40s' has more than %d numbers",
                          key->name, (int)most);
        }
        ret_values[(*ret_count)++] = value;
        at = *end ? end + 1 : end;
    }
    return CULM_OK;
}

static enum culm_status function(struct parser *p, const char *other,
                                 enum culm_darknet_function *ret_function) {
    const struct key *key = find(p, "activation");
    const char *word = key ? key->value : other;
    for (int i = 0; functions[i]; i++) {
        if (strcmp(functions[i], word) == 0) {
            *ret_function = (enum culm_darknet_function)i;
            return CULM_OK;
        }
    }
    return refuse(p, CULM_ERR_UNSUPPORTED, key ? key->line : p->line,
                  "activation '%.40s' is not supported; linear, relu, leaky, relu6, logistic, "
                  "swish, tanh and mish are",
                  word);
}

/* Refuses a key that would change the computation, unless it has this value. */
static enum culm_status only(struct parser *p, const char *name, const char *value) {
    const struct key *key = find(p, name);
    return !key || strcmp(key->value, value) == 0
               ? CULM_OK
               : refuse(p, CULM_ERR_UNSUPPORTED, key->line, "'%s=%.40s' in [%s] is not supported",
                        name, key->value, p->section);
}

/* --- sections --- */

/* The section that an absolute or relative (negative) number refers to. */
static enum culm_status source_of(struct parser *p, const struct key *key, double value,
                                  int32_t *ret_from) {
    int32_t here = p->net->count;
    double from = value < 0 ? here + value : value;
    if (from != floor(from) || from < 0 || from >= here) {
        return refuse(p, CULM_ERR_FORMAT, key->line,
                      "'%s' names section %g, but only %d come before this one", key->name, value,
                      (int)here);
    }
    if (p->net->section[(int32_t)from].taken) {
        return refuse(p, CULM_ERR_UNSUPPORTED, key->line,
                      "'%s' names section %g, which a [yolo] with new_coords=1 reads", key->name,
                      from);
    }
    *ret_from = (int32_t)from;
    return CULM_OK;
}

static enum culm_status sources(struct parser *p, const char *name, int32_t most,
                                struct culm_darknet_section *s) {
    double values[CULM_DARKNET_ROUTE_MAX];
    const struct key *key = find(p, name);
    if (!key) {
        return refuse(p, CULM_ERR_FORMAT, p->line, "[%s] has no '%s'", p->section, name);
    }
    enum culm_status status = numbers(p, key, most, values, &s->from_count);
    if (status == CULM_OK && s->from_count == 0) {
        status = refuse(p, CULM_ERR_FORMAT, key->line, "'%s' names no section", name);
    }
    for (int32_t i = 0; i < s->from_count && status == CULM_OK; i++) {
        status = source_of(p, key, values[i], &s->from[i]);
    }
    return status;
}

/* The number of positions of a window; 0: it does not fit. */
static int64_t windows(int64_t in, int64_t before, int64_t after, int64_t reach, int64_t stride) {
    return in + before + after < reach ? 0 : (in + before + after - reach) / stride + 1;
}

static enum culm_status window(struct parser *p, struct culm_darknet_section *s, int64_t reach) {
    s->h = windows(s->h, s->pad, s->pad_end, reach, s->stride);
    s->w = windows(s->w, s->pad, s->pad_end, reach, s->stride);
    return s->h > 0 && s->w > 0
               ? CULM_OK
               : refuse(p, CULM_ERR_FORMAT, p->line,
                        "the window of [%s] is larger than its padded input", p->section);
}

/* Adds up the numbers in the weights. No overflow: channels are at most 2^20, and sizes below
 * 2^6. */
static enum culm_status count_numbers(struct parser *p, struct culm_darknet_section *s,
                                      int64_t in) {
    int64_t all = s->c * (in / s->groups) * s->size; /* below 2^46 */
    struct culm_darknet_net *net = p->net;
    s->first = net->numbers;
    if (all > CULM_DARKNET_NUMBERS_MAX / s->size) {
        return refuse(p, CULM_ERR_FORMAT, p->line, "this layer has too many weights");
    }
    net->numbers += all * s->size + s->c * (s->batch_norm ? 4 : 1);
    return net->numbers <= CULM_DARKNET_NUMBERS_MAX
               ? CULM_OK
               : refuse(p, CULM_ERR_FORMAT, p->line, "the layers up to here have too many weights");
}

static enum culm_status conv(struct parser *p, struct culm_darknet_section *s) {
    static const char *const zeros[] = {
        "binary",       "xnor",   "antialiasing",        "flipped",     "sway", "rotate", "stretch",
        "stretch_sway", "deform", "assisted_excitation", "share_index", NULL};
    int64_t in = s->c, padded, norm, x, y;
    enum culm_status status = CULM_OK;
    for (int i = 0; zeros[i] && status == CULM_OK; i++) {
        status = only(p, zeros[i], "0");
    }
    if (status || (status = whole(p, "filters", 1, 1, MOST_CHANNELS, &s->c)) ||
        (status = whole(p, "size", 1, 1, 63, &s->size)) ||
        (status = whole(p, "stride", 1, 1, 64, &s->stride)) ||
        (status = whole(p, "stride_x", s->stride, 1, 64, &x)) ||
        (status = whole(p, "stride_y", s->stride, 1, 64, &y)) ||
        (status = whole(p, "dilation", 1, 1, 64, &s->dilation)) ||
        (status = whole(p, "groups", 1, 1, MOST_CHANNELS, &s->groups)) ||
        (status = whole(p, "pad", 0, 0, 1, &padded)) ||
        (status = whole(p, "padding", 0, 0, 4096, &s->pad)) ||
        (status = whole(p, "batch_normalize", 0, 0, 1, &norm)) ||
        (status = function(p, "logistic", &s->function))) {
        return status;
    }
    if (x != s->stride || y != s->stride) {
        return refuse(p, CULM_ERR_UNSUPPORTED, p->line,
                      "stride_x and stride_y have to be equal to stride");
    }
    if (in % s->groups || s->c % s->groups) {
        return refuse(p, CULM_ERR_FORMAT, p->line,
                      "%lld input channels and %lld filters cannot be divided into %lld groups",
                      (long long)in, (long long)s->c, (long long)s->groups);
    }
    s->pad = padded ? s->size / 2 : s->pad;
    s->pad_end = s->pad;
    s->batch_norm = norm;
    s->conv = p->net->convs++;
    status = window(p, s, (s->size - 1) * s->dilation + 1);
    return status == CULM_OK ? count_numbers(p, s, in) : status;
}

static enum culm_status maxpool(struct parser *p, struct culm_darknet_section *s) {
    int64_t padding, x, y;
    enum culm_status status;
    s->dilation = 1;
    if ((status = only(p, "maxpool_depth", "0")) || (status = only(p, "antialiasing", "0")) ||
        (status = whole(p, "stride", 1, 1, 64, &s->stride)) ||
        (status = whole(p, "stride_x", s->stride, 1, 64, &x)) ||
        (status = whole(p, "stride_y", s->stride, 1, 64, &y)) ||
        (status = whole(p, "size", s->stride, 1, 63, &s->size)) ||
        (status = whole(p, "padding", s->size - 1, 0, 2 * s->size - 2, &padding))) {
        return status;
    }
    if (x != s->stride || y != s->stride) {
        return refuse(p, CULM_ERR_UNSUPPORTED, p->line,
                      "stride_x and stride_y have to be equal to stride");
    }
    s->pad = padding / 2;
    s->pad_end = padding - s->pad;
    return window(p, s, s->size);
}

static enum culm_status upsample(struct parser *p, struct culm_darknet_section *s) {
    enum culm_status status;
    if ((status = only(p, "scale", "1")) || (status = whole(p, "stride", 2, 1, 64, &s->stride))) {
        return status;
    }
    s->h *= s->stride;
    s->w *= s->stride;
    return s->h <= CULM_DARKNET_SIDE_MAX && s->w <= CULM_DARKNET_SIDE_MAX
               ? CULM_OK
               : refuse(p, CULM_ERR_FORMAT, p->line, "the upsampled map is too large");
}

static enum culm_status route(struct parser *p, struct culm_darknet_section *s) {
    const struct culm_darknet_section *all = p->net->section;
    enum culm_status status;
    if ((status = only(p, "stream", "0")) ||
        (status = sources(p, "layers", CULM_DARKNET_ROUTE_MAX, s)) ||
        (status = whole(p, "groups", 1, 1, MOST_CHANNELS, &s->groups)) ||
        (status = whole(p, "group_id", 0, 0, s->groups - 1, &s->group))) {
        return status;
    }
    s->h = all[s->from[0]].h;
    s->w = all[s->from[0]].w;
    s->c = 0;
    for (int32_t i = 0; i < s->from_count; i++) {
        const struct culm_darknet_section *part = &all[s->from[i]];
        if (part->h != s->h || part->w != s->w) {
            return refuse(p, CULM_ERR_FORMAT, p->line,
                          "sections %d and %d have maps of different sizes", (int)s->from[0],
                          (int)s->from[i]);
        }
        if (part->c % s->groups) {
            return refuse(p, CULM_ERR_FORMAT, p->line,
                          "%lld channels cannot be divided into %lld groups", (long long)part->c,
                          (long long)s->groups);
        }
        s->c += part->c / s->groups;
    }
    return s->c <= MOST_CHANNELS ? CULM_OK
                                 : refuse(p, CULM_ERR_FORMAT, p->line, "too many channels");
}

static enum culm_status shortcut(struct parser *p, struct culm_darknet_section *s) {
    enum culm_status status;
    if ((status = only(p, "weights_type", "none")) || (status = sources(p, "from", 1, s)) ||
        (status = function(p, "linear", &s->function))) {
        return status;
    }
    const struct culm_darknet_section *other = &p->net->section[s->from[0]];
    return other->h == s->h && other->w == s->w /* channels that only one has are left alone */
               ? CULM_OK
               : refuse(p, CULM_ERR_UNSUPPORTED, p->line,
                        "it adds %lld x %lld x %lld to %lld x %lld x %lld; maps of different "
                        "height or width are not supported",
                        (long long)other->h, (long long)other->w, (long long)other->c,
                        (long long)s->h, (long long)s->w, (long long)s->c);
}

static enum culm_status scale(struct parser *p, struct culm_darknet_section *s) {
    enum culm_status status;
    if ((status = only(p, "scale_wh", "0")) || (status = sources(p, "from", 1, s)) ||
        (status = function(p, "linear", &s->function))) {
        return status;
    }
    const struct culm_darknet_section *other = &p->net->section[s->from[0]];
    if (s->h != 1 || s->w != 1 || s->c != other->c) {
        return refuse(
            p, CULM_ERR_FORMAT, p->line,
            "it scales %lld channels by a map of %lld x %lld x %lld; one number a channel "
            "is needed",
            (long long)other->c, (long long)s->h, (long long)s->w, (long long)s->c);
    }
    s->h = other->h;
    s->w = other->w;
    return CULM_OK;
}

/* --- yolo --- */

static enum culm_status anchors(struct parser *p, struct culm_yolo_head *head) {
    enum { PAIRS = 64 };
    const struct key *key = find(p, "anchors"), *mask = find(p, "mask");
    double value[2 * PAIRS], which[CULM_VISION_ANCHORS_MAX];
    int32_t count, picked = 0;
    enum culm_status status;
    if (!key) {
        return refuse(p, CULM_ERR_FORMAT, p->line, "[%s] has no 'anchors'", p->section);
    }
    if ((status = numbers(p, key, 2 * PAIRS, value, &count)) ||
        (mask && (status = numbers(p, mask, CULM_VISION_ANCHORS_MAX, which, &picked)))) {
        return status;
    }
    if (!mask) {
        for (; picked < count / 2 && picked < CULM_VISION_ANCHORS_MAX; picked++) {
            which[picked] = picked;
        }
    }
    head->anchors = picked;
    for (int32_t i = 0; i < picked; i++) {
        if (which[i] != floor(which[i]) || which[i] < 0 || 2 * which[i] + 1 >= count) {
            return refuse(p, CULM_ERR_FORMAT, mask ? mask->line : key->line,
                          "'mask' picks anchor %g of %d", which[i], (int)(count / 2));
        }
        for (int k = 0; k < 2; k++) {
            double pixels = value[2 * (int)which[i] + k];
            if (!(pixels > 0 && pixels < 1e6)) {
                return refuse(p, CULM_ERR_FORMAT, key->line, "an anchor of %g pixels", pixels);
            }
            head->anchor[i][k] = (float)pixels;
        }
    }
    return picked > 0 ? CULM_OK
                      : refuse(p, CULM_ERR_FORMAT, p->line, "[%s] picks no anchors", p->section);
}

/* Numbers the head, whose anchors are known, and checks what it reads. */
static enum culm_status add_head(struct parser *p, struct culm_darknet_section *s,
                                 int64_t classes) {
    struct culm_yolo_head *head = &s->head;
    head->classes = (int32_t)classes;
    head->output = p->net->heads++;
    if (p->net->heads > CULM_VISION_HEADS_MAX) {
        return refuse(p, CULM_ERR_UNSUPPORTED, p->line, "more than %d heads",
                      CULM_VISION_HEADS_MAX);
    }
    if (p->net->count == 0 || s->c != head->anchors * (5 + classes)) {
        return refuse(p, CULM_ERR_FORMAT, p->line,
                      "[%s] reads %lld channels; %d anchors and %lld classes need %lld", p->section,
                      (long long)s->c, (int)head->anchors, (long long)classes,
                      (long long)(head->anchors * (5 + classes)));
    }
    for (int32_t i = 0; i < p->net->count; i++) {
        const struct culm_yolo_head *other = &p->net->section[i].head;
        if (p->net->section[i].kind == CULM_DARKNET_YOLO &&
            (other->classes != head->classes || other->one != head->one ||
             other->squared != head->squared)) {
            return refuse(p, CULM_ERR_UNSUPPORTED, p->line,
                          "heads differ in their number of classes, or in what they are");
        }
    }
    return CULM_OK;
}

/* With new_coords the layer in front has sigmoids, and heads are read through sigmoids of their own: it
 * gives them up. */
static enum culm_status take_logistic(struct parser *p) {
    struct culm_darknet_section *before =
        p->net->count ? &p->net->section[p->net->count - 1] : NULL;
    if (!before || before->kind != CULM_DARKNET_CONV || before->function != CULM_DARKNET_LOGISTIC) {
        return refuse(p, CULM_ERR_UNSUPPORTED, p->line,
                      "new_coords=1 needs a [convolutional] with activation=logistic in front of "
                      "it");
    }
    before->function = CULM_DARKNET_LINEAR;
    before->taken = true;
    return CULM_OK;
}

static enum culm_status yolo(struct parser *p, struct culm_darknet_section *s) {
    const struct key *scale_xy = find(p, "scale_x_y");
    struct culm_yolo_head *head = &s->head;
    double value = 1;
    int32_t count = 1;
    int64_t classes, squared;
    enum culm_status status;
    if ((status = whole(p, "new_coords", 0, 0, 1, &squared)) ||
        (squared && (status = take_logistic(p))) ||
        (status = whole(p, "classes", 20, 1, CULM_VISION_CLASSES_MAX, &classes)) ||
        (status = anchors(p, head)) ||
        (scale_xy && (status = numbers(p, scale_xy, 1, &value, &count)))) {
        return status;
    }
    s->taken = squared;
    if (count != 1 || !(value > 0 && value < 100)) {
        return refuse(p, CULM_ERR_FORMAT, scale_xy->line, "'scale_x_y' is not possible");
    }
    head->scale_xy = (float)value;
    head->squared = squared;
    return add_head(p, s, classes);
}

/* YOLOv2: anchors are in cells, and one of the classes it is. */
static enum culm_status region(struct parser *p, struct culm_darknet_section *s) {
    int64_t classes;
    enum culm_status status;
    if ((status = only(p, "softmax", "1")) || (status = only(p, "coords", "4")) ||
        (status = only(p, "tree", "")) || (status = only(p, "map", "")) ||
        (status = only(p, "background", "0")) ||
        (status = whole(p, "classes", 20, 1, CULM_VISION_CLASSES_MAX, &classes)) ||
        (status = anchors(p, &s->head))) {
        return status;
    }
    if (!find(p, "softmax")) {
        return refuse(p, CULM_ERR_UNSUPPORTED, p->line, "[region] without softmax=1");
    }
    for (int32_t i = 0; i < s->head.anchors; i++) {
        s->head.anchor[i][0] *= (float)p->net->width / (float)s->w;
        s->head.anchor[i][1] *= (float)p->net->height / (float)s->h;
    }
    s->head.scale_xy = 1;
    s->head.one = true;
    return add_head(p, s, classes);
}
static enum culm_status avgpool(struct parser *p, struct culm_darknet_section *s) {
    (void)p;
    s->h = s->w = 1;
    return CULM_OK;
}

static enum culm_status dropout(struct parser *p, struct culm_darknet_section *s) {
    (void)p;
    (void)s;
    return CULM_OK;
}

static const struct {
    const char *name;
    enum culm_darknet_kind kind;
    enum culm_status (*read)(struct parser *p, struct culm_darknet_section *s);
} kinds[] = {
    {"convolutional", CULM_DARKNET_CONV, conv},    {"conv", CULM_DARKNET_CONV, conv},
    {"maxpool", CULM_DARKNET_MAXPOOL, maxpool},    {"max", CULM_DARKNET_MAXPOOL, maxpool},
    {"avgpool", CULM_DARKNET_AVGPOOL, avgpool},    {"avg", CULM_DARKNET_AVGPOOL, avgpool},
    {"upsample", CULM_DARKNET_UPSAMPLE, upsample}, {"route", CULM_DARKNET_ROUTE, route},
    {"shortcut", CULM_DARKNET_SHORTCUT, shortcut}, {"scale_channels", CULM_DARKNET_SCALE, scale},
    {"dropout", CULM_DARKNET_DROPOUT, dropout},    {"yolo", CULM_DARKNET_YOLO, yolo},
    {"region", CULM_DARKNET_YOLO, region},
};

static enum culm_status read_net(struct parser *p) {
    struct culm_darknet_net *net = p->net;
    enum culm_status status;
    p->have_net = true;
    if ((status = whole(p, "width", 0, 1, CULM_DARKNET_SIDE_MAX, &net->width)) ||
        (status = whole(p, "height", 0, 1, CULM_DARKNET_SIDE_MAX, &net->height)) ||
        (status = whole(p, "channels", 0, 1, 3, &net->channels))) {
        return status;
    }
    if (!net->width || !net->height || (net->channels != 1 && net->channels != 3)) {
        return refuse(p, CULM_ERR_FORMAT, p->line,
                      "[%s] has to give width, height, and 1 or 3 channels", p->section);
    }
    return CULM_OK;
}

/* Evaluates the section that ends here. */
static enum culm_status end_section(struct parser *p) {
    struct culm_darknet_net *net = p->net;
    if (!p->section[0]) {
        return CULM_OK;
    }
    if (!p->have_net) {
        return strcmp(p->section, "net") == 0 || strcmp(p->section, "network") == 0
                   ? read_net(p)
                   : refuse(p, CULM_ERR_FORMAT, p->line,
                            "the first section is [%s]; a darknet configuration begins with [net]",
                            p->section);
    }
    if (net->count == CULM_DARKNET_SECTIONS_MAX) {
        return refuse(p, CULM_ERR_UNSUPPORTED, p->line, "more than %d sections",
                      CULM_DARKNET_SECTIONS_MAX);
    }
    if (!CULM_GROW(net->section, p->capacity, net->count + 1)) {
        return culm_error_set(p->error, CULM_ERR_MEMORY, "darknet '%s': out of memory", p->name);
    }
    const struct culm_darknet_section *before = net->count ? &net->section[net->count - 1] : NULL;
    struct culm_darknet_section s = {.line = p->line,
                                     .h = before ? before->h : net->height,
                                     .w = before ? before->w : net->width,
                                     .c = before ? before->c : net->channels,
                                     .groups = 1};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, p->section) == 0) {
            s.kind = kinds[i].kind;
            if (before && before->taken && before->kind == CULM_DARKNET_YOLO &&
                s.kind != CULM_DARKNET_ROUTE) {
                return refuse(p, CULM_ERR_UNSUPPORTED, p->line,
                              "[%s] reads a [yolo] with new_coords=1, which is not supported; a "
                              "[route] has to come between",
                              p->section);
            }
            enum culm_status status = kinds[i].read(p, &s);
            net->section[net->count] = s;
            net->count += status == CULM_OK;
            return status;
        }
    }
    return refuse(p, CULM_ERR_UNSUPPORTED, p->line,
                  "section [%s] is not supported; convolutional, maxpool, avgpool, upsample, "
                  "route, shortcut, scale_channels, dropout, yolo and region are",
                  p->section);
}

/* --- lines --- */

/* Removes blanks, and everything after a '#'. */
static void squeeze(char *line) {
    char *to = line;
    for (char *from = line; *from && *from != '#'; from++) {
        if (*from != ' ' && *from != '\t' && *from != '\r') {
            *to++ = *from;
        }
    }
    *to = '\0';
}

static bool printable(const char *text) {
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7E) {
            return false;
        }
    }
    return true;
}

static enum culm_status begin_section(struct parser *p, char *line, int32_t number) {
    size_t len = strlen(line);
    enum culm_status status = end_section(p);
    status = status ? status : check_twice(p);
    if (status != CULM_OK) {
        return status;
    }
    p->keys = 0;
    p->line = number;
    if (len < 3 || line[len - 1] != ']' || len - 2 >= sizeof p->section) {
        return refuse(p, CULM_ERR_FORMAT, number, "a section is written as [name]");
    }
    memcpy(p->section, line + 1, len - 2);
    p->section[len - 2] = '\0';
    return CULM_OK;
}

static enum culm_status read_line(struct parser *p, char *line, int32_t number) {
    squeeze(line);
    if (!line[0] || line[0] == ';') {
        return CULM_OK;
    }
    if (!printable(line)) {
        return refuse(p, CULM_ERR_FORMAT, number,
                      "this is not text; is it a darknet configuration?");
    }
    if (line[0] == '[') {
        return begin_section(p, line, number);
    }
    char *equals = strchr(line, '=');
    if (!equals || equals == line || !p->section[0]) {
        return refuse(p, CULM_ERR_FORMAT, number, "'%.40s' is neither [section] nor key=value",
                      line);
    }
    *equals = '\0';
    struct key *before = look(p, line);
    if (before) {
        before->again = before->again                            ? before->again
                        : strcmp(before->value, equals + 1) != 0 ? number
                                                                 : 0;
        return CULM_OK;
    }
    if (p->keys == KEYS_MAX) {
        return refuse(p, CULM_ERR_FORMAT, number, "[%s] has more than %d keys", p->section,
                      KEYS_MAX);
    }
    p->key[p->keys++] = (struct key){line, equals + 1, number, 0, false};
    return CULM_OK;
}

static enum culm_status read_lines(struct parser *p, char *text, size_t len) {
    int32_t number = 0;
    for (char *line = text; line < text + len;) {
        char *stop = memchr(line, '\n', (size_t)(text + len - line));
        stop = stop ? stop : text + len;
        *stop = '\0';
        number++;
        if (memchr(line, '\0', (size_t)(stop - line))) {
            return refuse(p, CULM_ERR_FORMAT, number,
                          "this is not text; is it a darknet configuration?");
        }
        enum culm_status status = read_line(p, line, number);
        if (status != CULM_OK) {
            return status;
        }
        line = stop + 1;
    }
    enum culm_status status = end_section(p);
    return status ? status : check_twice(p);
}

enum culm_status culm_darknet_parse(const char *text, size_t len, const char *name,
                                    struct culm_darknet_net *ret_net, struct culm_error *error) {
    struct culm_darknet_net net = {0};
    struct parser p = {.name = name, .net = &net, .error = error};
    char *copy = malloc(len + 1);
    enum culm_status status;
    if (!copy || len > CULM_DARKNET_TEXT_MAX) {
        status = culm_error_set(error, copy ? CULM_ERR_FORMAT : CULM_ERR_MEMORY, "darknet '%s': %s",
                                name, copy ? "too large for a configuration" : "out of memory");
    } else {
        memcpy(copy, text, len);
        copy[len] = '\0';
        status = read_lines(&p, copy, len);
    }
    free(copy);
    if (status == CULM_OK && !p.have_net) {
        status =
            culm_error_set(error, CULM_ERR_FORMAT,
                           "darknet '%s': no [net] section; is it a darknet configuration?", name);
    }
    if (status == CULM_OK && net.heads == 0) {
        status = culm_error_set(
            error, CULM_ERR_UNSUPPORTED,
            "darknet '%s': no [yolo] or [region] section; only detectors are supported", name);
    }
    if (status != CULM_OK) {
        culm_darknet_net_release(&net);
        return status;
    }
    *ret_net = net;
    return CULM_OK;
}

void culm_darknet_net_release(struct culm_darknet_net *net) {
    free(net->section);
    *net = (struct culm_darknet_net){0};
}
