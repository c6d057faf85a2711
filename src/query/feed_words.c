/* Words for ffmpeg. See feed_words.h. */
#include "query/feed_words.h"

#include <stdbool.h>
#include <string.h>

/* Options of ffmpeg that have no value and may be given. */
static const char *const flags[] = {
    "accurate_seek",    "noaccurate_seek",    "autorotate", "noautorotate", "an", "sn", "dn",
    "find_stream_info", "nofind_stream_info", NULL};

/* What is refused, and why; a '*' at the end stands for anything. */
static const struct {
    const char *option, *why;
} refused[] = {
    {"i", "it would open another file; name it as 'file'"},
    {"report", "it writes a file"},
    {"vstats*", "it writes a file"},
    {"dump_attachment*", "it writes a file"},
    {"progress", "it writes to a file or an address"},
    {"passlogfile*", "it writes a file"},
    {"sdp_file", "it writes a file"},
    {"stats*", "it writes beside what is read here"},
    {"enc_stats*", "it writes a file"},
    {"mux_stats*", "it writes a file"},
    {"print_graphs*", "it writes beside what is read here"},
    {"dump*", "it writes beside what is read here"},
    {"hex", "it writes beside what is read here"},
    {"debug*", "it writes beside what is read here"},
    {"qphist", "it writes beside what is read here"},
    {"psnr", "it writes beside what is read here"},
    {"benchmark*", "it writes beside what is read here"},
    {"y", "nothing is written"},
    {"n", "nothing is written"},
    {"v", "errors have to be heard"},
    {"loglevel", "errors have to be heard"},
    {"hide_banner", "errors have to be heard"},
    {"stdin", "ffmpeg has no input but the file"},
    {"nostdin", "ffmpeg has no input but the file"},
    {"map*", "it changes what comes out"},
    {"vf", "it changes what comes out; see 'crop', 'every' and 'fps'"},
    {"filter*", "it changes what comes out; see 'crop', 'every' and 'fps'"},
    {"lavfi", "it changes what comes out; see 'crop', 'every' and 'fps'"},
    {"hwaccel_output_format", "pictures would stay on the device"},
    {"vn", "there would be no pictures"},
    {"cpuflags", "it changes the bits of the pictures"},
    {"cpucount", "it changes the bits of the pictures"},
    {"vsync", "it changes which frames come"},
    {"fps_mode*", "it changes which frames come"},
    {"ss", "say 'from'"},
    {"sseof", "say 'from'"},
    {"t", "say 'to' or 'for_s'"},
    {"to", "say 'to'"},
    {"stream_loop", "say 'loop'"},
    {"re", "say 'fps'"},
    {"readrate*", "say 'fps'"},
    {"itsoffset", "say 'from'"},
    {"itsscale", "say 'fps'"},
    {"copyts", "it is about what is written"},
    {"start_at_zero", "it is about what is written"},
    {"ignore_unknown", "it is about what is written"},
    {"copy_unknown", "it is about what is written"},
    {"recast_media", "it is about what is written"},
    {"auto_conversion_filters", "it is about what is written"},
    {"shortest", "it is about what is written"},
    {"bitexact", "it is about what is written"},
    {"copyinkf", "it is about what is written"},
    {"fix_sub_duration", "it is about what is written"},
    {"autoscale", "it is about what is written"},
    {"seek_timestamp", "it is about what is written"},
    {"xerror", "it is about what is written"},
    {"deinterlace", "it is about what is written"},
    {"intra", "it is about what is written"},
    {"sameq", "it is about what is written"},
    {"same_quant", "it is about what is written"},
};

static bool is_one_of(const char *name, const char *const *list) {
    for (; *list; list++) {
        if (strcmp(name, *list) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether it is that option, also of one stream: "c:v" is "c". */
static bool is_option(const char *name, const char *pattern) {
    const size_t len = strlen(pattern), end = strcspn(name, ":");
    return pattern[len - 1] == '*' ? strncmp(name, pattern, len - 1) == 0
                                   : end == len && strncmp(name, pattern, len) == 0;
}

static const char *why_not(const char *name) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (is_option(name, refused[i].option)) {
            return refused[i].why;
        }
    }
    return NULL;
}

enum culm_status culm_feed_words_check(char *const *words, size_t count, struct culm_error *error) {
    if (count > CULM_FEED_WORDS_MAX) {
        return culm_error_set(error, CULM_ERR_CONFIG, "%zu words; at most %d are allowed", count,
                              CULM_FEED_WORDS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        const char *word = words[i], *why = word[0] == '-' ? why_not(word + 1) : NULL;
        if (word[0] != '-' || !word[1] || word[1] == '-') {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "'%.60s' is no option; write options of ffmpeg and their values, "
                                  "such as [-rtsp_transport, tcp]",
                                  word);
        }
        if (why) {
            return culm_error_set(error, CULM_ERR_CONFIG, "'%.60s' is not allowed: %s", word, why);
        }
        if (is_one_of(word + 1, flags)) {
            continue;
        }
        if (strncmp(word, "-no", 3) == 0 || i + 1 == count ||
            (words[i + 1][0] == '-' && !(words[i + 1][1] >= '0' && words[i + 1][1] <= '9'))) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "'%.60s' has no value; write options of ffmpeg and their values, "
                                  "such as [-rtsp_transport, tcp]",
                                  word);
        }
        i++;
    }
    return CULM_OK;
}
