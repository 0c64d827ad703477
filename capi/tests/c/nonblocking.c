/* Nonblocking collective access: several operations in flight, waits in any order, and a mix with blocking
 * calls and messages. */
#include "check.h"

enum { CELLS = 3000, IN_FLIGHT = 9 };

static int value(int operation, int owner, int cell)
{
    return (operation * 1000003 + owner) * CELLS + cell;
}

/* Opens a file in which cells of 4 bytes belong to the ranks in cyclic order: many small runs, so that the
 * access is two-phase. */
static MPI_File open_interleaved(const char *name)
{
    MPI_File file;
    MPI_Datatype dealt, resized;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_Type_contiguous(1, MPI_INT, &dealt);
    MPI_Type_create_resized(dealt, 0, (MPI_Aint)size * 4, &resized);
    MPI_Type_commit(&resized);
    CHECK_OK(MPI_File_set_view(file, 4 * rank, MPI_INT, resized, "native", MPI_INFO_NULL));
    MPI_Type_free(&dealt);
    MPI_Type_free(&resized);
    return file;
}

static void fill(int *cells, int operation)
{
    for (int i = 0; i < CELLS; i++)
        cells[i] = value(operation, rank, i);
}

static int is_full(const int *cells, int operation)
{
    for (int i = 0; i < CELLS; i++)
        if (cells[i] != value(operation, rank, i))
            return 0;
    return 1;
}

static void wait_for(MPI_Request *request)
{
    MPI_Status status;
    int count;
    CHECK_OK(MPI_Wait(request, &status));
    CHECK(*request == MPI_REQUEST_NULL);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == CELLS);
}

/* The ranks wait in different orders. */
static void wait_in_own_order(MPI_Request *requests, int count)
{
    switch (rank % 4) {
    case 0:
        for (int i = 0; i < count; i++)
            wait_for(&requests[i]);
        break;
    case 1:
        for (int i = count - 1; i >= 0; i--)
            wait_for(&requests[i]);
        break;
    case 2:
        CHECK_OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
        break;
    default:
        for (int left = count; left > 0;) {
            int index, flag = 0;
            CHECK_OK(MPI_Testany(count, requests, &index, &flag, MPI_STATUS_IGNORE));
            left -= flag && index != MPI_UNDEFINED;
        }
    }
}

static int cells[IN_FLIGHT][CELLS];

static void many_in_flight(MPI_File file)
{
    MPI_Request requests[IN_FLIGHT];
    for (int i = 0; i < IN_FLIGHT; i++) {
        fill(cells[i], i);
        CHECK_OK(MPI_File_iwrite_at_all(file, (MPI_Offset)i * CELLS, cells[i], CELLS, MPI_INT, &requests[i]));
    }
    wait_in_own_order(requests, IN_FLIGHT);
    memset(cells, 0, sizeof cells);
    CHECK_OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    for (int i = 0; i < IN_FLIGHT; i++) {
        MPI_Offset offset;
        CHECK_OK(MPI_File_iread_all(file, cells[i], CELLS, MPI_INT, &requests[i]));
        MPI_File_get_position(file, &offset);
        CHECK(offset == (MPI_Offset)(i + 1) * CELLS);
    }
    wait_in_own_order(requests, IN_FLIGHT);
    for (int i = 0; i < IN_FLIGHT; i++)
        CHECK(is_full(cells[i], i));
}

/* Two files: the ranks start the operations in different orders and wait in different orders. */
static void two_files(MPI_File *files)
{
    MPI_Request requests[2];
    for (int i = 0; i < 2; i++) {
        int which = (i + rank) % 2;
        fill(cells[which], 20 + which);
        CHECK_OK(MPI_File_iwrite_at_all(files[which], 0, cells[which], CELLS, MPI_INT, &requests[which]));
    }
    int first = rank / 2 % 2;
    wait_for(&requests[first]);
    wait_for(&requests[1 - first]);
    memset(cells, 0, sizeof cells);
    for (int which = 0; which < 2; which++) {
        CHECK_OK(MPI_File_read_at_all(files[which], 0, cells[which], CELLS, MPI_INT, MPI_STATUS_IGNORE));
        CHECK(is_full(cells[which], 20 + which));
    }
}

/* A blocking access to one file, while only some ranks have started a nonblocking access to another
 * file. */
