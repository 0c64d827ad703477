/* A legal program that deadlocks if a library sleeps without MPI progress. Every rank posts a send of 64
 * KiB (more than MPI sends eagerly), takes part in a collective access, on its own or in the collective
 * buffers of the node, and receives only afterwards. The rank whose message must be pulled waits in a
 * barrier of Capulet. */
#include "check.h"

#define MESSAGE (64 * 1024)

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int rounds = world_size <= 2 ? 20 : 8, target = (world_rank + 1) % world_size,
        source = (world_rank + world_size - 1) % world_size;
    unsigned char *sent = malloc(MESSAGE), *received = malloc(MESSAGE), block[256];
    MPI_File file;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("isend"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
             &file));
    /* In the first half of the rounds the blocks of the ranks are separate. After that, pieces of 8 bytes
     * alternate, and the access is two-phase. */
    MPI_Datatype pieces;
    MPI_Type_vector(32, 8, 8 * world_size, MPI_BYTE, &pieces);
    MPI_Type_commit(&pieces);
    for (int round = 0; round < rounds; round++) {
        section("round %d", round);
        int is_two_phase = round >= rounds / 2;
        if (round == rounds / 2)
            CHECK_OK(MPI_File_set_view(file, 8 * world_rank, MPI_BYTE, pieces, "native", MPI_INFO_NULL));
        MPI_Request request;
        memset(sent, round + world_rank, MESSAGE);
        memset(block, round + world_rank, sizeof block);
        int late = round % world_size == world_rank;
        /* The late rank receives before it enters the collective. Its sender is already inside, and must
         * still push the message. */
        MPI_Isend(sent, MESSAGE, MPI_BYTE, target, round, MPI_COMM_WORLD, &request);
        if (late) MPI_Recv(received, MESSAGE, MPI_BYTE, source, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_OK(MPI_File_write_at_all(file, is_two_phase ? 0 : 256LL * world_rank, block, 256, MPI_BYTE,
                 MPI_STATUS_IGNORE));
        if (!late) MPI_Recv(received, MESSAGE, MPI_BYTE, source, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        wait_yielding(&request);
        CHECK(received[0] == (unsigned char)(round + source)
              && received[MESSAGE - 1] == (unsigned char)(round + source), "the message is wrong");
    }
    CHECK_OK(MPI_File_close(&file));
    MPI_Type_free(&pieces);
    return finish();
}
