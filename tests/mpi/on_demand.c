/* With the promise of romio_no_indep_rw a rank opens the file when it first needs it. argv[2] selects the
 * test.
 *
 * * `once`: a small collective write and read. The harness counts how often the file is opened.
 * * `gone`: before the ranks have opened the file, its name is removed or given to another file. All
 *   ranks get an error of one class, and the other file keeps its bytes. After the name is restored, all
 *   accesses work. */
#include "check.h"

static char text[64];

static MPI_File open_promised(const char *path, int mode)
{
    MPI_Info info;
    MPI_File file = MPI_FILE_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_no_indep_rw", "true");
    MPI_Info_set(info, "cb_buffer_size", "4096");
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, (char *)path, mode, info, &file));
    MPI_Info_free(&info);
    return file;
}

static int class_of_all(int code)
{
    int class = class_of(code);
    CHECK_EQ(reduce_all(class, MPI_MAX), reduce_all(class, MPI_MIN),
             "largest error class of all ranks (other value: smallest)");
    return class;
}

static void once(void)
{
    char back[64] = "";
    section("a small write and read");
    MPI_File file = open_promised(path_of("once"), MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR);
    CHECK_OK(MPI_File_write_at_all(file, 64 * world_rank, text, 64, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_read_at_all(file, 64 * world_rank, back, 64, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(memcmp(text, back, 64) == 0, "the bytes read differ from those written");
    CHECK_OK(MPI_File_sync(file));
    CHECK_OK(MPI_File_close(&file));
    section("append");
    file = open_promised(path_of("once"), MPI_MODE_APPEND | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    MPI_Offset position = -1;
    CHECK_OK(MPI_File_get_position(file, &position));
    CHECK_EQ(position, 64 * world_size, "position after an open for append");
    CHECK_OK(MPI_File_close(&file));
    section("errors at open");
    CHECK_EQ(class_of_all(MPI_File_open(MPI_COMM_WORLD, (char *)path_of("once"), MPI_MODE_RDWR, MPI_INFO_NULL,
             &file)), MPI_ERR_NO_SUCH_FILE,
             "error class of opening a missing file");
}

/* The bytes that a rank writes fill one collective buffer, so every rank has to access the file. */
#define PART 4096

static void gone(void)
{
    static char part[PART], back[PART];
    char aside[PATH_MAX];
    memset(part, 'a' + world_rank, PART);
    snprintf(aside, sizeof aside, "%s", path_of("aside"));
    MPI_File file = open_promised(path_of("gone"), MPI_MODE_CREATE | MPI_MODE_RDWR);
    barrier();
    section("no file has the name");
    if (world_rank == 0) CHECK(rename(path_of("gone"), aside) == 0, "rename failed");
    barrier();
    CHECK_EQ(class_of_all(MPI_File_write_at_all(file, PART * world_rank, part, PART, MPI_BYTE,
             MPI_STATUS_IGNORE)),
             world_size > 1 ? MPI_ERR_NO_SUCH_FILE : MPI_SUCCESS, "error class of a write");
    section("another file has the name");
    if (world_rank == 0) spill(path_of("gone"), "other", 5);
    barrier();
    CHECK_EQ(class_of_all(MPI_File_write_at_all(file, PART * world_rank, part, PART, MPI_BYTE,
             MPI_STATUS_IGNORE)),
             world_size > 1 ? MPI_ERR_NO_SUCH_FILE : MPI_SUCCESS, "error class of a write");
    barrier();
    long long size = 0;
    unsigned char *other = slurp(path_of("gone"), &size);
    CHECK(size == 5 && memcmp(other, "other", 5) == 0, "the other file has changed");
    free(other);
    barrier();
    section("the file has its name again");
    if (world_rank == 0) CHECK(rename(aside, path_of("gone")) == 0, "rename failed");
    barrier();
    CHECK_OK(MPI_File_write_at_all(file, PART * world_rank, part, PART, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_read_at_all(file, PART * world_rank, back, PART, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(memcmp(part, back, PART) == 0, "the bytes read differ from those written");
    CHECK_OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    memset(text, 'A' + world_rank, sizeof text);
    if (argc > 2 && strcmp(argv[2], "gone") == 0) gone();
    else once();
    return finish();
}
