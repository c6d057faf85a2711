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

/* What says which files are read, and what of them, has CULM_CONFIG_INPUT: a run may go on with
 * others knowingly (--resume --accept-inputs). */
#define INPUT CULM_CONFIG_INPUT

static const struct culm_config_row rows[] = {
    CULM_CONFIG_ENUM("kind", D, kind, "text", culm_source_kind_names, 0,
                     "what the data files contain: text, token ids, labelled images, sentence "
                     "pairs, or text to be masked"),
    CULM_CONFIG_TEXTS("path", D, paths, path_count, NULL, NULL, INPUT,
                      "data files: a file, a folder, a pattern such as `texts/*.txt`, or a list of "
                      "these, relative to the current directory; for images, a folder with one "
                      "subfolder per class, or IDX images and labels"),
    CULM_CONFIG_TEXTS(
        "tokenizer", D, tokenizer, tokenizer_count, "", "a file or a list of files",
        CULM_CONFIG_EMPTY | INPUT,
        "tokenizer files: `[vocab.json, merges.txt]`, `tokenizer.json`, `vocab.txt`, or the folder "
        "that holds them; empty: each byte is a token (with `data.kind: pairs`, each word)"),
    CULM_CONFIG_ENUM("masked_of", D, masked_of, "text", masked_of_names, 0,
                     "whether the files of `data.kind: masked` hold text or token ids"),
    CULM_CONFIG_REAL(
        "held_out", D, held_out, "0", 0, 1, CULM_CONFIG_BELOW,
        "share of the samples, taken from the end, that is kept out of training for evaluation"),
    CULM_CONFIG_TEXT("skip", D, skip, "", "a file", CULM_CONFIG_EMPTY | INPUT,
                     "list of samples to leave out, as `culm data check --out` writes it; the "
                     "remaining samples keep their order"),
    CULM_CONFIG_REAL("check_s", D, check_s, "10", 0, 1000000, CULM_CONFIG_RESUMABLE,
                     "seconds that a run may spend before its first step on looking for samples "
                     "that cannot be used; 0: it does not look"),
    CULM_CONFIG_ENUM("crop", D, crop, "center", crop_names, 0,
                     "how training crops an image: `center`: its middle; `padded`: a random window "
                     "after padding by `data.padding`; `resized`: a random part, scaled to size"),
    CULM_CONFIG_INT("padding", D, padding, "4", 0, 1024, 0,
                    "black pixels added on each side of an image with `data.crop: padded`"),
    CULM_CONFIG_INT("resize", D, resize, "0", 0, 8192, 0,
                    "pixels to which the shorter side of an image is scaled before its middle is "
                    "cropped; 0: what the crop needs"),
    CULM_CONFIG_BOOL("flip", D, flip, "false", 0,
                     "mirror half of the training images, left to right"),
    CULM_CONFIG_BOOL(
        "orient", D, orient, "false", 0,
        "turn images upright as their Exif data says; otherwise they are read as they are stored, "
        "as PyTorch's loaders do (`culm predict`, `merge` and `edge` always turn them)"),
    CULM_CONFIG_ENUM("normalize", D, normalize, "none", normalize_names, 0,
                     "scale pixels to (x / 255 - mean) / std: `imagenet` with ImageNet's figures, "
                     "`custom` with `data.mean` and `data.std`"),
    CULM_CONFIG_REAL("mean", D, mean, "0.5", -1000, 1000, 0,
                     "mean that `data.normalize: custom` subtracts in every channel"),
    CULM_CONFIG_REAL(
        "std", D, std, "0.5", 0, 1000, CULM_CONFIG_ABOVE,
        "standard deviation by which `data.normalize: custom` divides in every channel"),
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
    options->orient = config->orient;
    options->masked_of = config->masked_of;
    options->held_out = config->held_out;
    options->skip = config->skip && config->skip[0] ? config->skip : NULL;
    for (int i = 0; i < 3 && config->normalize != CULM_NORMALIZE_NONE; i++) {
        bool custom = config->normalize == CULM_NORMALIZE_CUSTOM;
        options->mean[i] = custom ? config->mean : imagenet_mean[i];
        options->std[i] = custom ? config->std : imagenet_std[i];
    }
}
