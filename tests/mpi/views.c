/* Round trips through every kind of view, by every method to read and write, compared with the oracle. */
#include "scenario.h"

static access_t over(map_t etype, map_t file, i64 displacement, i64 offset, i64 bytes, MPI_Datatype unit)
{
    return (access_t){ displacement, etype, file, offset, bytes, unit };
}

static access_t contiguous(int rank, int size, int round)
{
    (void)size; (void)round;
    return over(map_named(MPI_BYTE), map_named(MPI_BYTE), 0, rank * 1000, 1000, MPI_BYTE);
}

static access_t contiguous_permuted(int rank, int size, int round)
{
    (void)round;
    return over(map_named(MPI_INT), map_named(MPI_INT), 5, (size - 1 - rank) * 300, 1200, MPI_INT);
}

/* Integers in cyclic order: rank r owns every P-th one of P ranks. */
static access_t cyclic(int rank, int size, int round)
{
    int one = 1;
    MPI_Aint at = rank * 4;
    map_t unit = map_named(MPI_INT), inner = map_hindexed(1, &one, &at, unit),
        file = map_resized(0, size * 4, inner);
    map_free(&inner);
    return over(unit, file, 12 + round, 7, 2400, MPI_INT);
}

static access_t vector_blocks(int rank, int size, int round)
{
    (void)round;
    map_t unit = map_named(MPI_INT), inner = map_vector(6, 3, 3 * size, unit),
        file = map_resized(0, 6 * 3 * size * 4, inner);
    map_free(&inner);
    return over(unit, file, rank * 12, 4, 6 * 3 * 4 * 6, MPI_INT);
}

static access_t hvector_bytes(int rank, int size, int round)
{
    (void)round;
    map_t unit = map_named(MPI_BYTE), inner = map_hvector(11, 16, 16 * size + 3, unit);
    map_t file = map_resized(0, 11 * (16 * size + 3), inner);
    map_free(&inner);
    return over(unit, file, rank * 16, 40, 16 * 11 * 3, MPI_BYTE);
}

/* A 2-D array split by columns. The last rank takes the remainder. */
static access_t subarray_columns(int rank, int size, int round)
{
    int sizes[] = { 10, 8 * size + 4 }, parts[] = { 10, rank == size - 1 ? 12 : 8 },
        starts[] = { 0, 8 * rank };
    (void)round;
    map_t unit = map_named(MPI_INT), file = map_subarray(2, sizes, parts, starts, MPI_ORDER_C, unit);
    return over(unit, file, 100, 0, file.size * 2, MPI_INT);
}

static access_t subarray_fortran(int rank, int size, int round)
{
    int sizes[] = { 6, 4 * size, 5 }, parts[] = { 4, 4, 3 }, starts[] = { 1, 4 * rank, 2 };
    (void)round;
    map_t unit = map_named(MPI_DOUBLE), file = map_subarray(3, sizes, parts, starts, MPI_ORDER_FORTRAN, unit);
    return over(unit, file, 0, 3, file.size, MPI_DOUBLE);
}

static access_t darray_mixed(int rank, int size, int round)
{
    int grid[] = { 0, 0 }, sizes[] = { 13, 18 }, dists[] = { MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC };
    int arguments[] = { MPI_DISTRIBUTE_DFLT_DARG, 2 };
    MPI_Dims_create(size, 2, grid);
    map_t unit = map_named(MPI_INT);
    map_t file = map_darray(size, rank, 2, sizes, dists, arguments, grid,
                            round & 1 ? MPI_ORDER_C : MPI_ORDER_FORTRAN, unit);
    return over(unit, file, 16, 0, file.size / 16 * 16, MPI_INT);
}

/* Every dimension is cyclic, and there are more ranks than rows. Some ranks own nothing, and set a view
 * without data. */
