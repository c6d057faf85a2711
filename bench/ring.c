/*
 * What memory that two processes of a host share would save: payloads through it, compared with payloads
 * through a socket, as connections (net/conn.h) carry them.
 *
 *     bench_ring [--rounds N] [--mb N] [--pings N] [--busy no|yes|both]
 *
 *     tcp, unix   frames over a connection, through loopback or a Unix socket
 *     unix 4M     the same with a buffer of 4 MB, or as much as the system allows
 *     ring        the payload is copied into a ring of 4 MB and from there into a blob; the Unix socket
 *                 carries a head for each piece, which wakes the reader, and word of space for a writer
 *                 that waits for it
 *     pool        the payload was made in memory that both have, and is used there: nothing is copied
 *
 * and each without the checksum of payloads, which guards against damage on the way. Apart from that
 * sum, nobody looks at what arrives. For each size of payload: a round trip with a payload each way, and
 * the processor time of both processes for it; a stream one way, and the processor time for a gigabyte.
 * With --busy, a process for each processor computes beside them. The ways take turns. Figures are
 * medians of the rounds, `x` how many times better than the Unix socket (without sums: without sums).
 */
#include "net/conn.h"
#include "net/socket.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KB ((size_t)1 << 10)
#define MB ((size_t)1 << 20)
#define RING_BYTES (4 * MB)
#define PIECE_BYTES (256 * KB)
#define POOL_BYTES (16 * MB)
#define POOL_SLOTS 64
#define WINDOW_BYTES (4 * MB) /* queued in a connection */
#define BLOBS 4               /* sent in turns */
#define WARM_BYTES (8 * MB)
#define ROUNDS_MAX 100
#define PATIENCE_NS 60000000000ull

enum kind { FRAME, RING, POOL };
enum { WHOLE = 1, PIECE, SHARED, SPACE, MARK }; /* types of messages */
enum { PINGS = 1, STREAM, END };                /* marks */

static const struct way {
    const char *name, *address;
    enum kind kind;
    bool sum, wide;
} ways[] = {
    {"tcp", "tcp:127.0.0.1:0", FRAME, true, false},
    {"unix", "unix:", FRAME, true, false},
    {"unix 4M", "unix:", FRAME, true, true},
    {"ring", "unix:", RING, true, false},
    {"pool", "unix:", POOL, true, false},
    {"tcp, no sum", "tcp:127.0.0.1:0", FRAME, false, false},
    {"unix, no sum", "unix:", FRAME, false, false},
    {"unix 4M, no sum", "unix:", FRAME, false, true},
    {"ring, no sum", "unix:", RING, false, false},
    {"pool, no sum", "unix:", POOL, false, false},
};
#define WAYS (sizeof ways / sizeof *ways)
#define UNIX_SUM 1 /* what the others are held against */
#define UNIX_NO_SUM 6

static const size_t sizes[] = {4 * KB, 64 * KB, 256 * KB, 1 * MB, 4 * MB};
#define SIZES (sizeof sizes / sizeof *sizes)

/* One direction. `done` and `taken` count bytes of a ring, or payloads of a pool. */
struct lane {
    _Alignas(64) _Atomic uint64_t done;  /* by who writes */
    _Alignas(64) _Atomic uint64_t taken; /* by who reads, */
    _Atomic uint64_t wanted;             /* who tells the other one when so much is free; 0: not */
    _Alignas(64) uint8_t data[POOL_BYTES];
};

static struct shared {
    struct lane lane[2];
    double cpu_s; /* of the second process, between two marks */
} * shared;

struct head { /* meta of PIECE and SHARED */
    uint64_t total, bytes, at, sum;
};

struct side {
    const struct way *way;
    size_t size;
    uv_loop_t loop;
    struct culm_conn *conn;
    struct culm_blob_pool *pool;
    struct culm_blob *blob[BLOBS]; /* what is sent */
    struct lane *out, *in;
    uint64_t sent, received, marks;
    struct culm_blob *filling; /* ring: what comes, */
    size_t filled;             /* so far */
    const uint8_t *placing;    /* and what goes; NULL: nothing */
    size_t placed;
    struct culm_checksum sum_in, sum_out;
    bool echoes, closed;
    double cpu_from_s;
};

