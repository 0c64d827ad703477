/* Sets a view of 10^8 pieces and reads a part of it. The peak of memory may rise by less than 50 MiB from
 * the start. */
#include "check.h"

#define PIECES 100000000
#define LIMIT_KIB (50 * 1024)

static long high_water_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "VmHWM: %ld kB", &kib);
    if (status) fclose(status);
    return kib;
}

static void read_part(MPI_File file, const char *name, MPI_Datatype filetype, long start_kib,
                      long long stride)
{
    unsigned char bytes[4096];
    MPI_Status status;
    MPI_Offset at = -1;
    for (int collective = 0; collective < 2; collective++) {
        section("%s, %s", name, collective ? "collective" : "independent");
        MPI_Offset first = 77777777 + 512LL * world_rank;
        CHECK_OK(MPI_File_set_view(file, 3, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
        CHECK_OK(collective ? MPI_File_read_at_all(file, first, bytes, 4096, MPI_BYTE, &status)
                 : MPI_File_read_at(file, first, bytes, 4096, MPI_BYTE, &status));
        CHECK_EQ(count_of(&status, MPI_BYTE), 4096, "bytes read");
        CHECK_OK(MPI_File_get_byte_offset(file, first, &at));
        CHECK_EQ(at, 3 + first * stride, "byte offset");
        long grown = high_water_kib() - start_kib;
        CHECK(grown < LIMIT_KIB, "memory grew by %ld KiB", grown);
        if (world_rank == 0) printf("%s: grew by %ld KiB\n", section_name, grown);
    }
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    const char *path = path_of("huge-view");
    long long stride = 8;
    if (world_rank == 0) {
        int fd = open(path, O_CREAT | O_WRONLY, 0666);
        if (fd < 0 || ftruncate(fd, PIECES * (stride + 16)) != 0) perror(path);
        close(fd);
    }
    barrier();
    MPI_File file;
    MPI_Datatype vector, nested, inner;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    char warm[64];
    CHECK_OK(MPI_File_read_at_all(file, 0, warm, 64, MPI_BYTE, MPI_STATUS_IGNORE));
    long start_kib = high_water_kib();
    CHECK(start_kib > 0, "no VmHWM in /proc/self/status");
    MPI_Type_vector(PIECES, 1, (int)stride, MPI_BYTE, &vector);
    MPI_Type_commit(&vector);
    read_part(file, "a vector", vector, start_kib, stride);
    MPI_Type_vector(10000, 1, (int)stride, MPI_BYTE, &inner);
    MPI_Type_create_hvector(10000, 1, 10000 * stride, inner, &nested);
    MPI_Type_commit(&nested);
    read_part(file, "a vector of vectors", nested, start_kib, stride);
    CHECK_OK(MPI_File_close(&file));
    MPI_Type_free(&vector);
    MPI_Type_free(&inner);
    MPI_Type_free(&nested);
    barrier();
    if (world_rank == 0) unlink(path);
    return finish();
}
