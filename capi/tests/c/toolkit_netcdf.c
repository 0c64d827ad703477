/* MPIT_Type_netcdf_translate: byte order, other types, elements out of range, and conversions that do not
 * exist. */
#include "capulet_types.h"
#include "check.h"

enum { NC_BYTE = 1, NC_CHAR, NC_SHORT, NC_INT, NC_FLOAT, NC_DOUBLE, NC_UBYTE, NC_USHORT, NC_UINT, NC_INT64,
    NC_UINT64 };
enum { ENCODE = MPIT_MEMCPY_FROM_USERBUF, DECODE = MPIT_MEMCPY_TO_USERBUF };

static int is_big_endian(void)
{
    int one = 1;
    return *(char *)&one == 0;
}

/* Converts bytes of the file to the byte order of this machine. */
static void from_file(void *target, const unsigned char *file, int bytes)
{
    for (int i = 0; i < bytes; i++)
        ((unsigned char *)target)[i] = file[is_big_endian() ? i : bytes - 1 - i];
}

/* Blocks of the FLASH code: 8 x 8 x 8 cells inside of 4 guard cells, and 24 variables, of which one or four
 * are converted. */
enum { CELLS = 16, VARIABLES = 24, BLOCKS = 2 };

static double blocks[BLOCKS][CELLS][CELLS][CELLS][VARIABLES], copies[BLOCKS][CELLS][CELLS][CELLS][VARIABLES];
static unsigned char file[BLOCKS * 512 * 4 * 8];

static void flash(int variables, int external, int bytes)
{
    int sizes[] = {BLOCKS, CELLS, CELLS, CELLS, VARIABLES}, parts[] = {BLOCKS, 8, 8, 8, variables},
        starts[] = {0, 4, 4, 4, 3};
    int elements = BLOCKS * 512 * variables, bad = 0, next = 0;
    MPI_Count misfits = -7, first = -7;
    MPI_Datatype cells;
    MPI_Type_create_subarray(5, sizes, parts, starts, MPI_ORDER_C, MPI_DOUBLE, &cells);
    MPI_Type_commit(&cells);
    CHECK_OK(MPIT_Type_init(cells));
    memset(file, 0, sizeof file);
    CHECK_OK(MPIT_Type_netcdf_translate(blocks, 1, cells, file, elements * bytes, external, 1, ENCODE, 0,
             elements, &misfits, &first));
    CHECK(misfits == 0 && first == -1);
    for (int b = 0; b < BLOCKS; b++)
        for (int i = 0; i < 512; i++)
            for (int v = 0; v < variables; v++, next++) {
                double value = blocks[b][4 + i / 64][4 + i / 8 % 8][4 + i % 8][3 + v], found;
                float single;
                from_file(&found, file + 8 * next, 8);
                from_file(&single, file + 4 * next, 4);
                bad += bytes == 8 ? found != value : single != (float)value;
            }
    CHECK(bad == 0 && next == elements);

    /* Decoding in pieces writes only the cells. */
    memset(copies, 0x55, sizeof copies);
    for (int at = 0; at < elements; at += 100) {
        int end = at + 100 < elements ? at + 100 : elements;
        CHECK_OK(MPIT_Type_netcdf_translate(copies, 1, cells, file + at * bytes, (end - at) * bytes,
                 external, 5, DECODE, at, end, NULL, NULL));
    }
    double guard;
    memset(&guard, 0x55, sizeof guard);
    for (int i = 0; i < BLOCKS * CELLS * CELLS * CELLS * VARIABLES; i++) {
        int v = i % VARIABLES, x = i / VARIABLES % CELLS, y = i / VARIABLES / CELLS % CELLS,
            z = i / VARIABLES / CELLS / CELLS % CELLS;
        int inside = v >= 3 && v < 3 + variables && x >= 4 && x < 12 && y >= 4 && y < 12 && z >= 4 && z < 12;
        double value = ((double *)blocks)[i],
               expected = !inside ? guard : bytes == 8 ? value : (double)(float)value;
        bad += memcmp(&((double *)copies)[i], &expected, 8) != 0;
    }
    CHECK(bad == 0);
    MPI_Type_free(&cells);
}

static void out_of_range(void)
{
    int values[5] = {1, -129, 127, 300, -128}, back[5];
    double reals[3] = {1e300, 0.5, -1e39};
    signed char bytes[5];
    unsigned char floats[12];
    float single;
    MPI_Count misfits, first;
    CHECK_CLASS(MPI_ERR_CONVERSION, MPIT_Type_netcdf_translate(values, 5, MPI_INT, bytes, 5, NC_BYTE, 1,
                ENCODE, 0, 5, &misfits, &first));
    CHECK(misfits == 2 && first == 1 && bytes[0] == 1 && bytes[2] == 127 && bytes[4] == -128);
    CHECK_OK(MPIT_Type_netcdf_translate(back, 5, MPI_INT, bytes, 5, NC_BYTE, 1, DECODE, 0, 5, &misfits,
             &first));
    CHECK(misfits == 0 && first == -1 && back[0] == 1 && back[2] == 127 && back[4] == -128);
    CHECK_OK(MPIT_Type_netcdf_translate(values, 5, MPI_INT, bytes, 5, NC_BYTE, 1, ENCODE, 4, 5, &misfits,
             &first));
    CHECK(misfits == 0 && bytes[0] == -128);
    CHECK_CLASS(MPI_ERR_CONVERSION, MPIT_Type_netcdf_translate(reals, 3, MPI_DOUBLE, floats, 12, NC_FLOAT,
                2, ENCODE, 0, 3, &misfits, &first));
    from_file(&single, floats + 4, 4);
    CHECK(misfits == 2 && first == 0 && single == 0.5f);
}

