/* lock_series FOLDER: opens one after another, each with another lock, in memory that the previous lock
 * has used. Every lock must start afresh, no rank may wait forever, and no read may see parts of two
 * writes. */
#include "check.h"

enum { BYTES = 512, TIMES = 20 };

static void test_lock(const char *lock)
{
    char bytes[BYTES], back[BYTES];
    MPI_File file;
    MPI_Info info;
    section("%s", lock);
    MPI_Info_create(&info);
    MPI_Info_set(info, "capulet_lock", lock);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("lock_series"), MPI_MODE_CREATE | MPI_MODE_RDWR, info,
             &file));
    MPI_Info_free(&info);
    CHECK_OK(MPI_File_set_atomicity(file, 1));
    for (int i = 0; i < TIMES; i++) {
        /* Different bytes each time, so that the requests of the lock differ too. */
        memset(bytes, 'a' + (world_rank + i) % 26, sizeof bytes);
        CHECK_OK(MPI_File_write_at(file, 0, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_File_read_at(file, 0, back, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        for (int at = 1; at < BYTES; at++) CHECK(back[at] == back[0], "byte %d is from another write", at);
    }
    CHECK_OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    const char *const locks[] = { "range", "twolevel", "range", "shared", "range", "twolevel", "mcs",
                                  "twolevel", "onesided", "range" };
    for (size_t i = 0; i < sizeof locks / sizeof *locks; i++) test_lock(locks[i]);
    return finish();
}
