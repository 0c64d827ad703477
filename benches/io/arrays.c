/* Accesses to arrays that are decomposed among the ranks. */
#include "bench_io.h"

#include <math.h>
#include <string.h>

#define DOUBLE_BYTES ((int64_t)sizeof(double))
#define GHOST_CELLS 2
/* Number of elements of each neighbor that a rank reads beside its own tile. */
#define OVERLAP 64

MPI_Datatype committed(MPI_Datatype type)
{
    MPI_Type_commit(&type);
    return type;
}

void free_plan(access_plan *plan)
{
    MPI_Datatype *types[] = { &plan->filetype, &plan->memory_type };
    for (size_t at = 0; at < 2; at++) {
        int integers, addresses, inner, combiner;
        MPI_Type_get_envelope(*types[at], &integers, &addresses, &inner, &combiner);
        if (combiner != MPI_COMBINER_NAMED) MPI_Type_free(types[at]);
    }
    free_runs(&plan->in_file);
    free_runs(&plan->in_memory);
}

/* The coordinates of this rank in a grid. The last dimension varies fastest, as in MPI_Cart. */
static void place_in(const int *dims, int dim_count, int *coords)
{
    for (int dim = dim_count - 1, rest = team_rank; dim >= 0; dim--) {
        coords[dim] = rest % dims[dim];
        rest /= dims[dim];
    }
}

void plan_contiguous(const demand *asked, access_plan *plan)
{
    const int64_t bytes = asked->total_bytes / team_size;
    plan->displacement = team_rank * bytes;
    plan->filetype = plan->memory_type = MPI_BYTE;
    plan->count = (int)bytes;
    plan->memory_bytes = bytes;
    append_run(&plan->in_file, plan->displacement, bytes);
    append_run(&plan->in_memory, 0, bytes);
}

/* A cube of doubles in equal blocks. In memory a block may have ghost cells around it. */
static void plan_blocks(const demand *asked, int ghost_cells, access_plan *plan)
{
    int dims[3] = { 0, 0, 0 }, coords[3], sizes[3], subsizes[3], starts[3], memory_sizes[3], memory_starts[3];
    const double edge = cbrt((double)(asked->total_bytes / DOUBLE_BYTES));
    MPI_Dims_create(team_size, 3, dims);
    place_in(dims, 3, coords);
    plan->memory_bytes = DOUBLE_BYTES;
    for (int dim = 0; dim < 3; dim++) {
        subsizes[dim] = (int)fmax(1, round(edge / dims[dim]));
        sizes[dim] = subsizes[dim] * dims[dim];
        starts[dim] = subsizes[dim] * coords[dim];
        memory_starts[dim] = ghost_cells;
        memory_sizes[dim] = subsizes[dim] + 2 * ghost_cells;
        plan->memory_bytes *= memory_sizes[dim];
    }
    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &plan->filetype);
    committed(plan->filetype);
    if (ghost_cells > 0) {
        MPI_Type_create_subarray(3, memory_sizes, subsizes, memory_starts, MPI_ORDER_C, MPI_DOUBLE, &plan->memory_type);
        committed(plan->memory_type);
        plan->count = 1;
    } else {
        plan->memory_type = MPI_DOUBLE;
        plan->count = subsizes[0] * subsizes[1] * subsizes[2];
    }
    append_box(&plan->in_file, sizes, subsizes, starts, DOUBLE_BYTES, 0);
    append_box(&plan->in_memory, memory_sizes, subsizes, memory_starts, DOUBLE_BYTES, 0);
}

void plan_checkpoint(const demand *asked, access_plan *plan) { plan_blocks(asked, 0, plan); }

void plan_checkpoint_ghosts(const demand *asked, access_plan *plan) { plan_blocks(asked, GHOST_CELLS, plan); }

/* A square of doubles in equal tiles. A tile that is read reaches into its neighbors. */
void plan_tiles(const demand *asked, access_plan *plan)
{
    int dims[2] = { 0, 0 }, coords[2];
    int sizes[3] = { 1, 0, 0 }, subsizes[3] = { 1, 0, 0 }, starts[3] = { 0, 0, 0 };
    const double edge = sqrt((double)(asked->total_bytes / DOUBLE_BYTES));
    const int overlap = asked->reading ? OVERLAP : 0;
    MPI_Dims_create(team_size, 2, dims);
    place_in(dims, 2, coords);
    for (int dim = 0; dim < 2; dim++) {
        const int tile = (int)fmax(1, round(edge / dims[dim]));
        const int first = tile * coords[dim] - overlap, end = tile * (coords[dim] + 1) + overlap;
        sizes[dim + 1] = tile * dims[dim];
        starts[dim + 1] = first > 0 ? first : 0;
        subsizes[dim + 1] = (end < sizes[dim + 1] ? end : sizes[dim + 1]) - starts[dim + 1];
    }
    MPI_Type_create_subarray(2, sizes + 1, subsizes + 1, starts + 1, MPI_ORDER_C, MPI_DOUBLE, &plan->filetype);
    committed(plan->filetype);
    plan->memory_type = MPI_DOUBLE;
    plan->count = subsizes[1] * subsizes[2];
    plan->memory_bytes = plan->count * DOUBLE_BYTES;
    append_box(&plan->in_file, sizes, subsizes, starts, DOUBLE_BYTES, 0);
    append_run(&plan->in_memory, 0, plan->memory_bytes);
}

/* An element is the middle of each row of a small matrix. A matrix of such elements is distributed in
 * cyclic blocks. */
void plan_darray(const demand *asked, access_plan *plan)
{
    enum { ROWS = 4, COLUMNS = 16, USED = 12, FIRST = 2 };
    const int matrix[3] = { 1, ROWS, COLUMNS }, used[3] = { 1, ROWS, USED }, first[3] = { 0, 0, FIRST };
    const int64_t element_bytes = ROWS * COLUMNS * DOUBLE_BYTES;
    const int blocks[2] = { 8, 4 }, cyclic[2] = { MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC };
    int dims[2] = { 0, 0 }, coords[2], sizes[2];
    MPI_Dims_create(team_size, 2, dims);
    place_in(dims, 2, coords);
    const double edge = sqrt((double)(asked->total_bytes / element_bytes));
    /* The sizes are whole cycles of the distribution, so that every rank has the same amount. */
    for (int dim = 0; dim < 2; dim++) {
        const int turn = blocks[dim] * dims[dim];
        sizes[dim] = turn * (int)fmax(1, round(edge / turn));
    }
    MPI_Datatype element;
    MPI_Type_create_subarray(2, matrix + 1, used + 1, first + 1, MPI_ORDER_C, MPI_DOUBLE, &element);
    MPI_Type_create_darray(team_size, team_rank, 2, sizes, cyclic, blocks, dims, MPI_ORDER_C, element, &plan->filetype);
    committed(plan->filetype);
    MPI_Type_free(&element);
    for (int64_t row = 0; row < sizes[0]; row++) {
        if (row / blocks[0] % dims[0] != coords[0]) continue;
        for (int64_t column = 0; column < sizes[1]; column++) {
            if (column / blocks[1] % dims[1] != coords[1]) continue;
            append_box(&plan->in_file, matrix, used, first, DOUBLE_BYTES, (row * sizes[1] + column) * element_bytes);
        }
    }
    plan->memory_type = MPI_DOUBLE;
    plan->memory_bytes = plan->in_file.bytes;
    plan->count = (int)(plan->memory_bytes / DOUBLE_BYTES);
    append_run(&plan->in_memory, 0, plan->memory_bytes);
}
