/* Error handlers of files: defaults, inheritance, lifetime, calls. */
#include "check.h"

static int called, last_code;
static MPI_File last_file;

static void handler(MPI_File *file, int *code, ...)
{
    called++;
    last_file = *file;
    last_code = *code;
}

static int other_called;

static void other(MPI_File *file, int *code, ...)
{
    (void)file;
    (void)code;
    other_called++;
}

static void closes(MPI_File *file, int *code, ...)
{
    (void)code;
    other_called++;
    MPI_File_close(file);
}

static void defaults(void)
{
    MPI_Errhandler of_null = MPI_ERRHANDLER_NULL;
    CHECK_OK(MPI_File_get_errhandler(MPI_FILE_NULL, &of_null));
    CHECK(of_null == MPI_ERRORS_RETURN);
    CHECK_OK(MPI_Errhandler_free(&of_null));
}

static void on_null(const char *name)
{
    MPI_Errhandler made, got;
    MPI_File file;
    CHECK_OK(MPI_File_create_errhandler(handler, &made));
    CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, made));
    CHECK_OK(MPI_File_get_errhandler(MPI_FILE_NULL, &got));
    CHECK(got == made);
    MPI_Errhandler_free(&got);
    /* MPI_FILE_NULL keeps the error handler alive. */
    MPI_Errhandler_free(&made);

    called = 0;
    CHECK_CLASS(MPI_ERR_NO_SUCH_FILE, MPI_File_open(MPI_COMM_WORLD, "no/such/directory/file",
                MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    CHECK(called == 1 && class_of(last_code) == MPI_ERR_NO_SUCH_FILE && last_file == MPI_FILE_NULL);
    CHECK_CLASS(MPI_ERR_NO_SUCH_FILE, MPI_File_delete("no/such/directory/file", MPI_INFO_NULL));
    CHECK(called == 2);
    file = MPI_FILE_NULL;
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_sync(file));
    CHECK(called == 3 && class_of(last_code) == MPI_ERR_FILE);

    /* A file inherits the error handler, and keeps it when the error handler of MPI_FILE_NULL changes. */
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    called = 0;
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_seek(file, -1, MPI_SEEK_SET));
    CHECK(called == 1 && last_file == file && class_of(last_code) == MPI_ERR_ARG);
    CHECK_OK(MPI_File_close(&file));
    CHECK(called == 1);
}

static void on_file(MPI_File file)
{
    MPI_Errhandler made, got, second;
    CHECK_OK(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_File_create_errhandler(handler, &made));
    CHECK_OK(MPI_File_set_errhandler(file, made));
    CHECK_OK(MPI_File_get_errhandler(file, &got));
    CHECK(got == made);
    MPI_Errhandler_free(&made);
    MPI_Errhandler_free(&got);
    called = 0;
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_seek(file, 0, -12345));
    CHECK(called == 1);

    /* A direct call takes any code, and returns success if the error handler returns. */
    CHECK_OK(MPI_File_call_errhandler(file, MPI_ERR_QUOTA));
    CHECK(called == 2 && last_code == MPI_ERR_QUOTA && last_file == file);

    /* The program may replace, restore and free an error handler while the file uses it. */
    CHECK_OK(MPI_File_create_errhandler(other, &second));
    CHECK_OK(MPI_File_get_errhandler(file, &got));
    CHECK_OK(MPI_File_set_errhandler(file, second));
    MPI_Errhandler_free(&second);
    other_called = 0;
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_seek(file, -1, MPI_SEEK_SET));
    CHECK(other_called == 1);
    CHECK_OK(MPI_File_set_errhandler(file, got));
    MPI_Errhandler_free(&got);
    called = 0;
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_seek(file, -1, MPI_SEEK_SET));
    CHECK(called == 1 && other_called == 1);

    for (int i = 0; i < 1000; i++) {
        MPI_Errhandler many;
        MPI_File_create_errhandler(i % 2 ? handler : other, &many);
        MPI_File_set_errhandler(file, many);
        MPI_Errhandler_free(&many);
        called = other_called = 0;
        CHECK_CLASS(MPI_ERR_ARG, MPI_File_seek(file, -1, MPI_SEEK_SET));
        CHECK(called == i % 2 && other_called == 1 - i % 2);
    }
    CHECK_OK(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_set_errhandler(file, MPI_ERRHANDLER_NULL));
    CHECK_OK(MPI_File_call_errhandler(file, MPI_ERR_OTHER));
}

/* An error handler may close the file of the failed call. */
static void closing(const char *name)
{
    MPI_Errhandler made;
    MPI_File file, again;
    CHECK_OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_File_create_errhandler(closes, &made);
    MPI_File_set_errhandler(file, made);
    MPI_Errhandler_free(&made);
    other_called = 0;
    again = file;
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_seek(file, -1, MPI_SEEK_SET));
    CHECK(other_called == 1);
    CHECK_CLASS(MPI_ERR_FILE, MPI_File_seek(again, 0, MPI_SEEK_SET));
}

/* MPICH 4.2 and later have this function, and their Fortran and C++ bindings use it. */
#pragma weak MPIX_File_create_errhandler_x
extern int MPIX_File_create_errhandler_x(void (*)(MPI_File, int, void *), void (*)(void *), void *,
    MPI_Errhandler *);

static int destroyed;

static void extended(MPI_File file, int code, void *extra)
{
    last_file = file;
    last_code = code;
    ++*(int *)extra;
}

static void destroy(void *extra)
{
    (void)extra;
    destroyed++;
}

static void with_extra(MPI_File file)
{
    MPI_Errhandler made;
    static int count;
    CHECK(MPIX_File_create_errhandler_x != NULL);
    if (!MPIX_File_create_errhandler_x)
        return;
    CHECK_OK(MPIX_File_create_errhandler_x(extended, destroy, &count, &made));
    CHECK_OK(MPI_File_set_errhandler(file, made));
    MPI_Errhandler_free(&made);
    /* The file still uses the error handler, so the extra argument is not destroyed. */
    CHECK(destroyed == 0);
    CHECK_CLASS(MPI_ERR_ARG, MPI_File_seek(file, -1, MPI_SEEK_SET));
    CHECK(count == 1 && last_file == file && class_of(last_code) == MPI_ERR_ARG);
    CHECK_OK(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 40200000
    CHECK(destroyed == 1);
#endif
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_File file;
    defaults();
    on_null(argv[1]);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    on_file(file);
    with_extra(file);
    CHECK_OK(MPI_File_close(&file));
    closing(argv[1]);
    return finish();
}
