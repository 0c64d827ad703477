/* Several threads of a process, each with its own file on one communicator, make collective calls at the
 * same time. Then several threads use the individual pointer of one file. */
#include "check.h"
#include <pthread.h>

#define THREADS 3

static MPI_File files[THREADS];
static int rounds, wrong[THREADS];

static void *work(void *argument)
{
    int thread = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        int values[64], back[64];
        for (int i = 0; i < 64; i++) values[i] = thread * 1000000 + round * 1000 + world_rank * 100 + i;
        MPI_Offset at = (MPI_Offset)(round * world_size + world_rank) * 64;
        wrong[thread] += MPI_File_write_at_all(files[thread], at, values, 64, MPI_INT, MPI_STATUS_IGNORE)
            != MPI_SUCCESS;
        wrong[thread] += MPI_File_read_at_all(files[thread], at, back, 64, MPI_INT, MPI_STATUS_IGNORE)
            != MPI_SUCCESS;
        wrong[thread] += memcmp(values, back, sizeof values) != 0;
    }
    return NULL;
}

#define RECORDS 200

static MPI_File shared;

static void *append(void *argument)
{
    int thread = (int)(intptr_t)argument;
    for (int r = 0; r < RECORDS; r++) {
        int record[4] = { thread, r, ~thread, ~r };
        wrong[thread] += MPI_File_write(shared, record, 4, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    }
    return NULL;
}

/* All threads write at the individual pointer of one file. The result must be as if they wrote one after
 * another: every record is there exactly once. */
static void one_pointer(void)
{
    pthread_t threads[THREADS];
    char name[32];
    static int seen[THREADS][RECORDS];
    section("one pointer");
    snprintf(name, sizeof name, "records-%d", world_rank);
    CHECK_OK(MPI_File_open(MPI_COMM_SELF, path_of(name), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
             &shared));
    for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, append, (void *)(intptr_t)t);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    CHECK_OK(MPI_File_close(&shared));
    long long size;
    int *found = (int *)slurp(path_of(name), &size), odd = 0;
    CHECK_EQ(size, 16 * THREADS * RECORDS, "size");
    for (long long i = 0; i + 16 <= size; i += 16) {
        const int *record = found + i / 4;
        int fine = record[0] == ~record[2] && record[1] == ~record[3] && record[0] >= 0 && record[0] < THREADS
            && record[1] >= 0 && record[1] < RECORDS;
        odd += !fine || seen[record[0]][record[1]]++;
    }
    CHECK_EQ(odd, 0, "number of records that are torn or duplicate");
    free(found);
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    if (argc > 1) work_dir = argv[1];
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE, "thread level");
    rounds = world_size <= 2 ? 20 : 5;
    pthread_t threads[THREADS];
    char name[32];
    section("open");
    for (int t = 0; t < THREADS; t++) {
        snprintf(name, sizeof name, "thread-%d", t);
        CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of(name), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                 &files[t]));
        CHECK_OK(MPI_File_set_view(files[t], 4 * t, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    }
    section("threads");
    for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, work, (void *)(intptr_t)t);
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        CHECK_EQ(wrong[t], 0, "number of failures in a thread");
    }
    for (int t = 0; t < THREADS; t++) CHECK_OK(MPI_File_close(&files[t]));
    one_pointer();
    return finish();
}
