/* A library to preload. It makes one system call of one kind fail on files below one folder, when the
 * program asks for it. The program finds the functions `strike_*` by dlsym. The library counts and strikes
 * calls on descriptors of these files, from any caller, and only while it is armed. A struck call has no
 * effect, except close: it releases its descriptor whatever it returns, as on Linux (close(2)). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind { OPEN, CLOSE, WRITE, READ, FSYNC, FTRUNCATE, FALLOCATE, MMAP, MUNMAP, MADVISE, FSTAT, FSTATFS,
            FCNTL, UNLINK, KINDS };
static const char *const names[KINDS] = { "open", "close", "write", "read", "fsync", "ftruncate",
                                          "fallocate", "mmap", "munmap", "madvise", "fstat", "fstatfs",
                                          "fcntl", "unlink" };

enum { DESCRIPTORS = 65536 };
static atomic_bool tracked[DESCRIPTORS];
static char folder[4096];
static atomic_long counts[KINDS];
static atomic_bool is_armed;
static atomic_int armed_kind;
static atomic_long armed_call, hits, delay_ms;
static atomic_int armed_code;
static atomic_llong struck_end_ns;
/* A reservation of more bytes fails with EINTR, as if a signal interrupted it. */
static atomic_long reservation_max = LONG_MAX;
/* Address ranges in which files are mapped. */
enum { MAPPINGS = 16 };
static struct { atomic_uintptr_t start, end; } mappings[MAPPINGS];

/* --- functions for the program */

long strike_calls(const char *kind)
{
    for (int k = 0; k < KINDS; k++)
        if (strcmp(names[k], kind) == 0) return counts[k];
    return -1;
}

/* Counts from zero, and strikes call number `call` of a kind: the call waits for `wait_ms` and fails with
 * `code`. If `kind` names no kind, the library only counts. */
void strike_arm(const char *kind, long call, int code, long wait_ms)
{
    is_armed = 0;
    armed_kind = KINDS;
    for (int k = 0; k < KINDS; k++) counts[k] = 0;
    hits = 0;
    armed_call = call;
    armed_code = code;
    delay_ms = wait_ms;
    for (int k = 0; k < KINDS; k++)
        if (strcmp(names[k], kind) == 0) armed_kind = k;
    is_armed = 1;
}

/* Stops counting and striking. Returns the number of struck calls. */
long strike_disarm(void)
{
    is_armed = 0;
    return hits;
}

/* Interrupts every reservation of more than `bytes` bytes, without effect. This is the behavior of a tmpfs
 * (Linux 6.1), which undoes a reservation on a signal, if signals come faster than it reserves `bytes`. */
void strike_reservations_above(long bytes) { reservation_max = bytes; }

void strike_below(const char *path) { snprintf(folder, sizeof folder, "%s/", path); }

/* Time at which the last struck call returned, by CLOCK_MONOTONIC. */
long long strike_end_ns(void) { return struck_end_ns; }

/* --- replaced calls */

/* Counts a call on a file below the folder. Returns whether the call must fail, and then sets errno. */
static int is_struck(enum kind kind)
{
    if (!is_armed) return 0;
    long call = atomic_fetch_add(&counts[kind], 1);
    if (armed_kind != (int)kind || call != armed_call) return 0;
    if (delay_ms > 0) {
        struct timespec rest = { delay_ms / 1000, delay_ms % 1000 * 1000000 };
        while (nanosleep(&rest, &rest) != 0) {}
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struck_end_ns = now.tv_sec * 1000000000LL + now.tv_nsec;
    hits++;
    errno = armed_code;
    return armed_code != 0;
}

static int is_tracked(int fd) { return fd >= 0 && fd < DESCRIPTORS && tracked[fd]; }

static int on_tracked(enum kind kind, int fd) { return is_tracked(fd) && is_struck(kind); }

static int is_below(const char *path)
{
    const char own[] = "/proc/self/fd/";
    if (!path || !folder[0]) return 0;
    if (strncmp(path, own, sizeof own - 1) == 0) return is_tracked(atoi(path + sizeof own - 1));
    return strncmp(path, folder, strlen(folder)) == 0;
}

static void *next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr, "strike: no %s\n", name);
        abort();
    }
    return found;
}

