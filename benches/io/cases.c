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
    bool is_same, is_alone;
} atomic_cases[] = {
    { "alone contiguous", plan_contiguous, 0, true, true },
    { "alone strided 256 B", plan_strided, 256, true, true },
    { "disjoint contiguous", plan_contiguous, 0, false, false },
    { "disjoint strided 256 B", plan_strided, 256, false, false },
    { "disjoint strided 4 KiB", plan_strided, 4 << 10, false, false },
    { "same contiguous", plan_contiguous, 0, true, false },
    { "same strided 256 B", plan_strided, 256, true, false },
};

#define ATOMIC_COUNT (sizeof atomic_cases / sizeof *atomic_cases)
#define REPEATS 200

static const bench_row *atomic_rows(int *count)
{
    static bench_row rows[2 * ATOMIC_COUNT];
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
            .is_alone = atomic_cases[at / 2].is_alone,
            .repeats = REPEATS,
        };
    }
    *count = 2 * ATOMIC_COUNT;
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
