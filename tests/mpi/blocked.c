/* blocked FOLDER: ranks block inside MPI until another rank has accessed a file in atomic mode and by the
 * shared file pointer. So these accesses must not wait for a call of a blocked rank on a file, whichever rank
 * holds the words of the lock and of the pointer. */
#include "check.h"

enum { PART = 100 };

static MPI_File file;

/* The accesses of the rank `active`, while all other ranks wait in MPI_Recv, and then in MPI_Barrier. */
static void others_are_blocked(int active)
{
    section("all ranks but rank %d are blocked", active);
    char bytes[PART], back[PART];
    memset(bytes, 'a' + active, PART);
    int token = 0;
    barrier();
    if (world_rank == active) {
        MPI_Request request;
        /* The other ranks are in their receives by then. */
        nap(20);
        CHECK_OK(MPI_File_write_at(file, 0, bytes, PART, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_File_read_at(file, 0, back, PART, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(!memcmp(bytes, back, PART), "the bytes that were read differ");
        CHECK_OK(MPI_File_iwrite_at(file, PART, bytes, PART, MPI_BYTE, &request));
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int rank = 0; rank < world_size; rank++)
            if (rank != active) MPI_Send(&token, 1, MPI_INT, rank, active, MPI_COMM_WORLD);
        nap(20);
        CHECK_OK(MPI_File_write_shared(file, bytes, PART, MPI_BYTE, MPI_STATUS_IGNORE));
    } else {
        MPI_Recv(&token, 1, MPI_INT, active, active, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Offset position = -1;
    CHECK_OK(MPI_File_get_position_shared(file, &position));
    CHECK_EQ(position, (active + 1) * PART, "shared position");
    barrier();
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("blocked"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
             &file));
    CHECK_OK(MPI_File_set_atomicity(file, 1));
    for (int active = 0; active < world_size; active++) others_are_blocked(active);
    CHECK_OK(MPI_File_close(&file));
    return finish();
}
