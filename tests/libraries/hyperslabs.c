/* Parallel HDF5: hyperslabs are written independently and collectively, into contiguous and chunked
 * datasets, from plain and from strided memory. They are read back in parallel by another decomposition,
 * and verify_hdf5.py then reads the file in serial. argv[1] is the directory. */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 24
#define WIDTH 10 /* columns of each rank */

static int rank, size, failures, checks;

static void check(int fine, const char *what)
{
    checks++;
    if (fine) return;
    failures++;
    fprintf(stderr, "FAILED [rank %d of %d]: %s\n", rank, size, what);
}

/* Cell (i, j) of dataset `which`. verify_hdf5.py has the same formula. */
static int cell(int which, int i, int j) { return which * 1000000 + i * 1000 + j; }

static hid_t transfer(int collective)
{
    hid_t list = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_dxpl_mpio(list, collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    return list;
}

/* Each rank writes its block of columns from memory in which a value takes `stride` places, with a border
 * of ghost cells. */
static void write_columns(hid_t file, const char *name, int which, int chunked, int collective, int stride)
{
    hsize_t dims[2] = { ROWS, (hsize_t)WIDTH * size }, start[2] = { 0, (hsize_t)WIDTH * rank },
        count[2] = { ROWS, WIDTH };
    hid_t space = H5Screate_simple(2, dims, NULL), create = H5Pcreate(H5P_DATASET_CREATE),
        list = transfer(collective);
    if (chunked) {
        hsize_t chunk[2] = { 5, 7 }; /* chunks cross the borders of the ranks */
        H5Pset_chunk(create, 2, chunk);
    }
    hid_t dataset = H5Dcreate2(file, name, H5T_STD_I32LE, space, H5P_DEFAULT, create, H5P_DEFAULT);
    check(dataset >= 0, name);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    hsize_t outer[2] = { ROWS + 2, (hsize_t)(WIDTH + 2) * stride };
    hsize_t inside[2] = { 1, (hsize_t)stride }, steps[2] = { 1, (hsize_t)stride };
    hid_t memory = H5Screate_simple(2, outer, NULL);
    H5Sselect_hyperslab(memory, H5S_SELECT_SET, inside, steps, count, NULL);
    int *values = malloc(sizeof(int) * outer[0] * outer[1]);
    memset(values, 0xab, sizeof(int) * outer[0] * outer[1]);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < WIDTH; j++)
            values[(i + 1) * outer[1] + (hsize_t)(j + 1) * stride] = cell(which, i, WIDTH * rank + j);
    check(H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, list, values) >= 0, name);
    free(values);
    H5Dclose(dataset); H5Sclose(space); H5Sclose(memory); H5Pclose(create); H5Pclose(list);
}

/* Each rank writes every `size`-th column, in every second row only. Cells that are not written keep the
 * fill value. */
static void write_comb(hid_t file, const char *name, int which, int collective)
{
    hsize_t dims[2] = { ROWS, (hsize_t)WIDTH * size }, start[2] = { 0, (hsize_t)rank },
        step[2] = { 2, (hsize_t)size };
    hsize_t count[2] = { ROWS / 2, WIDTH }, flat = ROWS / 2 * WIDTH;
    hid_t space = H5Screate_simple(2, dims, NULL), list = transfer(collective),
        memory = H5Screate_simple(1, &flat, NULL);
    hid_t create = H5Pcreate(H5P_DATASET_CREATE);
    int fill = -7; /* without a fill value of the user, HDF5 leaves unwritten cells undefined */
    H5Pset_fill_value(create, H5T_NATIVE_INT, &fill);
    hid_t dataset = H5Dcreate2(file, name, H5T_STD_I32LE, space, H5P_DEFAULT, create, H5P_DEFAULT);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, step, count, NULL);
    int values[ROWS / 2 * WIDTH];
    for (int i = 0; i < ROWS / 2; i++)
        for (int j = 0; j < WIDTH; j++) values[i * WIDTH + j] = cell(which, 2 * i, rank + j * size);
    check(H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, list, values) >= 0, name);
    H5Dclose(dataset); H5Sclose(space); H5Sclose(memory); H5Pclose(create); H5Pclose(list);
}

