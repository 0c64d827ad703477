/* One row: prepares the file, accesses it, checks the result, and measures the limit of the machine. */
#include "bench_io.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FULL_BYTES ((int64_t)32 << 20)
#define FULL_OPENS 50
/* Bytes of one rank in one access of a repeated row. */
#define REPEATED_BYTES ((int64_t)64 << 10)
#define PATH_BYTES 4096

typedef struct {
    const bench_row *row;
    const access_plan *plan;
    MPI_File file;
    /* FAR_RANK: a file of the same content that is not in atomic mode. */
    MPI_File plain_file;
    unsigned char *memory;
    char *fault;
} session;

static void access_at(const session *session, unsigned char *memory)
{
    const access_plan *plan = session->plan;
    MPI_Status status;
    int code;
    if (session->row->reading)
        code = (session->row->collective ? MPI_File_read_at_all : MPI_File_read_at)(session->file, 0, memory, plan->count,
                                                                                   plan->memory_type, &status);
    else
        code = (session->row->collective ? MPI_File_write_at_all : MPI_File_write_at)(session->file, 0, memory, plan->count,
                                                                                     plan->memory_type, &status);
    note_mpi(session->fault, session->row->reading ? "read" : "write", code);
}

static void set_view(const session *session, MPI_Offset displacement, MPI_Datatype filetype)
{
    note_mpi(session->fault, "set_view", MPI_File_set_view(session->file, displacement, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
}

/* Makes each request as PnetCDF does: a type, a view with this type, the access, and the view of bytes
 * again. */
static void access_by_requests(const session *session)
{
    const access_plan *plan = session->plan;
    const size_t pieces = plan->in_file.count / (size_t)plan->requests;
    int *lengths = malloc(pieces * sizeof *lengths);
    MPI_Aint *places = malloc(pieces * sizeof *places);
    if (lengths == NULL || places == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    for (int request = 0; request < plan->requests; request++) {
        const run *runs = plan->in_file.runs + (size_t)request * pieces;
        for (size_t at = 0; at < pieces; at++) {
            lengths[at] = (int)runs[at].bytes;
            places[at] = runs[at].offset;
        }
        MPI_Datatype type;
        MPI_Type_create_hindexed((int)pieces, lengths, places, MPI_BYTE, &type);
        MPI_Type_commit(&type);
        set_view(session, 0, type);
        access_at(session, session->memory + (int64_t)request * plan->count);
        MPI_Type_free(&type);
        set_view(session, 0, MPI_BYTE);
    }
    free(lengths);
    free(places);
}

/* Whether this rank only opens the file. */
static bool is_idle(const bench_row *row)
{
    return (row->who == FIRST_RANK && team_rank > 0) || (row->who == FAR_RANK && team_rank != team_far_rank);
}

static int compare_seconds(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median_of(double seconds[ROUNDS])
{
    qsort(seconds, ROUNDS, sizeof *seconds, compare_seconds);
    return seconds[ROUNDS / 2];
}

/* Mean seconds of one of `count` accesses. */
static double mean_seconds(const session *session, int count)
{
    const double begin = now_seconds();
    for (int at = 0; at < count; at++) access_at(session, session->memory);
    return (now_seconds() - begin) / count;
}

/* The far rank measures in turn raw round trips, accesses to another file without atomic mode, and accesses
 * in atomic mode. The medians of the rounds count. The other ranks rest. */
static void timed_rounds(const session *atomic, measurement *result)
{
    const int count = atomic->row->repeats / ROUNDS;
    double trips[ROUNDS] = { 0 }, without[ROUNDS] = { 0 }, with[ROUNDS] = { 0 };
    session plain = *atomic;
    plain.file = atomic->plain_file;
    set_view(&plain, plain.plan->displacement, plain.plan->filetype);
    const bool has_trips = trips_begin();
    team_barrier();
    for (int round = 0; !is_idle(atomic->row) && round < ROUNDS; round++) {
        if (has_trips) trips[round] = trip_seconds(count);
        without[round] = mean_seconds(&plain, count);
        with[round] = mean_seconds(atomic, count);
    }
    team_rest();
    trips_end();
    result->round_trip_seconds = team_largest(median_of(trips));
    result->plain_seconds = atomic->row->repeats * team_largest(median_of(without));
    result->seconds = atomic->row->repeats * team_largest(median_of(with));
}

/* Times the access alone. The view is timed separately, unless the row is about views. */
static void timed_access(const session *session, measurement *result)
{
    const access_plan *plan = session->plan;
    double begin = now_seconds();
    if (plan->requests == 0) set_view(session, plan->displacement, plan->filetype);
    result->view_seconds = team_span(begin, now_seconds());
    if (session->row->atomic) note_mpi(session->fault, "set_atomicity", MPI_File_set_atomicity(session->file, 1));
    if (session->row->who == FAR_RANK) {
        timed_rounds(session, result);
        return;
    }
    team_barrier();
    begin = now_seconds();
    if (is_idle(session->row)) {
        /* This rank sleeps, because a rank that polls here shares a core with the measured rank. */
        nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
        result->seconds = team_span(INFINITY, -INFINITY);
        return;
    }
    for (int times = 0; times < session->row->repeats; times++) {
        if (plan->requests == 0)
            access_at(session, session->memory);
        else
            access_by_requests(session);
    }
    const double end = now_seconds();
    result->seconds = team_span(begin, end);
}

static int mode_of(const bench_row *row)
{
    /* ROMIO takes a write lock to read. The system refuses it for a file that is open for reading only,
     * and ROMIO then reads without a lock. So atomic rows open the file for reading and writing. */
    if (row->reading && !row->atomic) return MPI_MODE_RDONLY;
    return row->state == FRESH ? MPI_MODE_CREATE | MPI_MODE_RDWR : MPI_MODE_RDWR;
}

/* Opens, accesses and closes. If the open fails on one rank only, the other ranks must not wait for it,
 * so the ranks agree on faults after the open. */
static void run_session(session *session, const char *path, const char *plain_path, measurement *result)
{
    const bool is_far = session->row->who == FAR_RANK;
    note_mpi(result->fault, "open", MPI_File_open(MPI_COMM_WORLD, path, mode_of(session->row), MPI_INFO_NULL, &session->file));
    if (team_fault(result->fault)) return;
    if (is_far)
        note_mpi(result->fault, "open",
                 MPI_File_open(MPI_COMM_WORLD, plain_path, mode_of(session->row), MPI_INFO_NULL, &session->plain_file));
    if (team_fault(result->fault)) return;
    timed_access(session, result);
    note_mpi(result->fault, "close", MPI_File_close(&session->file));
    if (is_far) note_mpi(result->fault, "close", MPI_File_close(&session->plain_file));
}

static void judge_memory(const session *session, char fault[FAULT_BYTES])
{
    const access_plan *plan = session->plan;
    int64_t strangers;
    if (!memory_is_filled(session->memory, &plan->in_memory, &plan->in_file)) note_fault(fault, "wrong bytes were read");
    const int64_t cells = count_cells(session->memory, plan->memory_bytes, FILL_BYTE, &strangers);
    if (cells != plan->in_memory.bytes || strangers != 0) note_fault(fault, "bytes between the requested ones were written");
}

static void measure_access(const bench_row *row, const char *path, double scale, measurement *result)
{
    const int64_t total_bytes = row->repeats > 1 ? REPEATED_BYTES * team_size : (int64_t)(scale * (double)FULL_BYTES);
    const demand asked = { total_bytes, row->piece_bytes, row->reading };
    access_plan plan = { 0 };
    const int own_rank = team_rank;
    if (row->is_same) team_rank = 0;
    row->build(&asked, &plan);
    team_rank = own_rank;
    const int64_t file_bytes = team_max(end_of(&plan.in_file));
    const int64_t all_bytes = row->is_same ? plan.in_file.bytes : team_sum(plan.in_file.bytes);
    const int64_t own_bytes = is_idle(row) ? 0 : plan.in_file.bytes;
    result->bytes = team_sum(own_bytes) * row->repeats;
    result->pieces = team_sum(is_idle(row) ? 0 : (int64_t)plan.in_file.count) * row->repeats;
    result->operations = (plan.requests == 0 ? 1 : plan.requests) * row->repeats;
    session session = { row, &plan, MPI_FILE_NULL, MPI_FILE_NULL, malloc((size_t)plan.memory_bytes), result->fault };
    char plain_path[PATH_BYTES + 8];
    snprintf(plain_path, sizeof plain_path, "%s.plain", path);
    if (session.memory == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    memset(session.memory, FILL_BYTE, (size_t)plan.memory_bytes);
    if (!row->reading) fill_memory(session.memory, &plan.in_memory, &plan.in_file);
    if (plan.in_memory.bytes != plan.in_file.bytes) note_fault(result->fault, "the case is wrong: memory and file differ in size");
    prepare_file(path, row->state, file_bytes, result->fault);
    if (row->who == FAR_RANK) prepare_file(plain_path, row->state, file_bytes, result->fault);
    if (!team_fault(result->fault)) run_session(&session, path, plain_path, result);
    if (!team_fault(result->fault)) {
        if (row->reading && !is_idle(row))
            judge_memory(&session, result->fault);
        else if (!row->reading)
            result->hash = judge_file(path, row->state, file_bytes, &plan.in_file, all_bytes, &result->strays, result->fault);
    }
    remove_file(path);
    if (row->who == FAR_RANK) remove_file(plain_path);
    if (!team_fault(result->fault))
        result->limit_seconds = row->repeats * limit_seconds(path, row->state, row->reading, session.memory, own_bytes, result->fault);
    free(session.memory);
    free_plan(&plan);
}

static void measure_opens(const bench_row *row, const char *path, double scale, measurement *result)
{
    MPI_File file;
    result->operations = scale * FULL_OPENS < 1 ? 1 : (int)(scale * FULL_OPENS);
    prepare_file(path, row->state, 1, result->fault);
    team_barrier();
    const double begin = now_seconds();
    for (int at = 0; at < result->operations && result->fault[0] == '\0'; at++) {
        note_mpi(result->fault, "open", MPI_File_open(MPI_COMM_WORLD, path, mode_of(row), MPI_INFO_NULL, &file));
        if (result->fault[0] == '\0') note_mpi(result->fault, "close", MPI_File_close(&file));
    }
    const double end = now_seconds();
    result->seconds = team_span(begin, end);
    result->limit_seconds = limit_of_opens(path, result->operations, result->fault);
    remove_file(path);
}

void measure(const bench_row *row, const char *folder, double scale, measurement *result)
{
    char path[PATH_BYTES];
    memset(result, 0, sizeof *result);
    snprintf(path, sizeof path, "%s/row-%d", folder, row->id);
    if (row->pointer != NO_POINTER)
        measure_shared(row, path, result);
    else if (row->build == NULL)
        measure_opens(row, path, scale, result);
    else
        measure_access(row, path, scale, result);
    team_fault(result->fault);
}

/* The name of the layer that serves the files, found by the mapped files. Open MPI maps no component that
 * it was told not to use. */
static const char *layer_of_process(void)
{
    static const char *const marks[][2] = {
        { "/libcapulet_", "capulet" }, { "/mca_io_ompio", "ompio" }, { "/mca_io_romio", "romio" }, { "/libmpich.", "romio" },
    };
    enum { MARKS = sizeof marks / sizeof *marks };
    char line[PATH_BYTES];
    size_t found = MARKS;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        for (size_t at = 0; at < found; at++)
            if (strstr(line, marks[at][0]) != NULL) found = at;
    if (maps != NULL) fclose(maps);
    return found < MARKS ? marks[found][1] : "unknown";
}

const char *warm_up(const char *folder, char fault[FAULT_BYTES])
{
    enum { PIECES = 4096, PIECE_BYTES = 64 };
    static unsigned char memory[PIECES * PIECE_BYTES];
    char path[PATH_BYTES];
    MPI_File file;
    MPI_Datatype type;
    snprintf(path, sizeof path, "%s/warm-up", folder);
    fault[0] = '\0';
    remove_file(path);
    note_mpi(fault, "open", MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    if (team_fault(fault)) return "none";
    const char *layer = layer_of_process();
    MPI_Type_vector(PIECES, PIECE_BYTES, PIECE_BYTES * team_size, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    note_mpi(fault, "set_view",
             MPI_File_set_view(file, (MPI_Offset)team_rank * PIECE_BYTES, MPI_BYTE, type, "native", MPI_INFO_NULL));
    note_mpi(fault, "write", MPI_File_write_at_all(file, 0, memory, sizeof memory, MPI_BYTE, MPI_STATUS_IGNORE));
    note_mpi(fault, "read", MPI_File_read_at_all(file, 0, memory, sizeof memory, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Type_free(&type);
    note_mpi(fault, "close", MPI_File_close(&file));
    remove_file(path);
    team_fault(fault);
    return layer;
}
