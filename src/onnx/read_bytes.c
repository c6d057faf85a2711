/* Reading ONNX: the file and its side files, as bytes. See read.h. */
#include "onnx/read.h"

#include "base/file.h"
#include "base/pins.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A folder in the place of a file: the line names the files that it has. */
static enum culm_status refuse_folder(const char *path, struct culm_error *error) {
    struct culm_names names = {0};
    const char *first = NULL;
    size_t count = 0;
    (void)culm_dir_list(path, &names, NULL);
    for (size_t i = 0; i < names.count; i++) {
        size_t len = strlen(names.name[i]);
        if (len > 5 && strcmp(names.name[i] + len - 5, ".onnx") == 0 && names.name[i][0] != '.') {
            first = first ? first : names.name[i];
            count++;
        }
    }
    enum culm_status status = culm_error_set(
        error, CULM_ERR_CONFIG,
        count == 0 ? "onnx '%.200s': is a folder without an .onnx file in it"
        : count == 1
            ? "onnx '%.200s': is a folder; name the file in it, '%.200s/%.80s'"
            : "onnx '%.200s': is a folder with several .onnx files; name one of them, such "
              "as '%.200s/%.80s'",
        path, path, first ? first : "");
    culm_names_release(&names);
    return status;
}

static enum culm_status read_pinned(const struct culm_pins_reader *reader, size_t len,
                                    struct culm_onnx_map *ret_map, struct culm_error *error) {
    void *data = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
        return culm_error_set(error, CULM_ERR_MEMORY, "onnx '%s': out of memory for %zu bytes",
                              reader->path, len);
    }
    enum culm_status status = culm_pins_read(reader, 0, data, len, error);
    if (status == CULM_OK) {
        *ret_map = (struct culm_onnx_map){.data = data, .len = len, .mapped = true};
    } else {
        munmap(data, len);
    }
    return status;
}

enum culm_status culm_onnx_load(const char *path, struct culm_pins *pins,
                                struct culm_onnx_map *ret_map, struct culm_error *error) {
    struct stat info;
    enum culm_status status = CULM_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct culm_pins_reader reader = {.pins = pins, .what = "onnx", .path = path, .fd = fd};
    if (fd < 0 || fstat(fd, &info) != 0) {
        status = culm_error_open(error, errno, "onnx", path);
    } else if (S_ISDIR(info.st_mode)) {
        status = refuse_folder(path, error);
    } else if (!S_ISREG(info.st_mode)) {
        status = culm_error_set(error, CULM_ERR_CONFIG, "onnx '%s': is not a plain file", path);
    } else {
        status = culm_pins_file(pins, path, fd, error);
    }
    if (status == CULM_OK && info.st_size > 0) {
        culm_stamp_of(&info, &reader.stamp);
        status = read_pinned(&reader, (size_t)info.st_size, ret_map, error);
    }
    if (fd >= 0) {
        close(fd);
    }
    return status;
}

enum culm_status culm_onnx_side_file(struct culm_onnx_graph *graph, const char *location,
                                     uint64_t offset, uint64_t length, const char *tensor,
                                     const void **ret_data, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    const char *slash = strrchr(graph->path, '/');
    int folder = slash ? (int)(slash - graph->path + 1) : 0;
    if (!graph->map[0].mapped) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "onnx '%s': tensor '%s' is stored in another file", graph->path,
                              tensor);
    }
    if (!location[0] || location[0] == '/' || strstr(location, "..")) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "onnx '%s': tensor '%s' lies in '%s', which is not below the folder "
                              "of the model",
                              graph->path, tensor, location);
    }
    enum culm_status status =
        culm_path_format(path, error, "%.*s%s", folder, graph->path, location);
    int32_t i = 1;
    while (status == CULM_OK && i < graph->maps && strcmp(graph->map[i].path, path) != 0) {
        i++;
    }
    if (status == CULM_OK && i == graph->maps) {
        struct culm_onnx_map map = {0};
        if (i > CULM_ONNX_SIDE_FILES_MAX) {
            return culm_error_set(error, CULM_ERR_FORMAT, "onnx '%s': has more than %d side files",
                                  graph->path, CULM_ONNX_SIDE_FILES_MAX);
        }
        struct culm_error reason = {0};
        status = culm_onnx_load(path, graph->pins, &map, &reason);
        if (status != CULM_OK && status != CULM_ERR_CHANGED) {
            const char *why = strstr(reason.text, "': ");
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "onnx '%.150s': tensor '%.80s' lies in '%.150s', which cannot be "
                                  "read: %.80s; keep it beside the model",
                                  graph->path, tensor, path, why ? why + 3 : reason.text);
        }
        if (status != CULM_OK) {
            return culm_error_set(error, status, "%s", reason.text);
        }
        map.path = culm_onnx_copy_text(&graph->arena, path, strlen(path));
        graph->map[graph->maps++] = map;
        if (!map.path) {
            graph->map[i].path = "";
            return culm_onnx_no_memory(graph, error);
        }
    }
    if (status == CULM_OK && (offset > graph->map[i].len || length > graph->map[i].len - offset)) {
        return culm_error_set(
            error, CULM_ERR_FORMAT,
            "onnx '%s': tensor '%s' lies at bytes %llu to %llu of '%s', which has "
            "%zu",
            graph->path, tensor, (unsigned long long)offset, (unsigned long long)(offset + length),
            path, graph->map[i].len);
    }
    if (status == CULM_OK) {
        *ret_data = graph->map[i].data + offset;
    }
    return status;
}
