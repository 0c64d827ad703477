/* Two threads complete requests at the same time. Each has its own file and also MPI's own requests.
 * `CAPULET_FAULTS` makes all writes fail. Each error returns to the thread that waits, with the right
 * class, and calls the handler of the thread's file. Needs MPI_THREAD_MULTIPLE. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

#define ROUNDS 300
#define THREADS 2

static atomic_int failed, calls[THREADS];
static MPI_File files[THREADS];
static MPI_Comm comms[THREADS];

static void expect(int holds) { if (!holds) atomic_fetch_add(&failed, 1); }

static void note(MPI_File *file, int *code, ...)
{
    expect(class_of(*code) == MPI_ERR_NO_SPACE);
    for (int t = 0; t < THREADS; t++) if (files[t] == *file) atomic_fetch_add(&calls[t], 1);
}

static void *work(void *argument)
{
    const int me = *(int *)argument;
    char bytes[64] = { 0 };
    int sent = me, received = -1, flag = 0, place;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request requests[3];
        MPI_Status statuses[3];
        expect(MPI_File_iwrite_at_all(files[me], 0, bytes, sizeof bytes, MPI_CHAR,
               &requests[0]) == MPI_SUCCESS);
        MPI_Irecv(&received, 1, MPI_INT, 0, round, comms[me], &requests[1]);
        MPI_Isend(&sent, 1, MPI_INT, 0, round, comms[me], &requests[2]);
        switch (round % 3) {
        case 0:
            expect(MPI_Waitall(3, requests, statuses) == MPI_ERR_IN_STATUS);
            expect(class_of(statuses[0].MPI_ERROR) == MPI_ERR_NO_SPACE
                   && statuses[1].MPI_ERROR == MPI_SUCCESS && statuses[2].MPI_ERROR == MPI_SUCCESS);
            break;
        case 1:
            for (int left = 3; left > 0; left--) {
                int class = class_of(MPI_Waitany(3, requests, &place, MPI_STATUS_IGNORE));
                expect(class == (place == 0 ? MPI_ERR_NO_SPACE : MPI_SUCCESS));
            }
            break;
        default:
            for (int r = 0; r < 3; r++) {
                int code = MPI_SUCCESS;
                for (flag = 0; !flag && code == MPI_SUCCESS;)
                    code = MPI_Test(&requests[r], &flag, MPI_STATUS_IGNORE);
                expect(class_of(code) == (r == 0 ? MPI_ERR_NO_SPACE : MPI_SUCCESS));
            }
        }
        expect(received == me);
        received = -1;
    }
    return argument;
}

int main(int argc, char **argv)
{
    int level = MPI_THREAD_SINGLE, numbers[THREADS];
    MPI_Errhandler handler;
    pthread_t threads[THREADS];
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) return 9;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    if (argc > 1) work_dir = argv[1];
    section("requests of threads");
    CHECK_EQ(level, MPI_THREAD_MULTIPLE, "the thread level");
    CHECK_OK(MPI_File_create_errhandler(note, &handler));
    for (int t = 0; t < THREADS; t++) {
        char name[64];
        snprintf(name, sizeof name, "thread.%d.%d", world_rank, t);
        MPI_Comm_dup(MPI_COMM_SELF, &comms[t]);
        CHECK_OK(MPI_File_open(comms[t], path_of(name), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                 &files[t]));
        CHECK_OK(MPI_File_set_errhandler(files[t], handler));
        numbers[t] = t;
    }
    MPI_Errhandler_free(&handler);
    for (int t = 0; t < THREADS; t++)
        CHECK_EQ(pthread_create(&threads[t], NULL, work, &numbers[t]), 0, "pthread_create");
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    CHECK_EQ(atomic_load(&failed), 0, "number of failed expectations of the threads");
    for (int t = 0; t < THREADS; t++) {
        CHECK_EQ(atomic_load(&calls[t]), ROUNDS, "calls of the handler");
        CHECK_OK(MPI_File_close(&files[t]));
        MPI_Comm_free(&comms[t]);
    }
    return finish();
}