#define REAL(name, type) \
    static __typeof__(type) real; \
    if (!real) real = (__typeof__(type))(uintptr_t)next(name)

static void track(int fd, int is)
{
    if (fd >= 0 && fd < DESCRIPTORS) tracked[fd] = is;
}

#define OPENING(name) \
    int name(const char *path, int flags, ...) \
    { \
        REAL(#name, int (*)(const char *, int, ...)); \
        va_list rest; \
        va_start(rest, flags); \
        unsigned mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, unsigned) : 0; \
        va_end(rest); \
        int below = is_below(path); \
        if (below && is_struck(OPEN)) return -1; \
        int fd = real(path, flags, mode); \
        track(fd, below); \
        return fd; \
    }

#define OPENING_AT(name) \
    int name(int at, const char *path, int flags, ...) \
    { \
        REAL(#name, int (*)(int, const char *, int, ...)); \
        va_list rest; \
        va_start(rest, flags); \
        unsigned mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, unsigned) : 0; \
        va_end(rest); \
        int below = is_below(path); \
        if (below && is_struck(OPEN)) return -1; \
        int fd = real(at, path, flags, mode); \
        track(fd, below); \
        return fd; \
    }

OPENING(open)
OPENING(open64)
OPENING_AT(openat)
OPENING_AT(openat64)

int close(int fd)
{
    REAL("close", int (*)(int));
    if (!is_tracked(fd)) return real(fd);
    /* Untrack first: after the close, another thread may get the same number. */
    track(fd, 0);
    int done = real(fd);
    return is_struck(CLOSE) ? -1 : done;
}

int dup(int fd)
{
    REAL("dup", int (*)(int));
    int copy = real(fd);
    track(copy, is_tracked(fd));
    return copy;
}

