/* The life of a file: access modes, sizes, holes, preallocation, append, deletion, and the promises of
 * open and close. */
#include "check.h"

static MPI_File open_file(const char *name, int mode)
{
    MPI_File file = MPI_FILE_NULL;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of(name), mode, MPI_INFO_NULL, &file));
    return file;
}

static long long size_of(MPI_File file)
{
    MPI_Offset size = -1;
    CHECK_OK(MPI_File_get_size(file, &size));
    return size;
}

static int exists(const char *name) { return access(path_of(name), F_OK) == 0; }

static void sizing(void)
{
    section("sizes");
    MPI_File file = open_file("sizing", MPI_MODE_CREATE | MPI_MODE_RDWR);
    CHECK_EQ(size_of(file), 0, "size of a new file");
    CHECK_OK(MPI_File_set_size(file, 5000));
    CHECK_EQ(size_of(file), 5000, "size after growing");
    CHECK_OK(MPI_File_set_size(file, 1000));
    CHECK_EQ(size_of(file), 1000, "size after truncation");
    CHECK_OK(MPI_File_preallocate(file, 3000));
    CHECK_EQ(size_of(file), 3000, "size after preallocating");
    CHECK_OK(MPI_File_preallocate(file, 2000));
    CHECK_EQ(size_of(file), 3000, "size after a smaller preallocation");
    /* The view and the pointer do not change with the size. */
    CHECK_OK(MPI_File_seek(file, 2500, MPI_SEEK_SET));
    CHECK_OK(MPI_File_set_size(file, 100));
    MPI_Offset at = -1;
    CHECK_OK(MPI_File_get_position(file, &at));
    CHECK_EQ(at, 2500, "position after truncation");
    barrier();
    /* A write far beyond the end leaves a hole of zeros. */
    if (world_rank == world_size - 1)
        CHECK_OK(MPI_File_write_at(file, 70000, "end", 3, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_sync(file));
    barrier();
    CHECK_EQ(size_of(file), 70003, "size after writing beyond the end");
    unsigned char *bytes = malloc(70003);
    MPI_Status status;
    memset(bytes, 1, 70003);
    CHECK_OK(MPI_File_read_at_all(file, 0, bytes, 70003, MPI_BYTE, &status));
    CHECK_EQ(count_of(&status, MPI_BYTE), 70003, "bytes read");
    long long set = 0;
    for (int i = 0; i < 70000; i++) set += bytes[i] != 0;
    CHECK_EQ(set, 0, "number of bytes of the hole that are not zero");
    CHECK(memcmp(bytes + 70000, "end", 3) == 0, "the last bytes are wrong");
    free(bytes);
    CHECK_OK(MPI_File_close(&file));
}

static void modes(void)
{
    section("modes");
    const int all[] = { MPI_MODE_RDONLY, MPI_MODE_RDWR, MPI_MODE_WRONLY,
                        MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_UNIQUE_OPEN,
                        MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_APPEND };
    for (unsigned m = 0; m < sizeof all / sizeof *all; m++) {
        int mode = -1;
        MPI_File file = open_file("sizing", all[m]);
        CHECK_OK(MPI_File_get_amode(file, &mode));
        CHECK_EQ(mode, all[m], "access mode");
        int atomic = -1;
        CHECK_OK(MPI_File_get_atomicity(file, &atomic));
        CHECK_EQ(atomic, 0, "atomicity at open");
        CHECK_OK(MPI_File_set_atomicity(file, 0));
        MPI_Group group, world;
        int same = MPI_UNEQUAL;
        CHECK_OK(MPI_File_get_group(file, &group));
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        MPI_Group_compare(group, world, &same);
        CHECK_EQ(same, MPI_IDENT, "group of the file");
        MPI_Group_free(&group);
        MPI_Group_free(&world);
        CHECK_EQ(size_of(file), 70003, "size");
        CHECK_OK(MPI_File_close(&file));
        CHECK(file == MPI_FILE_NULL, "close did not set the handle to null");
    }
}

static void appending(void)
{
    section("append");
    MPI_Offset at = -1;
    MPI_Status status;
    MPI_File file = open_file("sizing", MPI_MODE_RDWR | MPI_MODE_APPEND);
    CHECK_OK(MPI_File_get_position(file, &at));
    CHECK_EQ(at, 70003, "position after an open for append");
    CHECK_OK(MPI_File_seek(file, 4LL * world_rank, MPI_SEEK_CUR));
    CHECK_OK(MPI_File_write(file, "more", 4, MPI_BYTE, &status));
    CHECK_EQ(count_of(&status, MPI_BYTE), 4, "bytes written");
    CHECK_OK(MPI_File_sync(file));
    barrier();
    CHECK_EQ(size_of(file), 70003 + 4 * world_size, "size after appending");
    /* All ranks write the same bytes. Append sets only the initial position. */
    CHECK_OK(MPI_File_write_at(file, 0, "head", 4, MPI_BYTE, &status));
    CHECK_OK(MPI_File_close(&file));
    barrier();
    long long size;
    unsigned char *bytes = slurp(path_of("sizing"), &size);
    CHECK_EQ(size, 70003 + 4 * world_size, "size on disk");
    CHECK(memcmp(bytes, "head", 4) == 0 && memcmp(bytes + 70003, "more", 4) == 0,
          "the bytes on disk are wrong");
    free(bytes);
    barrier();
}

static void exclusive_and_deleted(void)
{
    MPI_File file = MPI_FILE_NULL;
    section("exclusive");
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path_of("sizing"),
                MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_FILE_EXISTS);
    CHECK(file == MPI_FILE_NULL, "a failed open returned a handle");
    file = open_file("fresh", MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY | MPI_MODE_DELETE_ON_CLOSE);
    section("delete on close");
    CHECK_OK(MPI_File_write_at_all(file, 8 * world_rank, "temporal", 8, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(exists("fresh"), "the file does not exist while it is open");
    barrier();
    CHECK_OK(MPI_File_close(&file));
    CHECK(!exists("fresh"), "the file still exists after close");
    barrier();

    section("delete");
    if (world_rank == 0) {
        CHECK_OK(MPI_File_delete(path_of("sizing"), MPI_INFO_NULL));
        CHECK(!exists("sizing"), "the deleted file still exists");
        CHECK_CLASS(MPI_File_delete(path_of("sizing"), MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    }
    barrier();
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path_of("sizing"), MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
                MPI_ERR_NO_SUCH_FILE);
}

static void prefixes(void)
{
    char name[PATH_MAX];
    MPI_File file;
    section("ufs: prefix");
    snprintf(name, sizeof name, "ufs:%s", path_of("prefixed"));
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK_OK(MPI_File_close(&file));
    CHECK(exists("prefixed"), "the file without the prefix does not exist");
    barrier();
    if (world_rank == 0) CHECK_OK(MPI_File_delete(name, MPI_INFO_NULL));
    barrier();
    CHECK(!exists("prefixed"), "the file still exists after deletion by a prefixed name");
}

/* After sync, barrier, sync every rank reads what the other ranks wrote before. */
static void visibility(void)
{
    section("sync, barrier, sync");
    MPI_File file = open_file("visible", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    for (int round = 0; round < 5; round++) {
        int value = round * 100 + world_rank, neighbor = (world_rank + 1) % world_size, seen = -1;
        CHECK_OK(MPI_File_write_at(file, 4 * world_rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_File_sync(file));
        barrier();
        CHECK_OK(MPI_File_sync(file));
        CHECK_OK(MPI_File_read_at(file, 4 * neighbor, &seen, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_EQ(seen, round * 100 + neighbor, "neighbor's value");
        CHECK_OK(MPI_File_sync(file));
        barrier();
    }
    CHECK_OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    sizing();
    modes();
    appending();
    exclusive_and_deleted();
    prefixes();
    visibility();
    return finish();
}
