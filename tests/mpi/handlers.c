/* Error handlers (MPI 4.1, 9.3.3 and 14.7): the default returns, a handler of the user's is called with the file and the code, the one on
 * MPI_FILE_NULL is called when open and delete fail and is what new files start with. */
#include "check.h"

static int calls, last_class;
static MPI_File last_file;

static void note(MPI_File *file, int *code, ...)
{
    calls++;
    last_class = class_of(*code);
    last_file = *file;
}

static int other_calls;

static void note_other(MPI_File *file, int *code, ...)
{
    (void)file; (void)code;
    other_calls++;
}

#define CALLED(times, class, handle) do { \
    CHECK_EQ(calls, times, "calls of the handler"); \
    CHECK(last_class == (class), "the handler was given %s, not %s", class_name(last_class), class_name(class)); \
    CHECK(last_file == (handle), "the handler was given another file"); \
    calls = 0; last_class = -1; } while (0)

static int same_as(MPI_File file, MPI_Errhandler expected)
{
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    CHECK_OK(MPI_File_get_errhandler(file, &handler));
    int same = handler == expected;
    if (handler != MPI_ERRHANDLER_NULL) MPI_Errhandler_free(&handler);
    return same;
}

int main(int argc, char **argv)
{
    char bytes[4];
    start(&argc, &argv);
    MPI_Errhandler handler, other;
    MPI_File file = MPI_FILE_NULL, none = MPI_FILE_NULL;
    const char *path = path_of("handled");
    section("defaults");
    CHECK(same_as(MPI_FILE_NULL, MPI_ERRORS_RETURN), "the default on MPI_FILE_NULL is not MPI_ERRORS_RETURN");
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK(same_as(file, MPI_ERRORS_RETURN), "the default on a file is not MPI_ERRORS_RETURN");

    section("a handler on a file");
    CHECK_OK(MPI_File_create_errhandler(note, &handler));
    CHECK_OK(MPI_File_create_errhandler(note_other, &other));
    CHECK_OK(MPI_File_set_errhandler(file, handler));
    CHECK(same_as(file, handler), "get_errhandler gives another handler");
    CHECK_CLASS(MPI_File_read_at(file, -1, bytes, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    CALLED(1, MPI_ERR_ARG, file);
    CHECK_CLASS(MPI_File_read_at_all(file, world_rank == 0 ? -1 : 0, bytes, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    CALLED(1, MPI_ERR_ARG, file);
    CHECK_CLASS(MPI_File_set_view(file, -1, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    CALLED(1, MPI_ERR_ARG, file);
    CHECK_OK(MPI_File_read_at(file, 0, bytes, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_EQ(calls, 0, "calls of the handler without an error");
    section("call_errhandler");
    CHECK_OK(MPI_File_call_errhandler(file, MPI_ERR_IO));
    CALLED(1, MPI_ERR_IO, file);
    section("a missing file with a handler on another file");
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path_of("missing"), MPI_MODE_RDONLY, MPI_INFO_NULL, &none), MPI_ERR_NO_SUCH_FILE);
    CHECK_EQ(calls, 0, "calls of the handler of another file");

    section("the handler stays when the user frees it");
    MPI_Errhandler freed = other;
    CHECK_OK(MPI_File_set_errhandler(file, other));
    MPI_Errhandler_free(&freed);
    CHECK_CLASS(MPI_File_read_at(file, -1, bytes, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    CHECK_EQ(other_calls, 1, "calls of the freed handler");
    CHECK_OK(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
    CHECK_CLASS(MPI_File_read_at(file, -1, bytes, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    CHECK_EQ(calls + other_calls, 1, "calls of handlers that are no longer set");
    CHECK_OK(MPI_File_close(&file));

    section("a handler on MPI_FILE_NULL");
    CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path_of("missing"), MPI_MODE_RDONLY, MPI_INFO_NULL, &none), MPI_ERR_NO_SUCH_FILE);
    CALLED(1, MPI_ERR_NO_SUCH_FILE, MPI_FILE_NULL);
    CHECK_CLASS(MPI_File_delete(path_of("missing"), MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    CALLED(1, MPI_ERR_NO_SUCH_FILE, MPI_FILE_NULL);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK(same_as(file, handler), "a new file does not start with the handler of MPI_FILE_NULL");
    CHECK_CLASS(MPI_File_read_at(file, -1, bytes, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    CALLED(1, MPI_ERR_ARG, file);
    CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    CHECK(same_as(file, handler), "an open file follows MPI_FILE_NULL");
    MPI_Errhandler_free(&handler);
    CHECK_OK(MPI_File_close(&file));

    section("no handler");
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path_of("missing"), MPI_MODE_RDONLY, MPI_INFO_NULL, &none), MPI_ERR_NO_SUCH_FILE);
    CHECK_EQ(calls, 0, "calls of a handler that is no longer set");
    return finish();
}