#define CONTROL(name) \
    int name(int fd, int command, ...) \
    { \
        REAL(#name, int (*)(int, int, ...)); \
        va_list rest; \
        va_start(rest, command); \
        void *argument = va_arg(rest, void *); \
        va_end(rest); \
        int copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC; \
        if (!copies && on_tracked(FCNTL, fd)) return -1; \
        int answer = real(fd, command, argument); \
        if (copies) track(answer, is_tracked(fd)); \
        return answer; \
    }

CONTROL(fcntl)
CONTROL(fcntl64)

/* Defines a call on a descriptor, with its result if it is struck. */
#define CALL(kind, type, name, failed, declared, passed) \
    type name declared \
    { \
        REAL(#name, type(*) declared); \
        return on_tracked(kind, fd) ? failed : real passed; \
    }

CALL(READ, ssize_t, pread, -1, (int fd, void *to, size_t bytes, off_t at), (fd, to, bytes, at))
CALL(READ, ssize_t, pread64, -1, (int fd, void *to, size_t bytes, off64_t at), (fd, to, bytes, at))
CALL(READ, ssize_t, preadv, -1, (int fd, const struct iovec *to, int count, off_t at), (fd, to, count, at))
CALL(READ, ssize_t, preadv64, -1, (int fd, const struct iovec *to, int count, off64_t at),
     (fd, to, count, at))
CALL(READ, ssize_t, preadv2, -1, (int fd, const struct iovec *to, int count, off_t at, int flags),
     (fd, to, count, at, flags))
CALL(READ, ssize_t, preadv64v2, -1, (int fd, const struct iovec *to, int count, off64_t at, int flags),
     (fd, to, count, at, flags))
CALL(WRITE, ssize_t, pwrite, -1, (int fd, const void *from, size_t bytes, off_t at), (fd, from, bytes, at))
CALL(WRITE, ssize_t, pwrite64, -1, (int fd, const void *from, size_t bytes, off64_t at),
     (fd, from, bytes, at))
CALL(WRITE, ssize_t, pwritev, -1, (int fd, const struct iovec *from, int count, off_t at),
     (fd, from, count, at))
CALL(WRITE, ssize_t, pwritev64, -1, (int fd, const struct iovec *from, int count, off64_t at),
     (fd, from, count, at))
CALL(WRITE, ssize_t, pwritev2, -1, (int fd, const struct iovec *from, int count, off_t at, int flags),
     (fd, from, count, at, flags))
CALL(WRITE, ssize_t, pwritev64v2, -1, (int fd, const struct iovec *from, int count, off64_t at, int flags),
     (fd, from, count, at, flags))
CALL(FSYNC, int, fsync, -1, (int fd), (fd))
CALL(FSYNC, int, fdatasync, -1, (int fd), (fd))
CALL(FTRUNCATE, int, ftruncate, -1, (int fd, off_t bytes), (fd, bytes))
CALL(FTRUNCATE, int, ftruncate64, -1, (int fd, off64_t bytes), (fd, bytes))
#define RESERVING(name, failed, declared, passed) \
    int name declared \
    { \
        REAL(#name, int(*) declared); \
        if (on_tracked(FALLOCATE, fd)) return failed; \
        if (is_tracked(fd) && bytes > reservation_max) { \
            errno = EINTR; \
            return failed; \
        } \
        return real passed; \
    }

RESERVING(fallocate, -1, (int fd, int mode, off_t from, off_t bytes), (fd, mode, from, bytes))
RESERVING(fallocate64, -1, (int fd, int mode, off64_t from, off64_t bytes), (fd, mode, from, bytes))
RESERVING(posix_fallocate, errno, (int fd, off_t from, off_t bytes), (fd, from, bytes))
RESERVING(posix_fallocate64, errno, (int fd, off64_t from, off64_t bytes), (fd, from, bytes))

static int mapping_of(const void *place)
{
    for (int m = 0; m < MAPPINGS; m++)
        if ((uintptr_t)place >= mappings[m].start && (uintptr_t)place < mappings[m].end) return m;
    return -1;
}

static void *mapped(void *start, size_t bytes, int fd)
{
    for (int m = 0; start != MAP_FAILED && is_tracked(fd) && m < MAPPINGS; m++) {
        uintptr_t unused = 0;
        if (!atomic_compare_exchange_strong(&mappings[m].end, &unused, (uintptr_t)start + bytes)) continue;
        mappings[m].start = (uintptr_t)start;
        break;
    }
    return start;
}

#define MAPPING(name, offset_t) \
    void *name(void *to, size_t bytes, int access, int flags, int fd, offset_t from) \
    { \
        REAL(#name, void *(*)(void *, size_t, int, int, int, offset_t)); \
        if (on_tracked(MMAP, fd)) return MAP_FAILED; \
        return mapped(real(to, bytes, access, flags, fd, from), bytes, fd); \
    }

MAPPING(mmap, off_t)
MAPPING(mmap64, off64_t)

int munmap(void *place, size_t bytes)
{
    REAL("munmap", int (*)(void *, size_t));
    int of = mapping_of(place);
    if (of >= 0 && is_struck(MUNMAP)) return -1;
    if (of >= 0) mappings[of].start = mappings[of].end = 0;
    return real(place, bytes);
}

int madvise(void *place, size_t bytes, int advice)
{
    REAL("madvise", int (*)(void *, size_t, int));
    return mapping_of(place) >= 0 && is_struck(MADVISE) ? -1 : real(place, bytes, advice);
}

CALL(FSTAT, int, fstat, -1, (int fd, struct stat *about), (fd, about))
CALL(FSTAT, int, fstat64, -1, (int fd, struct stat64 *about), (fd, about))
CALL(FSTATFS, int, fstatfs, -1, (int fd, struct statfs *about), (fd, about))
CALL(FSTATFS, int, fstatfs64, -1, (int fd, struct statfs64 *about), (fd, about))
/* statx is a call on a descriptor if the path is empty. */
CALL(FSTAT, int, statx, -1, (int fd, const char *path, int flags, unsigned wanted, struct statx *about),
     (fd, path, flags, wanted, about))

int unlink(const char *path)
{
    REAL("unlink", int (*)(const char *));
    return is_below(path) && is_struck(UNLINK) ? -1 : real(path);
}

int unlinkat(int at, const char *path, int flags)
{
    REAL("unlinkat", int (*)(int, const char *, int));
    return is_below(path) && is_struck(UNLINK) ? -1 : real(at, path, flags);
}
