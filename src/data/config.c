/* The rows of `data`. */
#include "data/config.h"

#define D struct culm_data_config

static const char *const crop_names[] = {[CULM_CROP_CENTER] = "center",
                                         [CULM_CROP_PADDED] = "padded",
                                         [CULM_CROP_RESIZED] = "resized",
                                         NULL};
static const char *const masked_of_names[] = {
    [CULM_SOURCE_TEXT] = "text", [CULM_SOURCE_TOKENS] = "tokens", NULL};
static const char *const normalize_names[] = {[CULM_NORMALIZE_NONE] = "none",
                                              [CULM_NORMALIZE_IMAGENET] = "imagenet",
                                              [CULM_NORMALIZE_CUSTOM] = "custom",
                                              NULL};

static const struct culm_config_row rows[] = {
    CULM_CONFIG_ENUM("kind", D, kind, "text", culm_source_kind_names, 0,
                     "what the files are: text, token ids, labelled images, sentence pairs, text "
                     "to be masked"),
    CULM_CONFIG_TEXTS("path", D, paths, path_count, NULL, NULL, 0,
                      "a file or a list of files, relative to the current directory; images: a "
                      "folder of folders, or IDX images and labels"),
    CULM_CONFIG_TEXTS("tokenizer", D, tokenizer, tokenizer_count, "", "a file or a list of files",
                      CULM_CONFIG_EMPTY,
                      "`[vocab.json, merges.txt]`, `tokenizer.json`, `vocab.txt`, or their folder; "
                      "none: a byte is a token, in `data.kind: pairs` a word"),
    CULM_CONFIG_ENUM("masked_of", D, masked_of, "text", masked_of_names, 0,
                     "`data.kind: masked`: what the files are"),
    CULM_CONFIG_REAL("held_out", D, held_out, "0", 0, 1, CULM_CONFIG_BELOW,
                     "share of the samples, the last ones, kept out of training for evaluation"),
    CULM_CONFIG_ENUM("crop", D, crop, "center", crop_names, 0,
                     "how training takes a window out of an image: the middle, a random one of "
                     "the image with `data.padding` around, a random part resized"),
    CULM_CONFIG_INT("padding", D, padding, "4", 0, 1024, 0,
                    "black pixels around an image for `data.crop: padded`"),
    CULM_CONFIG_INT("resize", D, resize, "0", 0, 8192, 0,
                    "shorter side before the middle is cut out; 0: what the window needs"),
    CULM_CONFIG_BOOL("flip", D, flip, "false", 0, "mirror half of the training images"),
    CULM_CONFIG_ENUM("normalize", D, normalize, "none", normalize_names, 0,
                     "(x / 255 - mean) / std, with ImageNet's figures or with `data.mean` and "
                     "`data.std`"),
    CULM_CONFIG_REAL("mean", D, mean, "0.5", -1000, 1000, 0, "of every channel"),
    CULM_CONFIG_REAL("std", D, std, "0.5", 0, 1000, CULM_CONFIG_ABOVE, "of every channel"),
};
const struct culm_config_table culm_data_config_table = {CULM_CONFIG_ROWS(rows, D)};

void culm_data_config_source(const struct culm_data_config *config,
                             struct culm_source_options *options) {
    static const double imagenet_mean[3] = {0.485, 0.456, 0.406};
    static const double imagenet_std[3] = {0.229, 0.224, 0.225};
    options->kind = config->kind;
    options->paths = (const char *const *)config->paths;
    options->path_count = config->path_count;
    options->tokenizer = (const char *const *)config->tokenizer;
    options->tokenizer_count = config->tokenizer_count;
    options->resize = config->resize;
    options->crop = config->crop;
    options->padding = config->padding;
    options->flip = config->flip;
    options->masked_of = config->masked_of;
    options->held_out = config->held_out;
    for (int i = 0; i < 3 && config->normalize != CULM_NORMALIZE_NONE; i++) {
        bool custom = config->normalize == CULM_NORMALIZE_CUSTOM;
        options->mean[i] = custom ? config->mean : imagenet_mean[i];
        options->std[i] = custom ? config->std : imagenet_std[i];
    }
}
