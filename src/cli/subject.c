/* Named models and configurations as subjects of a command. */
#include "cli/subject.h"

#include "train/config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum culm_status culm_subject_find(const char *name_or_path, struct culm_subject *ret_subject,
                                   struct culm_error *error) {
    const struct culm_model_preset *preset = culm_model_preset_find(name_or_path);
    struct culm_subject subject = {0};
    snprintf(subject.name, sizeof subject.name, "%s", name_or_path);
    if (preset) {
        snprintf(subject.arch, sizeof subject.arch, "%s", preset->arch);
        subject.options = preset->options;
        subject.options.batch = 1;
        *ret_subject = subject;
        return CULM_OK;
    }
    if (access(name_or_path, F_OK) != 0) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%s' is neither a configuration file nor a known model; 'culm model "
                              "list' names them",
                              name_or_path);
    }
    struct culm_train_config config;
    enum culm_status status = culm_train_config_load(name_or_path, NULL, 0, &config, error);
    if (status != CULM_OK) {
        return status;
    }
    snprintf(subject.arch, sizeof subject.arch, "%s", config.model.arch);
    subject.options = (struct culm_model_options){
        .layers = config.model.layers,
        .width = config.model.width,
        .heads = config.model.heads,
        .context = config.model.context,
        .vocab = config.model.vocab,
        .dropout = config.model.dropout,
        .batch = config.batch.micro,
    };
    culm_train_config_release(&config);
    *ret_subject = subject;
    return CULM_OK;
}

enum culm_status culm_subject_compile(const struct culm_subject *subject,
                                      struct culm_graph **ret_graph, struct culm_stage **ret_stage,
                                      struct culm_error *error) {
    struct culm_graph *graph = NULL;
    enum culm_status status = culm_model_build(subject->arch, &subject->options, &graph, error);
    if (status == CULM_OK) {
        status = culm_stages_compile(graph, 1, NULL, ret_stage, error);
    }
    if (status != CULM_OK) {
        culm_graph_free(graph);
        return status;
    }
    *ret_graph = graph;
    return CULM_OK;
}
