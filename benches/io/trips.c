/* Raw round trips over TCP between rank 0 and the far rank, without MPI. MPI only carries the address. */
#include "bench_io.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define MESSAGE_BYTES 64
#define ADDRESSES_MAX 16
/* Longest wait for a connection or for an answer, in milliseconds. */
#define PATIENCE_MS 2000

/* How the far rank finds rank 0. A process at the same address of another host does not know the secret. */
typedef struct {
    unsigned char secret[MESSAGE_BYTES];
    in_port_t port;
    int count;
    struct in_addr addresses[ADDRESSES_MAX];
} contact;

static contact line;
/* Rank 0: the socket that listens, and the thread that answers. The far rank: the connection. */
static int own_socket = -1;
static bool has_thread;
static pthread_t answerer;

static bool move_all(int socket, unsigned char *message, bool is_sending)
{
    for (size_t moved = 0; moved < MESSAGE_BYTES;) {
        const ssize_t part = is_sending ? send(socket, message + moved, MESSAGE_BYTES - moved, MSG_NOSIGNAL)
                                        : recv(socket, message + moved, MESSAGE_BYTES - moved, 0);
        if (part <= 0) return false;
        moved += (size_t)part;
    }
    return true;
}

static void set_prompt(int socket) { setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int)); }

/* A limit for the first message. Without a limit, a stranger could hold up the far rank or the thread. */
static void set_patience(int socket, long ms)
{
    const struct timeval time = { ms / 1000, ms % 1000 * 1000 };
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
}

/* Returns the messages of each connection that begins with the secret, until rank 0 shuts the socket down. */
static void *answer(void *unused)
{
    unsigned char message[MESSAGE_BYTES];
    for (int peer; (peer = accept(own_socket, NULL, NULL)) >= 0; close(peer)) {
        set_prompt(peer);
        set_patience(peer, PATIENCE_MS);
        if (!move_all(peer, message, false) || memcmp(message, line.secret, MESSAGE_BYTES) != 0) continue;
        set_patience(peer, 0);
        do {
            if (!move_all(peer, message, true)) break;
        } while (move_all(peer, message, false));
    }
    return unused;
}

/* Lists the addresses of this host, loopback last. */
static void list_addresses(void)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0) return;
    for (int is_loop = 0; is_loop < 2; is_loop++) {
        for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
            if (at->ifa_addr == NULL || at->ifa_addr->sa_family != AF_INET || !(at->ifa_flags & IFF_UP)) continue;
            if (!!(at->ifa_flags & IFF_LOOPBACK) != is_loop || line.count == ADDRESSES_MAX) continue;
            line.addresses[line.count++] = ((const struct sockaddr_in *)(const void *)at->ifa_addr)->sin_addr;
        }
    }
    freeifaddrs(all);
}

/* Rank 0 listens on all interfaces. No address is listed if it cannot listen. */
static void listen_and_answer(void)
{
    struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_ANY) } };
    socklen_t bytes = sizeof own;
    own_socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (own_socket < 0 || getrandom(line.secret, MESSAGE_BYTES, 0) != MESSAGE_BYTES) return;
    if (bind(own_socket, (struct sockaddr *)&own, bytes) != 0 || listen(own_socket, 8) != 0) return;
    if (getsockname(own_socket, (struct sockaddr *)&own, &bytes) != 0) return;
    has_thread = pthread_create(&answerer, NULL, answer, NULL) == 0;
    if (!has_thread) return;
    line.port = own.sin_port;
    list_addresses();
}

/* Connects within the patience. Linux applies SO_SNDTIMEO to connect(2). */
static bool connect_to(struct in_addr address)
{
    const struct sockaddr_in there = { .sin_family = AF_INET, .sin_port = line.port, .sin_addr = address };
    const struct timeval time = { PATIENCE_MS / 1000, PATIENCE_MS % 1000 * 1000 };
    unsigned char message[MESSAGE_BYTES];
    own_socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (own_socket < 0) return false;
    setsockopt(own_socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    set_patience(own_socket, PATIENCE_MS);
    set_prompt(own_socket);
    memcpy(message, line.secret, MESSAGE_BYTES);
    if (connect(own_socket, (const struct sockaddr *)&there, sizeof there) == 0 && move_all(own_socket, message, true) &&
        move_all(own_socket, message, false) && memcmp(message, line.secret, MESSAGE_BYTES) == 0)
        return true;
    close(own_socket);
    own_socket = -1;
    return false;
}

bool trips_begin(void)
{
    memset(&line, 0, sizeof line);
    if (team_rank == 0 && team_far_rank != 0) listen_and_answer();
    MPI_Request request;
    MPI_Ibcast(&line, sizeof line, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
    wait_yielding(&request);
    bool is_connected = false;
    for (int at = 0; team_rank == team_far_rank && !is_connected && at < line.count; at++) is_connected = connect_to(line.addresses[at]);
    return team_max(is_connected) == 1;
}

double trip_seconds(int count)
{
    unsigned char message[MESSAGE_BYTES] = { 0 };
    const double begin = now_seconds();
    for (int at = 0; at < count; at++)
        if (!move_all(own_socket, message, true) || !move_all(own_socket, message, false)) return 0;
    return (now_seconds() - begin) / count;
}

void trips_end(void)
{
    /* The end of the connection ends the answers, and the shutdown ends the wait for another connection. */
    if (team_rank != 0 && own_socket >= 0) close(own_socket);
    team_barrier();
    if (has_thread) {
        shutdown(own_socket, SHUT_RDWR);
        pthread_join(answerer, NULL);
        has_thread = false;
    }
    if (team_rank == 0 && own_socket >= 0) close(own_socket);
    own_socket = -1;
}
