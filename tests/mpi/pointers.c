/* File pointers, offsets and views: seek, positions, byte offsets, get_view, type extents, and reads past
 * the end. */
#include "oracle.h"

static MPI_Offset position(MPI_File file)
{
    MPI_Offset at = -1;
    CHECK_OK(MPI_File_get_position(file, &at));
    return at;
}

static MPI_Offset byte_of(MPI_File file, MPI_Offset offset)
{
    MPI_Offset at = -1;
    CHECK_OK(MPI_File_get_byte_offset(file, offset, &at));
    return at;
}

static void seeking(MPI_File file)
{
    section("seek in bytes");
    CHECK_EQ(position(file), 0, "position at open");
    CHECK_OK(MPI_File_seek(file, 100, MPI_SEEK_SET));
    CHECK_EQ(position(file), 100, "position");
    CHECK_OK(MPI_File_seek(file, -30, MPI_SEEK_CUR));
    CHECK_EQ(position(file), 70, "position");
    CHECK_OK(MPI_File_seek(file, 50, MPI_SEEK_END));
    CHECK_EQ(position(file), 1050, "position past the end");
    CHECK_OK(MPI_File_seek(file, -1000, MPI_SEEK_END));
    CHECK_EQ(position(file), 0, "position");
    CHECK_CLASS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_seek(file, -1, MPI_SEEK_CUR), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_seek(file, -1001, MPI_SEEK_END), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_seek(file, 0, 12345), MPI_ERR_ARG);
    CHECK_EQ(position(file), 0, "position after refused seeks");
}

/* The etype is MPI_INT. From byte 8 on, the first 2 of every 4 integers are visible. */
static void through_a_view(MPI_File file)
{
    section("positions in a view");
    map_t unit = map_named(MPI_INT), inner = map_contiguous(2, unit), filetype = map_resized(0, 16, inner);
    CHECK_OK(MPI_File_seek(file, 5, MPI_SEEK_SET));
    CHECK_OK(MPI_File_set_view(file, 8, MPI_INT, filetype.mpi, "native", MPI_INFO_NULL));
    CHECK_EQ(position(file), 0, "position after set_view");
    CHECK_EQ(byte_of(file, 0), 8, "byte of etype 0");
    CHECK_EQ(byte_of(file, 1), 12, "byte of etype 1");
    CHECK_EQ(byte_of(file, 2), 24, "byte of etype 2");
    CHECK_EQ(byte_of(file, 7), 8 + 3 * 16 + 4, "byte of etype 7");
    CHECK_EQ(byte_of(file, 1000000001), 8 + 500000000LL * 16 + 4, "byte of a far etype");

    /* The file has 1000 bytes. The 992 bytes behind the displacement are 62 groups with 2 visible
     * integers each. */
    CHECK_OK(MPI_File_seek(file, 0, MPI_SEEK_END));
    CHECK_EQ(position(file), 124, "end of the file in etypes");
    CHECK_OK(MPI_File_seek(file, -4, MPI_SEEK_CUR));
    int values[8];
    MPI_Status status;
    CHECK_OK(MPI_File_read(file, values, 8, MPI_INT, &status));
    CHECK_EQ(count_of(&status, MPI_INT), 4, "integers before the end");
    /* MPI 4.1, 14.4.1: by the number requested */
    CHECK_EQ(position(file), 128, "position after a short read");
    for (int i = 0; i < 4; i++) CHECK_EQ(values[i], (8 + (60 + i / 2) * 16 + i % 2 * 4) / 4, "value");

    MPI_Offset displacement = -1;
    MPI_Datatype etype, shown;
    char representation[MPI_MAX_DATAREP_STRING] = "";
    CHECK_OK(MPI_File_get_view(file, &displacement, &etype, &shown, representation));
    CHECK_EQ(displacement, 8, "displacement");
    CHECK(strcmp(representation, "native") == 0, "representation `%s`", representation);
    MPI_Aint lb, extent;
    int size;
    MPI_Type_get_extent(shown, &lb, &extent);
    MPI_Type_size(shown, &size);
    CHECK(lb == 0 && extent == 16 && size == 8, "filetype of get_view: lb %ld extent %ld size %d", (long)lb,
          (long)extent, size);
    MPI_Type_get_extent(etype, &lb, &extent);
    CHECK_EQ(extent, 4, "extent of the etype");
    /* The types returned by get_view may be used for the next set_view, and must be freed if they are
     * derived. */
    CHECK_OK(MPI_File_set_view(file, 16, etype, shown, "native", MPI_INFO_NULL));
    CHECK_EQ(byte_of(file, 2), 32, "byte of etype 2");
    int integers, addresses, types, combiner;
    MPI_Type_get_envelope(shown, &integers, &addresses, &types, &combiner);
    if (combiner != MPI_COMBINER_NAMED) MPI_Type_free(&shown);
    MPI_Type_get_envelope(etype, &integers, &addresses, &types, &combiner);
    if (combiner != MPI_COMBINER_NAMED) MPI_Type_free(&etype);
    CHECK_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    map_free(&inner);
    map_free(&filetype);
}

