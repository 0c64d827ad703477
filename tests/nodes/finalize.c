/* Preloaded before MPICH 4.0: a rank that waits for the process manager in MPI_Finalize makes progress.
 *
 * MPICH 4.0 closes its connections in MPI_Finalize, then waits in a barrier of the process manager. Over TCP
 * a connection closes only if both sides make progress, but a rank in this barrier sleeps in read(2) and
 * makes none. So about half of all programs on two nodes hang, also programs without I/O. MPICH removed the
 * barrier in pull request 6596. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

/* The types of UCX are opaque here, because Debian's MPICH comes without the headers of UCX. */
typedef int (*create_function)(void *context, const void *parameters, void **worker);
typedef void *(*disconnect_function)(void *endpoint);
typedef unsigned (*progress_function)(void *worker);
typedef ssize_t (*read_function)(int fd, void *buffer, size_t bytes);

static void *worker;
static int manager_fd = -1; /* that of the process manager, once MPI_Finalize closes connections */
static progress_function progress;

int ucp_worker_create(void *context, const void *parameters, void **created)
{
    create_function next = (create_function)dlsym(RTLD_NEXT, "ucp_worker_create");
    const int status = next(context, parameters, created);
    if (status == 0) worker = *created;
    return status;
}

/* MPICH calls this function in MPI_Finalize only. */
void *ucp_disconnect_nb(void *endpoint)
{
    const char *fd = getenv("PMI_FD");
    progress = (progress_function)dlsym(RTLD_NEXT, "ucp_worker_progress");
    if (fd && progress && worker) manager_fd = atoi(fd);
    disconnect_function next = (disconnect_function)dlsym(RTLD_NEXT, "ucp_disconnect_nb");
    return next(endpoint);
}

ssize_t read(int fd, void *buffer, size_t bytes)
{
    static read_function next;
    if (!next) next = (read_function)dlsym(RTLD_NEXT, "read");
    if (fd == manager_fd) {
        struct pollfd wait = { fd, POLLIN, 0 };
        while (poll(&wait, 1, 1) == 0) progress(worker);
        /* MPICH destroys the worker after this barrier. */
        manager_fd = -1;
    }
    return next(fd, buffer, bytes);
}
