/* Loading libraries. See library.h. */
#include "base/library.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

static int asks_for_loader(struct dl_phdr_info *object, size_t size, void *context) {
    (void)size;
    (void)context;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        if (object->dlpi_phdr[i].p_type == PT_INTERP) {
            return 1;
        }
    }
    return 0;
}

static enum culm_status load(struct culm_library *library, struct culm_error *error) {
    if (!dl_iterate_phdr(asks_for_loader, NULL)) {
        return culm_error_set(
            error, CULM_ERR_MACHINE,
            "a program that is linked statically cannot load %s; link it dynamically",
            library->name);
    }
    void *handle = dlopen(library->name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        return culm_error_set(error, CULM_ERR_MACHINE, "%s cannot be loaded; install %s",
                              library->name, library->package);
    }
    bool whole = true;
    for (size_t i = 0; i < library->count && whole; i++) {
        void *function = dlsym(handle, library->functions[i].name);
        memcpy(library->functions[i].to, &function, sizeof function);
        whole = function != NULL;
    }
    if (!whole || (library->begin && !library->begin())) {
        return culm_error_set(error, CULM_ERR_MACHINE, "%s is too old; install %s %s or later",
                              library->name, library->package, library->oldest);
    }
    return CULM_OK;
}

enum culm_status culm_library_load(struct culm_library *library, struct culm_error *error) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    enum culm_status status = CULM_OK;
    pthread_mutex_lock(&lock);
    if (!library->loaded) {
        status = load(library, error);
        library->loaded = status == CULM_OK;
    }
    pthread_mutex_unlock(&lock);
    return status;
}