static void past_the_end(MPI_File file)
{
    unsigned char bytes[64];
    MPI_Status status;
    section("reads past the end");
    memset(bytes, 7, sizeof bytes);
    CHECK_OK(MPI_File_read_at(file, 990, bytes, 64, MPI_BYTE, &status));
    CHECK_EQ(count_of(&status, MPI_BYTE), 10, "bytes before the end");
    CHECK_EQ(bytes[10], 7, "memory behind the bytes read");
    CHECK_OK(MPI_File_read_at(file, 1000, bytes, 64, MPI_BYTE, &status));
    CHECK_EQ(count_of(&status, MPI_BYTE), 0, "bytes at the end");
    CHECK_OK(MPI_File_read_at(file, 1LL << 40, bytes, 64, MPI_BYTE, &status));
    CHECK_EQ(count_of(&status, MPI_BYTE), 0, "bytes far beyond the end");
    CHECK_OK(MPI_File_read_at_all(file, 1000 - 8 * world_rank, bytes, 64, MPI_BYTE, &status));
    CHECK_EQ(count_of(&status, MPI_BYTE), 8 * world_rank, "bytes of a collective read");
    /* If the data is not a whole number of items of the type, the count is undefined, but the number of
     * elements is known. */
    map_t unit = map_named(MPI_INT), pair = map_contiguous(2, unit);
    CHECK_OK(MPI_File_read_at(file, 988, bytes, 4, pair.mpi, &status));
    CHECK_EQ(count_of(&status, pair.mpi), MPI_UNDEFINED, "count of pairs");
    CHECK_EQ(elements(&status, pair.mpi), 3, "elements");
    map_free(&pair);
    /* Strided memory: the gaps keep their contents. */
    map_t spaced = map_vector(8, 1, 2, unit);
    int slots[16];
    for (int i = 0; i < 16; i++) slots[i] = -9;
    CHECK_OK(MPI_File_read_at(file, 980, slots, 1, spaced.mpi, &status));
    CHECK_EQ(elements(&status, MPI_BYTE), 20, "bytes into strided memory");
    for (int i = 0; i < 16; i++)
        CHECK_EQ(slots[i], i % 2 == 0 && i < 10 ? (980 + i / 2 * 4) / 4 : -9, "slot");
    map_free(&spaced);
}

/* Overlapping views for reading: every rank sees the same bytes, and the tiles of a view overlap each
 * other. */
