/* A switch with a constant delay between network namespaces, for kernels without netem.
 *
 * usage: delay MICROSECONDS NAMESPACE...
 *
 * NAMESPACE is the path of a network namespace. The program makes a TAP device eth0 in each namespace,
 * prints `ready`, and passes frames between the devices until it is killed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Large frames: fewer pass through the program, so that the delay does not lower the rate. */
enum { MAX_NODES = 16, MTU = 60000, MAX_FRAME = MTU + 18, SLOTS = 4096, ADDRESS = 6 };

struct frame {
    long due_ns;
    int source;
    ssize_t bytes;
    unsigned char *data;
};

/* The delay is constant, so frames leave in the order in which they came. */
static struct frame queue[SLOTS];
static unsigned first, next;
static int device[MAX_NODES], node_count;
/* Address of each node, learned from the frames that it sends. */
static unsigned char address[MAX_NODES][ADDRESS];

static long now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int open_device(const char *namespace)
{
    int fd = open(namespace, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET)) fail(namespace);
    close(fd);
    fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) fail("/dev/net/tun");
    struct ifreq request = { .ifr_name = "eth0", .ifr_flags = IFF_TAP | IFF_NO_PI };
    if (ioctl(fd, TUNSETIFF, &request)) fail("TUNSETIFF");
    const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    request = (struct ifreq){ .ifr_name = "eth0", .ifr_mtu = MTU };
    if (any < 0 || ioctl(any, SIOCSIFMTU, &request)) fail("SIOCSIFMTU");
    close(any);
    return fd;
}

static void deliver(const struct frame *frame)
{
    const int is_group = frame->data[0] & 1;
    for (int node = 0; node < node_count; node++) {
        if (node == frame->source || (!is_group && memcmp(address[node], frame->data, ADDRESS))) continue;
        /* A device that is full drops the frame, as a switch does. TCP sends it again. */
        if (write(device[node], frame->data, frame->bytes) < 0) continue;
    }
}

/* Takes the frames that wait in the device of a node. */
static void take(int node, long delay_ns)
{
    while (next - first < SLOTS) {
        struct frame *frame = &queue[next % SLOTS];
        frame->bytes = read(device[node], frame->data, MAX_FRAME);
        if (frame->bytes < 2 * ADDRESS + 2) return;
        frame->source = node;
        frame->due_ns = now_ns() + delay_ns;
        memcpy(address[node], frame->data + ADDRESS, ADDRESS);
        next++;
    }
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc - 2 > MAX_NODES) {
        fprintf(stderr, "usage: delay MICROSECONDS NAMESPACE...\n");
        return 2;
    }
    const long delay_ns = atol(argv[1]) * 1000;
    struct pollfd waits[MAX_NODES];
    node_count = argc - 2;
    for (int node = 0; node < node_count; node++) {
        device[node] = open_device(argv[2 + node]);
        waits[node] = (struct pollfd){ device[node], POLLIN, 0 };
    }
    for (int slot = 0; slot < SLOTS; slot++)
        if (!(queue[slot].data = malloc(MAX_FRAME))) fail("malloc");
    puts("ready");
    fflush(stdout);
    for (;;) {
        const long now = now_ns();
        for (; first != next && queue[first % SLOTS].due_ns <= now; first++) deliver(&queue[first % SLOTS]);
        struct timespec pause = { 0, 100000000 };
        if (first != next) {
            const long left_ns = queue[first % SLOTS].due_ns - now;
            pause = (struct timespec){ left_ns / 1000000000, left_ns % 1000000000 };
        }
        /* With a full queue the devices hold the frames, and poll would return at once. */
        if (ppoll(waits, next - first < SLOTS ? node_count : 0, &pause, NULL) < 0) fail("ppoll");
        for (int node = 0; node < node_count; node++)
            if (waits[node].revents & POLLIN) take(node, delay_ns);
    }
}
