/* Accesses that the system refuses to an ordinary user. The harness runs this program as user `nobody`.
 * Before that, as root, it creates in the directory: `unreadable` (mode 0000), `unwritable` (mode 0444),
 * and `locked` (a directory without write permission that contains the file `inside`). */
#include "check.h"

static int open_class(const char *name, int mode)
{
    MPI_File file = MPI_FILE_NULL;
    int code = MPI_File_open(MPI_COMM_WORLD, path_of(name), mode, MPI_INFO_NULL, &file);
    if (code == MPI_SUCCESS) MPI_File_close(&file);
    return code;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    section("user");
    CHECK(geteuid() != 0, "root has all permissions: run this program as another user");
    section("permissions");
    CHECK_CLASS(open_class("unreadable", MPI_MODE_RDONLY), MPI_ERR_ACCESS);
    CHECK_CLASS(open_class("unreadable", MPI_MODE_RDWR), MPI_ERR_ACCESS);
    CHECK_CLASS(open_class("unwritable", MPI_MODE_WRONLY), MPI_ERR_ACCESS);
    CHECK_CLASS(open_class("unwritable", MPI_MODE_RDWR | MPI_MODE_CREATE), MPI_ERR_ACCESS);
    CHECK_OK(open_class("unwritable", MPI_MODE_RDONLY));
    CHECK_CLASS(open_class("locked/new", MPI_MODE_CREATE | MPI_MODE_RDWR), MPI_ERR_ACCESS);
    CHECK_CLASS(open_class("locked/inside", MPI_MODE_RDONLY | MPI_MODE_DELETE_ON_CLOSE) , MPI_SUCCESS);
    CHECK_CLASS(MPI_File_delete(path_of("locked/inside"), MPI_INFO_NULL), MPI_ERR_ACCESS);
    section("one rank is refused");
    for (int culprit = 0; culprit < world_size; culprit++)
        CHECK_CLASS(open_class(world_rank == culprit ? "unreadable" : "unwritable", MPI_MODE_RDONLY),
                    MPI_ERR_ACCESS);
    return finish();
}
