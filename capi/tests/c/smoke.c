/* The functions of an ordinary program: open, collective and independent access, views, file pointers,
 * queries of the file, and close. */
#include "check.h"

/* MPI libraries before MPI 4.0 do not declare these. */
#pragma weak MPI_File_write_at_all_c
#pragma weak MPI_File_read_c
#pragma weak MPI_File_get_type_extent_c
extern int MPI_File_write_at_all_c(MPI_File, MPI_Offset, const void *, MPI_Count, MPI_Datatype, MPI_Status *);
extern int MPI_File_read_c(MPI_File, void *, MPI_Count, MPI_Datatype, MPI_Status *);
extern int MPI_File_get_type_extent_c(MPI_File, MPI_Datatype, MPI_Count *);

enum { ITEMS = 1000 };

static void is_capulet(MPI_File file)
{
    MPI_Info info = MPI_INFO_NULL;
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int found = 0;
    CHECK_OK(MPI_File_get_info(file, &info));
    CHECK(info != MPI_INFO_NULL);
    MPI_Info_get(info, "romio_filesystem_type", MPI_MAX_INFO_VAL, value, &found);
    CHECK(found && strncmp(value, "CAPULET", 7) == 0);
    MPI_Info_free(&info);
}

static void collective(MPI_File file)
{
    int out[ITEMS], in[ITEMS], count = 0;
    MPI_Status status;
    MPI_Offset bytes = 0;
    for (int i = 0; i < ITEMS; i++)
        out[i] = rank * ITEMS + i;
    CHECK_OK(MPI_File_write_at_all(file, (MPI_Offset)rank * sizeof out, out, ITEMS, MPI_INT, &status));
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == ITEMS);
    CHECK_OK(MPI_File_sync(file));
    int other = (rank + 1) % size;
    CHECK_OK(MPI_File_read_at_all(file, (MPI_Offset)other * sizeof in, in, ITEMS, MPI_INT, &status));
    for (int i = 0; i < ITEMS; i++)
        CHECK(in[i] == other * ITEMS + i);
    CHECK_OK(MPI_File_get_size(file, &bytes));
    CHECK(bytes == (MPI_Offset)size * (MPI_Offset)sizeof out);

    /* A read beyond the end of the file is short. It is not an error. */
    CHECK_OK(MPI_File_read_at(file, bytes - 4, in, 3, MPI_INT, &status));
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 1);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void views(MPI_File file)
{
    MPI_Datatype every, etype, filetype;
    MPI_Offset displacement = -1, at = -1;
    char representation[MPI_MAX_DATAREP_STRING];
    int combiner, a, b, c, values[10];
    /* The view of rank r shows the integers r, r + size, r + 2 size, ... */
    MPI_Type_create_resized(MPI_INT, 0, size * sizeof(int), &every);
    MPI_Type_commit(&every);
    CHECK_OK(MPI_File_set_view(file, rank * sizeof(int), MPI_INT, every, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_File_seek(file, 10, MPI_SEEK_SET));
    CHECK_OK(MPI_File_read_all(file, values, 10, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < 10; i++)
        CHECK(values[i] == rank + size * (10 + i));
    CHECK_OK(MPI_File_get_position(file, &at));
    CHECK(at == 20);
    CHECK_OK(MPI_File_get_byte_offset(file, 3, &at));
    CHECK(at == (rank + 3 * size) * (MPI_Offset)sizeof(int));
    CHECK_OK(MPI_File_seek(file, -1, MPI_SEEK_END));
    CHECK_OK(MPI_File_read(file, values, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(values[0] == rank + size * (ITEMS - 1));

    CHECK_OK(MPI_File_get_view(file, &displacement, &etype, &filetype, representation));
    CHECK(displacement == (MPI_Offset)(rank * sizeof(int)));
    CHECK(etype == MPI_INT);
    CHECK(strcmp(representation, "native") == 0);
    MPI_Type_get_envelope(filetype, &a, &b, &c, &combiner);
    CHECK(combiner != MPI_COMBINER_NAMED);
    MPI_Aint lb, extent;
    MPI_Type_get_extent(filetype, &lb, &extent);
    CHECK(lb == 0 && extent == (MPI_Aint)(size * sizeof(int)));
    MPI_Type_free(&filetype);
    MPI_Type_free(&every);

    /* The view outlives the datatypes that it was set with. */
    CHECK_OK(MPI_File_read_at(file, 0, values, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(values[0] == rank);
    CHECK_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
}

static void large_counts(MPI_File file)
{
    MPI_Count extent = 0;
    int value = rank + 7, back = 0;
    CHECK(MPI_File_write_at_all_c && MPI_File_read_c && MPI_File_get_type_extent_c);
    if (!MPI_File_write_at_all_c || !MPI_File_read_c || !MPI_File_get_type_extent_c)
        return;
    CHECK_OK(MPI_File_write_at_all_c(file, rank * (MPI_Offset)sizeof value, &value, 1, MPI_INT,
             MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_seek(file, rank * (MPI_Offset)sizeof value, MPI_SEEK_SET));
    CHECK_OK(MPI_File_read_c(file, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(back == value);
    CHECK_OK(MPI_File_get_type_extent_c(file, MPI_DOUBLE, &extent));
    CHECK(extent == sizeof(double));
}

static void bottom(MPI_File file)
{
    int value = 40 + rank, back = 0;
    MPI_Aint address;
    int one = 1;
    MPI_Datatype absolute, absolute_back;
    MPI_Get_address(&value, &address);
    MPI_Type_create_hindexed(1, &one, &address, MPI_INT, &absolute);
    MPI_Type_commit(&absolute);
    MPI_Get_address(&back, &address);
    MPI_Type_create_hindexed(1, &one, &address, MPI_INT, &absolute_back);
    MPI_Type_commit(&absolute_back);
    CHECK_OK(MPI_File_write_at(file, rank * (MPI_Offset)sizeof value, MPI_BOTTOM, 1, absolute,
             MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_read_at(file, rank * (MPI_Offset)sizeof value, MPI_BOTTOM, 1, absolute_back,
             MPI_STATUS_IGNORE));
    CHECK(back == value);
    MPI_Type_free(&absolute);
    MPI_Type_free(&absolute_back);
}

static void queries(MPI_File file, int expected_mode)
{
    int mode = 0, atomic = 1, members = 0;
    MPI_Aint extent = 0;
    MPI_Group group, again;
    CHECK_OK(MPI_File_get_amode(file, &mode));
    CHECK(mode == expected_mode);
    CHECK_OK(MPI_File_get_atomicity(file, &atomic));
    CHECK(atomic == 0);
    CHECK_OK(MPI_File_set_atomicity(file, 1));
    CHECK_OK(MPI_File_get_atomicity(file, &atomic));
    CHECK(atomic == 1);
    CHECK_OK(MPI_File_set_atomicity(file, 0));
    CHECK_OK(MPI_File_get_type_extent(file, MPI_DOUBLE, &extent));
    CHECK(extent == sizeof(double));
    CHECK_OK(MPI_File_get_group(file, &group));
    MPI_Group_size(group, &members);
    CHECK(members == size);
    MPI_Group_free(&group);
    CHECK_OK(MPI_File_get_group(file, &again));
    MPI_Group_free(&again);
    CHECK_OK(MPI_File_set_info(file, MPI_INFO_NULL));
    CHECK_OK(MPI_File_set_size(file, 100));
    CHECK_OK(MPI_File_preallocate(file, 200));
    MPI_Offset bytes = 0;
    CHECK_OK(MPI_File_get_size(file, &bytes));
    CHECK(bytes == 200);
}

/* A file name in Latin-1, which is not valid UTF-8. */
static void any_name(const char *base)
{
    char name[4096];
    MPI_File file = MPI_FILE_NULL;
    snprintf(name, sizeof name, "%s caf\xe9", base);
    int mode = MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_DELETE_ON_CLOSE;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &file));
    if (file != MPI_FILE_NULL)
        CHECK_OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    MPI_File file = MPI_FILE_NULL;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], mode, MPI_INFO_NULL, &file));
    CHECK(file != MPI_FILE_NULL);
    if (file == MPI_FILE_NULL)
        return finish();
    is_capulet(file);
    collective(file);
    views(file);
    MPI_Barrier(MPI_COMM_WORLD);
    large_counts(file);
    bottom(file);
    queries(file, mode);
    CHECK_OK(MPI_File_close(&file));
    CHECK(file == MPI_FILE_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        CHECK_OK(MPI_File_delete(argv[1], MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_CLASS(MPI_ERR_NO_SUCH_FILE, MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL,
                &file));
    CHECK(file == MPI_FILE_NULL);
    any_name(argv[1]);
    return finish();
}
