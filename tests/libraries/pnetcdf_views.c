/* PnetCDF: blocking collective, independent and queued writes of strided and overlap-free patterns,
 * record variables, and reads by another decomposition. verify_netcdf.py then reads the file in serial.
 * argv[1] is the directory. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS 12
#define WIDTH 6 /* columns of each rank */
#define RECORDS 4

static int rank, size, failures, checks;

static void check(int fine, const char *what, int line)
{
    checks++;
    if (fine) return;
    failures++;
    fprintf(stderr, "FAILED [rank %d of %d] line %d: %s\n", rank, size, line, what);
}

#define OK(call) do { int code_ = (call); \
    check(code_ == NC_NOERR, code_ == NC_NOERR ? #call : ncmpi_strerror(code_), __LINE__); } while (0)

/* Cell (i, j) of variable `which`. verify_netcdf.py has the same formula. */
static int cell(int which, int i, int j) { return which * 1000000 + i * 1000 + j; }

static void fill_block(int *values, int which)
{
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < WIDTH; j++) values[i * WIDTH + j] = cell(which, i, WIDTH * rank + j);
}

int main(int argc, char **argv)
{
    char path[4096];
    int file, rows, columns, time, variables[5], all, values[ROWS * WIDTH], other[ROWS * WIDTH];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    snprintf(path, sizeof path, "%s/views.nc", argv[1]);
    OK(ncmpi_create(MPI_COMM_WORLD, path, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file));
    OK(ncmpi_def_dim(file, "time", NC_UNLIMITED, &time));
    OK(ncmpi_def_dim(file, "rows", ROWS, &rows));
    OK(ncmpi_def_dim(file, "columns", (MPI_Offset)WIDTH * size, &columns));
    int plane[2] = { rows, columns }, record[2] = { time, columns };
    OK(ncmpi_def_var(file, "blocks", NC_INT, 2, plane, &variables[0]));
    OK(ncmpi_def_var(file, "comb", NC_INT, 2, plane, &variables[1]));
    OK(ncmpi_def_var(file, "independent", NC_INT, 2, plane, &variables[2]));
    OK(ncmpi_def_var(file, "queued", NC_INT, 2, plane, &variables[3]));
    OK(ncmpi_def_var(file, "records", NC_INT, 2, record, &variables[4]));
    OK(ncmpi_enddef(file));

    MPI_Offset start[2] = { 0, (MPI_Offset)WIDTH * rank }, count[2] = { ROWS, WIDTH };
    fill_block(values, 0);
    OK(ncmpi_put_vara_int_all(file, variables[0], start, count, values));
    MPI_Offset comb_start[2] = { 0, rank }, stride[2] = { 1, size };
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < WIDTH; j++) other[i * WIDTH + j] = cell(1, i, rank + j * size);
    OK(ncmpi_put_vars_int_all(file, variables[1], comb_start, count, stride, other));
    OK(ncmpi_begin_indep_data(file));
    fill_block(values, 2);
    OK(ncmpi_put_vara_int(file, variables[2], start, count, values));
    OK(ncmpi_end_indep_data(file));

    /* Two requests that become one collective write, with a filetype of many pieces. */
    int requests[2], statuses[2];
    MPI_Offset half[2] = { ROWS / 2, WIDTH }, second[2] = { ROWS / 2, (MPI_Offset)WIDTH * rank };
    fill_block(values, 3);
    OK(ncmpi_iput_vara_int(file, variables[3], second, half, values + ROWS / 2 * WIDTH, &requests[0]));
    OK(ncmpi_iput_vara_int(file, variables[3], start, half, values, &requests[1]));
    OK(ncmpi_wait_all(file, 2, requests, statuses));
    OK(statuses[0]);
    OK(statuses[1]);
    for (int t = 0; t < RECORDS; t++) {
        MPI_Offset at[2] = { t, (MPI_Offset)WIDTH * rank }, one[2] = { 1, WIDTH };
        for (int j = 0; j < WIDTH; j++) other[j] = cell(4, t, WIDTH * rank + j);
        OK(ncmpi_put_vara_int_all(file, variables[4], at, one, other));
    }
    OK(ncmpi_close(file));

    OK(ncmpi_open(MPI_COMM_WORLD, path, NC_NOWRITE, MPI_INFO_NULL, &file));
    int neighbor = (rank + 1) % size, wrong = 0;
    MPI_Offset theirs[2] = { 0, (MPI_Offset)WIDTH * neighbor };
    for (int v = 0; v < 4; v++) {
        OK(ncmpi_get_vara_int_all(file, variables[v], theirs, count, values));
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < WIDTH; j++)
                wrong += values[i * WIDTH + j] != cell(v, i, WIDTH * neighbor + j);
    }
    check(wrong == 0, "values read back", __LINE__);
    OK(ncmpi_close(file));
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("%d checks passed, %d failed\n", checks - failures, all);
    MPI_Finalize();
    return all != 0;
}
