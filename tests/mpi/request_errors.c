/* request_errors FOLDER returned|fatal|abort: errors of nonblocking access, in every function that
 * completes requests (MPI 4.1, sections 3.7.3, 3.7.5, 14.7). The handler of the file is called, the class
 * is returned and stored in the status, default handlers do not abort, and MPI's own requests in the same
 * call complete as usual.
 *
 * `CAPULET_FAULTS` makes each write of one rank fail with "no space". With `returned` the errors return.
 * With `fatal` or `abort` the handler of the file is MPI_ERRORS_ARE_FATAL or MPI_ERRORS_ABORT. */
#include "check.h"

#include <setjmp.h>

#define CELLS 256
#define LONG 1000

static char bytes[CELLS], back[CELLS];

/* A variable, because gcc warns about the constant address that MPICH defines for MPI_STATUSES_IGNORE. */
static MPI_Status *volatile ignore_all = MPI_STATUSES_IGNORE;

/* Begins a write that fails on all ranks. */
static MPI_Request failing(MPI_File file)
{
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK_OK(MPI_File_iwrite_at_all(file, (MPI_Offset)world_rank * CELLS, bytes, CELLS, MPI_CHAR, &request));
    CHECK(request != MPI_REQUEST_NULL, "no request");
    return request;
}

/* Begins a read that succeeds. */
static MPI_Request succeeding(MPI_File file)
{
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK_OK(MPI_File_iread_at_all(file, (MPI_Offset)world_rank * CELLS, back, CELLS, MPI_CHAR, &request));
    CHECK(request != MPI_REQUEST_NULL, "no request");
    return request;
}

enum { WAIT, TEST, WAITANY, TESTANY, WAITALL, TESTALL, WAITSOME, TESTSOME, WAYS };
static const char *const way_names[] = { "Wait", "Test", "Waitany", "Testany", "Waitall", "Testall",
                                         "Waitsome", "Testsome" };

/* Whether the function returns one status per request, and MPI_ERR_IN_STATUS if one has an error. */
static int is_of_many(int way) { return way >= WAITALL; }

/* Whether to test again: no request is complete. Yields the core first. */
static int retry(int *flag) { return *flag ? 0 : !sched_yield(); }

/* Completes `requests[at]`, the only request of the `count` that is not null. Its status is stored in
 * `statuses[at]`, unless `statuses` is `ignore_all`. */
static int complete(int way, int count, MPI_Request *requests, int at, MPI_Status *statuses, int profiled)
{
    int code = -1, flag = 0, place = -7, done = 0, places[8];
    MPI_Status *one = statuses == ignore_all ? MPI_STATUS_IGNORE : &statuses[at];
    /* Waitsome and Testsome write the first status. */
    MPI_Status *some = statuses;
#define CALL(name, ...) (profiled ? PMPI_##name(__VA_ARGS__) : MPI_##name(__VA_ARGS__))
    switch (way) {
    case WAIT: return CALL(Wait, &requests[at], one);
    case TEST:
        do code = CALL(Test, &requests[at], &flag, one); while (code == MPI_SUCCESS && retry(&flag));
        return code;
    case WAITANY: code = CALL(Waitany, count, requests, &place, one); break;
    case TESTANY:
        do code = CALL(Testany, count, requests, &place, &flag, one);
        while (code == MPI_SUCCESS && retry(&flag));
        break;
    case WAITALL: return CALL(Waitall, count, requests, statuses);
    case TESTALL:
        do code = CALL(Testall, count, requests, &flag, statuses);
        while (code == MPI_SUCCESS && retry(&flag));
        return code;
    case WAITSOME: code = CALL(Waitsome, count, requests, &done, places, some); place = places[0]; break;
    case TESTSOME:
        do code = CALL(Testsome, count, requests, &done, places, some);
        while (code == MPI_SUCCESS && retry(&done));
        place = places[0];
        break;
    }
#undef CALL
    if (way == WAITSOME || way == TESTSOME) {
        CHECK_EQ(done, 1, "requests completed");
        if (statuses != ignore_all && at != 0) {
            MPI_Status first = statuses[0];
            statuses[0] = statuses[at];
            statuses[at] = first;
        }
    }
    CHECK_EQ(place, at, "index of the completed request");
    return code;
}

