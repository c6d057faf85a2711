/*
 * Orders intervals in a line, and gives each server a stretch of it.
 *
 * The line is found on the quotient graph (one vertex per interval) by recursive bisection into
 * halves of about equal load with few edges between them. Each pair of halves is placed so that
 * edges lead to the adjacent part of the line. Servers then take stretches: of all ways to cut the
 * line whose largest load is close to the least possible, the one with the fewest edges between
 * servers.
 */
#include "gnn/partition_internal.h"

#include <stdlib.h>
#include <string.h>

uint64_t *partition_quotient(const struct culm_adjacency *neighbours, const uint32_t *interval,
                             int64_t intervals, uint64_t **ret_load) {
    size_t k = (size_t)intervals;
    uint64_t *between = calloc(k * k, sizeof *between), *load = calloc(k, sizeof *load);
    if (!between || !load) {
        free(between);
        free(load);
        return NULL;
    }
    for (int64_t v = 0; v < neighbours->vertices; v++) {
        uint32_t mine = interval[v];
        load[mine] += 1 + neighbours->start[v + 1] - neighbours->start[v];
        for (uint64_t i = neighbours->start[v]; i < neighbours->start[v + 1]; i++) {
            uint32_t other = interval[neighbours->column[i]];
            between[mine * k + other]++;
            between[other * k + mine]++;
        }
    }
    *ret_load = load;
    return between;
}

/* --- the line --- */

#define SWAPS_MAX 128 /* with more intervals, no pairs are swapped, only single ones moved */

struct line {
    const uint64_t *between, *load;
    size_t count;
    uint32_t *at;  /* [count] the interval at each place */
    uint8_t *side; /* [count] by interval: half 0 or 1 of the current stretch */
    int64_t *gain; /* [count] by interval: edges saved by moving it to the other half */
    uint32_t *kept;
};

static int64_t edges(const struct line *line, uint32_t a, uint32_t b) {
    return (int64_t)line->between[a * line->count + b];
}

static void find_gains(struct line *line, size_t first, size_t end) {
    for (size_t i = first; i < end; i++) {
        uint32_t a = line->at[i];
        line->gain[a] = 0;
        for (size_t j = first; j < end; j++) {
            uint32_t b = line->at[j];
            if (a != b) {
                line->gain[a] +=
                    line->side[a] != line->side[b] ? edges(line, a, b) : -edges(line, a, b);
            }
        }
    }
}

/* Grows half 0 from the interval with the fewest edges, always adding the one with the most edges
 * to it, until it has half of the load. */
static void grow(struct line *line, size_t first, size_t end, uint64_t total) {
    uint32_t next = line->at[first];
    for (size_t i = first; i < end; i++) {
        line->side[line->at[i]] = 1;
        line->gain[line->at[i]] = 0;
    }
    for (size_t i = first; i < end; i++) { /* here, gain is the number of edges to all others */
        for (size_t j = first; j < end; j++) {
            line->gain[line->at[i]] += i != j ? edges(line, line->at[i], line->at[j]) : 0;
        }
        next = line->gain[line->at[i]] < line->gain[next] ? line->at[i] : next;
    }
    for (size_t i = first; i < end; i++) {
        line->gain[line->at[i]] = 0;
    }
    uint64_t grown = 0;
    for (size_t taken = 0; taken + 1 < end - first && 2 * grown < total; taken++) {
        line->side[next] = 0;
        grown += line->load[next];
        uint32_t best = UINT32_MAX;
        for (size_t i = first; i < end; i++) {
            uint32_t a = line->at[i];
            line->gain[a] += a != next ? edges(line, a, next) : 0;
            if (line->side[a] && (best == UINT32_MAX || line->gain[a] > line->gain[best])) {
                best = a;
            }
        }
        next = best;
    }
}

