/*
 * Lines to an MQTT broker, each a message of one topic, at least once (QoS 1): what the broker has not acknowledged
 * in time is sent again on a new connection, with a new client, so that the library keeps nothing of its own. See receiver_way.h.
 */
#include "live/receiver_way.h"

#include "base/clock.h"
#include "base/url.h"
#include "cloud/mosquitto_library.h"
#include "live/receiver.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>

#define SCHEME "mqtt://"
#define PORT 1883
#define KEEP_ALIVE_S 30
#define LOOK_MS 50

struct place {
    char *text;                                 /* what the others point to; owned */
    const char *user, *password, *host, *topic; /* the first two may be NULL */
    int port;
};

struct to_mqtt {
    struct culm_way way;
    const struct culm_mosquitto *lib;
    struct place place;
    const int *stop;
    struct mosquitto *client; /* NULL: not connected */
    bool told;                /* the broker has answered, */
    int refused;              /* and so */
    int mid[CULM_RECEIVER_BATCH];
    bool arrived[CULM_RECEIVER_BATCH];
    size_t count; /* of the messages that are under way */
};

static struct to_mqtt *self(struct culm_way *way) { return (struct to_mqtt *)way; }

/* --- the address --- */

/* %41 is A. */
static void decode(char *text) {
    char *to = text;
    for (const char *at = text; *at; to++) {
        unsigned byte;
        int used = 0;
        if (at[0] == '%' && sscanf(at, "%%%2x%n", &byte, &used) == 1 && used == 3 && byte) {
            *to = (char)byte;
            at += 3;
        } else {
            *to = *at++;
        }
    }
    *to = '\0';
}

/* Cuts the text behind the scheme into its parts. False: it is no such address. */
static bool cut(struct place *place) {
    char *rest = place->text, *slash = strchr(rest, '/');
    if (!slash) {
        return false;
    }
    *slash = '\0';
    place->topic = slash + 1;
    char *at = strrchr(rest, '@');
    if (at) {
        *at = '\0';
        place->user = rest;
        char *colon = strchr(rest, ':');
        if (colon) {
            *colon = '\0';
            place->password = colon + 1;
            decode(colon + 1);
        }
        decode(rest);
        rest = at + 1;
    }
    char *colon = rest[0] == '[' ? strchr(rest, ']') : rest;
    char *end, *port = colon ? strchr(colon, ':') : NULL;
    place->port = PORT;
    if (port) {
        errno = 0;
        *port = '\0';
        const long number = strtol(port + 1, &end, 10);
        if (port[1] < '0' || port[1] > '9' || *end || errno || number < 1 || number > 65535) {
            return false;
        }
        place->port = (int)number;
    }
    if (rest[0] == '[' && colon) {
        rest++;
        *colon = '\0';
    }
    place->host = rest;
    return place->host[0] && place->topic[0] && !strpbrk(place->topic, "+#?") &&
           strlen(place->topic) < 65536 && (!at || place->user[0]);
}

static enum culm_status read_place(const char *url, struct place *place, struct culm_error *error) {
    char shown[CULM_RECEIVER_SHOWN];
    *place = (struct place){.text = strdup(url + strlen(SCHEME))};
    if (!place->text) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for an address");
    }
    if (!cut(place)) {
        free(place->text);
        culm_url_show(url, shown, sizeof shown);
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%.100s' is not mqtt://[USER[:PASSWORD]@]HOST[:PORT]/TOPIC, with a "
                              "topic that has none of + # ?",
                              shown);
    }
    return CULM_OK;
}

enum culm_status culm_way_mqtt_check(const char *url, struct culm_error *error) {
    struct place place;
    enum culm_status status = read_place(url, &place, error);
    if (status == CULM_OK) {
        free(place.text);
    }
    return status;
}

/* --- the client; what it calls is called in its loop --- */

static void on_connect(struct mosquitto *client, void *ctx, int code) {
    struct to_mqtt *to = ctx;
    (void)client;
    to->told = true;
    to->refused = code;
}

static void on_publish(struct mosquitto *client, void *ctx, int mid) {
    struct to_mqtt *to = ctx;
    (void)client;
    for (size_t i = 0; i < to->count; i++) {
        to->arrived[i] |= to->mid[i] == mid;
    }
}

/* The library's words end with a full stop. */
static enum culm_status failed(const struct to_mqtt *to, int code, struct culm_error *error) {
    char room[128];
    const char *text =
        code == MOSQ_ERR_ERRNO ? strerror_r(errno, room, sizeof room) : to->lib->strerror(code);
    const size_t len = strlen(text);
    return culm_error_set(error, CULM_ERR_IO, "%.*s",
                          (int)(len > 0 && text[len - 1] == '.' ? len - 1 : len), text);
}