static void with_a_blocking_access(MPI_File *files)
{
    MPI_Request request;
    MPI_Status status;
    int count;
    fill(cells[0], 30);
    fill(cells[1], 31);
    if (rank % 2 == 0)
        CHECK_OK(MPI_File_iwrite_at_all(files[1], 0, cells[1], CELLS, MPI_INT, &request));
    CHECK_OK(MPI_File_write_at_all(files[0], 0, cells[0], CELLS, MPI_INT, &status));
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == CELLS);
    CHECK_OK(MPI_File_sync(files[0]));
    if (rank % 2 == 1)
        CHECK_OK(MPI_File_iwrite_at_all(files[1], 0, cells[1], CELLS, MPI_INT, &request));
    CHECK_OK(MPI_File_read_at_all(files[0], 0, cells[2], CELLS, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(is_full(cells[2], 30));
    wait_for(&request);
    CHECK_OK(MPI_File_read_at_all(files[1], 0, cells[2], CELLS, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(is_full(cells[2], 31));
}

/* Messages of the program that are too long to be sent before they are received. */
static void with_messages(MPI_File file)
{
    enum { BYTES = 1 << 22 };
    char *out = malloc(BYTES), *in = malloc(BYTES);
    MPI_Request requests[3];
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    memset(out, rank + 1, BYTES);
    MPI_Isend(out, BYTES, MPI_CHAR, next, 7, MPI_COMM_WORLD, &requests[0]);
    fill(cells[0], 40);
    CHECK_OK(MPI_File_iwrite_at_all(file, 0, cells[0], CELLS, MPI_INT, &requests[1]));
    if (rank % 2 == 0) {
        wait_for(&requests[1]);
        MPI_Recv(in, BYTES, MPI_CHAR, previous, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    } else {
        MPI_Irecv(in, BYTES, MPI_CHAR, previous, 7, MPI_COMM_WORLD, &requests[2]);
        CHECK_OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    }
    CHECK(in[0] == previous + 1 && in[BYTES - 1] == previous + 1);
    free(out);
    free(in);
}

/* Before version 4.3, which adds MPIX_Async_start, MPICH calls no function of the library while it waits
 * for a message. */
#if defined(OPEN_MPI) || (defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 40300000)
#define IS_CALLED_IN_EVERY_WAIT
#endif

#ifdef IS_CALLED_IN_EVERY_WAIT
/* A rank waits for a message that another rank sends only after the access is complete. */
static void inside_a_receive(MPI_File file)
{
    MPI_Request request;
    int token = 0;
    fill(cells[0], 50);
    CHECK_OK(MPI_File_iwrite_at_all(file, 0, cells[0], CELLS, MPI_INT, &request));
    if (rank == 0) {
        for (int from = 1; from < size; from++)
            MPI_Recv(&token, 1, MPI_INT, from, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        wait_for(&request);
    } else {
        wait_for(&request);
        MPI_Send(&token, 1, MPI_INT, 0, 8, MPI_COMM_WORLD);
    }
}
#endif

/* Rank 0 queries its file pointer until another rank reports that its own wait is over. Rank 0 waits in no
 * call meanwhile. */
static void progress_in_calls_that_do_not_wait(MPI_File file)
{
    enum { OPERATION = 70, TAG = 70 };
    static int cells[CELLS];
    MPI_Request request;
    MPI_Offset offset;
    int is_over = 0;
    fill(cells, OPERATION);
    CHECK_OK(MPI_File_iwrite_at_all(file, 0, cells, CELLS, MPI_INT, &request));
    const double end = MPI_Wtime() + 30;
    while (rank == 0 && size > 1 && !is_over && MPI_Wtime() < end) {
        MPI_File_get_position(file, &offset);
        MPI_Iprobe(1, TAG, MPI_COMM_WORLD, &is_over, MPI_STATUS_IGNORE);
    }
    if (rank == 0 && size > 1)
        CHECK(is_over);
    wait_for(&request);
    if (rank == 1)
        MPI_Send(&is_over, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD);
    if (rank == 0 && size > 1)
        MPI_Recv(&is_over, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* An invalid argument on one rank: all ranks get an error in their wait, and the next access succeeds. */
static void invalid_on_one_rank(MPI_File file)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int bad = size - 1;
    fill(cells[0], 60);
    CHECK_OK(MPI_File_iwrite_at_all(file, 0, cells[0], rank == bad ? -1 : CELLS, MPI_INT, &request));
    CHECK_CLASS(MPI_ERR_COUNT, MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_iwrite_at_all(file, rank == bad ? -1 : 0, cells[0], CELLS, MPI_INT, &request));
    MPI_Status status;
    CHECK_CLASS(MPI_ERR_ARG, MPI_Wait(&request, &status));
    CHECK_OK(MPI_File_iwrite_at_all(file, 0, cells[0], CELLS, MPI_INT, &request));
    wait_for(&request);
    /* One rank passes a null pointer for the request. That rank gets the error at once, and the others in
     * their wait. */
    int class = class_of(MPI_File_iwrite_at_all(file, 0, cells[0], CELLS, MPI_INT,
                                                   rank == bad ? NULL : &request));
    CHECK(class == (rank == bad ? MPI_ERR_ARG : MPI_SUCCESS));
    if (rank != bad)
        CHECK_CLASS(MPI_ERR_ARG, MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_iwrite_at_all(file, 0, cells[0], CELLS, MPI_INT, &request));
    wait_for(&request);
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_iwrite_all(MPI_FILE_NULL, cells[0], CELLS, MPI_INT, &request));
}

/* A file with larger collective buffers is opened while operations are in progress. Half of the ranks open
 * it before they wait, the others after. */
static void around_an_open(MPI_File file, const char *name)
{
    MPI_Request requests[IN_FLIGHT];
    MPI_File other;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "4194304");
    for (int i = 0; i < IN_FLIGHT; i++) {
        fill(cells[i], 90 + i);
        CHECK_OK(MPI_File_iwrite_at_all(file, (MPI_Offset)i * CELLS, cells[i], CELLS, MPI_INT, &requests[i]));
    }
    if (rank % 2 == 1)
        wait_in_own_order(requests, IN_FLIGHT);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &other));
    if (rank % 2 == 0)
        wait_in_own_order(requests, IN_FLIGHT);
    /* No operation is in progress any more, so the shared windows can grow now. */
    CHECK_OK(MPI_File_set_view(other, 4 * rank, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_File_write_at_all(other, 0, cells[0], 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_close(&other));
    for (int i = 0; i < IN_FLIGHT; i++) {
        CHECK_OK(MPI_File_read_at_all(file, (MPI_Offset)i * CELLS, cells[i], CELLS, MPI_INT,
                 MPI_STATUS_IGNORE));
        CHECK(is_full(cells[i], 90 + i));
    }
    MPI_Info_free(&info);
}

/* An operation continues after its request is freed, and the close waits for it. */
static void freed(const char *name)
{
    MPI_File file = open_interleaved(name);
    MPI_Request request;
    fill(cells[0], 70);
    CHECK_OK(MPI_File_iwrite_all(file, cells[0], CELLS, MPI_INT, &request));
    MPI_Request_free(&request);
    CHECK_OK(MPI_File_close(&file));
    file = open_interleaved(name);
    CHECK_OK(MPI_File_read_all(file, cells[1], CELLS, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(is_full(cells[1], 70));
    CHECK_OK(MPI_File_close(&file));
}

/* Accesses without data and of large contiguous blocks: the planner chooses other plans than two-phase. */
static void other_plans(const char *name)
{
    MPI_File file;
    MPI_Request requests[2];
    int zero = 0, count = -1;
    MPI_Status status;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK_OK(MPI_File_iwrite_all(file, &zero, 0, MPI_INT, &requests[0]));
    fill(cells[0], 80);
    CHECK_OK(MPI_File_iwrite_at_all(file, (MPI_Offset)rank * sizeof cells[0], cells[0], CELLS, MPI_INT,
             &requests[1]));
    CHECK_OK(MPI_Wait(&requests[0], &status));
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 0);
    wait_for(&requests[1]);
    CHECK_OK(MPI_File_iread_at_all(file, (MPI_Offset)rank * sizeof cells[0], cells[1], CELLS, MPI_INT,
             &requests[0]));
    wait_for(&requests[0]);
    CHECK(is_full(cells[1], 80));
    CHECK_OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    char second[4096], third[4096];
    snprintf(second, sizeof second, "%s.second", argv[1]);
    MPI_File files[2] = {open_interleaved(argv[1]), open_interleaved(second)};
    many_in_flight(files[0]);
    two_files(files);
    with_a_blocking_access(files);
    with_messages(files[0]);
#ifdef IS_CALLED_IN_EVERY_WAIT
    inside_a_receive(files[1]);
#endif
    progress_in_calls_that_do_not_wait(files[0]);
    invalid_on_one_rank(files[0]);
    snprintf(third, sizeof third, "%s.third", argv[1]);
    around_an_open(files[0], third);
    CHECK_OK(MPI_File_close(&files[0]));
    CHECK_OK(MPI_File_close(&files[1]));
    freed(argv[1]);
    other_plans(second);
    return finish();
}
