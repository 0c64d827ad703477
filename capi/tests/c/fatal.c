/* MPI_ERRORS_ARE_FATAL ends the program with a message. */
#include "check.h"

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_File file;
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_seek(file, -1, MPI_SEEK_SET);
    return finish();
}
