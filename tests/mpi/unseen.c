/* unseen FOLDER EMPTY: node n2 does not see the content of the folder EMPTY, which has the file `there` on
 * the other nodes. All ranks get the same error, and go on with files in FOLDER. */
#include "check.h"

/* Opens a file and returns the class, which has to be the same on all ranks. */
static int open_class(const char *folder, const char *name, int mode)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    MPI_File file = MPI_FILE_NULL;
    const int class = class_of(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file));
    CHECK_EQ(reduce_all(class, MPI_MIN), class, "the lowest class of a rank");
    CHECK_EQ(reduce_all(class, MPI_MAX), class, "the highest class of a rank");
    CHECK((file == MPI_FILE_NULL) == (class != MPI_SUCCESS), "class %s with a wrong handle", class_name(class));
    if (class == MPI_SUCCESS) CHECK_OK(MPI_File_close(&file));
    return class;
}

static void check_class(int class, int expected, const char *what)
{
    CHECK(class == expected, "%s gave class %s, not %s", what, class_name(class), class_name(expected));
}

/* Each rank writes a byte at its own place, and reads the byte of the next rank. */
static void round_trip(const char *name)
{
    MPI_File file;
    const unsigned char byte = (unsigned char)(world_rank + 1);
    const int neighbor = (world_rank + 1) % world_size;
    unsigned char read = 0;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of(name), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
             &file));
    CHECK_OK(MPI_File_write_at_all(file, world_rank, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_sync(file));
    barrier();
    CHECK_OK(MPI_File_sync(file));
    CHECK_OK(MPI_File_read_at_all(file, neighbor, &read, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_EQ(read, neighbor + 1, "the byte of the next rank");
    CHECK_OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    const char *empty = argv[2];
    section("a file that one node does not see");
    check_class(open_class(empty, "there", MPI_MODE_RDONLY), MPI_ERR_NO_SUCH_FILE, "reading");
    check_class(open_class(empty, "there", MPI_MODE_RDWR), MPI_ERR_NO_SUCH_FILE, "updating");
    section("a path that one node does not see");
    check_class(open_class(empty, "folder/new", MPI_MODE_CREATE | MPI_MODE_RDWR), MPI_ERR_NO_SUCH_FILE,
                "creating");
    section("a new file in an empty folder of one node");
    check_class(open_class(empty, "new", MPI_MODE_CREATE | MPI_MODE_RDWR), MPI_ERR_NO_SUCH_FILE, "creating");
    section("files that all nodes see");
    round_trip("seen");
    return finish();
}
