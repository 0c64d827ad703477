/* What is not built yet is refused on every rank, through the error handler, with null requests. The ranks are to be of several nodes
 * (`CAPULET_NODES`). */
#include "check.h"

static int called;

static void handler(MPI_File *file, int *code, ...)
{
    (void)file;
    (void)code;
    called++;
}

static int calls;

#define REFUSED(call) \
    do { \
        CHECK_CLASS(MPI_ERR_UNSUPPORTED_OPERATION, call); \
        calls++; \
        CHECK(called == calls); \
    } while (0)

#define REFUSED_REQUEST(call) \
    do { \
        memset(&request, 1, sizeof request); \
        REFUSED(call); \
        CHECK(request == MPI_REQUEST_NULL); \
    } while (0)

static void requests(MPI_File file, int *value)
{
    MPI_Request request;
    REFUSED_REQUEST(MPI_File_iread_shared(file, value, 1, MPI_INT, &request));
    REFUSED_REQUEST(MPI_File_iwrite_shared(file, value, 1, MPI_INT, &request));
}

static void others(MPI_File file, int *value)
{
    MPI_Status *ignore = MPI_STATUS_IGNORE;
    MPI_Offset offset;
    REFUSED(MPI_File_read_shared(file, value, 1, MPI_INT, ignore));
    REFUSED(MPI_File_write_shared(file, value, 1, MPI_INT, ignore));
    REFUSED(MPI_File_read_ordered(file, value, 1, MPI_INT, ignore));
    REFUSED(MPI_File_write_ordered(file, value, 1, MPI_INT, ignore));
    REFUSED(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    REFUSED(MPI_File_get_position_shared(file, &offset));
    CHECK_OK(MPI_File_read_ordered_begin(file, value, 1, MPI_INT));
    REFUSED(MPI_File_read_ordered_end(file, value, ignore));
    CHECK_OK(MPI_File_write_ordered_begin(file, value, 1, MPI_INT));
    REFUSED(MPI_File_write_ordered_end(file, value, ignore));
    REFUSED(MPI_File_set_atomicity(file, 1));
}

static int extent_of(MPI_Datatype datatype, MPI_Aint *extent, void *extra)
{
    (void)datatype;
    (void)extra;
    *extent = 1;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_File file;
    MPI_Errhandler made;
    int value = 0;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_File_create_errhandler(handler, &made);
    MPI_File_set_errhandler(file, made);
    MPI_Errhandler_free(&made);
    requests(file, &value);
    others(file, &value);
    CHECK_OK(MPI_File_close(&file));
    CHECK_CLASS(MPI_ERR_DUP_DATAREP, MPI_Register_datarep("native", NULL, NULL, extent_of, NULL));
    CHECK_CLASS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_Register_datarep("mine", NULL, NULL, extent_of, NULL));
    CHECK_CLASS(MPI_ERR_ARG, MPI_Register_datarep(NULL, NULL, NULL, extent_of, NULL));
    return finish();
}