static void hang_up(struct culm_way *way) {
    struct to_mqtt *to = self(way);
    if (to->client) {
        (void)to->lib->disconnect(to->client);
        to->lib->destroy(to->client);
    }
    to->client = NULL;
    to->count = 0;
}

/* Lets the client work. False: it is time, or all is to end. */
static bool go_on(struct to_mqtt *to, uint64_t until_ns, int *ret_code) {
    *ret_code = to->lib->loop(to->client, LOOK_MS, 1);
    return *ret_code == MOSQ_ERR_SUCCESS && culm_clock_ns() < until_ns &&
           !__atomic_load_n(to->stop, __ATOMIC_ACQUIRE);
}

static enum culm_status call(struct culm_way *way, uint64_t until_ns, struct culm_error *error) {
    struct to_mqtt *to = self(way);
    const struct place *place = &to->place;
    to->client = to->lib->new (NULL, true, to);
    if (!to->client) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a client");
    }
    to->told = false;
    to->refused = 0;
    to->lib->connect_callback_set(to->client, on_connect);
    to->lib->publish_callback_set(to->client, on_publish);
    int code = place->user ? to->lib->username_pw_set(to->client, place->user, place->password)
                           : MOSQ_ERR_SUCCESS;
    errno = 0;
    code = code ? code : to->lib->connect_async(to->client, place->host, place->port, KEEP_ALIVE_S);
    if (code == MOSQ_ERR_SUCCESS && to->lib->socket(to->client) >= FD_SETSIZE) {
        hang_up(way); /* the library's select(2) would write beyond its set */
        return culm_error_set(error, CULM_ERR_UNSUPPORTED,
                              "this process has too many descriptors open for libmosquitto");
    }
    if (code == MOSQ_ERR_SUCCESS) {
        while (!to->told && go_on(to, until_ns, &code)) {
        }
    }
    if (to->told && to->refused == 0) {
        return CULM_OK;
    }
    enum culm_status status =
        to->told ? culm_error_set(error, CULM_ERR_IO, "the broker refuses: %s",
                                  to->lib->connack_string(to->refused))
        : code   ? failed(to, code, error)
                 : culm_error_set(error, CULM_ERR_TIMEOUT, "the broker does not answer");
    hang_up(way);
    return status;
}

static size_t arrived(const struct to_mqtt *to) {
    size_t i = 0;
    while (i < to->count && to->arrived[i]) {
        i++;
    }
    return i;
}

static enum culm_status send_lines(struct culm_way *way, const struct culm_line *lines,
                                   size_t count, uint64_t until_ns, size_t *ret_taken,
                                   struct culm_error *error) {
    struct to_mqtt *to = self(way);
    int code = MOSQ_ERR_SUCCESS;
    memset(to->arrived, 0, sizeof to->arrived);
    for (to->count = 0; to->count < count && code == MOSQ_ERR_SUCCESS; to->count++) {
        const struct culm_line *line = &lines[to->count]; /* its end does not travel */
        code = to->lib->publish(to->client, &to->mid[to->count], to->place.topic,
                                (int)line->len - 1, line->text, 1, false);
        if (code) {
            break;
        }
    }
    while (code == MOSQ_ERR_SUCCESS && arrived(to) < count && go_on(to, until_ns, &code)) {
    }
    *ret_taken = arrived(to);
    return *ret_taken == count ? CULM_OK
           : code              ? failed(to, code, error)
                  : culm_error_set(error, CULM_ERR_TIMEOUT, "the broker acknowledges nothing");
}

static enum culm_status look(struct culm_way *way, struct culm_error *error) {
    struct to_mqtt *to = self(way);
    const int code = to->lib->loop(to->client, 0, 1);
    return code ? failed(to, code, error) : CULM_OK;
}

static void free_way(struct culm_way *way) {
    struct to_mqtt *to = self(way);
    hang_up(way);
    free(to->place.text);
    free(to);
}

enum culm_status culm_way_mqtt(const char *url, const int *stop, struct culm_way **ret_way,
                               struct culm_error *error) {
    static const struct culm_way_ops ops = {sizeof ops, call, send_lines, look, hang_up, free_way};
    const struct culm_mosquitto *lib = culm_mosquitto_load(error);
    struct place place;
    enum culm_status status = lib ? read_place(url, &place, error) : CULM_ERR_MACHINE;
    if (status != CULM_OK) {
        return status;
    }
    struct to_mqtt *to = calloc(1, sizeof *to);
    if (!to) {
        free(place.text);
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for answers");
    }
    to->way.ops = &ops;
    to->lib = lib;
    to->place = place;
    to->stop = stop;
    *ret_way = &to->way;
    return CULM_OK;
}
