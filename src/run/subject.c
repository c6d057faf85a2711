/* Named models and configurations as subjects of a command. */
#include "run/subject.h"

#include <stdio.h>
#include <unistd.h>

static enum culm_source_kind kind_of(enum culm_arch arch) {
    switch (arch) {
    case CULM_ARCH_GPT2: return CULM_SOURCE_TEXT;
    case CULM_ARCH_BERT: return CULM_SOURCE_MASKED;
    case CULM_ARCH_GNMT: return CULM_SOURCE_PAIRS;
    default: return CULM_SOURCE_IMAGES;
    }
}

/* A configuration that only names a model. */
static enum culm_status config_of(const char *name, struct culm_train_config *ret_config,
                                  struct culm_error *error) {
    char text[256];
    int len = snprintf(
        text, sizeof text,
        "model: {name: %s}\ndata: {kind: %s, path: none}\nsteps: 1\npipelines: 1\nstages: 1\n"
        "batch: {global: 1, micro: 1, lanes: 1}\n",
        name, culm_source_kind_names[kind_of(culm_model_preset_find(name)->arch)]);
    return culm_train_config_parse(text, (size_t)len, name, NULL, 0, ret_config, error);
}

enum culm_status culm_subject_find(const char *name_or_path, bool alone,
                                   struct culm_subject *ret_subject, struct culm_error *error) {
    static const char *const one[] = {"pipelines=1", "stages=1", "batch.lanes=1"};
    struct culm_subject subject = {0};
    snprintf(subject.name, sizeof subject.name, "%s", name_or_path);
    enum culm_status status;
    if (culm_model_preset_find(name_or_path)) {
        subject.named = true;
        status = config_of(name_or_path, &subject.config, error);
    } else if (access(name_or_path, F_OK) != 0) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%s' is neither a configuration file nor a known model; 'culm model "
                              "list' names them",
                              name_or_path);
    } else {
        status = culm_train_config_load(name_or_path, one, alone ? sizeof one / sizeof *one : 0,
                                        &subject.config, error);
        if (status == CULM_OK &&
            (status = culm_network_complete(&subject.config, error)) != CULM_OK) {
            culm_train_config_release(&subject.config);
        }
    }
    if (status != CULM_OK) {
        return status;
    }
    subject.batch = subject.config.batch.micro;
    *ret_subject = subject;
    return CULM_OK;
}

void culm_subject_release(struct culm_subject *subject) {
    culm_train_config_release(&subject->config);
}

enum culm_status culm_subject_compile(const struct culm_subject *subject,
                                      struct culm_graph **ret_graph, struct culm_stage **ret_stage,
                                      struct culm_error *error) {
    struct culm_graph *graph = NULL;
    const struct culm_stage_options options = {.recompute = subject->config.recompute ==
                                                            CULM_RECOMPUTE_BLOCK};
    enum culm_status status =
        culm_network_build(&subject->config, subject->batch, CULM_FOR_TRAINING, &graph, error);
    if (status == CULM_OK) {
        status = culm_stages_compile(graph, 1, &options, ret_stage, error);
    }
    if (status != CULM_OK) {
        culm_graph_free(graph);
        return status;
    }
    *ret_graph = graph;
    return CULM_OK;
}
