/* Agreements of the ranks. Ranks may outnumber the cores, and an MPI may spin in its blocking calls, so
 * every wait here yields. */
#include "bench_io.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Time between two tests of a resting rank, in nanoseconds. */
#define REST_NS 2000000

int team_rank, team_size, team_far_rank;

void team_start(int *argc, char ***argv)
{
    if (MPI_Init(argc, argv) != MPI_SUCCESS) exit(1);
    MPI_Comm_rank(MPI_COMM_WORLD, &team_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &team_size);
    MPI_Comm node;
    int lowest;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Allreduce(&team_rank, &lowest, 1, MPI_INT, MPI_MIN, node);
    MPI_Comm_free(&node);
    team_far_rank = (int)team_max(lowest == 0 ? -1 : team_rank);
    if (team_far_rank < 0) team_far_rank = team_size - 1;
}

/* A clock of the machine, because times of different ranks are compared. MPI_Wtime may be a clock of the
 * process. */
double now_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void wait_yielding(MPI_Request *request)
{
    int done = 0;
    while (!done) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (!done) sched_yield();
    }
}

void team_barrier(void)
{
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    wait_yielding(&request);
}

static int64_t reduced(int64_t value, MPI_Op op)
{
    int64_t result = 0;
    MPI_Request request;
    MPI_Iallreduce(&value, &result, 1, MPI_INT64_T, op, MPI_COMM_WORLD, &request);
    wait_yielding(&request);
    return result;
}

int64_t team_sum(int64_t value) { return reduced(value, MPI_SUM); }

int64_t team_max(int64_t value) { return reduced(value, MPI_MAX); }

double team_largest(double value)
{
    double result = 0;
    MPI_Request request;
    MPI_Iallreduce(&value, &result, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &request);
    wait_yielding(&request);
    return result;
}

void team_rest(void)
{
    int done = 0;
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (!done) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (!done) nanosleep(&(struct timespec){ 0, REST_NS }, NULL);
    }
}

int64_t team_sum_below(int64_t value)
{
    int64_t result = 0;
    MPI_Request request;
    MPI_Iexscan(&value, &result, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD, &request);
    wait_yielding(&request);
    return team_rank == 0 ? 0 : result;
}

double team_span(double begin, double end)
{
    const double own[2] = { -begin, end };
    double all[2];
    MPI_Request request;
    MPI_Iallreduce(own, all, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &request);
    wait_yielding(&request);
    return all[1] + all[0];
}

bool team_fault(char fault[FAULT_BYTES])
{
    const int64_t first = -team_max(fault[0] != '\0' ? -team_rank : -team_size);
    if (first == team_size) return false;
    MPI_Request request;
    MPI_Ibcast(fault, FAULT_BYTES, MPI_CHAR, (int)first, MPI_COMM_WORLD, &request);
    wait_yielding(&request);
    return true;
}

void note_fault(char fault[FAULT_BYTES], const char *format, ...)
{
    if (fault[0] != '\0') return;
    const int used = snprintf(fault, FAULT_BYTES, "rank %d: ", team_rank);
    va_list list;
    va_start(list, format);
    vsnprintf(fault + used, FAULT_BYTES - (size_t)used, format, list);
    va_end(list);
    /* The text becomes a JSON string. */
    for (char *at = fault; *at != '\0'; at++)
        if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ' || (unsigned char)*at > '~') *at = '\'';
}

void note_mpi(char fault[FAULT_BYTES], const char *call, int code)
{
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(code, text, &length);
    note_fault(fault, "%s: %s", call, text);
}
