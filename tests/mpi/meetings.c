/* Makes as many collective accesses as the second argument says, and sets the view as many more times as
 * the third argument says. The test compares the counters of several runs. With the fourth argument
 * `large` each rank accesses one large run, which it moves itself. Otherwise an access takes several
 * rounds. */
#include "check.h"

#define ROWS 4096
#define ROW_BYTES 64

int main(int argc, char **argv)
{
    start(&argc, &argv);
    const int accesses = argc > 2 ? atoi(argv[2]) : 1, views = argc > 3 ? atoi(argv[3]) : 0,
        bytes = ROWS * ROW_BYTES;
    const int is_large = argc > 4 && strcmp(argv[4], "large") == 0;
    unsigned char *out = malloc((size_t)bytes), *in = malloc((size_t)bytes);
    MPI_Datatype filetype;
    if (is_large) MPI_Type_contiguous(bytes, MPI_BYTE, &filetype);
    else MPI_Type_vector(ROWS, ROW_BYTES, ROW_BYTES * world_size, MPI_BYTE, &filetype);
    const MPI_Offset start_byte = (MPI_Offset)world_rank * (is_large ? bytes : ROW_BYTES);
    MPI_Type_commit(&filetype);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "65536");
    MPI_Info_set(info, "romio_cb_write", is_large ? "automatic" : "enable");
    MPI_Info_set(info, "romio_cb_read", is_large ? "automatic" : "enable");
    MPI_File file;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("meetings"), MPI_MODE_CREATE | MPI_MODE_RDWR, info,
             &file));
    CHECK_OK(MPI_File_set_view(file, start_byte, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
    for (int view = 0; view < views; view++)
        CHECK_OK(MPI_File_set_view(file, start_byte, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
    for (int access = 0; access < accesses; access++) {
        section("access %d", access);
        for (int i = 0; i < bytes; i++) out[i] = (unsigned char)(i * 7 + world_rank * 31 + access);
        MPI_Status status;
        int count = 0;
        CHECK_OK(MPI_File_write_at_all(file, 0, out, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_File_read_at_all(file, 0, in, bytes, MPI_BYTE, &status));
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK_EQ(count, bytes, "bytes read");
        CHECK(memcmp(in, out, (size_t)bytes) == 0, "the bytes read differ from those written");
    }
    CHECK_OK(MPI_File_close(&file));
    MPI_Info_free(&info);
    MPI_Type_free(&filetype);
    free(out);
    free(in);
    return finish();
}
