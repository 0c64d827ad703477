/* handlers FOLDER [close|abort]: error handlers of files (MPI 4.1, sections 9.3.3 and 14.7). The default
 * handler returns. A handler of the user gets the file and the code. The handler of MPI_FILE_NULL is called
 * when an open or a delete fails, and new files inherit it. The failing call returns the code that the
 * handler stores.
 *
 * With `close`, `CAPULET_FAULTS` makes a close fail. With `abort`, MPI_ERRORS_ABORT ends the job. */
#include "check.h"

static int calls, last_class;
static MPI_File last_file;
/* The code that the handler stores, unless it is negative. */
static int left_code = -1;

static void note(MPI_File *file, int *code, ...)
{
    calls++;
    last_class = class_of(*code);
    last_file = *file;
    if (left_code >= 0) *code = left_code;
}

static int other_calls;

static void note_other(MPI_File *file, int *code, ...)
{
    (void)file; (void)code;
    other_calls++;
}

#define CALLED(times, class, handle) do { \
    CHECK_EQ(calls, times, "calls of the handler"); \
    CHECK(last_class == (class), "the handler was given %s, not %s", class_name(last_class), \
          class_name(class)); \
    CHECK(last_file == (handle), "the handler was given another file"); \
    calls = 0; last_class = -1; } while (0)

/* MPICH 4.0 only defines the name MPI_ERRORS_ABORT. Each of its functions that gets this handler fails an
 * assertion. */
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40100000
#define MAY_FREE(handler) ((handler) != MPI_ERRORS_ABORT)
#else
#define MAY_FREE(handler) ((handler) != MPI_ERRHANDLER_NULL)
#endif

static int same_as(MPI_File file, MPI_Errhandler expected)
{
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    CHECK_OK(MPI_File_get_errhandler(file, &handler));
    int same = handler == expected;
    if (handler != MPI_ERRHANDLER_NULL && MAY_FREE(handler)) MPI_Errhandler_free(&handler);
    return same;
}

/* The failing call returns the code that the handler stores: another class, or success. */
static void codes(MPI_File file, MPI_Errhandler handler)
{
    char bytes[4];
    MPI_File none = MPI_FILE_NULL, brief = MPI_FILE_NULL;
    static const int left[] = { MPI_ERR_OTHER, MPI_SUCCESS };
    CHECK_OK(MPI_File_set_errhandler(file, handler));
    CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
    for (unsigned l = 0; l < 2; l++) {
        section("a handler that stores %s", class_name(left[l]));
        left_code = left[l];
        CHECK_CLASS(MPI_File_seek(file, -1, MPI_SEEK_SET), left[l]);
        CALLED(1, MPI_ERR_ARG, file);
        CHECK_CLASS(MPI_File_write_at_all(file, -1, bytes, 1, MPI_BYTE, MPI_STATUS_IGNORE), left[l]);
        CALLED(1, MPI_ERR_ARG, file);
        CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path_of("missing"), MPI_MODE_RDONLY, MPI_INFO_NULL,
                    &none), left[l]);
        CALLED(1, MPI_ERR_NO_SUCH_FILE, MPI_FILE_NULL);
        CHECK(none == MPI_FILE_NULL, "a failed open gave a handle");
        CHECK_CLASS(MPI_File_close(&none), left[l]);
        CALLED(1, MPI_ERR_FILE, MPI_FILE_NULL);
        CHECK_CLASS(MPI_File_delete(path_of("missing"), MPI_INFO_NULL), left[l]);
        CALLED(1, MPI_ERR_NO_SUCH_FILE, MPI_FILE_NULL);
        /* MPI_File_call_errhandler succeeds, whatever the handler stores (MPI 4.1, section 9.5). */
        CHECK_OK(MPI_File_call_errhandler(file, MPI_ERR_IO));
        CALLED(1, MPI_ERR_IO, file);
        CHECK_OK(MPI_File_open(MPI_COMM_SELF, path_of("handled"), MPI_MODE_RDWR, MPI_INFO_NULL, &brief));
        CHECK_CLASS(MPI_File_set_size(brief, -1), left[l]);
        CALLED(1, MPI_ERR_ARG, brief);
        CHECK_OK(MPI_File_close(&brief));
    }
    left_code = -1;
    CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
}