/* The linker puts this in front of the real one, of frames too. */
static bool sums = true;
void __real_culm_checksum_add(struct culm_checksum *sum, const void *data, size_t len);
void __wrap_culm_checksum_add(struct culm_checksum *sum, const void *data, size_t len);
void __wrap_culm_checksum_add(struct culm_checksum *sum, const void *data, size_t len) {
    if (sums) {
        __real_culm_checksum_add(sum, data, len);
    }
}

static double clock_s(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what) {
    fprintf(stderr, "bench_ring: %s\n", what);
    exit(1);
}

static void say(struct side *s, uint16_t type, const void *meta, size_t bytes) {
    const struct culm_message message = {.type = type, .meta = meta, .meta_bytes = (uint32_t)bytes};
    culm_conn_send(s->conn, &message);
}

/* --- lanes --- */

static size_t lane_room(const struct side *s) {
    return s->way->kind == RING
               ? RING_BYTES
               : (POOL_BYTES / s->size < POOL_SLOTS ? POOL_BYTES / s->size : POOL_SLOTS);
}

static size_t lane_free(const struct side *s, struct lane *lane) {
    return lane_room(s) - (size_t)(atomic_load(&lane->done) - atomic_load(&lane->taken));
}

/* Whether `need` are free; if not, the other side will say when half is. */
static bool has_space(struct side *s, size_t need) {
    size_t most = lane_room(s) / 2;
    if (lane_free(s, s->out) >= need) {
        return true;
    }
    atomic_store(&s->out->wanted, need > most ? need : most);
    if (lane_free(s, s->out) < need) {
        return false;
    }
    atomic_store(&s->out->wanted, 0);
    return true;
}

static void take_from(struct side *s, size_t count) {
    atomic_fetch_add(&s->in->taken, count);
    uint64_t wanted = atomic_load(&s->in->wanted);
    if (wanted && lane_free(s, s->in) >= wanted) {
        atomic_store(&s->in->wanted, 0);
        say(s, SPACE, NULL, 0);
    }
}

/* Bytes between a ring, from its place `at`, and memory. */
static void copy_in(struct lane *lane, uint64_t at, const uint8_t *from, size_t bytes) {
    size_t first = at % RING_BYTES;
    size_t part = RING_BYTES - first < bytes ? RING_BYTES - first : bytes;
    memcpy(lane->data + first, from, part);
    memcpy(lane->data, from + part, bytes - part);
}

static void copy_out(const struct lane *lane, uint64_t at, uint8_t *to, size_t bytes) {
    size_t first = at % RING_BYTES;
    size_t part = RING_BYTES - first < bytes ? RING_BYTES - first : bytes;
    memcpy(to, lane->data + first, part);
    memcpy(to + part, lane->data, bytes - part);
}

/* As many pieces as there is space for. */
static void place(struct side *s) {
    while (s->placing) {
        size_t rest = s->size - s->placed;
        size_t bytes = rest < PIECE_BYTES ? rest : PIECE_BYTES;
        if (!has_space(s, bytes)) {
            return;
        }
        const uint8_t *from = s->placing + s->placed;
        copy_in(s->out, atomic_load(&s->out->done), from, bytes);
        culm_checksum_add(&s->sum_out, from, bytes);
        atomic_fetch_add(&s->out->done, bytes);
        s->placed += bytes;
        if (s->placed == s->size) {
            s->placing = NULL;
        }
        const struct head head = {s->size, bytes, 0, culm_checksum_value(&s->sum_out)};
        say(s, PIECE, &head, sizeof head);
    }
}

/* --- payloads --- */

static bool can_send(struct side *s) {
    if (culm_conn_queued(s->conn) >= WINDOW_BYTES || s->placing) {
        return false;
    }
    return s->way->kind != POOL || has_space(s, 1);
}

