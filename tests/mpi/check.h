/* Common parts of the test programs: checks that report what failed, an outcome that all ranks agree on,
 * and waits that yield. The waits yield because the blocking collectives of MPICH spin, and this suite
 * runs more ranks than there are cores. */
#ifndef CHECK_H
#define CHECK_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))
#define MAX_REPORTS 12

static int world_rank, world_size;
static int check_count, failure_count;
static const char *work_dir = ".";
static char section_name[256] = "start";

UNUSED static void section(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(section_name, sizeof section_name, format, list);
    va_end(list);
    if (getenv("CHECK_TRACE")) fprintf(stderr, "[rank %d] section %s\n", world_rank, section_name);
}

UNUSED static void check_report(int ok, const char *file, int line, const char *format, ...)
{
    check_count++;
    if (ok) return;
    failure_count++;
    if (failure_count > MAX_REPORTS) return;
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(stderr, "FAILED [rank %d of %d] %s:%d in `%s`: %s\n", world_rank, world_size, file, line,
            section_name, text);
    fflush(stderr);
}

#define CHECK(condition, ...) check_report(!!(condition), __FILE__, __LINE__, __VA_ARGS__)
#define CHECK_EQ(got, expected, what) do { \
    long long got_ = (long long)(got), expected_ = (long long)(expected); \
    check_report(got_ == expected_, __FILE__, __LINE__, "%s is %lld, not %lld", what, got_, expected_); \
} while (0)
#define CHECK_OK(call) do { int code_ = (call); \
    check_report(code_ == MPI_SUCCESS, __FILE__, __LINE__, "%s returned class %s", #call, \
                 class_name(class_of(code_))); } while (0)
#define CHECK_CLASS(call, expected) do { int code_ = (call); \
    check_report(class_of(code_) == (expected), __FILE__, __LINE__, "%s returned class %s, not %s", #call, \
                 class_name(class_of(code_)), class_name(expected)); } while (0)

/* With `CHECK_ENTERS`, each poll of a wait also calls a function on files, which needs no file: a rank of
 * MPICH answers requests for its words there, and not in MPI. */
UNUSED static void enter_files(void)
{
    static int enters = -1;
    if (enters < 0) enters = getenv("CHECK_ENTERS") != NULL;
    if (!enters) return;
    MPI_Errhandler handler;
    MPI_File_get_errhandler(MPI_FILE_NULL, &handler);
    MPI_Errhandler_free(&handler);
}

/* Sleeps, and enters MPI every millisecond: with some MPIs no rank can reach the memory of a rank that is
 * outside of MPI. */
UNUSED static void nap(int milliseconds)
{
    int found;
    for (const double end = MPI_Wtime() + milliseconds / 1e3; MPI_Wtime() < end;) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
        enter_files();
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    }
}

UNUSED static int class_of(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

UNUSED static const char *class_name(int class)
{
#define CLASS(name) if (class == MPI_ERR_##name) return "MPI_ERR_" #name;
    if (class == MPI_SUCCESS) return "MPI_SUCCESS";
    CLASS(ACCESS) CLASS(AMODE) CLASS(ARG) CLASS(BAD_FILE) CLASS(BUFFER) CLASS(COMM) CLASS(CONVERSION)
    CLASS(COUNT) CLASS(DUP_DATAREP) CLASS(FILE) CLASS(FILE_EXISTS) CLASS(FILE_IN_USE) CLASS(INFO)
    CLASS(INFO_KEY) CLASS(INFO_VALUE) CLASS(INTERN) CLASS(IO) CLASS(NOT_SAME) CLASS(NO_MEM)
    CLASS(NO_SPACE) CLASS(NO_SUCH_FILE) CLASS(OTHER) CLASS(QUOTA) CLASS(READ_ONLY) CLASS(TYPE)
    CLASS(UNKNOWN) CLASS(UNSUPPORTED_DATAREP) CLASS(UNSUPPORTED_OPERATION)
#undef CLASS
    static char number[32];
    snprintf(number, sizeof number, "class %d", class);
    return number;
}

UNUSED static void wait_yielding(MPI_Request *request)
{
    int done = 0;
    while (!done) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        enter_files();
        if (!done) sched_yield();
    }
}