static void refused(void)
{
    double values[4] = {1, 2, 3, 4};
    unsigned char bytes[64], before[64];
    MPI_Count misfits = 55, first = 55;
    MPI_Datatype mixed, loose;
    MPI_Type_contiguous(2, MPI_DOUBLE_INT, &mixed);
    MPI_Type_contiguous(2, MPI_DOUBLE, &loose);
    MPI_Type_commit(&mixed);
    MPI_Type_commit(&loose);
    CHECK_OK(MPIT_Type_init(mixed));
    memset(bytes, 0x55, sizeof bytes);
    memset(before, 0x55, sizeof before);
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_netcdf_translate(values, 1, MPI_DATATYPE_NULL, bytes, 64, NC_FLOAT,
                1, ENCODE, 0, 1, &misfits, &first));
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_netcdf_translate(values, 1, loose, bytes, 64, NC_FLOAT, 1, ENCODE,
                0, 1, &misfits, &first));
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_netcdf_translate(values, 1, mixed, bytes, 64, NC_FLOAT, 1, ENCODE,
                0, 1, &misfits, &first));
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_netcdf_translate(values, 4, MPI_DOUBLE, bytes, 64, NC_CHAR, 1,
                ENCODE, 0, 1, &misfits, &first));
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_netcdf_translate(values, 4, MPI_CHAR, bytes, 64, NC_INT, 1, ENCODE,
                0, 1, &misfits, &first));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_netcdf_translate(values, -1, MPI_DOUBLE, bytes, 64, NC_FLOAT, 1,
                ENCODE, 0, 1, &misfits, &first));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_netcdf_translate(NULL, 4, MPI_DOUBLE, bytes, 64, NC_FLOAT, 1, ENCODE,
                0, 1, &misfits, &first));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_netcdf_translate(values, 4, MPI_DOUBLE, NULL, 64, NC_FLOAT, 1,
                ENCODE, 0, 1, &misfits, &first));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_netcdf_translate(values, 4, MPI_DOUBLE, bytes, 15, NC_FLOAT, 1,
                ENCODE, 0, 4, &misfits, &first));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_netcdf_translate(values, 4, MPI_DOUBLE, bytes, -1, NC_FLOAT, 1,
                ENCODE, 0, 4, &misfits, &first));
    for (int wrong = -1; wrong < 13; wrong += 13)
        CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_netcdf_translate(values, 4, MPI_DOUBLE, bytes, 64, wrong, 1,
                    ENCODE, 0, 4, &misfits, &first));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_netcdf_translate(values, 4, MPI_DOUBLE, bytes, 64, NC_FLOAT, 3,
                ENCODE, 0, 4, &misfits, &first));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_netcdf_translate(values, 4, MPI_DOUBLE, bytes, 64, NC_INT64, 2,
                ENCODE, 0, 4, &misfits, &first));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_netcdf_translate(values, 4, MPI_DOUBLE, bytes, 64, NC_FLOAT, 1, 2, 0,
                4, &misfits, &first));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_netcdf_translate(values, 4, MPI_DOUBLE, bytes, 64, NC_FLOAT, 1,
                ENCODE, 3, 2, &misfits, &first));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_netcdf_translate(values, 4, MPI_DOUBLE, bytes, 64, NC_FLOAT, 1,
                ENCODE, -1, 2, &misfits, &first));
    CHECK(memcmp(bytes, before, sizeof bytes) == 0 && misfits == 55 && first == 55);
    CHECK_CLASS(MPI_ERR_OTHER, MPIT_Type_netcdf_translate(values, 4, MPI_DOUBLE, bytes, 64, NC_FLOAT, 1,
                ENCODE, 3, 6, &misfits, &first));
    float single;
    from_file(&single, bytes, 4);
    CHECK(single == 4 && misfits == 0 && memcmp(bytes + 4, before, 60) == 0);
    MPI_Type_free(&mixed);
    MPI_Type_free(&loose);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    for (int i = 0; i < BLOCKS * CELLS * CELLS * CELLS * VARIABLES; i++)
        ((double *)blocks)[i] = i / 7.0;
    flash(1, NC_DOUBLE, 8);
    flash(1, NC_FLOAT, 4);
    flash(4, NC_DOUBLE, 8);
    flash(4, NC_FLOAT, 4);
    out_of_range();
    refused();
    return finish();
}
