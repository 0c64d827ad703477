/* Split collective access: one call begins the access, and another one ends it. */
#include "check.h"

enum { CELLS = 2000 };

static int mine[CELLS], back[CELLS];

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_File file;
    MPI_Datatype resized;
    MPI_Status status;
    int count = 0;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)size * 4, &resized);
    MPI_Type_commit(&resized);
    CHECK_OK(MPI_File_set_view(file, 4 * rank, MPI_INT, resized, "native", MPI_INFO_NULL));
    MPI_Type_free(&resized);
    for (int i = 0; i < CELLS; i++)
        mine[i] = rank * CELLS + i;

    CHECK_OK(MPI_File_write_at_all_begin(file, CELLS, mine, CELLS, MPI_INT));
    /* A file has at most one split access, and only the matching end function ends it. */
    CHECK_CLASS(MPI_ERR_OTHER, MPI_File_read_all_begin(file, back, CELLS, MPI_INT));
    CHECK_CLASS(MPI_ERR_OTHER, MPI_File_write_all_end(file, mine, &status));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_File_write_at_all_end(file, mine, &status));
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == CELLS);
    CHECK_CLASS(MPI_ERR_OTHER, MPI_File_write_at_all_end(file, mine, &status));

    CHECK_OK(MPI_File_write_all_begin(file, mine, CELLS, MPI_INT));
    CHECK_OK(MPI_File_write_all_end(file, mine, MPI_STATUS_IGNORE));
    for (int half = 0; half < 2; half++) {
        memset(back, 0, sizeof back);
        CHECK_OK(MPI_File_read_at_all_begin(file, half * CELLS, back, CELLS, MPI_INT));
        CHECK_OK(MPI_File_read_at_all_end(file, back, &status));
        CHECK(memcmp(mine, back, sizeof mine) == 0);
    }
    CHECK_OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    memset(back, 0, sizeof back);
    CHECK_OK(MPI_File_read_all_begin(file, back, CELLS, MPI_INT));
    CHECK_OK(MPI_File_read_all_end(file, back, &status));
    CHECK(memcmp(mine, back, sizeof mine) == 0);

    /* An error of one rank becomes an error of all ranks, in the end function. */
    CHECK_OK(MPI_File_read_all_begin(file, back, rank == 0 ? -1 : CELLS, MPI_INT));
    CHECK_CLASS(MPI_ERR_COUNT, MPI_File_read_all_end(file, back, &status));

    /* The file is closed before the access is ended. */
    CHECK_OK(MPI_File_write_at_all_begin(file, 2 * CELLS, mine, CELLS, MPI_INT));
    CHECK_OK(MPI_File_close(&file));
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    MPI_Offset bytes = 0;
    CHECK_OK(MPI_File_get_size(file, &bytes));
    CHECK(bytes == (MPI_Offset)3 * CELLS * 4 * size);
    CHECK_OK(MPI_File_close(&file));
    return finish();
}