static void every_way(MPI_File file, int class, int profiled)
{
    for (int way = 0; way < WAYS; way++)
        for (int ignored = 0; ignored < 2; ignored++) {
            MPI_Request requests[3] = { MPI_REQUEST_NULL, failing(file), MPI_REQUEST_NULL };
            MPI_Status statuses[3];
            memset(statuses, 0x55, sizeof statuses);
            section("%sMPI_%s%s", profiled ? "P" : "", way_names[way], ignored ? ", statuses ignored" : "");
            int code = complete(way, 3, requests, 1, ignored ? ignore_all : statuses, profiled);
            CHECK_CLASS(code, is_of_many(way) ? MPI_ERR_IN_STATUS : class);
            CHECK(requests[1] == MPI_REQUEST_NULL, "the request was not set to MPI_REQUEST_NULL");
            if (!ignored) {
                int count = -1, cancelled = -1;
                CHECK_CLASS(statuses[1].MPI_ERROR, class);
                CHECK_OK(MPI_Get_elements(&statuses[1], MPI_CHAR, &count));
                CHECK(count >= 0 && count <= CELLS, "the status counts %d bytes", count);
                CHECK_OK(MPI_Test_cancelled(&statuses[1], &cancelled));
                CHECK_EQ(cancelled, 0, "whether the request was cancelled");
            }
            if (!ignored && (way == WAITALL || way == TESTALL))
                CHECK_CLASS(statuses[0].MPI_ERROR, MPI_SUCCESS);
        }
    section("success leaves MPI_ERROR alone");
    for (int way = 0; way < WAYS; way++) {
        MPI_Request requests[2] = { MPI_REQUEST_NULL, succeeding(file) };
        MPI_Status statuses[2];
        memset(statuses, 0x55, sizeof statuses);
        CHECK_OK(complete(way, 2, requests, 1, statuses, profiled));
        if (!is_of_many(way)) CHECK_EQ(statuses[1].MPI_ERROR, 0x55555555, "MPI_ERROR");
    }
}

/* Requests of Capulet in one array with MPI's own: a message of the rank to itself, an inactive persistent
 * request, and a null request. */
