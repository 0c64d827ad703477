/* Nonblocking independent access: data, statuses, all ways to complete a request, and errors of the
 * call. */
#include "check.h"

enum { ITEMS = 100 };

static void ways_to_complete(MPI_File file)
{
    int out[ITEMS], in[ITEMS] = {0}, count = 0, done = 0, cancelled = 1, index = -1;
    MPI_Offset mine = (MPI_Offset)rank * sizeof out, at = -1;
    MPI_Request request, pair[2];
    MPI_Status status, statuses[2];
    for (int i = 0; i < ITEMS; i++)
        out[i] = rank * ITEMS + i;

    CHECK_OK(MPI_File_iwrite_at(file, mine, out, ITEMS, MPI_INT, &request));
    CHECK(request != MPI_REQUEST_NULL);
    MPI_Wait(&request, &status);
    CHECK(request == MPI_REQUEST_NULL);
    MPI_Get_count(&status, MPI_INT, &count);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(count == ITEMS && cancelled == 0);

    CHECK_OK(MPI_File_iread_at(file, mine, in, ITEMS, MPI_INT, &request));
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    CHECK(done && request == MPI_REQUEST_NULL);
    CHECK(memcmp(in, out, sizeof in) == 0);

    /* Access by the individual file pointer, which has moved when the call returns. */
    CHECK_OK(MPI_File_seek(file, mine, MPI_SEEK_SET));
    memset(in, 0, sizeof in);
    CHECK_OK(MPI_File_iread(file, in, ITEMS / 2, MPI_INT, &pair[0]));
    CHECK_OK(MPI_File_get_position(file, &at));
    CHECK(at == mine + (MPI_Offset)sizeof out / 2);
    CHECK_OK(MPI_File_iread(file, in + ITEMS / 2, ITEMS / 2, MPI_INT, &pair[1]));
    MPI_Waitall(2, pair, statuses);
    CHECK(memcmp(in, out, sizeof in) == 0);
    MPI_Get_count(&statuses[1], MPI_INT, &count);
    CHECK(count == ITEMS / 2);

    CHECK_OK(MPI_File_seek(file, mine, MPI_SEEK_SET));
    CHECK_OK(MPI_File_iwrite(file, out, 1, MPI_INT, &pair[0]));
    pair[1] = MPI_REQUEST_NULL;
    MPI_Waitany(2, pair, &index, &status);
    CHECK(index == 0);

    CHECK_OK(MPI_File_iwrite_at(file, mine, out, 1, MPI_INT, &request));
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(cancelled == 0);

    CHECK_OK(MPI_File_iwrite_at(file, mine, out, 1, MPI_INT, &request));
    MPI_Request_free(&request);
    CHECK(request == MPI_REQUEST_NULL);
}

static void at_the_end(MPI_File file)
{
    int in[ITEMS], count = -1;
    MPI_Offset bytes = 0;
    MPI_Request request;
    MPI_Status status;
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_File_get_size(file, &bytes));
    CHECK_OK(MPI_File_iread_at(file, bytes - 8, in, ITEMS, MPI_INT, &request));
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 2);
    CHECK_OK(MPI_File_iread_at(file, bytes, in, ITEMS, MPI_INT, &request));
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 0);
}

static void errors(MPI_File file)
{
    int value = 0;
    MPI_Request request;
    memset(&request, 1, sizeof request);
    CHECK_CLASS(MPI_ERR_COUNT, MPI_File_iwrite(file, &value, -1, MPI_INT, &request));
    CHECK(request == MPI_REQUEST_NULL);
    memset(&request, 1, sizeof request);
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_iread_at(file, -1, &value, 1, MPI_INT, &request));
    CHECK(request == MPI_REQUEST_NULL);
    CHECK_CLASS(MPI_ERR_TYPE, MPI_File_iread(file, &value, 1, MPI_DATATYPE_NULL, &request));
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_iread(file, &value, 1, MPI_INT, NULL));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_File file;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    ways_to_complete(file);
    at_the_end(file);
    errors(file);
    CHECK_OK(MPI_File_close(&file));
    return finish();
}
