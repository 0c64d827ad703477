/* dying FOLDER: rank 0 is killed while it holds the lock of an atomic access (`CAPULET_FAULTS` makes the
 * access slow), and the other ranks wait for the lock. No rank ends on its own: it waits in its access,
 * and after an error in pause(), like a program that relies on its launcher. */
#include "check.h"

static void die(int signal)
{
    (void)signal;
    kill(getpid(), SIGKILL);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    char name[PATH_MAX], bytes[64] = { 0 };
    snprintf(name, sizeof name, "%s/process.%d", work_dir, world_rank);
    FILE *told = fopen(name, "w");
    CHECK(told && fprintf(told, "%d", (int)getpid()) > 0 && !fclose(told),
          "the process number cannot be written");
    MPI_File file;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("dying"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
             &file));
    CHECK_OK(MPI_File_set_atomicity(file, 1));
    barrier();
    if (world_rank == 0) {
        signal(SIGALRM, die);
        setitimer(ITIMER_REAL, &(struct itimerval){ .it_value = { .tv_sec = 1, .tv_usec = 500000 } }, NULL);
    } else {
        nap(300);
    }
    const int code = MPI_File_write_at(file, 0, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    fprintf(stderr, "rank %d: class %s\n", world_rank, class_name(class_of(code)));
    for (;;) pause();
}