static uint64_t apart(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

static void move(struct line *line, size_t first, size_t end, uint64_t weight[2], uint32_t a) {
    weight[line->side[a]] -= line->load[a];
    line->side[a] ^= 1;
    weight[line->side[a]] += line->load[a];
    line->gain[a] = -line->gain[a];
    for (size_t i = first; i < end; i++) {
        uint32_t b = line->at[i];
        if (b != a) {
            line->gain[b] +=
                2 * (line->side[b] == line->side[a] ? -edges(line, a, b) : edges(line, a, b));
        }
    }
}

/* Makes the move or swap that saves most edges and keeps the difference of loads within `slack`.
 * False: there is none. */
static bool improve(struct line *line, size_t first, size_t end, uint64_t weight[2],
                    uint64_t slack) {
    int64_t best = 0;
    uint32_t x = UINT32_MAX, y = UINT32_MAX;
    for (size_t i = first; i < end; i++) {
        uint32_t a = line->at[i];
        int s = line->side[a];
        if (weight[s] > line->load[a] &&
            apart(weight[s] - line->load[a], weight[!s] + line->load[a]) <= slack &&
            line->gain[a] > best) {
            best = line->gain[a];
            x = a;
            y = UINT32_MAX;
        }
        for (size_t j = i + 1; end - first <= SWAPS_MAX && j < end; j++) {
            uint32_t b = line->at[j];
            int64_t gain = line->gain[a] + line->gain[b] - 2 * edges(line, a, b);
            if (line->side[b] != s && gain > best &&
                apart(weight[s] - line->load[a] + line->load[b],
                      weight[!s] - line->load[b] + line->load[a]) <= slack) {
                best = gain;
                x = a;
                y = b;
            }
        }
    }
    if (x != UINT32_MAX) {
        move(line, first, end, weight, x);
    }
    if (y != UINT32_MAX) {
        move(line, first, end, weight, y);
    }
    return x != UINT32_MAX;
}

/* The number of edges between half `side` of the places [from, to) and the places [first, end). */
static int64_t pull(const struct line *line, size_t from, size_t to, int side, size_t first,
                    size_t end) {
    int64_t sum = 0;
    for (size_t i = from; i < to; i++) {
        for (size_t j = first; line->side[line->at[i]] == side && j < end; j++) {
            sum += edges(line, line->at[i], line->at[j]);
        }
    }
    return sum;
}

static void bisect(struct line *line, size_t first, size_t end) {
    uint64_t weight[2] = {0, 0}, most = 0;
    if (end - first < 2) {
        return;
    }
    for (size_t i = first; i < end; i++) {
        weight[1] += line->load[line->at[i]];
        most = line->load[line->at[i]] > most ? line->load[line->at[i]] : most;
    }
    grow(line, first, end, weight[1]);
    weight[1] = 0;
    for (size_t i = first; i < end; i++) {
        weight[line->side[line->at[i]]] += line->load[line->at[i]];
    }
    uint64_t slack = apart(weight[0], weight[1]) > most ? apart(weight[0], weight[1]) : most;
    find_gains(line, first, end);
    while (improve(line, first, end, weight, slack)) {
        /* ends, because each call saves at least one edge */
    }
    int64_t ahead =
        pull(line, first, end, 0, 0, first) + pull(line, first, end, 1, end, line->count);
    int64_t turned =
        pull(line, first, end, 1, 0, first) + pull(line, first, end, 0, end, line->count);
    int left = turned > ahead;
    size_t count = 0, middle = first;
    for (int half = 0; half < 2; half++) {
        for (size_t i = first; i < end; i++) {
            if (line->side[line->at[i]] == (half ? !left : left)) {
                line->kept[count++] = line->at[i];
            }
        }
        middle = half ? middle : first + count;
    }
    memcpy(line->at + first, line->kept, count * sizeof *line->at);
    bisect(line, first, middle);
    bisect(line, middle, end);
}

bool partition_arrange(const uint64_t *between, const uint64_t *load, int64_t intervals,
                       uint32_t *ret_place) {
    size_t k = (size_t)intervals;
    struct line line = {.between = between, .load = load, .count = k};
    line.at = malloc(k * sizeof *line.at);
    line.kept = malloc(k * sizeof *line.kept);
    line.side = calloc(k, 1);
    line.gain = calloc(k, sizeof *line.gain);
    bool room = line.at && line.kept && line.side && line.gain;
    for (size_t i = 0; room && i < k; i++) {
        line.at[i] = (uint32_t)i;
    }
    if (room) {
        bisect(&line, 0, k);
    }
    for (size_t i = 0; room && i < k; i++) {
        ret_place[line.at[i]] = (uint32_t)i;
    }
    free(line.at);
    free(line.kept);
    free(line.side);
    free(line.gain);
    return room;
}

/* --- servers --- */

/* Whether `servers` stretches with loads of at most `bound` can cover the line. */
static bool can(const uint64_t *load, int64_t intervals, int64_t servers, uint64_t bound) {
    int64_t used = 1;
    uint64_t sum = 0;
    for (int64_t k = 0; k < intervals; k++) {
        if (load[k] > bound) {
            return false;
        }
        if (sum + load[k] > bound) {
            used++;
            sum = 0;
        }
        sum += load[k];
    }
    return used <= servers;
}

/* The least possible value of the largest load of a server. */
static uint64_t least_bound(const uint64_t *load, int64_t intervals, int64_t servers) {
    uint64_t low = 0, high = 0;
    for (int64_t k = 0; k < intervals; k++) {
        high += load[k];
    }
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (can(load, intervals, servers, middle)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Makes prefix sums: between[i * K + j] becomes the sum of all [a, b] with a <= i and b <= j. */
static void add_up(uint64_t *between, size_t k) {
    for (size_t i = 0; i < k; i++) {
        uint64_t row = 0;
        for (size_t j = 0; j < k; j++) {
            row += between[i * k + j];
            between[i * k + j] = row + (i ? between[(i - 1) * k + j] : 0);
        }
    }
}

static uint64_t inside(const uint64_t *sums, size_t k, size_t first, size_t end) {
    uint64_t all = sums[(end - 1) * k + end - 1];
    return first == 0
               ? all
               : all - 2 * sums[(first - 1) * k + end - 1] + sums[(first - 1) * k + first - 1];
}

/* Dynamic programming. most[s][e]: 1 + the most edges that can be inside s stretches covering the
 * first e intervals; 0: impossible. from[s][e]: where the last of these stretches begins. */
static bool cut_line(const uint64_t *sums, const uint64_t *load, size_t k, size_t servers,
                     uint64_t bound, int64_t *ret_owned) {
    uint64_t *most = calloc((servers + 1) * (k + 1), sizeof *most);
    uint32_t *from = calloc((servers + 1) * (k + 1), sizeof *from);
    if (!most || !from) {
        free(most);
        free(from);
        return false;
    }
    most[0] = 1;
    for (size_t s = 1; s <= servers; s++) {
        for (size_t end = s; end <= k; end++) {
            uint64_t sum = 0;
            for (size_t first = end; first-- > s - 1 && (sum += load[first]) <= bound;) {
                uint64_t before = most[(s - 1) * (k + 1) + first];
                uint64_t here = before ? before + inside(sums, k, first, end) : 0;
                if (here > most[s * (k + 1) + end]) {
                    most[s * (k + 1) + end] = here;
                    from[s * (k + 1) + end] = (uint32_t)first;
                }
            }
        }
    }
    ret_owned[servers] = (int64_t)k;
    for (size_t s = servers; s > 0; s--) {
        ret_owned[s - 1] = from[s * (k + 1) + (size_t)ret_owned[s]];
    }
    free(most);
    free(from);
    return true;
}

enum culm_status culm_partition_share(const struct culm_adjacency *neighbours,
                                      const struct culm_partition *partition, int64_t servers,
                                      int64_t *ret_owned, struct culm_error *error) {
    size_t k = (size_t)partition->intervals;
    if (servers < 1 || servers > partition->intervals) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "%lld servers for %zu intervals; give 1 to as many servers as "
                              "intervals, or more intervals",
                              (long long)servers, k);
    }
    uint64_t *load = NULL, *between = partition_quotient(neighbours, partition->interval,
                                                         partition->intervals, &load);
    bool done = between != NULL;
    if (done) {
        uint64_t bound = least_bound(load, partition->intervals, servers);
        add_up(between, k);
        done = cut_line(between, load, k, (size_t)servers, bound + bound / 20, ret_owned);
    }
    free(between);
    free(load);
    return done ? CULM_OK
                : culm_error_set(error, CULM_ERR_MEMORY, "out of memory to share %zu intervals", k);
}

/* --- counting --- */

enum culm_status culm_partition_count(const struct culm_adjacency *neighbours, bool directed,
                                      const struct culm_partition *partition, int64_t servers,
                                      const int64_t *owned,
                                      struct culm_partition_counts *ret_counts,
                                      struct culm_error *error) {
    struct culm_partition_counts counts = {.vertices_least = INT64_MAX, .edges_least = INT64_MAX};
    int64_t vertices = partition->vertices, total = 0, largest = 0;
    uint32_t *old_of_new = malloc((size_t)vertices * sizeof *old_of_new);
    uint32_t *needed_by =
        calloc((size_t)vertices, sizeof *needed_by); /* 1 + the last server that needs it */
    if (!old_of_new || !needed_by) {
        free(old_of_new);
        free(needed_by);
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory to count cut edges");
    }
    for (int64_t v = 0; v < vertices; v++) {
        old_of_new[partition->new_of_old[v]] = (uint32_t)v;
    }
    servers = owned ? servers : partition->intervals;
    for (int64_t s = 0; s < servers; s++) {
        int64_t first = partition->first[owned ? owned[s] : s];
        int64_t end = partition->first[owned ? owned[s + 1] : s + 1], sum = 0;
        for (int64_t i = first; i < end; i++) {
            uint32_t v = old_of_new[i];
            for (uint64_t e = neighbours->start[v]; e < neighbours->start[v + 1]; e++) {
                uint32_t u = neighbours->column[e];
                int64_t at = partition->new_of_old[u];
                sum += u != v;
                if (at < first || at >= end) {
                    counts.cut_edges++;
                    counts.ghosts += needed_by[u] != s + 1;
                    needed_by[u] = (uint32_t)s + 1;
                }
            }
        }
        int64_t load = end - first + sum;
        total += load;
        largest = load > largest ? load : largest;
        counts.vertices_most =
            end - first > counts.vertices_most ? end - first : counts.vertices_most;
        counts.vertices_least =
            end - first < counts.vertices_least ? end - first : counts.vertices_least;
        counts.edges_most = sum > counts.edges_most ? sum : counts.edges_most;
        counts.edges_least = sum < counts.edges_least ? sum : counts.edges_least;
    }
    free(old_of_new);
    free(needed_by);
    counts.cut_edges /= directed ? 1 : 2;
    counts.balance = (double)largest * (double)servers / (double)total;
    *ret_counts = counts;
    return CULM_OK;
}
