/* waiting FOLDER HOW: while rank 1 waits for rank 0 in a call of Capulet, rank 2 accesses the memory of
 * rank 1 and sends to it. Both need MPI progress on rank 1. With HOW "lock", rank 0 holds a lock for long
 * (`CAPULET_FAULTS`); with "collective" or "request" it calls late. */
#include "check.h"

enum { OPERATIONS = 20, LARGE = 4 << 20 };

static int is_over(void)
{
    return access(path_of("over"), F_OK) == 0;
}

/* Waits until rank 0 reports that it is over, at most `milliseconds`. Rank 0 releases the lock before it
 * reports. */
static void await_over(int milliseconds)
{
    for (int i = 0; i < milliseconds && !is_over(); i++) nap(1);
    CHECK(is_over(), "this rank did not wait for rank 0");
}

/* Rank 2, while rank 1 waits. */
static void access_rank_1(MPI_Win window, void *large)
{
    int one = 1, before;
    MPI_Request request;
    for (int i = 0; i < OPERATIONS; i++) {
        MPI_Fetch_and_op(&one, &before, MPI_INT, 1, 0, MPI_SUM, window);
        MPI_Win_flush(1, window);
        CHECK_EQ(before, i, "counter on rank 1");
    }
    CHECK(!is_over(), "the memory of rank 1 was not reachable while rank 1 waited");
    MPI_Isend(large, LARGE, MPI_BYTE, 1, 7, MPI_COMM_WORLD, &request);
    wait_yielding(&request);
    CHECK(!is_over(), "rank 1 received nothing while it waited");
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    const char *how = argc > 2 ? argv[2] : "";
    const int has_lock = !strcmp(how, "lock");
    char bytes[64] = { 0 }, *large = calloc(LARGE, 1);
    MPI_File file;
    MPI_Win window;
    MPI_Request received = MPI_REQUEST_NULL, written;
    int *counter;
    MPI_Win_allocate(sizeof *counter, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &counter, &window);
    *counter = 0;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("waiting"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
             &file));
    CHECK_OK(MPI_File_set_atomicity(file, has_lock));
    MPI_Win_lock_all(0, window);
    if (world_rank == 1) MPI_Irecv(large, LARGE, MPI_BYTE, 2, 7, MPI_COMM_WORLD, &received);
    barrier();
    section("rank 1 waits for rank 0");
    if (world_rank == 0) {
        if (has_lock) CHECK_OK(MPI_File_write_at(file, 0, bytes, 64, MPI_BYTE, MPI_STATUS_IGNORE));
        else nanosleep(&(struct timespec){ 3, 0 }, NULL);
        spill(path_of("over"), bytes, 1);
    } else if (world_rank == 1) {
        nap(200);
        if (has_lock) {
            CHECK_OK(MPI_File_write_at(file, 0, bytes, 64, MPI_BYTE, MPI_STATUS_IGNORE));
            await_over(10000);
        }
    } else if (world_rank == 2) {
        nap(400);
        access_rank_1(window, large);
    }
    if (!strcmp(how, "request")) {
        CHECK_OK(MPI_File_iwrite_at_all(file, 64 * world_rank, bytes, 64, MPI_BYTE, &written));
        CHECK_OK(MPI_Wait(&written, MPI_STATUS_IGNORE));
    } else if (!has_lock) {
        CHECK_OK(MPI_File_write_at_all(file, 64 * world_rank, bytes, 64, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(is_over(), "this rank did not wait for rank 0");
    }
    barrier();
    wait_yielding(&received);
    MPI_Win_unlock_all(window);
    CHECK_OK(MPI_File_close(&file));
    MPI_Win_free(&window);
    free(large);
    return finish();
}
