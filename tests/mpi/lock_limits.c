/* lock_limits FOLDER MEETING: rank 0 holds a lock for long (`CAPULET_FAULTS`), and the other ranks wait
 * for a shorter time (`CAPULET_HINTS`). They get an error, and none of their bytes is written. After rank 0
 * releases the lock, all accesses work again. If MEETING is "file", all ranks must first wait for each
 * other in calls on the file: with these locks a rank that gave up leaves the queue only then. */
#include "check.h"

static MPI_File file;

int main(int argc, char **argv)
{
    start(&argc, &argv);
    char bytes[64], back[64];
    memset(bytes, 'a' + world_rank, sizeof bytes);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("lock_limits"), MPI_MODE_CREATE | MPI_MODE_RDWR,
             MPI_INFO_NULL, &file));
    CHECK_OK(MPI_File_set_atomicity(file, 1));
    barrier();
    section("accesses while rank 0 holds the lock");
    if (world_rank == 0) {
        CHECK_OK(MPI_File_write_at(file, 0, bytes, 64, MPI_BYTE, MPI_STATUS_IGNORE));
    } else {
        nap(300);
        CHECK_CLASS(MPI_File_write_at(file, 32, bytes, 64, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_IO);
    }
    barrier();
    for (int i = 0; argc > 2 && !strcmp(argv[2], "file") && i < 25; i++) {
        nap(2);
        CHECK_OK(MPI_File_sync(file));
    }
    section("accesses after the release");
    for (int rank = 1; rank < world_size; rank++) {
        if (rank == world_rank) {
            CHECK_OK(MPI_File_read_at(file, 0, back, 64, MPI_BYTE, MPI_STATUS_IGNORE));
            for (int i = 0; i < 64; i++)
                CHECK_EQ(back[i], 'a' + (i >= 32 && rank > 1 ? rank - 1 : 0), "byte");
            CHECK_OK(MPI_File_write_at(file, 32, bytes, 64, MPI_BYTE, MPI_STATUS_IGNORE));
        }
        barrier();
    }
    CHECK_OK(MPI_File_close(&file));
    return finish();
}
