/* One transfer of more bytes than a system call moves (2 GiB less a page) and than an int can count. The
 * source is 1 MiB of memory that is written repeatedly. Rank 0 makes this transfer, and the other ranks
 * write 1 MiB each. First independently, then collectively. */
#include "check.h"

#define MIB (1LL << 20)
#define COUNT 2052 /* MiB: a little above 2 GiB */

int main(int argc, char **argv)
{
    start(&argc, &argv);
    const char *path = path_of("large-transfer");
    unsigned char *block = malloc(MIB), probe[64];
    MPI_Datatype mib, same;
    MPI_File file;
    MPI_Status status;
    long long size = -1;
    for (long long i = 0; i < MIB; i++) block[i] = value_at(0, i, 1);
    MPI_Type_contiguous((int)MIB, MPI_BYTE, &mib);
    MPI_Type_create_resized(mib, 0, 0, &same);
    MPI_Type_commit(&same);
    for (int collective = 0; collective < 2; collective++) {
        section("%s", collective ? "collective" : "independent");
        CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path,
                 MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
        int count = world_rank == 0 ? COUNT : 1;
        MPI_Offset at = world_rank == 0 ? 5 : 5 + (COUNT + world_rank - 1) * MIB;
        CHECK_OK(collective ? MPI_File_write_at_all(file, at, block, count, same, &status)
                 : MPI_File_write_at(file, at, block, count, same, &status));
        CHECK_EQ(elements(&status, MPI_BYTE), count * MIB, "bytes written");
        CHECK_OK(MPI_File_sync(file));
        barrier();
        struct stat about;
        CHECK(stat(path, &about) == 0, "the file does not exist");
        size = (long long)about.st_size;
        CHECK_EQ(size, 5 + (COUNT + world_size - 1) * MIB, "size");
        int fd = open(path, O_RDONLY);
        for (long long where = 0; where < COUNT + world_size - 1; where += where < 2040 ? 97 : 1) {
            CHECK_EQ(pread(fd, probe, 64, 5 + where * MIB + 12345), 64, "bytes on disk");
            CHECK(memcmp(probe, block + 12345, 64) == 0, "bytes in MiB %lld are wrong", where);
        }
        close(fd);
        barrier();
        CHECK_OK(MPI_File_close(&file));
    }
    MPI_Type_free(&mib);
    MPI_Type_free(&same);
    return finish();
}