static void mixed(MPI_File file, int class)
{
    static int sent = 41, received, unused;
    for (int way = WAITALL; way < WAYS; way++) {
        MPI_Request requests[7];
        MPI_Status statuses[7];
        int flag = 0, code = MPI_SUCCESS, done = 0, places[7], errors = 0, succeeded = 0, left = 5;
        section("mixed: %s", way_names[way]);
        received = 0;
        memset(statuses, 0x55, sizeof statuses);
        requests[0] = failing(file);
        MPI_Irecv(&received, 1, MPI_INT, 0, way, MPI_COMM_SELF, &requests[1]);
        requests[2] = MPI_REQUEST_NULL;
        requests[3] = succeeding(file);
        MPI_Isend(&sent, 1, MPI_INT, 0, way, MPI_COMM_SELF, &requests[4]);
        MPI_Recv_init(&unused, 1, MPI_INT, 0, 99, MPI_COMM_SELF, &requests[5]);
        requests[6] = failing(file);
        if (way == WAITALL || way == TESTALL) {
            if (way == WAITALL) code = MPI_Waitall(7, requests, statuses);
            else
                do code = MPI_Testall(7, requests, &flag, statuses);
                while (code == MPI_SUCCESS && retry(&flag));
            CHECK_CLASS(code, MPI_ERR_IN_STATUS);
            for (int i = 0; i < 7; i++)
                CHECK_CLASS(statuses[i].MPI_ERROR, i == 0 || i == 6 ? class : MPI_SUCCESS);
            CHECK_EQ(count_of(&statuses[1], MPI_INT), 1, "integers received");
            CHECK_EQ(count_of(&statuses[3], MPI_CHAR), CELLS, "characters read");
        }
        while (!(way == WAITALL || way == TESTALL) && left > 0) {
            code = way == WAITSOME ? MPI_Waitsome(7, requests, &done, places, statuses)
                                   : MPI_Testsome(7, requests, &done, places, statuses);
            int wrong = 0;
            CHECK(done != MPI_UNDEFINED, "no active request is left, but %d were not reported", left);
            if (done == MPI_UNDEFINED) break;
            for (int j = 0; j < done; j++) {
                int is_wrong = places[j] == 0 || places[j] == 6;
                wrong += is_wrong;
                if (code != MPI_SUCCESS) CHECK_CLASS(statuses[j].MPI_ERROR, is_wrong ? class : MPI_SUCCESS);
            }
            CHECK_CLASS(code, wrong ? MPI_ERR_IN_STATUS : MPI_SUCCESS);
            errors += wrong;
            succeeded += done - wrong;
            left -= done;
        }
        if (!(way == WAITALL || way == TESTALL))
            CHECK(errors == 2 && succeeded == 3, "%d errors and %d successes", errors, succeeded);
        CHECK_EQ(received, sent, "content of the message");
        CHECK(requests[5] != MPI_REQUEST_NULL, "the persistent request is gone");
        MPI_Request_free(&requests[5]);
        for (int i = 0; i < 7; i++) CHECK(requests[i] == MPI_REQUEST_NULL, "request %d is left", i);
    }
    section("functions without an active request");
    int flag = 0, place = 0, done = 0;
    MPI_Request pending = failing(file), null[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
    CHECK_OK(MPI_Waitall(0, NULL, ignore_all));
    CHECK_OK(MPI_Waitall(2, null, ignore_all));
    CHECK_OK(MPI_Testall(0, NULL, &flag, ignore_all));
    CHECK(flag, "MPI_Testall of no request is not complete");
    CHECK_OK(MPI_Waitany(2, null, &place, MPI_STATUS_IGNORE));
    CHECK_EQ(place, MPI_UNDEFINED, "index");
    CHECK_OK(MPI_Waitsome(2, null, &done, &place, ignore_all));
    CHECK_EQ(done, MPI_UNDEFINED, "number of completed requests");
    CHECK_CLASS(MPI_Wait(&pending, MPI_STATUS_IGNORE), class);
    CHECK_OK(MPI_Wait(&pending, MPI_STATUS_IGNORE));
}

/* A request of MPI and a request of Capulet fail in one call. The statuses have both errors. */
static void errors_of_both(MPI_File file, int class)
{
    /* The message is long, because Open MPI 4.1 does not detect the truncation of a short message of a rank
     * to itself. */
    static int sent[LONG], received[LONG];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    section("an error of a message");
    MPI_Request requests[3];
    MPI_Status statuses[3];
    memset(statuses, 0, sizeof statuses);
    MPI_Irecv(received, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &requests[0]);
    requests[1] = failing(file);
    MPI_Isend(sent, LONG, MPI_INT, 0, 5, MPI_COMM_SELF, &requests[2]);
    CHECK_CLASS(MPI_Waitall(3, requests, statuses), MPI_ERR_IN_STATUS);
    CHECK_CLASS(statuses[0].MPI_ERROR, MPI_ERR_TRUNCATE);
    if (requests[1] == MPI_REQUEST_NULL) CHECK_CLASS(statuses[1].MPI_ERROR, class);
    else {
        CHECK_CLASS(statuses[1].MPI_ERROR, MPI_ERR_PENDING);
        CHECK_CLASS(MPI_Wait(&requests[1], MPI_STATUS_IGNORE), class);
    }
    if (requests[2] != MPI_REQUEST_NULL) MPI_Wait(&requests[2], MPI_STATUS_IGNORE);
    section("an error of a message while a request of Capulet is active");
    MPI_Request ours = failing(file);
    MPI_Irecv(received, 1, MPI_INT, 0, 6, MPI_COMM_SELF, &requests[0]);
    MPI_Send(sent, LONG, MPI_INT, 0, 6, MPI_COMM_SELF);
    CHECK_CLASS(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    CHECK_CLASS(MPI_Wait(&ours, MPI_STATUS_IGNORE), class);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

/* MPI_Request_get_status does not complete the request. The status has the class, and the later wait
 * reports the error. */
static void asked(MPI_File file, int class)
{
    section("MPI_Request_get_status");
    for (int times = 0; times < 2; times++) {
        MPI_Request request = failing(file);
        MPI_Status status;
        int flag = 0;
        memset(&status, 0, sizeof status);
        do CHECK_OK(MPI_Request_get_status(request, &flag, times ? MPI_STATUS_IGNORE : &status));
        while (retry(&flag));
        if (!times) CHECK_CLASS(status.MPI_ERROR, class);
        CHECK_OK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
        CHECK(flag && request != MPI_REQUEST_NULL, "the request is gone");
        CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), class);
    }
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
    MPI_Request requests[3] = { MPI_REQUEST_NULL, failing(file), MPI_REQUEST_NULL };
    MPI_Status statuses[3];
    int flag = 0, place = -1, done = 0, places[3];
    section("MPI_Request_get_status_any, _all, _some");
    memset(statuses, 0, sizeof statuses);
    do CHECK_OK(MPI_Request_get_status_any(3, requests, &place, &flag, &statuses[0])); while (retry(&flag));
    CHECK_EQ(place, 1, "index");
    CHECK_CLASS(statuses[0].MPI_ERROR, class);
    memset(statuses, 0, sizeof statuses);
    CHECK_OK(MPI_Request_get_status_all(3, requests, &flag, statuses));
    CHECK(flag, "not all requests are complete");
    CHECK_CLASS(statuses[1].MPI_ERROR, class);
    memset(statuses, 0, sizeof statuses);
    CHECK_OK(MPI_Request_get_status_some(3, requests, &done, places, statuses));
    CHECK(done == 1 && places[0] == 1, "%d requests are complete, the first at index %d", done, places[0]);
    CHECK_CLASS(statuses[0].MPI_ERROR, class);
    CHECK_CLASS(MPI_Wait(&requests[1], MPI_STATUS_IGNORE), class);
#endif
}

static int calls, last_code, left_code = -1;
static MPI_File last_file;
static jmp_buf out;

static void note(MPI_File *file, int *code, ...)
{
    calls++;
    last_file = *file;
    last_code = *code;
    if (left_code >= 0) *code = left_code;
}

static void leave(MPI_File *file, int *code, ...)
{
    (void)file; (void)code;
    calls++;
    longjmp(out, 1);
}

static int other_calls;

static void note_other(MPI_File *file, int *code, ...)
{
    (void)file; (void)code;
    other_calls++;
}

static void handled(MPI_File file, int class)
{
    MPI_Errhandler handler, other, leaving;
    CHECK_OK(MPI_File_create_errhandler(note, &handler));
    CHECK_OK(MPI_File_create_errhandler(note_other, &other));
    CHECK_OK(MPI_File_create_errhandler(leave, &leaving));
    CHECK_OK(MPI_File_set_errhandler(file, handler));
    for (int way = 0; way < WAYS; way++) {
        MPI_Request requests[2] = { failing(file), MPI_REQUEST_NULL };
        MPI_Status statuses[2];
        section("a handler: %s", way_names[way]);
        calls = 0;
        CHECK_CLASS(complete(way, 2, requests, 0, statuses, 0), is_of_many(way) ? MPI_ERR_IN_STATUS : class);
        CHECK(calls == 1 && last_file == file, "%d calls of the handler", calls);
        CHECK_CLASS(last_code, class);
        left_code = MPI_ERR_OTHER;
        requests[0] = failing(file);
        CHECK_CLASS(complete(way, 2, requests, 0, statuses, 0),
                    is_of_many(way) ? MPI_ERR_IN_STATUS : MPI_ERR_OTHER);
        CHECK_CLASS(statuses[0].MPI_ERROR, MPI_ERR_OTHER);
        left_code = MPI_SUCCESS;
        requests[0] = failing(file);
        CHECK_OK(complete(way, 2, requests, 0, statuses, 0));
        CHECK_CLASS(statuses[0].MPI_ERROR, MPI_SUCCESS);
        left_code = -1;
    }
    section("two errors in one call");
    MPI_Request two[2] = { failing(file), failing(file) };
    calls = 0;
    CHECK_CLASS(MPI_Waitall(2, two, ignore_all), MPI_ERR_IN_STATUS);
    CHECK_EQ(calls, 2, "calls of the handler");

    section("a handler that is set during the access");
    MPI_Request request = failing(file);
    CHECK_OK(MPI_File_set_errhandler(file, other));
    calls = 0;
    CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), class);
    CHECK(calls == 0 && other_calls == 1, "%d calls of the old handler, %d of the new one", calls,
          other_calls);

    section("a handler that does not return");
    CHECK_OK(MPI_File_set_errhandler(file, leaving));
    for (int times = 0; times < 3; times++) {
        MPI_Request both[2] = { failing(file), failing(file) };
        calls = 0;
        if (setjmp(out) == 0) {
            MPI_Waitall(2, both, ignore_all);
            CHECK(0, "the handler returned");
        }
        CHECK(calls == 1 && both[0] == MPI_REQUEST_NULL && both[1] == MPI_REQUEST_NULL,
              "%d calls of the handler", calls);
    }
    CHECK_OK(MPI_File_set_errhandler(file, handler));
    request = failing(file);
    calls = 0;
    CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), class);
    CHECK_EQ(calls, 1, "calls of the handler afterwards");
    CHECK_OK(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
    MPI_Errhandler_free(&handler); MPI_Errhandler_free(&other); MPI_Errhandler_free(&leaving);
}

