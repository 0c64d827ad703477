/* MPI cannot give the group of the communicator on one rank: the open fails on all ranks, and the next one works. */
#include "check.h"

static int fails;

/* In place of MPI's own, which the library calls too. */
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
