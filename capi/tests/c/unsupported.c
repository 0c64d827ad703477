/* Unsupported operations are refused on every rank, through the error handler: atomic mode with a lock that
 * the ranks of several nodes cannot share (`CAPULET_NODES`, `CAPULET_HINTS`), and data representations of
 * users. */
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
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_File_create_errhandler(handler, &made);
    MPI_File_set_errhandler(file, made);
    MPI_Errhandler_free(&made);
    REFUSED(MPI_File_set_atomicity(file, 1));
    CHECK_OK(MPI_File_close(&file));
    CHECK_CLASS(MPI_ERR_DUP_DATAREP, MPI_Register_datarep("native", NULL, NULL, extent_of, NULL));
    CHECK_CLASS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_Register_datarep("mine", NULL, NULL, extent_of, NULL));
    CHECK_CLASS(MPI_ERR_ARG, MPI_Register_datarep(NULL, NULL, NULL, extent_of, NULL));
    return finish();
}