/* A compound type with another layout in memory. Rank 0 takes part but writes nothing, unless it is the
 * only rank. */
static void write_compound(hid_t file, const char *name, int collective)
{
    struct pair { char tag; double value; int number; } values[16];
    hid_t stored = H5Tcreate(H5T_COMPOUND, 12), native = H5Tcreate(H5T_COMPOUND, sizeof(struct pair));
    H5Tinsert(stored, "number", 0, H5T_STD_I32LE);
    H5Tinsert(stored, "value", 4, H5T_IEEE_F64LE);
    H5Tinsert(native, "number", HOFFSET(struct pair, number), H5T_NATIVE_INT);
    H5Tinsert(native, "value", HOFFSET(struct pair, value), H5T_NATIVE_DOUBLE);
    hsize_t length = 16 * (hsize_t)size, start = 16 * (hsize_t)rank, count = 16;
    hid_t space = H5Screate_simple(1, &length, NULL), memory = H5Screate_simple(1, &count, NULL),
        list = transfer(collective);
    hid_t create = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_fill_time(create, H5D_FILL_TIME_ALLOC); /* zeros in unwritten cells */
    hid_t dataset = H5Dcreate2(file, name, stored, space, H5P_DEFAULT, create, H5P_DEFAULT);
    for (int i = 0; i < 16; i++) values[i] = (struct pair){ 'x', 0.5 * (16 * rank + i), 16 * rank + i };
    if (rank == 0 && size > 1) {
        H5Sselect_none(space);
        H5Sselect_none(memory);
    } else H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL);
    check(H5Dwrite(dataset, native, memory, space, list, values) >= 0, name);
    H5Dclose(dataset); H5Sclose(space); H5Sclose(memory); H5Pclose(create); H5Pclose(list);
    H5Tclose(stored); H5Tclose(native);
}

/* Reads blocks of rows, although blocks of columns were written. */
static void read_rows(hid_t file, const char *name, int which, int collective)
{
    int first = ROWS * rank / size, rows = ROWS * (rank + 1) / size - first, columns = WIDTH * size,
        wrong = 0;
    hsize_t start[2] = { (hsize_t)first, 0 }, count[2] = { (hsize_t)rows, (hsize_t)columns };
    hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(dataset),
        list = transfer(collective);
    hid_t memory = H5Screate_simple(2, count, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    int *values = calloc((size_t)rows * columns, sizeof(int));
    check(H5Dread(dataset, H5T_NATIVE_INT, memory, space, list, values) >= 0, name);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) wrong += values[i * columns + j] != cell(which, first + i, j);
    check(wrong == 0, name);
    free(values);
    H5Dclose(dataset); H5Sclose(space); H5Sclose(memory); H5Pclose(list);
}

int main(int argc, char **argv)
{
    char path[4096], name[32];
    int all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    snprintf(path, sizeof path, "%s/hyperslabs.h5", argv[1]);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    check(file >= 0, "create");
    for (int which = 0; which < 8; which++) {
        snprintf(name, sizeof name, "columns-%d", which);
        write_columns(file, name, which, which & 1, which >> 1 & 1, which & 4 ? 3 : 1);
    }
    write_comb(file, "comb-independent", 8, 0);
    write_comb(file, "comb-collective", 9, 1);
    write_compound(file, "compound-independent", 0);
    write_compound(file, "compound-collective", 1);
    check(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0, "flush");
    check(H5Fclose(file) >= 0, "close");

    file = H5Fopen(path, H5F_ACC_RDONLY, access);
    check(file >= 0, "open");
    for (int which = 0; which < 8; which++) {
        snprintf(name, sizeof name, "columns-%d", which);
        read_rows(file, name, which, which & 1);
    }
    check(H5Fclose(file) >= 0, "close after reading");
    H5Pclose(access);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("%d checks passed, %d failed\n", checks - failures, all);
    MPI_Finalize();
    return all != 0;
}
