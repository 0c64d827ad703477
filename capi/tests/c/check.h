/* Helpers of the C test programs: checks that print their line, and the number of failures over all
 * ranks. */
#ifndef CHECK_H
#define CHECK_H
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, failures;

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: rank %d: not true: %s\n", __FILE__, __LINE__, rank, #condition); \
            failures++; \
        } \
    } while (0)

static int class_of(int code)
{
    int class = code;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    return class;
}

#define CHECK_CLASS(expected, call) \
    do { \
        int found_ = class_of(call); \
        if (found_ != (expected)) { \
            fprintf(stderr, "%s:%d: rank %d: class %d and not %s: %s\n", __FILE__, __LINE__, rank, \
                    found_, #expected, #call); \
            failures++; \
        } \
    } while (0)

#define CHECK_OK(call) CHECK_CLASS(MPI_SUCCESS, call)

static void start(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

/* Returns the same result on every rank. If all checks passed, rank 0 prints the line that the harness
 * expects. */
static int finish(void)
{
    int all = 0;
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && all == 0)
        printf("all checks passed\n");
    fflush(stdout);
    MPI_Finalize();
    return all != 0;
}
#endif
