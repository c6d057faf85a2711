/* Which libraries decode images. See image.h. */
#include "data/image.h"

#include "base/hex.h"

#include <elf.h>
#include <link.h>
#include <png.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <webp/decode.h>

struct search {
    uintptr_t address;
    const uint8_t *id; /* of the object that holds the address; NULL: it has none */
    size_t id_len;
};

/* The build id among the notes of a segment: [name length, length, kind], name, contents, each
 * part padded to 4 bytes. */
static void find_id(struct search *search, const uint8_t *at, size_t left) {
    ElfW(Nhdr) note;
    while (left >= sizeof note) {
        memcpy(&note, at, sizeof note);
        size_t name = ((size_t)note.n_namesz + 3) & ~(size_t)3;
        size_t len = ((size_t)note.n_descsz + 3) & ~(size_t)3;
        if (left - sizeof note < name || left - sizeof note - name < len) {
            return;
        }
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(at + sizeof note, "GNU", 4) == 0) {
            search->id = at + sizeof note + name;
            search->id_len = note.n_descsz;
            return;
        }
        at += sizeof note + name + len;
        left -= sizeof note + name + len;
    }
}

static int look(struct dl_phdr_info *info, size_t size, void *ctx) {
    struct search *search = ctx;
    bool holds = false;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + part->p_vaddr;
        holds = holds || (part->p_type == PT_LOAD && search->address - start < part->p_memsz);
    }
    for (int i = 0; holds && i < info->dlpi_phnum && !search->id; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_NOTE) {
            find_id(search, (const uint8_t *)(info->dlpi_addr + part->p_vaddr), part->p_memsz);
        }
    }
    return holds;
}

void culm_image_libraries(char *ret_text, size_t size) {
    struct search search = {.address = (uintptr_t)&jpeg_std_error};
    char id[17] = "";
    if (dl_iterate_phdr(look, &search) && search.id) {
        culm_hex(search.id, search.id_len < 8 ? search.id_len : 8, id);
    }
    int webp = WebPGetDecoderVersion();
    snprintf(ret_text, size, "libpng-%s/libjpeg-%s/libwebp-%d.%d.%d", png_get_libpng_ver(NULL),
             id[0] ? id : "unknown", webp >> 16, webp >> 8 & 255, webp & 255);
}