static access_t darray_sparse(int rank, int size, int round)
{
    int grid[] = { size, 1 }, sizes[] = { 3, 24 }, dists[] = { MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE };
    int arguments[] = { 1, MPI_DISTRIBUTE_DFLT_DARG };
    (void)round;
    map_t unit = map_named(MPI_INT),
        file = map_darray(size, rank, 2, sizes, dists, arguments, grid, MPI_ORDER_C, unit);
    return over(unit, file, 0, 0, file.size * 2, MPI_INT);
}

static access_t irregular(int rank, int size, int round)
{
    int blocks[] = { 3, 0, 1, 4 }, at[] = { 20 * rank, 20 * rank + 5, 20 * rank + 7, 20 * rank + 10 };
    (void)round;
    map_t unit = map_named(MPI_INT), inner = map_indexed(4, blocks, at, unit),
        file = map_resized(0, 20 * 4 * size, inner);
    map_free(&inner);
    return over(unit, file, 3, 3, 8 * 4 * 6, MPI_INT);
}

static access_t structure(int rank, int size, int round)
{
    int blocks[] = { 5, 2, 3 };
    MPI_Aint at[] = { 1, 8, 40 };
    (void)round;
    map_t byte = map_named(MPI_BYTE), pair = map_contiguous(8, byte), spaced = map_resized(0, 16, byte);
    map_t parts[] = { byte, pair, spaced };
    map_t file = map_struct(3, blocks, at, parts, 0, 100 * size);
    map_free(&pair);
    map_free(&spaced);
    return over(byte, file, 100 * rank, 10, 24 * 8, MPI_BYTE);
}

static access_t nested(int rank, int size, int round)
{
    int sizes[] = { 4, 6 }, parts[] = { 2, 3 }, starts[] = { 1, 2 }, at[] = { 0, 2 };
    (void)round;
    map_t unit = map_named(MPI_INT), box = map_subarray(2, sizes, parts, starts, MPI_ORDER_C, unit);
    map_t pair = map_indexed_block(2, 1, at, box), line = map_vector(2, 1, 2, pair), copy = map_dup(line);
    map_t file = map_resized(0, 9 * 96 * size, copy);
    map_free(&box); map_free(&pair); map_free(&line); map_free(&copy);
    return over(unit, file, 9 * 96 * rank, 6, 6 * 4 * 4 * 2, MPI_INT);
}

/* Odd ranks take part without data. */
static access_t some_empty(int rank, int size, int round)
{
    (void)size; (void)round;
    return over(map_named(MPI_BYTE), map_named(MPI_BYTE), 0, rank * 640, rank & 1 ? 0 : 640, MPI_BYTE);
}

static access_t all_empty(int rank, int size, int round)
{
    (void)size; (void)round;
    return over(map_named(MPI_BYTE), map_named(MPI_BYTE), 0, rank, 0, MPI_BYTE);
}

/* As PnetCDF builds filetypes: the extent is smaller than the size, and only one instance is used. */
static access_t size_over_extent(int rank, int size, int round)
{
    int blocks[] = { 256, 256, 400 };
    MPI_Aint at[] = { rank * 256, (size + rank) * 256, 2 * size * 256 + rank * 400 };
    (void)round;
    map_t byte = map_named(MPI_BYTE), inner = map_hindexed(3, blocks, at, byte),
        file = map_resized(0, 800, inner);
    map_free(&inner);
    return over(byte, file, 44, 0, 912, MPI_BYTE);
}

static access_t derived_etype(int rank, int size, int round)
{
    (void)round;
    map_t unit = map_named(MPI_INT), etype = map_contiguous(3, unit),
        inner = map_vector(4, 2, 2 * size, etype);
    map_t file = map_resized(0, 4 * 2 * size * 12, inner);
    map_free(&inner);
    return over(etype, file, rank * 24, 5, 12 * 16, MPI_INT);
}

static access_t etype_with_holes(int rank, int size, int round)
{
    (void)round;
    map_t unit = map_named(MPI_INT), etype = map_resized(0, 8, unit), inner = map_vector(5, 1, size, etype);
    map_t file = map_resized(0, 5 * size * 8, inner);
    map_free(&inner);
    return over(etype, file, rank * 8, 2, 4 * 16, MPI_INT);
}

