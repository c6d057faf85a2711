/*
 * Where samples come from: one interface over text, token files, images, sentence pairs and masked
 * text.
 *
 * A source has `samples` samples, each a fixed set of fields of fixed shape. Filling one is a pure
 * function of (options, files, sample, position): what is random about it (crops, flips, masks,
 * random second sentences) is keyed by the seed and by the position in the global stream of
 * samples, so a sample that is done again, by whatever worker, has the same bits. Evaluation passes
 * the index of the sample as position.
 *
 *     kind     fields of one sample                                         see
 *     text     tokens i32[context]  targets i32[context]                    source_text.c
 *     tokens   tokens i32[context]  targets i32[context]                    stream.h
 *     images   image f32[H,W,C]  label i32[1]                               source_images.c
 *     pairs    source i32[S]  length i32[1]  tokens i32[T]  targets i32[T]  source_pairs.c
 *     masked   tokens i32[T]  types i32[T]  mask i32[T]  positions i32[K]
 *              mlm_targets i32[K]  nsp i32[1]                               source_masked.c
 *
 * Errors are one line: which file, what is wrong, what to do. What a file's size or header says is
 * checked when the source is opened; an image is looked at when it is asked for. With pins, what is
 * read is what was pinned, or CULM_ERR_CHANGED names the file.
 * Thread: constant after opening; any number of threads may fill at once.
 */
#ifndef CULM_DATA_SOURCE_H
#define CULM_DATA_SOURCE_H

#include "base/pins.h"
#include "data/skip.h"
#include "ledger/order.h"
#include "tensor/tensor.h"

#define CULM_SOURCE_FIELDS_MAX 6
#define CULM_SOURCE_NOTE 400

enum culm_source_kind {
    CULM_SOURCE_TEXT,
    CULM_SOURCE_TOKENS,
    CULM_SOURCE_IMAGES,
    CULM_SOURCE_PAIRS,
    CULM_SOURCE_MASKED,
    CULM_SOURCE_KIND_COUNT
};
extern const char *const culm_source_kind_names[]; /* "text", "tokens", ..., NULL */

/* Which samples: all but the held-out share, only that share, or (share 0) all. */
enum culm_source_split { CULM_SPLIT_TRAIN, CULM_SPLIT_HELD_OUT };

/* How a window of height x width is taken out of an image while training; see images.h. */
enum culm_source_crop {
    CULM_CROP_CENTER,  /* shorter side to `resize`, middle: what evaluation always does */
    CULM_CROP_PADDED,  /* the same image with `padding` black pixels around it, a random window */
    CULM_CROP_RESIZED, /* a random part (8 to 100 % of the area, ratio 3/4 to 4/3), resized */
};

/* Something of the data that no sample can be made of; `usable`: one can, but it is hardly what was
 * meant. All is borrowed until the call returns. */
struct culm_data_bad {
    struct culm_data_place place;
    const char *why; /* one line */
    bool usable;
};
typedef void culm_data_bad_fn(void *ctx, const struct culm_data_bad *bad);

/* A zeroed struct is a start: every zero below means the default that the comment says. */
struct culm_source_options {
    enum culm_source_kind kind;
    const char *const *paths; /* borrowed until opening returns, like every pointer here */
    size_t path_count;
    /* vocab.json and merges.txt, or tokenizer.json, or a vocab.txt; none: bytes (text, masked) or
     * the words of the training part (pairs) */
    const char *const *tokenizer;
    size_t tokenizer_count;
    int64_t context;        /* T: tokens in a sample; pairs: target tokens, EOS included */
    int64_t source_context; /* pairs: S; 0: context */
    int64_t vocab;          /* the model's; every id is below it */

