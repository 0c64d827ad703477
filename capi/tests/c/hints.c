/* Prints the hints of a file that is opened with hints and gets another hint with its view. */
#include "check.h"

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_File file;
    MPI_Info info, got;
    int keys = 0;
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "131072");
    MPI_Info_set(info, "unknown_key", "1");
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", "enable");
    CHECK_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", info));
    MPI_Info_free(&info);
    CHECK_OK(MPI_File_get_info(file, &got));
    MPI_Info_get_nkeys(got, &keys);
    for (int i = 0; i < keys && rank == 0; i++) {
        char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
        int found = 0;
        MPI_Info_get_nthkey(got, i, key);
        MPI_Info_get(got, key, MPI_MAX_INFO_VAL, value, &found);
        CHECK(found && strcmp(key, "unknown_key") != 0);
        printf("%s=%s\n", key, value);
    }
    MPI_Info_free(&got);
    CHECK_OK(MPI_File_close(&file));
    return finish();
}
