/* Accesses of applications. */
#include "bench_io.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define DOUBLE_BYTES ((int64_t)sizeof(double))

static void *allocated(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);
    if (memory == NULL) {
        perror("plan");
        exit(1);
    }
    return memory;
}

/* NPB's BT: an array with 5 doubles for each cell in diagonal multi-partitioning. Every rank has a part
 * in each slab of the outermost dimension, at a different place in each slab. If the number of ranks is a
 * square, the slab is cut in both other dimensions, as in BT itself; otherwise only in the fastest. In
 * memory each part has ghost cells around it. */
void plan_btio(const demand *asked, access_plan *plan)
{
    enum { COMPONENTS = 5, GHOST_CELLS = 2 };
    const int root = (int)round(sqrt(team_size));
    const bool is_square = root * root == team_size;
    const int parts = is_square ? root : team_size, cuts[3] = { parts, is_square ? root : 1, parts };
    const int64_t cell_bytes = COMPONENTS * DOUBLE_BYTES;
    const double edge = cbrt((double)(asked->total_bytes / cell_bytes));
    int sizes[3], subsizes[3], memory_sizes[3], memory_starts[3];
    int64_t part_bytes = cell_bytes;
    for (int dim = 0; dim < 3; dim++) {
        subsizes[dim] = (int)fmax(1, round(edge / cuts[dim]));
        sizes[dim] = subsizes[dim] * cuts[dim];
        memory_sizes[dim] = subsizes[dim] + 2 * GHOST_CELLS;
        memory_starts[dim] = GHOST_CELLS;
        part_bytes *= memory_sizes[dim];
    }
    MPI_Datatype cell, memory_part, *file_parts = allocated((size_t)parts, sizeof *file_parts);
    MPI_Datatype *memory_parts = allocated((size_t)parts, sizeof *memory_parts);
    MPI_Aint *zeros = allocated((size_t)parts, sizeof *zeros), *places = allocated((size_t)parts, sizeof *places);
    int *ones = allocated((size_t)parts, sizeof *ones);
    MPI_Type_contiguous(COMPONENTS, MPI_DOUBLE, &cell);
    MPI_Type_create_subarray(3, memory_sizes, subsizes, memory_starts, MPI_ORDER_C, cell, &memory_part);
    for (int part = 0; part < parts; part++) {
        const int row = is_square ? (team_rank / root + part) % root : 0;
        const int column = (team_rank + parts - part) % parts;
        const int starts[3] = { part * subsizes[0], row * subsizes[1], column * subsizes[2] };
        MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, cell, &file_parts[part]);
        memory_parts[part] = memory_part;
        places[part] = part * part_bytes;
        ones[part] = 1;
        append_box(&plan->in_file, sizes, subsizes, starts, cell_bytes, 0);
        append_box(&plan->in_memory, memory_sizes, subsizes, memory_starts, cell_bytes, places[part]);
    }
    MPI_Type_create_struct(parts, ones, zeros, file_parts, &plan->filetype);
    MPI_Type_create_struct(parts, ones, places, memory_parts, &plan->memory_type);
    committed(plan->filetype);
    committed(plan->memory_type);
    plan->count = 1;
    plan->memory_bytes = parts * part_bytes;
    for (int part = 0; part < parts; part++) MPI_Type_free(&file_parts[part]);
    MPI_Type_free(&memory_part);
    MPI_Type_free(&cell);
    free(file_parts);
    free(memory_parts);
    free(zeros);
    free(places);
    free(ones);
}

/* FLASH's checkpoint. In memory each block has cells of 24 variables each and guard cells around them.
 * The file has one array for each variable. */