static void send_payload(struct side *s) {
    struct culm_blob *blob = s->blob[s->sent % BLOBS];
    if (s->way->kind == FRAME) {
        const struct culm_message message = {
            .type = WHOLE, .payload = blob, .payload_bytes = s->size};
        culm_conn_send(s->conn, &message);
    } else if (s->way->kind == RING) {
        s->placing = blob->data;
        s->placed = 0;
        culm_checksum_init(&s->sum_out);
        place(s);
    } else {
        size_t at = (size_t)(s->sent % lane_room(s)) * s->size;
        culm_checksum_init(&s->sum_out);
        culm_checksum_add(&s->sum_out, s->out->data + at, s->size);
        const struct head head = {s->size, s->size, at, culm_checksum_value(&s->sum_out)};
        atomic_fetch_add(&s->out->done, 1);
        say(s, SHARED, &head, sizeof head);
    }
    s->sent++;
}

static void received(struct side *s) {
    s->received++;
    if (s->echoes) {
        send_payload(s); /* the one before has arrived */
    }
}

static void on_piece(struct side *s, const struct head *head) {
    if (!s->filling) {
        if (culm_blob_pool_get(s->pool, head->total, &s->filling) != CULM_OK) {
            die("out of memory");
        }
        s->filled = 0;
        culm_checksum_init(&s->sum_in);
    }
    uint8_t *to = (uint8_t *)s->filling->data + s->filled;
    copy_out(s->in, atomic_load(&s->in->taken), to, head->bytes);
    take_from(s, head->bytes);
    culm_checksum_add(&s->sum_in, to, head->bytes);
    s->filled += head->bytes;
    if (s->filled == head->total) {
        if (culm_checksum_value(&s->sum_in) != head->sum) {
            die("a payload was damaged");
        }
        culm_blob_clear(&s->filling);
        received(s);
    }
}

static void on_shared(struct side *s, const struct head *head) {
    culm_checksum_init(&s->sum_in);
    culm_checksum_add(&s->sum_in, s->in->data + head->at, head->bytes);
    if (culm_checksum_value(&s->sum_in) != head->sum) {
        die("a payload was damaged");
    }
    take_from(s, 1);
    received(s);
}

/* The second process measures between marks, and answers them. */
static void on_mark(struct side *s, uint64_t mark) {
    s->marks++;
    if (s->in == &shared->lane[0]) {
        s->echoes = mark == PINGS;
        if (mark == END) {
            shared->cpu_s = clock_s(CLOCK_PROCESS_CPUTIME_ID) - s->cpu_from_s;
        }
        s->cpu_from_s = clock_s(CLOCK_PROCESS_CPUTIME_ID);
        say(s, MARK, &mark, sizeof mark);
    }
}

static void on_message(void *ctx, struct culm_conn *conn, const struct culm_message *message) {
    struct side *s = ctx;
    struct head head = {0};
    (void)conn;
    if (message->meta_bytes) {
        memcpy(&head, message->meta,
               message->meta_bytes < sizeof head ? message->meta_bytes : sizeof head);
    }
    switch (message->type) {
    case WHOLE: received(s); break;
    case PIECE: on_piece(s, &head); break;
    case SHARED: on_shared(s, &head); break;
    case SPACE: place(s); break;
    default: on_mark(s, head.total);
    }
}

static void on_closed(void *ctx, struct culm_conn *conn, const struct culm_error *why) {
    struct side *s = ctx;
    if (why->status != CULM_ERR_CLOSED || s->in == &shared->lane[1]) {
        die(why->text);
    }
    culm_conn_close(conn);
    s->closed = true;
}

/* --- two processes --- */

static void side_init(struct side *s, const struct way *way, size_t size, int fd, int number) {
    static const struct culm_conn_ops ops = {on_message, on_closed};
    struct culm_error error;
    *s = (struct side){.way = way, .size = size};
    s->out = &shared->lane[number];
    s->in = &shared->lane[1 - number];
    s->pool = culm_blob_pool_new(0);
    for (int i = 0; i < BLOBS; i++) {
        if (!s->pool || culm_blob_pool_get(s->pool, size, &s->blob[i]) != CULM_OK) {
            die("out of memory");
        }
        memset(s->blob[i]->data, i + 1, size);
    }
    for (size_t at = 0; at < POOL_BYTES; at += 4096) { /* maps what the other side has written */
        *(volatile uint8_t *)(s->in->data + at);
        *(volatile uint8_t *)(s->out->data + at) = (uint8_t)at;
    }
    const struct culm_conn_options options = {.loop = &s->loop,
                                              .pool = s->pool,
                                              .meta_max = 4096,
                                              .payload_max = 64 * MB,
                                              .ops = &ops,
                                              .ctx = s};
    if (uv_loop_init(&s->loop) || culm_conn_new(&options, fd, false, &s->conn, &error) != CULM_OK) {
        die("no connection");
    }
}

