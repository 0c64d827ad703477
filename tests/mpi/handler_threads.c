/* One thread sets the error handlers of a file and of MPI_FILE_NULL, other threads get them, and one makes
 * calls that fail, all at the same time. No handler may be freed while a thread uses it. Needs
 * MPI_THREAD_MULTIPLE. `MALLOC_PERTURB_` overwrites freed memory, so that a use after the free shows. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

#define ROUNDS 300000
#define GETTERS 3

static MPI_File file = MPI_FILE_NULL;
static atomic_int calls, is_over, failed;

static void note(MPI_File *of, int *code, ...)
{
    (void)of; (void)code;
    atomic_fetch_add(&calls, 1);
}

static void expect(int holds) { if (!holds) atomic_fetch_add(&failed, 1); }

/* Sets a new handler in each round. The file holds its only reference. Every second round replaces the
 * handler by a predefined one, so that its memory stays free for a while. The lock inside MPI may keep the
 * thread with the failing calls waiting for long, so the rounds go on until that thread has called a
 * handler, for at most 60 s. */
static void *sets(void *unused)
{
    const double end = MPI_Wtime() + 60;
    for (int round = 0; round < ROUNDS || (atomic_load(&calls) == 0 && MPI_Wtime() < end); round++) {
        MPI_Errhandler handler;
        MPI_File of = round % 4 ? file : MPI_FILE_NULL;
        expect(MPI_File_create_errhandler(note, &handler) == MPI_SUCCESS);
        expect(MPI_File_set_errhandler(of, handler) == MPI_SUCCESS);
        expect(MPI_Errhandler_free(&handler) == MPI_SUCCESS);
        if (round % 2) expect(MPI_File_set_errhandler(of, MPI_ERRORS_RETURN) == MPI_SUCCESS);
    }
    atomic_store(&is_over, 1);
    return unused;
}

/* Gets handlers. Each handle is valid in MPI: its conversion to Fortran and back gives the same handle, and
 * MPI can free it. */
static void *gets(void *unused)
{
    for (int round = 0; !atomic_load(&is_over); round++) {
        MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
        expect(MPI_File_get_errhandler(round % 4 ? file : MPI_FILE_NULL, &handler) == MPI_SUCCESS);
        expect(handler != MPI_ERRHANDLER_NULL);
        expect(MPI_Errhandler_f2c(MPI_Errhandler_c2f(handler)) == handler);
        expect(MPI_Errhandler_free(&handler) == MPI_SUCCESS);
    }
    return unused;
}

static void *fails(void *unused)
{
    while (!atomic_load(&is_over)) {
        for (int times = 0; times < 10; times++) expect(MPI_File_seek(file, -1, MPI_SEEK_SET) != MPI_SUCCESS);
        MPI_File brief = MPI_FILE_NULL; /* A new file inherits the handler of MPI_FILE_NULL. */
        expect(MPI_File_open(MPI_COMM_SELF, path_of("brief"), MPI_MODE_CREATE | MPI_MODE_RDWR,
               MPI_INFO_NULL, &brief) == MPI_SUCCESS);
        expect(MPI_File_seek(brief, -1, MPI_SEEK_SET) != MPI_SUCCESS);
        expect(MPI_File_close(&brief) == MPI_SUCCESS);
    }
    return unused;
}

int main(int argc, char **argv)
{
    int level = MPI_THREAD_SINGLE;
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) return 9;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    if (argc > 1) work_dir = argv[1];
    section("handlers of threads");
    CHECK_EQ(level, MPI_THREAD_MULTIPLE, "the thread level");
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("threads"), MPI_MODE_CREATE | MPI_MODE_RDWR,
             MPI_INFO_NULL, &file));
    pthread_t threads[GETTERS + 2];
    for (int t = 0; t < GETTERS + 2; t++)
        CHECK_EQ(pthread_create(&threads[t], NULL, t == 0 ? sets : t == 1 ? fails : gets, NULL), 0,
                 "pthread_create");
    for (int t = 0; t < GETTERS + 2; t++) pthread_join(threads[t], NULL);
    CHECK_EQ(atomic_load(&failed), 0, "number of failed expectations of the threads");
    CHECK(atomic_load(&calls) > 0, "no handler was called");
    CHECK_OK(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_File_close(&file));
    return finish();
}
