/* A table of first bytes; see the header. */
#include "data/content.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define UNPACK "unpack it and give the text in it"
#define SAVE "save it as text (UTF-8) and give that"
#define OTHER "give a text file"
#define UTF8(from_) "turn it into UTF-8, as with 'iconv -f " from_ " -t UTF-8'"

struct row {
    uint16_t at, len;
    const char *bytes;
    uint16_t more_at, more_len; /* a second place; more_len 0: none */
    const char *more;
    struct culm_content content;
};

#define AT(at_, bytes_, name_, advice_)                                                            \
    {                                                                                              \
        .at = (at_), .len = sizeof(bytes_) - 1, .bytes = (bytes_), .content = {                    \
            (name_),                                                                               \
            (advice_),                                                                             \
            .certain = sizeof(bytes_) > 6                                                          \
        }                                                                                          \
    }
#define AND(at_, bytes_, more_at_, more_, name_, advice_)                                          \
    {                                                                                              \
        .at = (at_), .len = sizeof(bytes_) - 1, .bytes = (bytes_), .more_at = (more_at_),          \
        .more_len = sizeof(more_) - 1, .more = (more_), .content = {                               \
            (name_),                                                                               \
            (advice_),                                                                             \
            .certain = sizeof(bytes_) + sizeof(more_) > 7                                          \
        }                                                                                          \
    }

/* As AND, of bytes that numbers may begin with. */
#define WEAK(at_, bytes_, more_at_, more_, name_, advice_)                                         \
    {                                                                                              \
        .at = (at_), .len = sizeof(bytes_) - 1, .bytes = (bytes_), .more_at = (more_at_),          \
        .more_len = sizeof(more_) - 1, .more = (more_), .content = {                               \
            .name = (name_),                                                                       \
            .advice = (advice_)                                                                    \
        }                                                                                          \
    }

/* The first that fits counts. */
static const struct row rows[] = {
    AT(0, "\x1f\x8b\x08", "a gzip file", "unpack it with gunzip"),
    AT(0, "\x28\xb5\x2f\xfd", "a zstd file", "unpack it with 'zstd -d'"),
    AND(0, "BZh", 4, "1AY&SY", "a bzip2 file", "unpack it with bunzip2"),
    AT(0,
       "\xfd"
       "7zXZ\0",
       "an xz file", "unpack it with unxz"),
    AT(0, "\x04\x22\x4d\x18", "an lz4 file", "unpack it with 'lz4 -d'"),
    AT(0, "\x1f\x9d", "a file of compress", "unpack it with gunzip"),
    AT(0, "PK\3\4", "a zip archive (as .zip, .docx, .xlsx, .epub, .npz, .pt are)", UNPACK),
    AT(0, "PK\5\6", "an empty zip archive", UNPACK),
    AT(0, "7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACK),
    AT(0, "Rar!\x1a\x07", "a RAR archive", UNPACK),
    AT(257, "ustar\0", "a tar archive", UNPACK),
    AT(257, "ustar  \0", "a tar archive", UNPACK),
    AT(0, "\xff\xfe\0\0", "text in UTF-32", UTF8("UTF-32")),
    AT(0, "\0\0\xfe\xff", "text in UTF-32", UTF8("UTF-32")),
    AT(0, "\xff\xfe", "text in UTF-16", UTF8("UTF-16")),
    AT(0, "\xfe\xff", "text in UTF-16", UTF8("UTF-16")),
    AT(0,
       "\x7f"
       "ELF",
       "a program or library (ELF)", OTHER),
    WEAK(0, "MZ", 28, "\0\0\0\0\0\0\0\0", "a program (Windows)", OTHER),
    AT(0, "\xcf\xfa\xed\xfe", "a program (macOS)", OTHER),
    AT(0, "\xca\xfe\xba\xbe", "a program (macOS or Java)", OTHER),
    AT(0, "\0asm", "a program (WebAssembly)", OTHER),
    AT(0, "%PDF-", "a PDF", SAVE),
    AT(0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a document of an old Office", SAVE),
    AT(0, "SQLite format 3\0", "an SQLite database", SAVE),
    AND(0, "PAR1", 4, "\x15", "a Parquet file", SAVE),
    AT(0, "ARROW1\0\0", "an Arrow file", SAVE),
    AT(0, "\x89HDF\r\n\x1a\n", "an HDF5 file", OTHER),
    {.len = 6,
     .bytes = "\x93NUMPY",
     .content = {.name = "an array of NumPy (.npy)",
                 .advice = "set data.kind to tokens if it holds token ids",
                 .certain = true,
                 .npy = true}},
    AND(0, "GGUF", 5, "\0\0\0", "a GGUF model", OTHER),
    AT(0, "version https://git-lfs.github.com/spec/",
       "a pointer of Git LFS in the place of the file", "get the file with 'git lfs pull'"),
    AT(0, "\x89PNG\r\n\x1a\n", "a PNG picture", OTHER),
    AT(0, "\xff\xd8\xff", "a JPEG picture", OTHER),
    AND(0, "RIFF", 8, "WEBP", "a WebP picture", OTHER),
    AND(0, "RIFF", 8, "WAVE", "a sound (WAV)", OTHER),
    AND(0, "RIFF", 8, "AVI ", "a clip (AVI)", OTHER),
    AT(0, "GIF87a", "a GIF picture", OTHER),
    AT(0, "GIF89a", "a GIF picture", OTHER),
    WEAK(0, "BM", 6, "\0\0\0\0", "a BMP picture", OTHER),
    AT(0, "II*\0", "a TIFF picture", OTHER),
    AT(0, "MM\0*", "a TIFF picture", OTHER),
    AND(4, "ftyp", 8, "hei", "a HEIC picture", OTHER),
    AND(4, "ftyp", 8, "mif1", "a HEIC picture", OTHER),
    AND(4, "ftyp", 8, "avi", "an AVIF picture", OTHER),
    AND(4, "ftyp", 0, "\0\0", "a clip (MP4)", OTHER),
    AT(0, "\0\0\0\x0cjP  ", "a JPEG 2000 picture", OTHER),
    AT(0, "\0\0\0\x0cJXL ", "a JPEG XL picture", OTHER),
    AT(0, "\x1a\x45\xdf\xa3", "a clip (Matroska, WebM)", OTHER),
    AND(0, "ID3", 4, "\0", "a sound (MP3)", OTHER),
    AT(0, "OggS\0", "a sound (Ogg)", OTHER),
    AT(0, "fLaC\0\0\0\x22", "a sound (FLAC)", OTHER),
};

static bool fits(const uint8_t *head, size_t len, size_t at, const char *bytes, size_t count) {
    return at + count <= len && memcmp(head + at, bytes, count) == 0;
}

const struct culm_content *culm_content_of(const void *head, size_t len) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        if (fits(head, len, row->at, row->bytes, row->len) &&
            fits(head, len, row->more_at, row->more ? row->more : "", row->more_len)) {
            return &row->content;
        }
    }
    return NULL;
}