static void side_release(struct side *s) {
    culm_conn_close(s->conn);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    uv_loop_close(&s->loop);
    for (int i = 0; i < BLOBS; i++) {
        culm_blob_unref(s->blob[i]);
    }
    culm_blob_pool_free(s->pool);
}

static void connect_pair(const struct way *way, int fd[2]) {
    char address[CULM_ADDRESS_SIZE];
    struct culm_error error;
    int listener;
    if (culm_socket_listen(way->address, &listener, address, &error) != CULM_OK ||
        culm_socket_connect(address, &fd[0], &error) != CULM_OK ||
        !culm_socket_wait(listener, POLLIN, culm_clock_ns() + PATIENCE_NS) ||
        culm_socket_accept(listener, &fd[1], &error) != CULM_OK ||
        !culm_socket_wait(fd[0], POLLOUT, culm_clock_ns() + PATIENCE_NS)) {
        die(error.text);
    }
    culm_socket_close_listener(listener);
    int bytes = (int)(4 * MB);
    for (int i = 0; i < 2 && way->wide; i++) {
        (void)setsockopt(fd[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    }
}

static void mark(struct side *s, uint64_t what) {
    uint64_t before = s->marks;
    say(s, MARK, &what, sizeof what);
    while (s->marks == before) {
        uv_run(&s->loop, UV_RUN_ONCE);
    }
}

static void stream(struct side *s, size_t bytes) {
    uint64_t last = s->sent + bytes / s->size;
    while (s->sent < last || s->placing) {
        while (s->sent < last && can_send(s)) {
            send_payload(s);
        }
        if (s->sent < last || s->placing) {
            uv_run(&s->loop, UV_RUN_ONCE);
        }
    }
    mark(s, END);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, size_t count) {
    qsort(x, count, sizeof *x, ascending);
    return count % 2 ? x[count / 2] : (x[count / 2 - 1] + x[count / 2]) / 2;
}

static size_t rounds = 5, pings = 60, stream_bytes = 128 * MB;

struct figures {
    double trip_us, trip_cpu_us, stream_gb_s, stream_cpu_ms; /* the last: of a GB */
};

static void measure(const struct way *way, size_t size, struct figures *ret) {
    int fd[2];
    struct side side;
    double *trip = calloc(pings, sizeof *trip);
    sums = way->sum;
    connect_pair(way, fd);
    for (int i = 0; i < 2; i++) {
        shared->lane[i].done = shared->lane[i].taken = shared->lane[i].wanted = 0;
    }
    pid_t other = fork();
    if (other < 0 || !trip) {
        die("no second process");
    }
    if (!other) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(fd[0]);
        side_init(&side, way, size, fd[1], 1);
        while (!side.closed) {
            uv_run(&side.loop, UV_RUN_ONCE);
        }
        _exit(0);
    }
    close(fd[1]);
    side_init(&side, way, size, fd[0], 0);
    stream(&side, WARM_BYTES > size * BLOBS ? WARM_BYTES : size * BLOBS);

    mark(&side, PINGS);
    double cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID);
    for (size_t i = 0; i < pings; i++) {
        uint64_t before = side.received;
        double start = clock_s(CLOCK_MONOTONIC);
        send_payload(&side);
        while (side.received == before) {
            uv_run(&side.loop, UV_RUN_ONCE);
        }
        trip[i] = clock_s(CLOCK_MONOTONIC) - start;
    }
    mark(&side, END);
    cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu + shared->cpu_s;
    ret->trip_cpu_us = cpu / (double)pings * 1e6;
    ret->trip_us = median(trip, pings) * 1e6;

    mark(&side, STREAM);
    cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID);
    double start = clock_s(CLOCK_MONOTONIC);
    stream(&side, stream_bytes);
    double took = clock_s(CLOCK_MONOTONIC) - start;
    cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu + shared->cpu_s;
    ret->stream_gb_s = (double)stream_bytes / took / 1e9;
    ret->stream_cpu_ms = cpu * 1e3 / ((double)stream_bytes / 1e9);

    side_release(&side);
    waitpid(other, NULL, 0);
    free(trip);
}