    int64_t height, width, channels; /* of the model's input; channels 1 or 3 */
    int64_t classes;                 /* labels are below it; 0: not checked */
    /* Names of the classes, whose labels are their places here; a folder of another name is refused.
     * none: the folders themselves in the order of their names */
    const char *const *class_names;
    size_t class_name_count;
    int64_t resize; /* shorter side before a centre crop; 0: what the crop needs */
    enum culm_source_crop crop;
    int64_t padding;
    bool flip;              /* half of the images, left to right */
    bool orient;            /* images in files are turned as their Exif data says */
    bool augment;           /* false: centre crop, no flip, whatever is set above */
    double mean[3], std[3]; /* (x / 255 - mean) / std per channel; std 0: 1 */

    enum culm_source_kind masked_of; /* masked: TEXT or TOKENS */
    int64_t masked;                  /* K, tokens to predict; 0: 15 % of context, rounded up */
    /* masked: ids of [PAD] [CLS] [SEP] [MASK]; all 0: the tokenizer's, those that it has not after
     * its last (bytes: 256 to 259); of token files the last four of the vocabulary */
    int32_t special[4];

    const char *skip; /* a list of what is left out (skip.h); NULL: nothing is */
    /* Told of what is wrong with single samples, which are then left out, in place of failing at
     * the first one. NULL: fail */
    culm_data_bad_fn *bad;
    void *bad_ctx;

    /* What the files must hold; borrowed as long as the source is open. NULL: whatever they do. */
    struct culm_pins *pins;

    double held_out; /* share of the samples, the last by index, that training does not see */
    enum culm_source_split split;
    uint64_t seed; /* of crops, flips and masks */
};

struct culm_source_field {
    const char *name;        /* as the models call it */
    enum culm_dtype dtype;   /* f32 or i32 */
    struct culm_shape shape; /* of one sample */
    size_t size_bytes;       /* of one sample */
    int64_t below;           /* i32: every number is below it */
};

struct culm_source_item {
    int64_t sample;    /* below culm_source_samples() */
    uint64_t position; /* in the global stream: the key of all that is random */
};

struct culm_source;

/* CULM_ERR_CONFIG or CULM_ERR_FORMAT: the options or the files are wrong (exit 3). */
enum culm_status culm_source_open(const struct culm_source_options *options,
                                  struct culm_source **ret_source, struct culm_error *error);
void culm_source_free(struct culm_source *source); /* NULL is fine */

/* Of the split, those that are left out among them; at least 1, and one that is not left out. */
int64_t culm_source_samples(const struct culm_source *source);
/* Which of them are left out: for an order (ledger/order.h), and for whoever goes through all of
 * them. NULL: none. It lives as long as the source. */
struct culm_order_left_out *culm_source_left_out(const struct culm_source *source);
/* Whether filling a sample may find that it is of no use: not everything was looked at when the
 * source was opened. */
bool culm_source_is_unseen(const struct culm_source *source);
/* What a sample that cannot be filled is made of: the file, and the first thing in it that is
 * wrong. */
struct culm_data_place culm_source_place(const struct culm_source *source, int64_t sample);
/* What it keeps in memory, and what opening it took at most, that included: ids that a tokenizer
 * made, where lines begin. Tables of tokenizers and lists of image files are not counted. */
size_t culm_source_resident_bytes(const struct culm_source *source);
size_t culm_source_opening_bytes(const struct culm_source *source);
/* Names of the classes, in the order of their labels: those of folders of images. NULL: they have
 * none. */
const char *culm_source_class_name(const struct culm_source *source, size_t label);
/* One line that says which files that were found are left out; "": none. */
const char *culm_source_note(const struct culm_source *source);
int32_t culm_source_field_count(const struct culm_source *source);
const struct culm_source_field *culm_source_fields(const struct culm_source *source);
/* The index of the field of that name, or -1. */
int32_t culm_source_find(const struct culm_source *source, const char *name);

/* Writes the fields of one sample: fields[i] has room for field i, or is NULL: not wanted (then its
 * work is not done either). On failure what is written is undefined. */
enum culm_status culm_source_fill(const struct culm_source *source, struct culm_source_item item,
                                  void *const *fields, struct culm_error *error);

#endif
