/* The rows of the suites: every case in each direction. Writes go to an existing file and to a new one. */
#include "bench_io.h"

#include <string.h>

typedef struct {
    const char *name;
    plan_builder *build;
    int64_t piece_bytes;
    /* Whether only the collective suite has the case. */
    bool together_only;
} bench_case;

static const bench_case cases[] = {
    { "contiguous", plan_contiguous, 0, false },
    { "checkpoint 3-D", plan_checkpoint, 0, false },
    { "checkpoint 3-D ghosts", plan_checkpoint_ghosts, 0, false },
    { "BTIO", plan_btio, 0, false },
    { "FLASH", plan_flash, 0, false },
    { "tiles 2-D", plan_tiles, 0, false },
    { "strided 8 B", plan_strided, 8, false },
    { "strided 64 B", plan_strided, 64, false },
    { "strided 512 B", plan_strided, 512, false },
    { "strided 4 KiB", plan_strided, 4 << 10, false },
    { "strided 1 MiB", plan_strided, 1 << 20, false },
    { "both strided 64 B", plan_both_strided, 64, false },
    { "both strided 4 KiB", plan_both_strided, 4 << 10, false },
    { "sparse 64 B", plan_sparse, 64, false },
    { "sparse 4 KiB", plan_sparse, 4 << 10, false },
    { "nested darray", plan_darray, 0, false },
    { "climate", plan_climate, 0, false },
    { "set_view", plan_requests, 0, false },
    { "open/close", NULL, 0, true },
};

#define CASE_COUNT (sizeof cases / sizeof *cases)

/* Small accesses that are repeated: the cost of isolation, for one rank alone and for ranks that compete. */
static const struct {
    const char *name;
    plan_builder *build;
    int64_t piece_bytes;
    bool is_same;
    rank_choice who;
} atomic_cases[] = {
    { "alone contiguous", plan_contiguous, 0, true, FIRST_RANK },
    { "alone strided 256 B", plan_strided, 256, true, FIRST_RANK },
    { "disjoint contiguous", plan_contiguous, 0, false, EVERY_RANK },
    { "disjoint strided 256 B", plan_strided, 256, false, EVERY_RANK },
    { "disjoint strided 4 KiB", plan_strided, 4 << 10, false, EVERY_RANK },
    { "same contiguous", plan_contiguous, 0, true, EVERY_RANK },
    { "same strided 256 B", plan_strided, 256, true, EVERY_RANK },
    { "far contiguous", plan_contiguous, 0, true, FAR_RANK },
    { "far strided 256 B", plan_strided, 256, true, FAR_RANK },
};

/* Writes of small blocks through the shared file pointer, which the MPIs keep in a hidden file. */
static const struct {
    const char *name;
    pointer_use pointer;
} pointer_cases[] = {
    { "shared pointer 4 KiB", SHARED_POINTER },
    { "ordered 4 KiB", ORDERED_POINTER },
};

#define ATOMIC_COUNT (sizeof atomic_cases / sizeof *atomic_cases)
#define POINTER_COUNT (sizeof pointer_cases / sizeof *pointer_cases)
#define REPEATS 200
/* A multiple of the number of rounds. */
#define FAR_REPEATS (22 * ROUNDS)

static const bench_row *atomic_rows(int *count)
{
    static bench_row rows[2 * ATOMIC_COUNT + POINTER_COUNT];
    for (size_t at = 0; at < 2 * ATOMIC_COUNT; at++) {
        rows[at] = (bench_row){
            .id = (int)at,
            .suite = "atomic",
            .name = atomic_cases[at / 2].name,
            .build = atomic_cases[at / 2].build,
            .piece_bytes = atomic_cases[at / 2].piece_bytes,
            .reading = at % 2,
            .state = at % 2 ? CELLS : EXISTING,
            .atomic = true,
            .is_same = atomic_cases[at / 2].is_same,
            .who = atomic_cases[at / 2].who,
            .repeats = atomic_cases[at / 2].who == FAR_RANK ? FAR_REPEATS : REPEATS,
        };
    }
    for (size_t at = 0; at < POINTER_COUNT; at++) {
        const int id = (int)(2 * ATOMIC_COUNT + at);
        rows[id] = (bench_row){
            .id = id,
            .suite = "atomic",
            .name = pointer_cases[at].name,
            .pointer = pointer_cases[at].pointer,
            .piece_bytes = 4 << 10,
            .collective = pointer_cases[at].pointer == ORDERED_POINTER,
            .state = FRESH,
            .repeats = REPEATS,
        };
    }
    *count = 2 * ATOMIC_COUNT + POINTER_COUNT;
    return rows;
}

const bench_row *rows_of(const char *suite, int *count)
{
    static bench_row rows[3 * CASE_COUNT];
    const bool together = strcmp(suite, "collective") == 0;
    *count = 0;
    if (strcmp(suite, "atomic") == 0) return atomic_rows(count);
    if (!together && strcmp(suite, "independent") != 0) return NULL;
    for (size_t at = 0; at < CASE_COUNT; at++) {
        const bench_case *from = &cases[at];
        if (from->together_only && !together) continue;
        for (file_state state = FRESH; state <= CELLS; state++) {
            rows[*count] = (bench_row){
                .id = *count,
                .suite = together ? "collective" : "independent",
                .name = from->name,
                .build = from->build,
                .piece_bytes = from->piece_bytes,
                .reading = state == CELLS,
                .collective = together,
                .state = state,
                .repeats = 1,
            };
            ++*count;
        }
    }
    return rows;
}

const char *op_name(const bench_row *row) { return row->reading ? "read" : "write"; }

const char *state_name(const bench_row *row) { return row->state == FRESH ? "fresh" : "existing"; }
