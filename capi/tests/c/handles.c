/* File handles: null, stale and foreign handles, handles as integers, and calls before MPI_Init and after
 * MPI_Finalize. */
#include "check.h"

#pragma weak MPI_File_toint
#pragma weak MPI_File_fromint
extern int MPI_File_toint(MPI_File);
extern MPI_File MPI_File_fromint(int);

static void as_integers(MPI_File file)
{
    MPI_Fint number = MPI_File_c2f(file);
    CHECK(number > 0);
    CHECK(MPI_File_f2c(number) == file);
    CHECK(MPI_File_c2f(MPI_FILE_NULL) == 0);
    CHECK(MPI_File_f2c(0) == MPI_FILE_NULL);
    CHECK(MPI_File_toint && MPI_File_fromint);
    if (MPI_File_toint && MPI_File_fromint) {
        CHECK(MPI_File_toint(file) == number);
        CHECK(MPI_File_fromint(number) == file);
        CHECK(MPI_File_fromint(MPI_File_toint(MPI_FILE_NULL)) == MPI_FILE_NULL);
    }
}

/* Every function that takes a file refuses a handle that names no file. */
static void names_no_file(MPI_File file)
{
    MPI_Offset offset;
    MPI_Info info;
    MPI_Group group;
    MPI_Errhandler errhandler;
    MPI_Aint extent;
    MPI_Datatype etype, filetype;
    char representation[MPI_MAX_DATAREP_STRING];
    int value = 0;
    MPI_File copy = file;
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_get_size(file, &offset));
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_set_size(file, 0));
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_preallocate(file, 0));
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_sync(file));
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_get_amode(file, &value));
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_get_group(file, &group));
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_get_info(file, &info));
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_set_info(file, MPI_INFO_NULL));
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_get_atomicity(file, &value));
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_set_atomicity(file, 0));
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_get_type_extent(file, MPI_INT, &extent));
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_get_view(file, &offset, &etype, &filetype, representation));
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_seek(file, 0, MPI_SEEK_SET));
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_get_position(file, &offset));
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_get_byte_offset(file, 0, &offset));
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_read(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_write_at_all(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_write_shared(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_close(&copy));
    if (file != MPI_FILE_NULL) {
        CHECK_CLASS(MPI_ERR_FILE, MPI_File_get_errhandler(file, &errhandler));
        CHECK_CLASS(MPI_ERR_FILE, MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
        CHECK_CLASS(MPI_ERR_FILE, MPI_File_call_errhandler(file, MPI_ERR_OTHER));
    }
}

int main(int argc, char **argv)
{
    MPI_File file = MPI_FILE_NULL, first, second;
    static char foreign[4096];
    MPI_Offset bytes;
    CHECK(MPI_File_get_size(file, &bytes) != MPI_SUCCESS);
    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR, MPI_INFO_NULL, &file) != MPI_SUCCESS);

    start(&argc, &argv);
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], mode, MPI_INFO_NULL, &first));
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], mode, MPI_INFO_NULL, &second));
    CHECK(first != second);
    as_integers(first);
    as_integers(second);
    names_no_file(MPI_FILE_NULL);
    names_no_file((MPI_File)(void *)foreign);
    names_no_file(MPI_File_f2c(1));
    names_no_file(MPI_File_f2c(-1));

    MPI_File stale = first;
    CHECK_OK(MPI_File_close(&first));
    CHECK(first == MPI_FILE_NULL);
    names_no_file(stale);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], mode, MPI_INFO_NULL, &first));
    CHECK(first != stale);
    names_no_file(stale);
    CHECK_OK(MPI_File_close(&first));
    CHECK_OK(MPI_File_close(&second));

    stale = second;
    int result = finish();
    if (MPI_File_get_size(stale, &bytes) == MPI_SUCCESS || MPI_File_close(&stale) == MPI_SUCCESS)
        return 1;
    return result;
}
