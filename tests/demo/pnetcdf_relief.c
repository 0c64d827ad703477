/* Reads the ETOPO5 relief from a classic netCDF file and writes it to a new one. Each rank has its own
 * columns.
 *
 *   mpiexec -n 4 pnetcdf_relief blocks|columns SOURCE OUTPUT [check]
 *
 * blocks:  rank r of n writes one block of neighboring columns.
 * columns: rank r of n writes the columns r, r + n, r + 2n, ... Its pieces in the file are single cells.
 * In both modes the ranks read the source in blocks; for `columns` they then exchange cells over MPI.
 * With `check`, each rank reads its part of OUTPUT back and compares it with the cells that it wrote.
 *
 * This is an ordinary PnetCDF program that knows nothing of Capulet. All accesses are collective. Rank 0
 * prints one line for each phase for the demo's driver, with the payload bytes of all ranks and the time
 * of the slowest rank, including open and close:
 *   demo-phase case=pnetcdf-MODE-PHASE direction=read|write file=source|output bytes=N seconds=S */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "ROSE"

/* The part of the field that one rank owns: all rows, and `count` columns from `start` on, `stride`
 * apart. */
struct part {
    MPI_Offset rows, start, count, stride;
};

struct world {
    int rank, ranks;
};

static void fail(const char *what, const char *path, const char *why)
{
    fprintf(stderr, "pnetcdf_relief: %s %s: %s\n", what, path, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(int status, const char *what, const char *path)
{
    if (status != NC_NOERR)
        fail(what, path, ncmpi_strerror(status));
}

static struct part block_of(int rank, int ranks, MPI_Offset rows, MPI_Offset columns)
{
    MPI_Offset start = columns * rank / ranks;
    return (struct part){rows, start, columns * (rank + 1) / ranks - start, 1};
}

static struct part every_nth_of(int rank, int ranks, MPI_Offset rows, MPI_Offset columns)
{
    return (struct part){rows, rank, rank < columns ? (columns - rank + ranks - 1) / ranks : 0, ranks};
}

static float *allocate_cells(const struct part *part)
{
    MPI_Offset cells = part->rows * part->count;
    float *values = malloc((cells ? cells : 1) * sizeof *values);
    if (values == NULL)
        fail("cannot hold", "the rank's part", "out of memory");
    return values;
}

/* The barrier lets the phase begin at the same time on all ranks. */
static double phase_start(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime();
}

static void phase_end(double start, const char *mode, const char *phase, const char *file,
                      const struct part *part)
{
    double seconds = MPI_Wtime() - start, slowest_seconds = 0;
    long long bytes = (long long)(part->rows * part->count) * (long long)sizeof(float), all_bytes = 0;
    int rank;
    MPI_Reduce(&seconds, &slowest_seconds, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&bytes, &all_bytes, 1, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("demo-phase case=pnetcdf-%s-%s direction=%s file=%s bytes=%lld seconds=%.6f\n", mode, phase,
               strcmp(phase, "write") == 0 ? "write" : "read", file, all_bytes, slowest_seconds);
}

static void read_shape(int file, const char *path, MPI_Offset *rows, MPI_Offset *columns)
{
    int variable, dimensions[2], dimension_count;
    nc_type type;
    check(ncmpi_inq_varid(file, VARIABLE, &variable), "no variable " VARIABLE " in", path);
    check(ncmpi_inq_vartype(file, variable, &type), "no type of " VARIABLE " in", path);
    check(ncmpi_inq_varndims(file, variable, &dimension_count), "no shape of " VARIABLE " in", path);
    if (type != NC_FLOAT || dimension_count != 2)
        fail("cannot use " VARIABLE " of", path, "it is not a 2-D field of floats");
    check(ncmpi_inq_vardimid(file, variable, dimensions), "no shape of " VARIABLE " in", path);
    check(ncmpi_inq_dimlen(file, dimensions[0], rows), "no rows of " VARIABLE " in", path);
    check(ncmpi_inq_dimlen(file, dimensions[1], columns), "no columns of " VARIABLE " in", path);
}

/* Collective. Returns the rank's cells, row by row. */
static float *read_cells(int file, const char *path, const struct part *part)
{
    const MPI_Offset start[2] = {0, part->start}, count[2] = {part->rows, part->count},
        stride[2] = {1, part->stride};
    float *values = allocate_cells(part);
    int variable;
    check(ncmpi_inq_varid(file, VARIABLE, &variable), "no variable " VARIABLE " in", path);
    if (part->stride == 1)
        check(ncmpi_get_vara_float_all(file, variable, start, count, values), "cannot read", path);
    else
        check(ncmpi_get_vars_float_all(file, variable, start, count, stride, values), "cannot read", path);
    return values;
}

static void copy_attributes(int source, int file, int variable, const char *path)
{
    int original, attributes;
    char name[NC_MAX_NAME + 1];
    check(ncmpi_inq_varid(source, VARIABLE, &original), "no variable to copy attributes of to", path);
    check(ncmpi_inq_varnatts(source, original, &attributes), "no attributes to copy to", path);
    for (int i = 0; i < attributes; i++) {
        check(ncmpi_inq_attname(source, original, i, name), "no attribute to copy to", path);
        check(ncmpi_copy_att(source, original, name, file, variable), "cannot copy an attribute to", path);
    }
}

/* Collective. Writes the rank's cells into a new file with the shape and the attributes of the source. */
static void write_cells(const char *path, int source, MPI_Offset columns, const struct part *part,
                        const float *values)
{
    const MPI_Offset start[2] = {0, part->start}, count[2] = {part->rows, part->count},
        stride[2] = {1, part->stride};
    int file, variable, dimensions[2];
    check(ncmpi_create(MPI_COMM_WORLD, path, NC_CLOBBER, MPI_INFO_NULL, &file), "cannot create", path);
    check(ncmpi_def_dim(file, "ETOPO05_Y", part->rows, &dimensions[0]), "cannot define rows in", path);
    check(ncmpi_def_dim(file, "ETOPO05_X", columns, &dimensions[1]), "cannot define columns in", path);
    check(ncmpi_def_var(file, VARIABLE, NC_FLOAT, 2, dimensions, &variable),
          "cannot define " VARIABLE " in", path);
    copy_attributes(source, file, variable, path);
    check(ncmpi_enddef(file), "cannot define", path);
    if (part->stride == 1)
        check(ncmpi_put_vara_float_all(file, variable, start, count, values), "cannot write", path);
    else
        check(ncmpi_put_vars_float_all(file, variable, start, count, stride, values), "cannot write", path);
    check(ncmpi_close(file), "cannot close", path);
}

/* `rows` times `count` floats that lie `step` floats apart in a row. Rows lie `width` floats apart. */
static MPI_Datatype comb(MPI_Offset rows, MPI_Offset count, MPI_Offset step, MPI_Offset width)
{
    MPI_Datatype row, all;
    MPI_Type_vector((int)count, 1, (int)step, MPI_FLOAT, &row);
    MPI_Type_create_hvector((int)rows, 1, (MPI_Aint)(width * (MPI_Offset)sizeof(float)), row, &all);
    MPI_Type_commit(&all);
    MPI_Type_free(&row);
    return all;
}

/* Collective. Exchanges cells in memory: from each rank's block of columns to each rank's every nth
 * column. */
static float *trade(struct world world, MPI_Offset columns, const struct part *block,
                    const float *block_values,
                    const struct part *comb_part)
{
    float *values = allocate_cells(comb_part);
    int *numbers = calloc((size_t)world.ranks * 4, sizeof *numbers);
    MPI_Datatype *types = malloc((size_t)world.ranks * 2 * sizeof *types);
    if (numbers == NULL || types == NULL)
        fail("cannot hold", "the exchange", "out of memory");
    int *send_counts = numbers, *send_offsets = numbers + world.ranks;
    int *receive_counts = numbers + 2 * world.ranks, *receive_offsets = numbers + 3 * world.ranks;

    for (int peer = 0; peer < world.ranks; peer++) {
        struct part source = block_of(peer, world.ranks, block->rows, columns);
        const MPI_Offset n = world.ranks;
        /* Of the columns in [a, b), the first one that rank r owns is a + distance(a, r). Then every nth
         * one follows. */
        MPI_Offset to_peer = (peer - block->start % n + n) % n,
            to_me = (world.rank - source.start % n + n) % n;
        MPI_Offset sent = block->count > to_peer ? (block->count - to_peer + n - 1) / n : 0;
        MPI_Offset received = source.count > to_me ? (source.count - to_me + n - 1) / n : 0;
        send_counts[peer] = sent > 0;
        receive_counts[peer] = received > 0;
        send_offsets[peer] = (int)(to_peer * (MPI_Offset)sizeof(float));
        receive_offsets[peer] = (int)((source.start + to_me - world.rank) / n * (MPI_Offset)sizeof(float));
        types[peer] = comb(block->rows, sent, n, block->count);
        types[world.ranks + peer] = comb(block->rows, received, 1, comb_part->count);
    }
    MPI_Alltoallw(block_values, send_counts, send_offsets, types, values, receive_counts, receive_offsets,
                  types + world.ranks, MPI_COMM_WORLD);
    for (int i = 0; i < 2 * world.ranks; i++)
        MPI_Type_free(&types[i]);
    free(types);
    free(numbers);
    return values;
}

/* Collective. Reads the rank's part of the output back and compares it bit by bit. */
static void check_output(const char *path, const char *mode, const struct part *part, const float *written)
{
    int file;
    double start = phase_start();
    check(ncmpi_open(MPI_COMM_WORLD, path, NC_NOWRITE, MPI_INFO_NULL, &file), "cannot open", path);
    float *values = read_cells(file, path, part);
    check(ncmpi_close(file), "cannot close", path);
    phase_end(start, mode, "check", "output", part);
    if (memcmp(values, written, (size_t)(part->rows * part->count) * sizeof *values) != 0)
        fail("wrong data in", path, "the values read back differ from those written");
    free(values);
}

static void run(struct world world, const char *mode, const char *source, const char *output, int checks)
{
    MPI_Offset rows, columns;
    int file;
    double start = phase_start();
    check(ncmpi_open(MPI_COMM_WORLD, source, NC_NOWRITE, MPI_INFO_NULL, &file), "cannot open", source);
    read_shape(file, source, &rows, &columns);
    struct part part = block_of(world.rank, world.ranks, rows, columns);
    float *values = read_cells(file, source, &part);
    phase_end(start, mode, "read", "source", &part);

    if (strcmp(mode, "columns") == 0) {
        struct part every_nth = every_nth_of(world.rank, world.ranks, rows, columns);
        float *traded = trade(world, columns, &part, values, &every_nth);
        free(values);
        values = traded;
        part = every_nth;
    }
    start = phase_start();
    write_cells(output, file, columns, &part, values);
    phase_end(start, mode, "write", "output", &part);
    check(ncmpi_close(file), "cannot close", source);
    if (checks)
        check_output(output, mode, &part, values);
    free(values);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int checks = argc == 5 && strcmp(argv[4], "check") == 0;
    if ((argc != 4 && !checks) || (strcmp(argv[1], "blocks") != 0 && strcmp(argv[1], "columns") != 0)) {
        fprintf(stderr, "usage: pnetcdf_relief blocks|columns SOURCE OUTPUT [check]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    struct world world;
    MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world.ranks);
    run(world, argv[1], argv[2], argv[3], checks);
    MPI_Finalize();
    return 0;
}
