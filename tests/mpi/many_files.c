/* 3,000 files open at the same time on one communicator, more than an MPI has communicators. Each file
 * has its own view and pointer. The files are written collectively and closed in another order. */
#include "check.h"
#include <sys/resource.h>

#define FILES 3000

int main(int argc, char **argv)
{
    static MPI_File files[FILES];
    char name[32];
    start(&argc, &argv);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    int count = argc > 2 ? atoi(argv[2]) : FILES;

    section("open");
    for (int f = 0; f < count; f++) {
        snprintf(name, sizeof name, "many-%d", f);
        int code = MPI_File_open(MPI_COMM_WORLD, path_of(name), MPI_MODE_CREATE | MPI_MODE_RDWR,
                                 MPI_INFO_NULL, &files[f]);
        CHECK(code == MPI_SUCCESS, "file %d: %s", f, class_name(class_of(code)));
        if (code != MPI_SUCCESS) return finish();
    }
    section("write and read");
    for (int f = 0; f < count; f += 7) {
        int value = f * 10 + world_rank, seen = -1;
        CHECK_OK(MPI_File_set_view(files[f], 4 * (f % 5), MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
        CHECK_OK(MPI_File_write_at_all(files[f], world_rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_File_read_at_all(files[f], world_rank, &seen, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_EQ(seen, value, "value");
    }
    section("close");
    for (int step = 0; step < count; step++) { /* 1009 is a prime that does not divide the count. */
        int f = (int)((long long)step * 1009 % count);
        MPI_Offset size = -1;
        CHECK_OK(MPI_File_get_size(files[f], &size));
        CHECK_EQ(size, f % 7 ? 0 : 4 * (f % 5) + 4 * world_size, "size");
        CHECK_OK(MPI_File_close(&files[f]));
    }
    barrier();
    for (int f = world_rank; f < count; f += world_size) {
        snprintf(name, sizeof name, "many-%d", f);
        CHECK(unlink(path_of(name)) == 0, "%s does not exist", name);
    }
    return finish();
}
