/* Operations that are not implemented fail on every rank, immediately, and leave the file usable. When a
 * later version implements one of them, its check here fails and must be removed. */
#include "check.h"

int main(int argc, char **argv)
{
    char bytes[8] = { 0 };
    MPI_Status status;
    MPI_Offset offset;
    MPI_File file, queue = MPI_FILE_NULL;
    start(&argc, &argv);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("unsupported"), MPI_MODE_CREATE | MPI_MODE_RDWR,
             MPI_INFO_NULL, &file));
#define REFUSED(call) do { section("%s", #call); CHECK_CLASS(call, MPI_ERR_UNSUPPORTED_OPERATION); } while (0)
    /* A lock that these ranks or this storage cannot have (`CAPULET_HINTS`). */
    if (getenv("CAPULET_HINTS")) {
        int atomic = -1;
        REFUSED(MPI_File_set_atomicity(file, 1));
        CHECK_OK(MPI_File_get_atomicity(file, &atomic));
        CHECK_EQ(atomic, 0, "atomicity after a refused set_atomicity");
    }
    section("external32");
    CHECK_CLASS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL),
                MPI_ERR_UNSUPPORTED_DATAREP);
    section("the file is still usable");
    MPI_Offset size = -1;
    CHECK_OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, 0, "size after refused writes");
    CHECK_OK(MPI_File_write_at_all(file, world_rank, "y", 1, MPI_BYTE, &status));
    CHECK_OK(MPI_File_get_position(file, &offset));
    CHECK_EQ(offset, 0, "position");
    CHECK_OK(MPI_File_close(&file));
    section("sequential mode");
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("unsupported"), MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL,
             MPI_INFO_NULL, &queue));
    REFUSED(MPI_File_read(queue, bytes, 1, MPI_BYTE, &status));
    REFUSED(MPI_File_read_at(queue, 0, bytes, 1, MPI_BYTE, &status));
    REFUSED(MPI_File_read_at_all(queue, 0, bytes, 1, MPI_BYTE, &status));
    REFUSED(MPI_File_read_all(queue, bytes, 1, MPI_BYTE, &status));
    CHECK_OK(MPI_File_close(&queue));
    return finish();
}
