/*
 * Fuzz target: answers of AWS Lambda's Runtime API. Whatever the service sends, an invocation has an id,
 * a deadline and all bytes of its event, or there is one line that says what is wrong.
 *
 * The service is a thread that answers one request with the input and hangs up.
 */
#include "fuzz.h"

#include "base/clock.h"
#include "net/socket.h"
#include "cloud/lambda_runtime.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct service {
    int listener;
    const uint8_t *data;
    size_t size;
};

static void *serve(void *context) {
    const struct service *service = context;
    struct pollfd poll_fd = {.fd = service->listener, .events = POLLIN};
    char request[4096];
    int fd = poll(&poll_fd, 1, 600000) == 1 ? accept(service->listener, NULL, NULL) : -1;
    FUZZ_REQUIRE(fd >= 0, "nobody calls");
    FUZZ_REQUIRE(recv(fd, request, sizeof request, 0) > 0, "nothing is asked");
    for (size_t done = 0; done < service->size;) {
        ssize_t sent = send(fd, service->data + done, service->size - done, MSG_NOSIGNAL);
        if (sent <= 0) {
            break; /* it has heard enough */
        }
        done += (size_t)sent;
    }
    close(fd);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct culm_lambda_runtime runtime = {.host = "fuzz"};
    struct culm_lambda_invocation invocation = {.event = NULL};
    struct culm_error error = {0};
    struct service service = {.data = data, .size = size};
    pthread_t thread;
    FUZZ_REQUIRE(culm_socket_listen("unix:", &service.listener, runtime.address, &error) == CULM_OK,
                 "%s", error.text);
    FUZZ_REQUIRE(pthread_create(&thread, NULL, serve, &service) == 0, "no thread");
    enum culm_status status = culm_lambda_next(&runtime, &invocation, &error);
    pthread_join(thread, NULL);
    culm_socket_close_listener(service.listener);
    if (status != CULM_OK) {
        FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'", error.text);
        return 0;
    }
    FUZZ_REQUIRE(invocation.id[0] && !strpbrk(invocation.id, "/ \r\n"), "id '%s'", invocation.id);
    FUZZ_REQUIRE(invocation.deadline_ms > 0, "deadline %lld", (long long)invocation.deadline_ms);
    FUZZ_REQUIRE(invocation.event && invocation.event[invocation.event_bytes] == '\0' &&
                     invocation.event_bytes <= size,
                 "%zu bytes of %zu", invocation.event_bytes, size);
    culm_lambda_invocation_release(&invocation);
    return 0;
}