/* MPICH's handlers with an extra argument and a destructor, which MPICH calls after the last reference to
 * the handler is gone. Capulet has these handlers on every MPI, but only MPICH 4.2 and later call the
 * destructor. */
#pragma weak MPIX_File_create_errhandler_x
extern int MPIX_File_create_errhandler_x(void (*)(MPI_File, int, void *), void (*)(void *), void *,
                                         MPI_Errhandler *);
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 40200000
#define DESTROYS 1
#else
#define DESTROYS 0
#endif

struct argument { int calls, destroyed, destroyed_at_call; };

static void with_argument(MPI_File file, int code, void *of)
{
    struct argument *argument = of;
    argument->calls++;
    argument->destroyed_at_call += argument->destroyed;
    last_file = file;
    last_class = class_of(code);
}

static void destroy(void *of) { ((struct argument *)of)->destroyed++; }

/* A handler that closes its own file. The file holds the last reference to the handler. */
static void closes(MPI_File file, int code, void *of)
{
    with_argument(file, code, of);
    MPI_File_close(&file);
    ((struct argument *)of)->destroyed_at_call += ((struct argument *)of)->destroyed;
}

static MPI_Errhandler extended(void (*function)(MPI_File, int, void *), struct argument *argument)
{
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    if (MPIX_File_create_errhandler_x == NULL) MPI_Abort(MPI_COMM_WORLD, 9);
    CHECK_OK(MPIX_File_create_errhandler_x(function, destroy, argument, &handler));
    return handler;
}

/* A close that fails calls the handler of the file before the argument is destroyed. */
static int failing_close(void)
{
    static struct argument argument, other;
    MPI_File file = MPI_FILE_NULL;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "capulet_sync_on_close", "true");
    for (int has_argument = 0; has_argument < 2; has_argument++) {
        section("a close that fails, %s argument", has_argument ? "with" : "without");
        MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
        CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("closed"), MPI_MODE_CREATE | MPI_MODE_RDWR, info,
                 &file));
        if (has_argument) handler = extended(with_argument, &argument);
        else CHECK_OK(MPI_File_create_errhandler(note, &handler));
        CHECK_OK(MPI_File_set_errhandler(file, handler));
        MPI_Errhandler_free(&handler);
        MPI_File closed = file;
        calls = 0;
        left_code = has_argument ? -1 : MPI_ERR_OTHER;
        CHECK_CLASS(MPI_File_close(&file), has_argument ? MPI_ERR_IO : MPI_ERR_OTHER);
        CHECK(file == MPI_FILE_NULL, "the handle was not set to MPI_FILE_NULL");
        CHECK(last_file == closed, "the handler was given another file");
        CHECK_EQ(has_argument ? argument.calls : calls, 1, "calls of the handler");
        CHECK_EQ(last_class, MPI_ERR_IO, "class of the close");
    }
    left_code = -1;
    CHECK_EQ(argument.destroyed_at_call, 0, "calls with a destroyed argument");
    CHECK_EQ(argument.destroyed, DESTROYS, "calls of the destructor");
    MPI_Info_free(&info);

    section("a handler that closes its file");
    MPI_Errhandler handler = extended(closes, &other);
    CHECK_OK(MPI_File_open(MPI_COMM_SELF, path_of("closed"), MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK_OK(MPI_File_set_errhandler(file, handler));
    MPI_Errhandler_free(&handler);
    CHECK_CLASS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    CHECK(other.calls == 1 && other.destroyed_at_call == 0, "%d calls, %d with a destroyed argument",
          other.calls, other.destroyed_at_call);
    CHECK_EQ(other.destroyed, DESTROYS, "calls of the destructor");
    return finish();
}

/* MPI_ERRORS_ABORT is new in MPI 4.0. */
static int abort_on_error(const char *path)
{
#ifdef MPI_ERRORS_ABORT
    MPI_File file = MPI_FILE_NULL, other = MPI_FILE_NULL;
    section("MPI_ERRORS_ABORT");
    CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ABORT));
    CHECK(same_as(MPI_FILE_NULL, MPI_ERRORS_ABORT), "get_errhandler gives another handler");
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK(same_as(file, MPI_ERRORS_ABORT), "a new file does not start with the handler of MPI_FILE_NULL");
    CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, &other));
    CHECK(same_as(other, MPI_ERRORS_RETURN), "a new file has the old handler of MPI_FILE_NULL");
    CHECK_OK(MPI_File_set_errhandler(other, MPI_ERRORS_ABORT));
    for (int times = 0; times < 100; times++)
        CHECK(same_as(other, MPI_ERRORS_ABORT), "get_errhandler gives another handler");
    CHECK_OK(MPI_File_close(&other));
    if (failure_count == 0) printf("rank %d: ready to abort\n", world_rank);
    fflush(stdout);
    barrier();
    if (world_rank == world_size - 1) MPI_File_seek(file, -1, MPI_SEEK_SET);
    barrier(); /* The ranks without an error wait for the end. */
    CHECK(0, "the job was not aborted");
    return finish();