static void overlapping(MPI_File file)
{
    section("overlapping views");
    map_t unit = map_named(MPI_INT), block = map_contiguous(8, unit), filetype = map_resized(0, 16, block);
    int values[64];
    MPI_Status status;
    for (int collective = 0; collective < 2; collective++) {
        CHECK_OK(MPI_File_set_view(file, 4 * world_rank, MPI_INT, filetype.mpi, "native", MPI_INFO_NULL));
        memset(values, 0xff, sizeof values);
        CHECK_OK(collective ? MPI_File_read_at_all(file, 3, values, 40, MPI_INT, &status)
                 : MPI_File_read_at(file, 3, values, 40, MPI_INT, &status));
        CHECK_EQ(count_of(&status, MPI_INT), 40, "integers");
        for (int i = 0; i < 40; i++)
            CHECK_EQ(values[i], world_rank + (i + 3) / 8 * 4 + (i + 3) % 8, "value of overlapping tiles");
    }
    /* Tiles that interleave: 0, 4, 8, 12 and then 1, 5, 9, 13. */
    map_t comb = map_vector(4, 1, 4, unit), shifted = map_resized(0, 4, comb);
    CHECK_OK(MPI_File_set_view(file, 0, MPI_INT, shifted.mpi, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_File_read_at_all(file, 2, values, 12, MPI_INT, &status));
    CHECK_EQ(count_of(&status, MPI_INT), 12, "integers");
    for (int i = 0; i < 12; i++)
        CHECK_EQ(values[i], (i + 2) / 4 + (i + 2) % 4 * 4, "value of interleaved tiles");
    CHECK_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    map_free(&block); map_free(&filetype); map_free(&comb); map_free(&shifted);
}

static void type_extents(MPI_File file)
{
    section("type extents");
    MPI_Aint extent = -1;
    CHECK_OK(MPI_File_get_type_extent(file, MPI_DOUBLE, &extent));
    CHECK_EQ(extent, 8, "extent of MPI_DOUBLE");
    map_t unit = map_named(MPI_INT), wide = map_resized(0, 40, unit);
    CHECK_OK(MPI_File_get_type_extent(file, wide.mpi, &extent));
    CHECK_EQ(extent, 40, "extent of a resized type");
    map_free(&wide);
}

/* Accesses of one run each, one after another at the pointer, in a view without gaps that begins inside
 * the file. The bytes must go to their places and to no other place. The pointer must move by the number
 * of bytes requested, or not at all. */
static void one_run_after_another(void)
{
    enum { INTS = 12, DISPLACEMENT = 40, FILE_BYTES = 200 };
    int values[INTS], back[INTS + 1];
    unsigned char before[FILE_BYTES];
    char name[32];
    MPI_Datatype behind, pair;
    MPI_File file;
    MPI_Status status;
    snprintf(name, sizeof name, "runs.%d", world_rank);
    memset(before, 0xEE, sizeof before);
    spill(path_of(name), before, sizeof before);
    /* Two values that begin one integer after the address. */
    MPI_Type_create_hindexed(1, &(int){ 2 }, &(MPI_Aint){ sizeof(int) }, MPI_INT, &behind);
    MPI_Type_create_resized(behind, sizeof(int), 2 * sizeof(int), &pair);
    MPI_Type_commit(&pair);
    for (int i = 0; i < INTS; i++) values[i] = 1000 * world_rank + i;
    for (int atomic = 0; atomic < 2; atomic++) {
        section("one run after another, atomic %d", atomic);
        CHECK_OK(MPI_File_open(MPI_COMM_SELF, path_of(name), MPI_MODE_RDWR, MPI_INFO_NULL, &file));
        CHECK_OK(MPI_File_set_view(file, DISPLACEMENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
        CHECK_OK(MPI_File_set_atomicity(file, atomic));
        CHECK_OK(MPI_File_write(file, values, 3, MPI_INT, &status));
        CHECK_EQ(count_of(&status, MPI_INT), 3, "written values");
        CHECK_EQ(position(file), 3, "position after a write");
        CHECK_OK(MPI_File_write(file, values + 2, 2, pair, MPI_STATUS_IGNORE));
        CHECK_EQ(position(file), 7, "position after a write of a type that begins after its address");
        CHECK_CLASS(MPI_File_write(file, values, 3, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG);
        CHECK_OK(MPI_File_write(file, values, 0, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_EQ(position(file), 7, "position after a refused write and an empty write");
        CHECK_OK(MPI_File_write_at(file, 7, values + 7, INTS - 7, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_EQ(position(file), 7, "position after a write at an offset");
        CHECK_OK(MPI_File_seek(file, 1, MPI_SEEK_SET));
        memset(back, 0, sizeof back);
        CHECK_OK(MPI_File_read(file, back, 2, pair, MPI_STATUS_IGNORE));
        CHECK_EQ(position(file), 5, "position after a read");
        CHECK_EQ(back[0], 0, "integer before the type");
        for (int i = 0; i < 4; i++) CHECK_EQ(back[i + 1], values[i + 1], "value");
        CHECK_OK(MPI_File_seek(file, (FILE_BYTES - DISPLACEMENT) / (int)sizeof(int) - 2, MPI_SEEK_SET));
        CHECK_OK(MPI_File_read(file, back, 5, MPI_INT, &status));
        CHECK_EQ(count_of(&status, MPI_INT), 2, "values before the end");
        CHECK_EQ(position(file), (FILE_BYTES - DISPLACEMENT) / (int)sizeof(int) + 3,
                 "position beyond the end");
        CHECK_CLASS(MPI_File_write_at(file, LLONG_MAX / (int)sizeof(int), values, 1, MPI_INT,
                    MPI_STATUS_IGNORE), MPI_ERR_ARG);
        CHECK_OK(MPI_File_close(&file));
        long long bytes;
        unsigned char *all = slurp(path_of(name), &bytes);
        CHECK_EQ(bytes, FILE_BYTES, "size");
        CHECK(!memcmp(all + DISPLACEMENT, values, sizeof values), "the bytes written are wrong");
        for (int i = 0; i < FILE_BYTES; i++)
            if (i < DISPLACEMENT || i >= DISPLACEMENT + (int)sizeof values)
                CHECK_EQ(all[i], 0xEE, "byte outside of the access");
        free(all);
        spill(path_of(name), before, sizeof before);
    }
    MPI_Type_free(&behind);
    MPI_Type_free(&pair);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    const char *path = path_of("pointers");
    if (world_rank == 0) {
        int values[250];
        for (int i = 0; i < 250; i++) values[i] = i;
        spill(path, values, sizeof values);
    }
    barrier();
    MPI_File file;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    seeking(file);
    through_a_view(file);
    past_the_end(file);
    overlapping(file);
    type_extents(file);
    CHECK_OK(MPI_File_close(&file));
    one_run_after_another();
    return finish();
}
