/* endless FOLDER: the ranks write a file collectively until a rank is killed. Rank 0 makes the file `begun`
 * after the tenth access. */
#include "check.h"

int main(int argc, char **argv)
{
    enum { PIECE_BYTES = 1000, PIECES = 50 };
    static char bytes[PIECES * PIECE_BYTES];
    start(&argc, &argv);
    MPI_File file;
    MPI_Datatype strided;
    MPI_Type_vector(PIECES, PIECE_BYTES, PIECE_BYTES * world_size, MPI_BYTE, &strided);
    MPI_Type_commit(&strided);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("endless"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
             &file));
    CHECK_OK(MPI_File_set_view(file, (MPI_Offset)world_rank * PIECE_BYTES, MPI_BYTE, strided, "native",
             MPI_INFO_NULL));
    for (long access = 0;; access++) {
        const int code = MPI_File_write_at_all(file, 0, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS) {
            fprintf(stderr, "rank %d: class %s\n", world_rank, class_name(class_of(code)));
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        if (world_rank == 0 && access == 10) spill(path_of("begun"), "", 0);
    }
}
