/* Threads initialize one type at the same time, use it at the same time, and make and free types of their
 * own. */
#include <pthread.h>
#include "capulet_types.h"
#include "check.h"

enum { THREADS = 4, ROUNDS = 100, COUNT = 50 };

static MPI_Datatype shared[ROUNDS];
static pthread_barrier_t barrier;
static int values[2 * COUNT];

static int wrong(MPI_Datatype type)
{
    int packed[COUNT], back[2 * COUNT], bad = 0;
    memset(back, 0, sizeof back);
    bad += MPIT_Type_memcpy(values, 1, type, packed, MPIT_MEMCPY_FROM_USERBUF, 0,
        sizeof packed) != MPI_SUCCESS;
    bad += MPIT_Type_memcpy(back, 1, type, packed, MPIT_MEMCPY_TO_USERBUF, 0, sizeof packed) != MPI_SUCCESS;
    for (int i = 0; i < COUNT; i++)
        bad += packed[i] != 2 * i || back[2 * i] != 2 * i || back[2 * i + 1] != 0;
    return bad;
}

static void *work(void *argument)
{
    long bad = 0;
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Datatype own;
        pthread_barrier_wait(&barrier);
        bad += MPIT_Type_init(shared[i]) != MPI_SUCCESS;
        bad += wrong(shared[i]);
        MPI_Type_vector(COUNT, 1, 2, MPI_INT, &own);
        MPI_Type_commit(&own);
        bad += MPIT_Type_init(own) != MPI_SUCCESS;
        bad += wrong(own);
        MPI_Type_free(&own);
        MPI_Type_dup(shared[i], &own);
        bad += wrong(own);
        MPI_Type_free(&own);
    }
    return (void *)bad;
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int used = provided == MPI_THREAD_MULTIPLE ? THREADS : 1;
    pthread_barrier_init(&barrier, NULL, used);
    for (int i = 0; i < 2 * COUNT; i++)
        values[i] = i;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Type_vector(COUNT, 1, 2, MPI_INT, &shared[i]);
        MPI_Type_commit(&shared[i]);
    }
    for (long i = 0; i < used; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < used; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        CHECK(bad == NULL);
    }
    for (int i = 0; i < ROUNDS; i++)
        MPI_Type_free(&shared[i]);
    return finish();
}