static void start_busy(pid_t *ret_pid, long count) {
    for (long i = 0; i < count; i++) {
        ret_pid[i] = fork();
        if (!ret_pid[i]) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (volatile double x = 1;; x = x * 1.0000001) {
            }
        }
    }
}

static void stop_busy(const pid_t *pid, long count) {
    for (long i = 0; i < count; i++) {
        if (pid[i] > 0) {
            kill(pid[i], SIGKILL);
            waitpid(pid[i], NULL, 0);
        }
    }
}

static struct figures all[2][SIZES][WAYS][ROUNDS_MAX];

#define MEDIAN(busy, size, way, field)                                                             \
    median_of(all[busy][size][way], offsetof(struct figures, field))
static double median_of(const struct figures *of, size_t field) {
    double x[ROUNDS_MAX];
    for (size_t r = 0; r < rounds; r++) {
        memcpy(&x[r], (const char *)&of[r] + field, sizeof *x);
    }
    return median(x, rounds);
}

static void print(int busy) {
    for (size_t size = 0; size < SIZES; size++) {
        printf("%zu KB%s\n%-16s %10s %6s %10s %8s %6s %10s %6s\n", sizes[size] / KB,
               busy ? ", beside a busy process per processor" : "", "", "trip us", "x", "cpu us",
               "GB/s", "x", "cpu ms/GB", "x");
        for (size_t way = 0; way < WAYS; way++) {
            size_t as = ways[way].sum ? UNIX_SUM : UNIX_NO_SUM;
            double trip = MEDIAN(busy, size, way, trip_us);
            double rate = MEDIAN(busy, size, way, stream_gb_s);
            double cpu = MEDIAN(busy, size, way, stream_cpu_ms);
            printf("%-16s %10.1f %6.2f %10.1f %8.2f %6.2f %10.0f %6.2f\n", ways[way].name, trip,
                   MEDIAN(busy, size, as, trip_us) / trip, MEDIAN(busy, size, way, trip_cpu_us),
                   rate, rate / MEDIAN(busy, size, as, stream_gb_s), cpu,
                   MEDIAN(busy, size, as, stream_cpu_ms) / cpu);
        }
    }
}

int main(int argc, char **argv) {
    bool when[2] = {true, true};
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--rounds") == 0) {
            rounds = (size_t)atol(value);
        } else if (strcmp(argv[i], "--mb") == 0) {
            stream_bytes = (size_t)atol(value) * MB;
        } else if (strcmp(argv[i], "--pings") == 0) {
            pings = (size_t)atol(value);
        } else if (strcmp(argv[i], "--busy") == 0) {
            when[0] = strcmp(value, "yes") != 0;
            when[1] = strcmp(value, "no") != 0;
        } else {
            rounds = 0;
        }
    }
    if (rounds < 1 || rounds > ROUNDS_MAX || pings < 1 || pings > 100000 ||
        stream_bytes < sizes[SIZES - 1]) {
        fprintf(stderr, "usage: bench_ring [--rounds N] [--mb N] [--pings N] "
                        "[--busy no|yes|both]\n");
        return 2;
    }
    int memory = memfd_create("ring", MFD_CLOEXEC);
    if (memory < 0 || ftruncate(memory, sizeof *shared) ||
        (shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0)) ==
            MAP_FAILED) {
        die("no memory to share");
    }
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    pid_t *pid = calloc((size_t)processors, sizeof *pid);
    if (!pid) {
        die("out of memory");
    }
    for (size_t round = 0; round < rounds; round++) {
        for (int busy = 0; busy < 2; busy++) {
            for (size_t size = 0; size < SIZES && when[busy]; size++) {
                if (busy) {
                    start_busy(pid, processors);
                }
                for (size_t way = 0; way < WAYS; way++) {
                    measure(&ways[way], sizes[size], &all[busy][size][way][round]);
                }
                if (busy) {
                    stop_busy(pid, processors);
                }
            }
        }
    }
    for (int busy = 0; busy < 2; busy++) {
        if (when[busy]) {
            print(busy);
        }
    }
    free(pid);
    return 0;
}
