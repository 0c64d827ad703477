/* MPI_Comm_group fails on one rank. The open then fails on all ranks, and the next open succeeds. */
#include "check.h"

static int fails;

/* Replaces the function of MPI, also in calls of the library. */
int MPI_Comm_group(MPI_Comm comm, MPI_Group *group)
{
    return fails ? MPI_ERR_OTHER : PMPI_Comm_group(comm, group);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_File file;
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    fails = rank == size - 1;
    CHECK_CLASS(MPI_ERR_OTHER, MPI_File_open(MPI_COMM_WORLD, argv[1], mode, MPI_INFO_NULL, &file));
    CHECK(file == MPI_FILE_NULL);
    fails = 0;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], mode, MPI_INFO_NULL, &file));
    CHECK_OK(MPI_File_close(&file));
    return finish();
}
