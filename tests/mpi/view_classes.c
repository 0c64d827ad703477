/* Error classes of views with a wrong etype or filetype. MPI 4.1, section 14.3, names no class, so Capulet
 * does as ROMIO does. Displacements that are negative or decrease are MPI_ERR_IO, and so are overlaps in a
 * file that is open for writing. A single bad argument is MPI_ERR_ARG. Pieces that overlap may be read. */
#include "check.h"

static MPI_Datatype indexed(int first_length, int first_at, int second_length, int second_at)
{
    MPI_Datatype type;
    const int lengths[] = { first_length, second_length }, places[] = { first_at, second_at };
    MPI_Type_indexed(2, lengths, places, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
}

static void types(MPI_File file, int may_overlap)
{
    const struct { const char *what; int lengths[2], places[2], class; } cases[] = {
        { "below zero", { 1, 1 }, { -2, 2 }, MPI_ERR_IO },
        { "falling", { 1, 1 }, { 3, 0 }, MPI_ERR_IO },
        { "falling, and touching", { 2, 2 }, { 2, 0 }, MPI_ERR_IO },
        { "the same displacement twice", { 1, 1 }, { 1, 1 }, may_overlap ? MPI_SUCCESS : MPI_ERR_IO },
        { "overlapping, the second in the first", { 3, 1 }, { 0, 1 },
          may_overlap ? MPI_SUCCESS : MPI_ERR_IO },
        { "overlapping, one behind the other", { 2, 2 }, { 0, 1 }, may_overlap ? MPI_SUCCESS : MPI_ERR_IO },
        { "rising", { 1, 2 }, { 0, 4 }, MPI_SUCCESS },
    };
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        MPI_Datatype type = indexed(cases[c].lengths[0], cases[c].places[0], cases[c].lengths[1],
                                    cases[c].places[1]);
        section("%s, file opened %s", cases[c].what, may_overlap ? "for reading" : "for reading and writing");
        CHECK_CLASS(MPI_File_set_view(file, 0, type, type, "native", MPI_INFO_NULL), cases[c].class);
        CHECK_CLASS(MPI_File_set_view(file, 0, MPI_INT, type, "native", MPI_INFO_NULL), cases[c].class);
        CHECK_CLASS(MPI_File_set_view(file, 0, MPI_INT, world_rank == world_size - 1 ? type : MPI_INT,
                    "native", MPI_INFO_NULL), cases[c].class);
        MPI_Type_free(&type);
    }
    section("arguments");
    MPI_Datatype three;
    MPI_Type_contiguous(3, MPI_BYTE, &three);
    MPI_Type_commit(&three);
    CHECK_CLASS(MPI_File_set_view(file, -1, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_set_view(file, 0, MPI_INT, three, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_set_view(file, 0, MPI_DATATYPE_NULL, MPI_INT, "native", MPI_INFO_NULL),
                MPI_ERR_TYPE);
    MPI_Type_free(&three);
}

/* Reads through pieces that overlap. */
static void reads(MPI_File file)
{
    int found[8] = { 0 }, expected[8] = { 0, 1, 2, 1, 3, 4, 5, 4 };
    MPI_Status status;
    MPI_Datatype type = indexed(3, 0, 1, 1);
    section("a read through pieces that overlap");
    CHECK_OK(MPI_File_set_view(file, 0, MPI_INT, type, "native", MPI_INFO_NULL));
    for (int all = 0; all < 2; all++) {
        memset(found, 0x55, sizeof found);
        CHECK_OK(all ? MPI_File_read_at_all(file, 0, found, 8, MPI_INT, &status)
                     : MPI_File_read_at(file, 0, found, 8, MPI_INT, &status));
        CHECK_EQ(count_of(&status, MPI_INT), 8, "integers read");
        for (int i = 0; i < 8; i++) CHECK_EQ(found[i], expected[i], "integer read");
    }
    MPI_Offset at = -1;
    CHECK_OK(MPI_File_get_byte_offset(file, 3, &at));
    CHECK_EQ(at, 4, "byte offset of the second piece");
    MPI_Type_free(&type);
}

int main(int argc, char **argv)
{
    static const int numbers[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    MPI_File file = MPI_FILE_NULL;
    start(&argc, &argv);
    const char *path = path_of("classes");
    if (world_rank == 0) spill(path, numbers, sizeof numbers);
    barrier();
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    types(file, 0);
    CHECK_OK(MPI_File_close(&file));
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    types(file, 1);
    reads(file);
    CHECK_OK(MPI_File_close(&file));
    return finish();
}
