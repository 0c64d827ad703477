/* An invalid argument of a collective call on the last rank: all ranks return the same error class. */
#include "check.h"

static int errs(void)
{
    return rank == size - 1;
}

static void at_open(const char *name)
{
    MPI_File file;
    int good = MPI_MODE_CREATE | MPI_MODE_RDWR, bad = MPI_MODE_RDONLY | MPI_MODE_RDWR;
    CHECK_CLASS(MPI_ERR_AMODE, MPI_File_open(MPI_COMM_WORLD, name, errs() ? bad : good, MPI_INFO_NULL,
                &file));
    CHECK(file == MPI_FILE_NULL);
    CHECK_CLASS(MPI_ERR_AMODE, MPI_File_open(MPI_COMM_WORLD, name, errs() ? good | 1 << 20 : good,
                MPI_INFO_NULL, &file));
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_open(MPI_COMM_WORLD, errs() ? NULL : name, good, MPI_INFO_NULL, &file));
    CHECK_CLASS(MPI_ERR_BAD_FILE, MPI_File_open(MPI_COMM_WORLD, errs() ? "" : name, good, MPI_INFO_NULL,
                &file));
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_open(MPI_COMM_WORLD, name, good, MPI_INFO_NULL, errs() ? NULL : &file));
    CHECK_CLASS(MPI_ERR_COMM, MPI_File_open(MPI_COMM_NULL, name, good, MPI_INFO_NULL, &file));
}

static void at_view(MPI_File file)
{
    MPI_Datatype backward;
    int lengths[] = {1, 1}, places[] = {1, 0};
    MPI_Type_indexed(2, lengths, places, MPI_INT, &backward);
    MPI_Type_commit(&backward);
    MPI_Datatype null = MPI_DATATYPE_NULL, whole = MPI_INT;
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_set_view(file, errs() ? -1 : 0, MPI_INT, MPI_INT, "native",
                MPI_INFO_NULL));
    CHECK_CLASS(MPI_ERR_TYPE, MPI_File_set_view(file, 0, errs() ? null : whole, MPI_INT, "native",
                MPI_INFO_NULL));
    CHECK_CLASS(MPI_ERR_TYPE, MPI_File_set_view(file, 0, MPI_INT, errs() ? null : whole, "native",
                MPI_INFO_NULL));
    CHECK_CLASS(MPI_ERR_IO, MPI_File_set_view(file, 0, MPI_INT, errs() ? backward : whole, "native",
                MPI_INFO_NULL));
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_set_view(file, 0, MPI_INT, MPI_INT, errs() ? NULL : "native",
                MPI_INFO_NULL));
    CHECK_CLASS(MPI_ERR_UNSUPPORTED_DATAREP, MPI_File_set_view(file, 0, MPI_INT, MPI_INT,
                errs() ? "foreign" : "native", MPI_INFO_NULL));
    MPI_Type_free(&backward);
    /* The old view is still in force. */
    MPI_Offset displacement = -1;
    MPI_Datatype etype, filetype;
    char representation[MPI_MAX_DATAREP_STRING];
    CHECK_OK(MPI_File_get_view(file, &displacement, &etype, &filetype, representation));
    CHECK(displacement == 0 && etype == MPI_BYTE && filetype == MPI_BYTE);
}

static void at_access(MPI_File file)
{
    int value = 0;
    MPI_Datatype null = MPI_DATATYPE_NULL, whole = MPI_INT, loose;
    MPI_Status *ignore = MPI_STATUS_IGNORE;
    MPI_Type_contiguous(1, MPI_INT, &loose);
    CHECK_CLASS(MPI_ERR_COUNT, MPI_File_write_at_all(file, 0, &value, errs() ? -1 : 1, MPI_INT, ignore));
    CHECK_CLASS(MPI_ERR_TYPE, MPI_File_write_at_all(file, 0, &value, 1, errs() ? null : whole, ignore));
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_write_at_all(file, errs() ? -1 : 0, &value, 1, MPI_INT, ignore));
    CHECK_CLASS(MPI_ERR_BUFFER, MPI_File_write_at_all(file, 0, errs() ? NULL : &value, 1, MPI_INT, ignore));
    CHECK_CLASS(MPI_ERR_COUNT, MPI_File_read_all(file, &value, errs() ? -1 : 1, MPI_INT, ignore));
    CHECK_CLASS(MPI_ERR_TYPE, MPI_File_read_all(file, &value, 1, errs() ? null : whole, ignore));
    MPI_Type_free(&loose);
    /* A rank without data participates without a buffer. */
    CHECK_OK(MPI_File_write_at_all(file, 0, errs() ? NULL : &value, errs() ? 0 : 1, MPI_INT, ignore));
    /* An error of an independent call does not involve the other ranks. */
    if (errs()) {
        CHECK_CLASS(MPI_ERR_COUNT, MPI_File_write(file, &value, -1, MPI_INT, ignore));
        CHECK_CLASS(MPI_ERR_TYPE, MPI_File_read(file, &value, 1, MPI_DATATYPE_NULL, ignore));
        CHECK_CLASS(MPI_ERR_ARG, MPI_File_read_at(file, -1, &value, 1, MPI_INT, ignore));
        CHECK_CLASS(MPI_ERR_BUFFER, MPI_File_read_at(file, 0, NULL, 1, MPI_INT, ignore));
        CHECK_CLASS(MPI_ERR_ARG, MPI_File_get_size(file, NULL));
        CHECK_CLASS(MPI_ERR_ARG, MPI_File_get_position(file, NULL));
        CHECK_CLASS(MPI_ERR_ARG, MPI_File_get_info(file, NULL));
    }
}

static void at_the_rest(MPI_File file)
{
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_set_size(file, errs() ? -1 : 0));
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_preallocate(file, errs() ? -1 : 0));
    if (size > 1) {
        CHECK_CLASS(MPI_ERR_NOT_SAME, MPI_File_set_size(file, errs() ? 1 : 0));
        CHECK_CLASS(MPI_ERR_NOT_SAME, MPI_File_set_atomicity(file, errs()));
    }
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_File file;
    at_open(argv[1]);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    at_view(file);
    at_access(file);
    at_the_rest(file);
    CHECK_OK(MPI_File_close(&file));
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    int value = 0;
    CHECK_CLASS(MPI_ERR_READ_ONLY, MPI_File_write_at_all(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_CLASS(MPI_ERR_READ_ONLY, MPI_File_set_size(file, 0));
    CHECK_OK(MPI_File_close(&file));
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    CHECK_CLASS(MPI_ERR_ACCESS, MPI_File_read_at_all(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_close(&file));
    return finish();
}
