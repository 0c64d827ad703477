/* Arguments that must be the same on all ranks but are not: all ranks get MPI_ERR_NOT_SAME (MPI 4.1,
 * 14.7), and none hangs. The last rank passes the different value. */
#include "check.h"

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int differs = world_rank == world_size - 1;
    int expected = world_size > 1 ? MPI_ERR_NOT_SAME : MPI_SUCCESS;
    MPI_File file = MPI_FILE_NULL, other = MPI_FILE_NULL;
    MPI_Info info;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("same"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
             &file));

    section("access mode");
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path_of("same"), differs ? MPI_MODE_RDONLY : MPI_MODE_RDWR,
                MPI_INFO_NULL, &other), expected);
    if (other != MPI_FILE_NULL) CHECK_OK(MPI_File_close(&other));
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path_of("same"),
                MPI_MODE_RDWR | (differs ? MPI_MODE_CREATE : 0), MPI_INFO_NULL, &other), expected);
    if (other != MPI_FILE_NULL) CHECK_OK(MPI_File_close(&other));

    section("hints");
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", differs ? "65536" : "131072");
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path_of("same"), MPI_MODE_RDWR, info, &other), expected);
    if (other != MPI_FILE_NULL) CHECK_OK(MPI_File_close(&other));
    CHECK_CLASS(MPI_File_set_info(file, info), expected);
    MPI_Info_set(info, "cb_buffer_size", "65536");
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("same"), MPI_MODE_RDWR, info, &other));
    CHECK_OK(MPI_File_close(&other));
    MPI_Info_free(&info);

    section("data representation");
    CHECK_CLASS(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, differs ? "internal" : "native",
                MPI_INFO_NULL), expected);
    section("extent of the etype");
    CHECK_CLASS(MPI_File_set_view(file, 0, differs ? MPI_INT : MPI_DOUBLE, differs ? MPI_INT : MPI_DOUBLE,
                "native", MPI_INFO_NULL), expected);
    /* Displacements may differ. */
    CHECK_OK(MPI_File_set_view(file, 8 * world_rank, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));

    section("sizes");
    CHECK_OK(MPI_File_set_size(file, 77));
    CHECK_CLASS(MPI_File_set_size(file, differs ? 100 : 200), expected);
    MPI_Offset size = -1;
    CHECK_OK(MPI_File_get_size(file, &size));
    if (world_size > 1) CHECK_EQ(size, 77, "size after a refused set_size");
    CHECK_CLASS(MPI_File_preallocate(file, differs ? 1000 : 2000), expected);

    section("atomicity");
    if (world_size > 1) CHECK_CLASS(MPI_File_set_atomicity(file, differs), MPI_ERR_NOT_SAME);
    int value = world_rank, seen = -1;
    section("direction");
    if (world_size > 1) {
        CHECK_CLASS(differs ? MPI_File_write_at_all(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE)
                            : MPI_File_read_at_all(file, 0, &seen, 1, MPI_INT, MPI_STATUS_IGNORE),
                    MPI_ERR_NOT_SAME);
        CHECK_EQ(seen, -1, "buffer of a refused read");
    }
    /* Some ranks read while the others write. This is illegal, and must be reported instead of hanging. */
    section("direction");
    int scratch = 0;
    CHECK_CLASS(differs && world_size > 1
                    ? MPI_File_read_at_all(file, 0, &scratch, 1, MPI_INT, MPI_STATUS_IGNORE)
                    : MPI_File_write_at_all(file, 0, &scratch, 1, MPI_INT, MPI_STATUS_IGNORE),
                expected);
    section("the file is still usable");
    CHECK_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_File_write_at_all(file, world_rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_read_at_all(file, world_rank, &seen, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(seen, world_rank, "value");
    CHECK_OK(MPI_File_close(&file));
    return finish();
}
