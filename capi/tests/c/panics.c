/* Calls the functions of a file whose storage may panic on one rank. Each rank prints the outcome of each
 * call. */
#include "check.h"

static int say(const char *what, int code)
{
    int class = class_of(code);
    const char *name = class == MPI_SUCCESS ? "ok" : class == MPI_ERR_INTERN ? "intern" : "another error";
    printf("rank %d: %s: %s\n", rank, what, name);
    fflush(stdout);
    return class == MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_File file;
    MPI_Info info;
    int value = rank, mode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", "enable");
    if (say("open", MPI_File_open(MPI_COMM_WORLD, argv[1], mode, info, &file))) {
        say("write_at", MPI_File_write_at(file, rank * sizeof value, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
        enum { COUNT = 4096 };
        static int values[COUNT];
        MPI_Offset offset = (MPI_Offset)rank * sizeof values;
        say("write_at_all", MPI_File_write_at_all(file, offset, values, COUNT, MPI_INT, MPI_STATUS_IGNORE));
        say("set_size", MPI_File_set_size(file, 10));
        say("sync", MPI_File_sync(file));
        say("close", MPI_File_close(&file));
    }
    MPI_Info_free(&info);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("the end\n");
    MPI_Finalize();
    return 0;
}