UNUSED static void barrier_on(MPI_Comm comm)
{
    MPI_Request request;
    MPI_Ibarrier(comm, &request);
    wait_yielding(&request);
}

UNUSED static void barrier(void) { barrier_on(MPI_COMM_WORLD); }

UNUSED static long long reduce_all(long long value, MPI_Op op)
{
    long long result = 0;
    MPI_Request request;
    MPI_Iallreduce(&value, &result, 1, MPI_LONG_LONG, op, MPI_COMM_WORLD, &request);
    wait_yielding(&request);
    return result;
}

/* Returns a path in the directory of this run. The text stays valid during the next three calls. */
UNUSED static const char *path_of(const char *name)
{
    static char paths[4][PATH_MAX];
    static int next;
    char *path = paths[next++ & 3];
    snprintf(path, PATH_MAX, "%s/%s", work_dir, name);
    return path;
}

UNUSED static void on_alarm(int signal) { (void)signal; }

/* If CHECK_ALARM is set, interrupts system calls every half millisecond from now on, as timers of the
 * user may do. */
UNUSED static void start_alarms(void)
{
    struct sigaction action = { 0 };
    struct itimerval every = { { 0, 500 }, { 0, 500 } };
    if (!getenv("CHECK_ALARM")) return;
    action.sa_handler = on_alarm; /* without SA_RESTART */
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
}

UNUSED static void start(int *argc, char ***argv)
{
    /* CHECK_THREADS=multiple runs any program at the thread level that mpi4py and h5py ask for. */
    const char *threads = getenv("CHECK_THREADS");
    const int level = threads && strcmp(threads, "multiple") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    int provided = MPI_THREAD_SINGLE;
    if (MPI_Init_thread(argc, argv, level, &provided) != MPI_SUCCESS) exit(9);
    CHECK(provided >= level, "MPI gives thread level %d, not %d", provided, level);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    if (*argc > 1) work_dir = (*argv)[1];
    start_alarms();
}

/* Ends MPI. Returns the exit code, which is the same on every rank. */
UNUSED static int finish(void)
{
    setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 0 }, { 0, 0 } }, NULL);
    long long failures = reduce_all(failure_count, MPI_SUM), checks = reduce_all(check_count, MPI_SUM);
    if (world_rank == 0) printf("%lld checks passed, %lld failed\n", checks - failures, failures);
    if (checks == 0) failures = 1;
    fflush(stdout);
    MPI_Finalize();
    return failures != 0;
}

/* Returns the contents of a file as POSIX calls read them, without MPI-IO. */
UNUSED static unsigned char *slurp(const char *path, long long *size)
{
    struct stat about;
    int fd = open(path, O_RDONLY);
    *size = -1;
    if (fd < 0 || fstat(fd, &about) != 0) { if (fd >= 0) close(fd); return NULL; }
    unsigned char *bytes = malloc((size_t)about.st_size + 1);
    long long got = 0;
    while (got < about.st_size) {
        ssize_t n = pread(fd, bytes + got, (size_t)(about.st_size - got), got);
        if (n <= 0) break;
        got += n;
    }
    close(fd);
    *size = got;
    return bytes;
}

UNUSED static void spill(const char *path, const void *bytes, long long size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || pwrite(fd, bytes, (size_t)size, 0) != size) { perror(path); exit(8); }
    close(fd);
}

UNUSED static long long elements(MPI_Status *status, MPI_Datatype type)
{
    MPI_Count count = -2;
    MPI_Get_elements_x(status, type, &count);
    return (long long)count;
}

UNUSED static int count_of(MPI_Status *status, MPI_Datatype type)
{
    int count = -2;
    MPI_Get_count(status, type, &count);
    return count;
}

/* Byte number `position` of the data that `rank` writes in `round`. */
UNUSED static unsigned char value_at(int rank, long long position, int round)
{
    uint64_t x = (uint64_t)position * 0x9E3779B97F4A7C15u + (uint64_t)rank * 0xC2B2AE3D27D4EB4Fu
        + (uint64_t)round * 0x165667B19E3779F9u;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 32;
    return (unsigned char)x;
}
#endif
