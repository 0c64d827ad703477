/* No second MPI library in the process, checked by the mappings in /proc/self/maps after a file has been
 * opened. argv[2] is the name that the only MPI library must have, argv[3] the name of the Capulet
 * library, or "none". */
#include "check.h"

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int is_mpi(const char *name)
{
    return strncmp(name, "libmpi.so", 9) == 0 || strncmp(name, "libmpich.so", 11) == 0
        || strncmp(name, "libmpi_abi.so", 13) == 0;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (argc < 4) return 2;
    MPI_File file;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("maps"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
             &file));
    CHECK_OK(MPI_File_close(&file));
    char line[PATH_MAX + 100], mpi[PATH_MAX] = "", capulet[PATH_MAX] = "";
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        if (!path) continue;
        path[strcspn(path, "\n")] = 0;
        if (is_mpi(base_of(path))) {
            CHECK(mpi[0] == 0 || strcmp(mpi, path) == 0, "two MPI libraries: %s and %s", mpi, path);
            strcpy(mpi, path);
        }
        if (strncmp(base_of(path), "libcapulet", 10) == 0) {
            CHECK(capulet[0] == 0 || strcmp(capulet, path) == 0, "two Capulet libraries: %s and %s", capulet,
                  path);
            strcpy(capulet, path);
        }
    }
    if (maps) fclose(maps);
    CHECK(strncmp(base_of(mpi), argv[2], strlen(argv[2])) == 0, "the MPI library is `%s`, not %s", mpi,
          argv[2]);
    const char *expected = strcmp(argv[3], "none") ? argv[3] : "";
    CHECK(strcmp(base_of(capulet), expected) == 0, "the Capulet library is `%s`, not `%s`", base_of(capulet),
          expected);
    return finish();
}
