/* waiting FOLDER HOW: while rank 1 waits for rank 0 in a call of ours, rank 2 reaches rank 1's memory, which takes MPI's progress there.
 * HOW is "lock": rank 0 has a lock for long (`CAPULET_FAULTS`); or "collective" or "request": it comes late. */
#include "check.h"

#define OPERATIONS 20

static int is_over(void)
{
    return access(path_of("over"), F_OK) == 0;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int waits_for_lock = argc > 2 && !strcmp(argv[2], "lock"), has_request = argc > 2 && !strcmp(argv[2], "request");
    char bytes[64] = { 0 };
    MPI_File file;
    MPI_Win window;
    int *counter, one = 1, before;
    MPI_Win_allocate(sizeof *counter, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &counter, &window);
    *counter = 0;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("waiting"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK_OK(MPI_File_set_atomicity(file, waits_for_lock));
    MPI_Win_lock_all(0, window);
    barrier();
    section("waits for rank 0");
    if (world_rank == 0) {
        if (waits_for_lock) CHECK_OK(MPI_File_write_at(file, 0, bytes, 64, MPI_BYTE, MPI_STATUS_IGNORE));
        else nanosleep(&(struct timespec){ 1, 500000000 }, NULL);
        spill(path_of("over"), bytes, 1);
    } else {
        nap(200);
        if (world_rank == 2) {
            nap(200);
            for (int i = 0; i < OPERATIONS; i++) {
                MPI_Fetch_and_op(&one, &before, MPI_INT, 1, 0, MPI_SUM, window);
                MPI_Win_flush(1, window);
                CHECK_EQ(before, i, "the counter");
            }
            CHECK(!is_over(), "rank 1 let MPI do nothing while it waited");
        } else if (waits_for_lock) {
            CHECK_OK(MPI_File_write_at(file, 0, bytes, 64, MPI_BYTE, MPI_STATUS_IGNORE));
            /* It may have the lock before rank 0 says that it is over. */
            for (int i = 0; i < 500 && !is_over(); i++) nap(1);
            CHECK(is_over(), "it has not waited");
        }
    }
    if (has_request) {
        MPI_Request request;
        CHECK_OK(MPI_File_iwrite_at_all(file, 64 * world_rank, bytes, 64, MPI_BYTE, &request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else if (!waits_for_lock) {
        CHECK_OK(MPI_File_write_at_all(file, 64 * world_rank, bytes, 64, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(is_over(), "it has not waited");
    }
    barrier();
    MPI_Win_unlock_all(window);
    CHECK_OK(MPI_File_close(&file));
    MPI_Win_free(&window);
    return finish();
}