void plan_flash(const demand *asked, access_plan *plan)
{
    enum { VARIABLES = 24, CELLS = 8, GUARDS = 4, WIDTH = CELLS + 2 * GUARDS };
    const int sizes[3] = { WIDTH, WIDTH, WIDTH }, subsizes[3] = { CELLS, CELLS, CELLS }, starts[3] = { GUARDS, GUARDS, GUARDS };
    const int64_t cell_bytes = VARIABLES * DOUBLE_BYTES, block_bytes = WIDTH * WIDTH * WIDTH * cell_bytes;
    const int64_t block_values = CELLS * CELLS * CELLS;
    int blocks = (int)(asked->total_bytes / (team_size * VARIABLES * block_values * DOUBLE_BYTES));
    if (blocks == 0) blocks = 1;
    const int64_t own_values = blocks * block_values;
    MPI_Type_vector(VARIABLES, (int)own_values, (int)(own_values * team_size), MPI_DOUBLE, &plan->filetype);
    committed(plan->filetype);
    plan->displacement = team_rank * own_values * DOUBLE_BYTES;
    MPI_Datatype variable, block, all_blocks;
    MPI_Type_create_resized(MPI_DOUBLE, 0, cell_bytes, &variable);
    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, variable, &block);
    MPI_Type_contiguous(blocks, block, &all_blocks);
    MPI_Type_create_hvector(VARIABLES, 1, DOUBLE_BYTES, all_blocks, &plan->memory_type);
    committed(plan->memory_type);
    MPI_Type_free(&variable);
    MPI_Type_free(&block);
    MPI_Type_free(&all_blocks);
    plan->count = 1;
    plan->memory_bytes = blocks * block_bytes;
    for (int at = 0; at < VARIABLES; at++) {
        append_run(&plan->in_file, plan->displacement + at * own_values * team_size * DOUBLE_BYTES, own_values * DOUBLE_BYTES);
        for (int64_t number = 0; number < blocks; number++)
            for (int64_t z = GUARDS; z < GUARDS + CELLS; z++)
                for (int64_t y = GUARDS; y < GUARDS + CELLS; y++)
                    for (int64_t x = GUARDS; x < GUARDS + CELLS; x++)
                        append_run(&plan->in_memory,
                                   number * block_bytes + ((z * WIDTH + y) * WIDTH + x) * cell_bytes + at * DOUBLE_BYTES,
                                   DOUBLE_BYTES);
    }
}

static uint64_t random_of(int64_t index)
{
    uint64_t word = (uint64_t)index * UINT64_C(0x9E3779B97F4A7C15) + UINT64_C(0x632BE59BD9B4E019);
    word = (word ^ (word >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    word = (word ^ (word >> 27)) * UINT64_C(0x94D049BB133111EB);
    return word ^ (word >> 31);
}

/* One run of bytes for each of the `count` runs in the file, as PnetCDF describes a request. */
static MPI_Datatype type_of_runs(const run *runs, size_t count)
{
    int *lengths = allocated(count, sizeof *lengths);
    MPI_Aint *places = allocated(count, sizeof *places);
    for (size_t at = 0; at < count; at++) {
        lengths[at] = (int)runs[at].bytes;
        places[at] = runs[at].offset;
    }
    MPI_Datatype type;
    MPI_Type_create_hindexed((int)count, lengths, places, MPI_BYTE, &type);
    free(lengths);
    free(places);
    return committed(type);
}

/* Unstructured cells of a climate code: runs of 8 to 48 bytes without holes between them. Each run
 * belongs to a random rank. */
void plan_climate(const demand *asked, access_plan *plan)
{
    /* The mean is 28 bytes. The full size of 32 MiB has 10^6 runs. */
    const int64_t run_count = asked->total_bytes / 34 + 1;
    int64_t offset = 0;
    for (int64_t at = 0; at < run_count; at++) {
        const uint64_t random = random_of(at);
        const int64_t bytes = 8 + 4 * (int64_t)(random % 11);
        if ((random >> 32) % (uint64_t)team_size == (uint64_t)team_rank) append_run(&plan->in_file, offset, bytes);
        offset += bytes;
    }
    plan->filetype = type_of_runs(plan->in_file.runs, plan->in_file.count);
    plan->memory_type = MPI_BYTE;
    plan->memory_bytes = plan->in_file.bytes;
    plan->count = (int)plan->memory_bytes;
    append_run(&plan->in_memory, 0, plan->memory_bytes);
}

/* PnetCDF's pattern for a request: it sets a view for this request alone, and then the plain view again.
 * Each request has 64 pieces of 64 bytes. */
void plan_requests(const demand *asked, access_plan *plan)
{
    enum { PIECES = 64, PIECE_BYTES = 64, FULL_REQUESTS = 200 };
    const int64_t full_bytes = (int64_t)32 << 20;
    plan->requests = (int)(FULL_REQUESTS * asked->total_bytes / full_bytes);
    if (plan->requests == 0) plan->requests = 1;
    const int64_t pieces = (int64_t)plan->requests * PIECES;
    for (int64_t at = 0; at < pieces; at++) append_run(&plan->in_file, (at * team_size + team_rank) * PIECE_BYTES, PIECE_BYTES);
    plan->filetype = plan->memory_type = MPI_BYTE;
    plan->count = PIECES * PIECE_BYTES;
    plan->memory_bytes = pieces * PIECE_BYTES;
    append_run(&plan->in_memory, 0, plan->memory_bytes);
}
