/* Offsets beyond 4 GiB on a sparse file: by offset, by pointer and through views, independently and
 * collectively. */
#include "oracle.h"

#define GIB (1LL << 30)

static unsigned char byte_at(const char *path, i64 offset)
{
    unsigned char byte = 0xfe;
    int fd = open(path, O_RDONLY);
    if (pread(fd, &byte, 1, offset) != 1) byte = 0xfd;
    close(fd);
    return byte;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    const char *path = path_of("large");
    MPI_File file;
    MPI_Status status;
    MPI_Offset size = -1, at = -1;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
             MPI_INFO_NULL, &file));
    section("sizes beyond 4 GiB");
    CHECK_OK(MPI_File_set_size(file, 5 * GIB + 1));
    CHECK_OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, 5 * GIB + 1, "size");

    section("explicit offsets");
    unsigned char mine[8], back[8];
    memset(mine, 65 + world_rank, sizeof mine);
    i64 place = 6 * GIB + 8 * world_rank;
    CHECK_OK(MPI_File_write_at_all(file, place, mine, 8, MPI_BYTE, &status));
    CHECK_EQ(count_of(&status, MPI_BYTE), 8, "bytes");
    CHECK_OK(MPI_File_sync(file));
    CHECK_EQ(byte_at(path, place + 7), 65 + world_rank, "byte on disk");
    CHECK_OK(MPI_File_read_at(file, place, back, 8, MPI_BYTE, &status));
    CHECK(memcmp(mine, back, 8) == 0, "the bytes read back are wrong");

    section("pointers");
    CHECK_OK(MPI_File_seek(file, 7 * GIB + 16 * world_rank, MPI_SEEK_SET));
    CHECK_OK(MPI_File_write(file, mine, 8, MPI_BYTE, &status));
    CHECK_OK(MPI_File_get_position(file, &at));
    CHECK_EQ(at, 7 * GIB + 16 * world_rank + 8, "position");
    CHECK_OK(MPI_File_sync(file));
    CHECK_EQ(byte_at(path, 7 * GIB + 16 * world_rank), 65 + world_rank, "byte on disk");

    /* The extent of the filetype alone exceeds 4 GiB. The blocks of the ranks lie across that boundary. */
    section("views");
    map_t unit = map_named(MPI_BYTE);
    int blocks[] = { 4, 4 };
    MPI_Aint places[] = { (MPI_Aint)(4 * GIB - 4 * world_size + 8 * world_rank),
                          (MPI_Aint)(9 * GIB + 4 * world_rank) };
    map_t inner = map_hindexed(2, blocks, places, unit), filetype = map_resized(0, 10 * GIB, inner);
    for (int collective = 0; collective < 2; collective++) {
        memset(mine, 97 + world_rank + collective, sizeof mine);
        CHECK_OK(MPI_File_set_view(file, GIB, MPI_BYTE, filetype.mpi, "native", MPI_INFO_NULL));
        CHECK_OK(collective ? MPI_File_write_at_all(file, 4, mine, 8, MPI_BYTE, &status)
                 : MPI_File_write_at(file, 4, mine, 8, MPI_BYTE, &status));
        CHECK_EQ(count_of(&status, MPI_BYTE), 8, "bytes");
        CHECK_OK(MPI_File_sync(file));
        CHECK_EQ(byte_at(path, GIB + places[1] + 3), 97 + world_rank + collective, "byte of the first tile");
        CHECK_EQ(byte_at(path, GIB + 10 * GIB + places[0]), 97 + world_rank + collective,
                 "byte of the second tile");
        memset(back, 0, sizeof back);
        CHECK_OK(collective ? MPI_File_read_at_all(file, 4, back, 8, MPI_BYTE, &status)
                 : MPI_File_read_at(file, 4, back, 8, MPI_BYTE, &status));
        CHECK(memcmp(mine, back, 8) == 0, "the bytes read back are wrong");
        CHECK_OK(MPI_File_get_byte_offset(file, 12, &at));
        CHECK_EQ(at, GIB + 10 * GIB + places[1], "byte of etype 12");
        barrier();
    }
    CHECK_OK(MPI_File_close(&file));
    map_free(&inner);
    map_free(&filetype);
    return finish();
}
