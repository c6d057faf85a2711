/*
 * The thread team: persistent threads, one job at a time, tiles taken one by one.
 *
 * One atomic word says which job runs, how many tiles it has and which is next:
 *
 *     state = job number (16 bits) | tiles (24 bits) | next tile (24 bits)
 *
 * A thread takes a tile by moving `next` on with compare-and-swap, and reads the job's function
 * only after that: the tile it holds keeps the job alive. So nobody waits for a thread that is not
 * there: on a busy machine the caller does all tiles by itself, and a thread that comes late finds
 * none. Threads spin a little between jobs, because operators follow each other closely, then sleep
 * on a futex: cores are shared with other workers.
 */
#include "device/cpu/team.h"

#include "base/control.h"
#include "base/pages.h"
#include "base/stops.h"

#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#define TILE_BITS 24
#define TILE_MASK ((1u << TILE_BITS) - 1)
#define SPIN_NS 40000
#define SMALL_TILES 16 /* work of more may fill the scratch */

struct worker {
    struct culm_cpu_team *team;
    int thread;
    pthread_t id;
};

struct culm_cpu_team {
    uint64_t state;
    int64_t done;      /* tiles of the job that are finished */
    uint32_t finished; /* futex: number of jobs whose last tile is done */
    uint32_t waiting;  /* the caller sleeps on `finished` */
    uint32_t epoch;    /* futex: number of jobs started, and of stops */
    uint32_t sleeping; /* threads asleep on `epoch` */
    uint32_t stop;
    culm_cpu_tile *tile;
    void *context;
    int workers;
    struct worker worker[];
};

static void futex_wait(uint32_t *word, uint32_t value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(uint32_t *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void relax(void) {
#if defined(__x86_64__)
    _mm_pause();
#endif
}

/* Takes and does tiles until none is left. */
static void work(struct culm_cpu_team *team, int thread) {
    uint64_t state = __atomic_load_n(&team->state, __ATOMIC_ACQUIRE);
    for (;;) {
        uint32_t next = (uint32_t)state & TILE_MASK;
        uint32_t tiles = (uint32_t)(state >> TILE_BITS) & TILE_MASK;
        if (next >= tiles) {
            return;
        }
        if (!__atomic_compare_exchange_n(&team->state, &state, state + 1, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE)) {
            continue;
        }
        team->tile(team->context, next, thread);
        if (__atomic_add_fetch(&team->done, 1, __ATOMIC_ACQ_REL) == (int64_t)tiles) {
            __atomic_add_fetch(&team->finished, 1, __ATOMIC_SEQ_CST);
            if (__atomic_load_n(&team->waiting, __ATOMIC_SEQ_CST)) {
                futex_wake(&team->finished, 1);
            }
        }
        state = __atomic_load_n(&team->state, __ATOMIC_ACQUIRE);
    }
}

static void *worker_main(void *argument) {
    struct worker *self = argument;
    struct culm_cpu_team *team = self->team;
    culm_control_enter();
    uint32_t seen = 0;
    for (;;) {
        uint32_t epoch;
        uint64_t deadline = now_ns() + SPIN_NS;
        while ((epoch = __atomic_load_n(&team->epoch, __ATOMIC_SEQ_CST)) == seen) {
            for (int i = 0; i < 32; i++) {
                relax();
            }
            if (now_ns() < deadline) {
                continue;
            }
            __atomic_add_fetch(&team->sleeping, 1, __ATOMIC_SEQ_CST);
            if (__atomic_load_n(&team->epoch, __ATOMIC_SEQ_CST) == seen) {
                futex_wait(&team->epoch, seen);
            }
            __atomic_sub_fetch(&team->sleeping, 1, __ATOMIC_SEQ_CST);
            deadline = now_ns() + SPIN_NS;
        }
        seen = epoch;
        if (__atomic_load_n(&team->stop, __ATOMIC_SEQ_CST)) {
            return NULL;
        }
        work(team, self->thread);
    }
}

static void announce(struct culm_cpu_team *team) {
    __atomic_add_fetch(&team->epoch, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&team->sleeping, __ATOMIC_SEQ_CST)) {
        futex_wake(&team->epoch, team->workers);
    }
}

enum culm_status culm_cpu_team_new(int threads, struct culm_cpu_team **ret_team,
                                   struct culm_error *error) {
    struct culm_cpu_team *team = calloc(1, sizeof *team + (size_t)threads * sizeof team->worker[0]);
    if (!team) {
        return culm_error_set(error, CULM_ERR_MEMORY, "thread team: out of memory");
    }
    for (int thread = 1; thread < threads; thread++) {
        struct worker *worker = &team->worker[team->workers];
        *worker = (struct worker){.team = team, .thread = thread};
        sigset_t before;
        culm_signals_hold(&before);
        int failed = pthread_create(&worker->id, NULL, worker_main, worker);
        culm_signals_let(&before);
        if (failed) {
            culm_cpu_team_free(team);
            return culm_error_errno(error, failed, "start compute thread %d of %d; ask for fewer",
                                    thread + 1, threads);
        }
        team->workers++;
    }
    *ret_team = team;
    return CULM_OK;
}

void culm_cpu_team_free(struct culm_cpu_team *team) {
    if (!team) {
        return;
    }
    __atomic_store_n(&team->stop, 1, __ATOMIC_SEQ_CST);
    announce(team);
    for (int i = 0; i < team->workers; i++) {
        pthread_join(team->worker[i].id, NULL);
    }
    free(team);
}

static void run_team(struct culm_cpu_team *team, int64_t tiles, culm_cpu_tile *tile,
                     void *context) {
    uint64_t job = (__atomic_load_n(&team->state, __ATOMIC_RELAXED) >> (2 * TILE_BITS)) + 1;
    uint32_t finished = __atomic_load_n(&team->finished, __ATOMIC_RELAXED);
    team->tile = tile;
    team->context = context;
    __atomic_store_n(&team->done, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&team->state, job << (2 * TILE_BITS) | (uint64_t)tiles << TILE_BITS,
                     __ATOMIC_RELEASE);
    announce(team);
    work(team, 0);
    if (__atomic_load_n(&team->finished, __ATOMIC_ACQUIRE) != finished) {
        return;
    }
    uint64_t deadline = now_ns() + SPIN_NS;
    while (__atomic_load_n(&team->finished, __ATOMIC_SEQ_CST) == finished) {
        relax();
        if (now_ns() < deadline) {
            continue;
        }
        __atomic_store_n(&team->waiting, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&team->finished, __ATOMIC_SEQ_CST) == finished) {
            futex_wait(&team->finished, finished);
        }
        __atomic_store_n(&team->waiting, 0, __ATOMIC_SEQ_CST);
    }
}

void culm_cpu_run(struct culm_cpu *cpu, int64_t tiles, culm_cpu_tile *tile, void *context) {
    assert(tiles <= (int64_t)TILE_MASK);
    if (tiles > SMALL_TILES && !cpu->fills_memory) {
        cpu->fills_memory = true;
        culm_pages_fill(cpu->memory, cpu->memory_bytes);
    }
    uint64_t before = culm_control_enter();
    if (!cpu->team || tiles == 1) {
        for (int64_t i = 0; i < tiles; i++) {
            tile(context, i, 0);
        }
    } else if (tiles > 0) {
        run_team(cpu->team, tiles, tile, context);
    }
    culm_control_set(before);
}
