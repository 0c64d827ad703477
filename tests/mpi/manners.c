/* The library next to the MPI traffic of the user. It takes no message of the user and leaves none, works
 * while operations of the user are pending, and exports the PMPI names too. Its error codes have a class
 * and a text. */
#include "check.h"

/* The user has pending receives from any source with any tag, on the communicator of the file itself. */
static void wildcard_receives(void)
{
    section("pending wildcard receives");
    enum { PENDING = 4 };
    MPI_Request receives[PENDING], ibarrier;
    int received[PENDING], count = 0, flag = 1, value = world_rank, seen = -1;
    MPI_Comm comm;
    MPI_File file;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int r = 0; r < PENDING; r++) {
        received[r] = -1;
        MPI_Irecv(&received[r], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &receives[r]);
    }
    CHECK_OK(MPI_File_open(comm, path_of("manners"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    /* A collective of the user stays open until all ranks have called it. Files are collective over a
     * duplicate of the communicator (MPI 4.1, 14.6.5). */
    if (world_rank == 0) MPI_Ibarrier(comm, &ibarrier);
    for (int round = 0; round < 5; round++) {
        CHECK_OK(MPI_File_write_at_all(file, 4 * world_rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_File_read_at_all(file, 4 * world_rank, &seen, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_EQ(seen, value, "value");
    }
    CHECK_OK(MPI_File_close(&file));
    for (int r = 0; r < PENDING; r++) count += received[r] != -1;
    CHECK_EQ(count, 0, "number of user receives that received something");
    /* No rank sends before all ranks have counted. Without this barrier the rank that closes first would
     * pass the Ibarrier, and the other ranks would count its messages here. */
    barrier();
    if (world_rank != 0) MPI_Ibarrier(comm, &ibarrier);
    wait_yielding(&ibarrier);
    for (int r = 0; r < PENDING; r++) MPI_Send(&r, 1, MPI_INT, (world_rank + 1) % world_size, 100 + r, comm);
    for (int r = 0; r < PENDING; r++) {
        wait_yielding(&receives[r]);
        CHECK_EQ(received[r], r, "message of the user");
    }
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
    CHECK_EQ(flag, 0, "flag for a message that is left");
    MPI_Comm_free(&comm);
}

static void profiling_names(void)
{
    section("PMPI names");
    MPI_File file;
    MPI_Offset at = -1;
    MPI_Status status;
    char byte = 'p', seen = 0;
    CHECK_OK(PMPI_File_open(MPI_COMM_WORLD, path_of("profiled"), MPI_MODE_CREATE | MPI_MODE_RDWR,
             MPI_INFO_NULL, &file));
    CHECK_OK(MPI_File_set_view(file, world_rank, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    CHECK_OK(PMPI_File_write_all(file, &byte, 1, MPI_BYTE, &status));
    CHECK_OK(PMPI_File_get_position(file, &at));
    CHECK_EQ(at, 1, "position");
    CHECK_OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    CHECK_OK(MPI_File_read(file, &seen, 1, MPI_BYTE, &status));
    CHECK_EQ(seen, 'p', "byte");
    MPI_Fint number = PMPI_File_c2f(file);
    CHECK(MPI_File_f2c(number) == file, "the handle changed in c2f and f2c");
    CHECK_OK(PMPI_File_close(&file));
}

static void error_texts(void)
{
    section("error texts");
    MPI_File file;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0,
        code = MPI_File_open(MPI_COMM_WORLD, path_of("missing"), MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    CHECK_EQ(MPI_Error_string(code, text, &length), MPI_SUCCESS, "MPI_Error_string");
    CHECK(length > 5, "the text is `%s`", text);
}

/* Creates and frees communicators, each with files. No resource may run out. */
static void many_communicators(void)
{
    section("many communicators");
    for (int c = 0; c < 200; c++) {
        MPI_Comm comm;
        MPI_File file;
        int value = c, seen = -1;
        if (c % 2) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        else MPI_Comm_split(MPI_COMM_WORLD, 0, world_size - world_rank, &comm);
        CHECK_OK(MPI_File_open(comm, path_of("communicators"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                 &file));
        CHECK_OK(MPI_File_write_at_all(file, 4 * world_rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_File_read_at_all(file, 4 * world_rank, &seen, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_EQ(seen, c, "value");
        if (c % 4 < 2) MPI_Comm_free(&comm);
        CHECK_OK(MPI_File_close(&file));
        if (c % 4 >= 2) MPI_Comm_free(&comm);
    }
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    wildcard_receives();
    profiling_names();
    error_texts();
    many_communicators();
    return finish();
}