/* The standard forbids a wait after the close. The wait must still be safe: it calls the handler, which
 * must not be freed before. */
static void after_close(MPI_File *file, int class)
{
    MPI_Errhandler handler;
    section("a wait after the close");
    CHECK_OK(MPI_File_create_errhandler(note, &handler));
    CHECK_OK(MPI_File_set_errhandler(*file, handler));
    MPI_Errhandler_free(&handler);
    MPI_Request request = failing(*file);
    CHECK_OK(MPI_File_close(file));
    calls = 0;
    CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), class);
    CHECK_EQ(calls, 1, "calls of the handler");
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (argc < 3) return 2;
    const char *path = path_of("requests");
    static char ready[64 * CELLS];
    if (world_rank == 0) spill(path, ready, (long long)world_size * CELLS);
    barrier();
    MPI_File file;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    if (strcmp(argv[2], "returned") != 0) {
#ifdef MPI_ERRORS_ABORT
        MPI_Errhandler ending = strcmp(argv[2], "abort") == 0 ? MPI_ERRORS_ABORT : MPI_ERRORS_ARE_FATAL;
#else
        MPI_Errhandler ending = MPI_ERRORS_ARE_FATAL;
#endif
        CHECK_OK(MPI_File_set_errhandler(file, ending));
        MPI_Request request = failing(file);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(0, "the job was not aborted");
        return finish();
    }
    every_way(file, MPI_ERR_NO_SPACE, 0);
    every_way(file, MPI_ERR_NO_SPACE, 1);
    mixed(file, MPI_ERR_NO_SPACE);
    errors_of_both(file, MPI_ERR_NO_SPACE);
    asked(file, MPI_ERR_NO_SPACE);
    handled(file, MPI_ERR_NO_SPACE);
    section("a freed request");
    MPI_Request request = failing(file);
    MPI_Request_free(&request);
    after_close(&file, MPI_ERR_NO_SPACE);
    return finish();
}
