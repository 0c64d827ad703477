/* full_disk FOLDER [SMALL]: every way to write on a full disk reports MPI_ERR_NO_SPACE. A collective call
 * reports it on all ranks, even if only one rank finds the disk full. /dev/full is a device that is always
 * full and that any user may write. SMALL is a folder on a small file system, which the program fills. */
#include "check.h"
#include <sys/statvfs.h>

static unsigned char block[65536];

static void on_device(void)
{
    MPI_File file;
    MPI_Status status;
    section("a full device");
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, "/dev/full", MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    CHECK_CLASS(MPI_File_write_at(file, 0, block, 4096, MPI_BYTE, &status), MPI_ERR_NO_SPACE);
    CHECK_EQ(count_of(&status, MPI_BYTE), 0, "bytes written");
    CHECK_CLASS(MPI_File_write(file, block, 4096, MPI_BYTE, &status), MPI_ERR_NO_SPACE);
    for (int writer = 0; writer < world_size; writer++) {
        section("a full device, rank %d writes", writer);
        int count = world_rank == writer ? 4096 : 0;
        CHECK_CLASS(MPI_File_write_at_all(file, 4096 * world_rank, block, count, MPI_BYTE, &status),
                    MPI_ERR_NO_SPACE);
        CHECK_CLASS(MPI_File_write_all(file, block, count, MPI_BYTE, &status), MPI_ERR_NO_SPACE);
    }
    CHECK_OK(MPI_File_close(&file));
}

static void on_small_file_system(const char *folder)
{
    char path[PATH_MAX];
    struct statvfs about;
    MPI_File file;
    MPI_Status status;
    section("a small file system");
    snprintf(path, sizeof path, "%s/filled", folder);
    CHECK(statvfs(folder, &about) == 0
          && (long long)about.f_blocks * (long long)about.f_frsize <= 16 << 20, "%s is not small", folder);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path,
             MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    int class = MPI_SUCCESS, round = 0;
    for (; round < 1000 && class == MPI_SUCCESS; round++)
        class = class_of(MPI_File_write_at_all(file,
                         ((long long)round * world_size + world_rank) * (long long)sizeof block, block,
                         sizeof block, MPI_BYTE, &status));
    CHECK(class == MPI_ERR_NO_SPACE, "after %d rounds: %s", round, class_name(class));
    CHECK_EQ(reduce_all(round, MPI_MAX), reduce_all(round, MPI_MIN), "round of the failure");
    CHECK(round > 1, "the first round already found the disk full");
    CHECK_CLASS(MPI_File_preallocate(file, 1LL << 30), MPI_ERR_NO_SPACE);
    CHECK_OK(MPI_File_read_at_all(file, 0, block, sizeof block, MPI_BYTE, &status));
    CHECK_OK(MPI_File_set_size(file, 0));
    CHECK_OK(MPI_File_write_at_all(file, 0, block, 1, MPI_BYTE, &status));
    CHECK_OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    on_device();
    if (argc > 2) on_small_file_system(argv[2]);
    return finish();
}
