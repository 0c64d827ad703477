/* A nonblocking collective access waits for a lock, and a blocking access of the same rank waits for the
 * same lock. `CAPULET_FAULTS` makes the waits long. MPI calls the library back while it waits; no second
 * access may begin on top of the first on the stack. */
#include "check.h"

enum { ROUNDS = 2, BYTES = 4096 };

int main(int argc, char **argv)
{
    start(&argc, &argv);
    static char bytes[BYTES], back[BYTES];
    MPI_File file;
    memset(bytes, 'a' + world_rank, sizeof bytes);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("lock_nested"), MPI_MODE_CREATE | MPI_MODE_RDWR,
             MPI_INFO_NULL, &file));
    CHECK_OK(MPI_File_set_atomicity(file, 1));
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request request;
        section("round %d", round);
        CHECK_OK(MPI_File_iwrite_at_all(file, 0, bytes, BYTES, MPI_BYTE, &request));
        CHECK_OK(MPI_File_write_at(file, 0, bytes, 64, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        barrier();
        CHECK_OK(MPI_File_read_at_all(file, 0, back, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        for (int i = 65; i < BYTES; i++) CHECK_EQ(back[i], back[64], "byte");
        barrier();
    }
    CHECK_OK(MPI_File_close(&file));
    return finish();
}