/* Bounds that differ from those of the data: a lower bound below zero, and one above. */
static access_t odd_bounds(int rank, int size, int round)
{
    int one = 2;
    MPI_Aint at = 16 + rank * 8;
    map_t unit = map_named(MPI_INT), inner = map_hindexed(1, &one, &at, unit);
    map_t file = map_resized(round & 1 ? -8 : 12, size * 8, inner);
    map_free(&inner);
    return over(unit, file, 10, 1, 8 * 14, MPI_INT);
}

static access_t large_blocks(int rank, int size, int round)
{
    (void)round;
    map_t byte = map_named(MPI_BYTE), inner = map_hvector(5, 4104, 4104 * size, byte),
        file = map_resized(0, 5 * 4104 * size, inner);
    map_free(&inner);
    return over(byte, file, 4104 * rank, 8, 4104 * 6, MPI_BYTE);
}

static access_t far_apart(int rank, int size, int round)
{
    (void)round;
    map_t byte = map_named(MPI_BYTE), inner = map_hvector(4, 16, 300000 * size, byte),
        file = map_resized(0, 4 * 300000 * size, inner);
    map_free(&inner);
    return over(byte, file, 300000 * rank, 0, 64, MPI_BYTE);
}

static access_t block_lists(int rank, int size, int round)
{
    MPI_Aint at[] = { 40 * rank, 40 * rank + 9, 40 * rank + 30 };
    (void)round;
    map_t byte = map_named(MPI_BYTE), inner = map_hindexed_block(3, 8, at, byte),
        file = map_resized(0, 40 * size, inner);
    map_free(&inner);
    return over(byte, file, 1, 17, 24 * 9, MPI_BYTE);
}

/* In one call, even ranks write contiguous regions, and odd ranks write through combs. */
static access_t mixed(int rank, int size, int round)
{
    map_t byte = map_named(MPI_BYTE);
    (void)round;
    if (rank % 2 == 0) return over(byte, map_named(MPI_BYTE), 0, rank * 800, 800, MPI_BYTE);
    map_t inner = map_hvector(10, 8, 8 * size + 8, byte), file = map_resized(0, 10 * (8 * size + 8), inner);
    map_free(&inner);
    return over(byte, file, 800 * size + 8 * rank, 0, 800, MPI_BYTE);
}

static const struct { const char *name; make_access_t make; } kinds[] = {
    { "contiguous", contiguous }, { "contiguous_permuted", contiguous_permuted }, { "cyclic", cyclic },
    { "vector_blocks", vector_blocks }, { "hvector_bytes", hvector_bytes },
    { "subarray_columns", subarray_columns },
    { "subarray_fortran", subarray_fortran }, { "darray_mixed", darray_mixed },
    { "darray_sparse", darray_sparse },
    { "irregular", irregular }, { "structure", structure }, { "nested", nested },
    { "some_empty", some_empty },
    { "all_empty", all_empty }, { "size_over_extent", size_over_extent }, { "derived_etype", derived_etype },
    { "etype_with_holes", etype_with_holes }, { "odd_bounds", odd_bounds }, { "large_blocks", large_blocks },
    { "far_apart", far_apart }, { "block_lists", block_lists }, { "mixed", mixed },
};

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int kind_count = (int)(sizeof kinds / sizeof *kinds), round = 0;
    /* Every kind by every method. Memory layouts and hints rotate, so neighbors in this list differ in
     * both. */
    for (int k = 0; k < kind_count; k++)
        for (int method = 0; method < METHODS; method++) {
            int repeats = world_size <= 2 && (method & 1) ? HINTS : 1;
            for (int h = 0; h < repeats; h++, round++)
                run_scenario(kinds[k].name, kinds[k].make, method, (k + method + h) % MEMORIES,
                             repeats == HINTS ? h : (k + method / 2) % HINTS, round);
        }
    return finish();
}
