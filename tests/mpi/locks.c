/* locks FOLDER VIEWS ATOMIC ACCESSES: accesses through views that share bytes or that share none. The
 * test counts their costs (`CAPULET_STATS`). The ranks access the file one after another, from rank 0 on,
 * so that no access waits for another. */
#include "check.h"

enum { COLUMNS = 16, ROWS = 40 };

int main(int argc, char **argv)
{
    start(&argc, &argv);
    const int overlap = argc > 2 && !strcmp(argv[2], "overlapping"),
        atomic = argc > 3 && !strcmp(argv[3], "atomic"), accesses = argc > 4 ? atoi(argv[4]) : 1;
    const int sizes[] = { ROWS, COLUMNS * world_size }, subsizes[] = { ROWS, COLUMNS + overlap },
        starts[] = { 0, COLUMNS * world_rank - (world_rank ? overlap : 0) };
    char bytes[ROWS * (COLUMNS + 1)], back[sizeof bytes];
    MPI_File file;
    MPI_Datatype type;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("locks"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
             &file));
    MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    CHECK_OK(MPI_File_set_atomicity(file, 1));
    CHECK_OK(MPI_File_set_view(file, 0, MPI_BYTE, type, "native", MPI_INFO_NULL));
    if (!atomic) CHECK_OK(MPI_File_set_atomicity(file, 0));
    memset(bytes, 'a' + world_rank, sizeof bytes);
    for (int rank = 0; rank < world_size; rank++, barrier())
        for (int i = 0; i < accesses && rank == world_rank; i++) {
            CHECK_OK(MPI_File_write_at(file, 0, bytes, ROWS * subsizes[1], MPI_BYTE, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_File_read_at(file, 0, back, ROWS * subsizes[1], MPI_BYTE, MPI_STATUS_IGNORE));
            CHECK_EQ(memcmp(bytes, back, (size_t)(ROWS * subsizes[1])), 0,
                     "comparison of the bytes read with those written");
        }
    CHECK_OK(MPI_File_close(&file));
    MPI_Type_free(&type);
    return finish();
}