#else
    (void)path;
    printf("no MPI_ERRORS_ABORT\n");
    CHECK(1, "this MPI has no MPI_ERRORS_ABORT");
    return finish();
#endif
}

int main(int argc, char **argv)
{
    char bytes[4];
    start(&argc, &argv);
    if (argc > 2 && strcmp(argv[2], "close") == 0) return failing_close();
    if (argc > 2 && strcmp(argv[2], "abort") == 0) return abort_on_error(path_of("aborted"));
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
    CHECK_CLASS(MPI_File_read_at_all(file, world_rank == 0 ? -1 : 0, bytes, 1, MPI_BYTE,
                MPI_STATUS_IGNORE), MPI_ERR_ARG);
    CALLED(1, MPI_ERR_ARG, file);
    CHECK_CLASS(MPI_File_set_view(file, -1, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    CALLED(1, MPI_ERR_ARG, file);
    CHECK_OK(MPI_File_read_at(file, 0, bytes, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_EQ(calls, 0, "calls of the handler without an error");
    section("call_errhandler");
    CHECK_OK(MPI_File_call_errhandler(file, MPI_ERR_IO));
    CALLED(1, MPI_ERR_IO, file);
    section("a missing file with a handler on another file");
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path_of("missing"), MPI_MODE_RDONLY, MPI_INFO_NULL, &none),
                MPI_ERR_NO_SUCH_FILE);
    CHECK_EQ(calls, 0, "calls of the handler of another file");

    section("the handler stays when the user frees it");
    MPI_Errhandler freed = other;
    CHECK_OK(MPI_File_set_errhandler(file, other));
    MPI_Errhandler_free(&freed);
    CHECK_CLASS(MPI_File_read_at(file, -1, bytes, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    CHECK_EQ(other_calls, 1, "calls of the freed handler");
    CHECK_OK(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
    CHECK_CLASS(MPI_File_read_at(file, -1, bytes, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    CHECK_EQ(calls + other_calls, 1, "calls of all handlers so far");
    CHECK_OK(MPI_File_close(&file));

    section("a handler on MPI_FILE_NULL");
    CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path_of("missing"), MPI_MODE_RDONLY, MPI_INFO_NULL, &none),
                MPI_ERR_NO_SUCH_FILE);
    CALLED(1, MPI_ERR_NO_SUCH_FILE, MPI_FILE_NULL);
    CHECK_CLASS(MPI_File_delete(path_of("missing"), MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    CALLED(1, MPI_ERR_NO_SUCH_FILE, MPI_FILE_NULL);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK(same_as(file, handler), "a new file does not start with the handler of MPI_FILE_NULL");
    CHECK_CLASS(MPI_File_read_at(file, -1, bytes, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    CALLED(1, MPI_ERR_ARG, file);
    CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    CHECK(same_as(file, handler), "the handler of an open file changed with MPI_FILE_NULL");
    codes(file, handler);
    MPI_Errhandler_free(&handler);
    CHECK_OK(MPI_File_close(&file));

    section("no handler");
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path_of("missing"), MPI_MODE_RDONLY, MPI_INFO_NULL, &none),
                MPI_ERR_NO_SUCH_FILE);
    CHECK_EQ(calls, 0, "calls of the former handler");
    return finish();
}
