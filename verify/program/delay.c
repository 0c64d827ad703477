/* A library to be preloaded. It cuts the reads and writes of a program at an offset of a file into a few
 * parts, with waits between them. The system may do the same at any time, and hardly ever does. So this
 * library exposes a file layer that relies on one call being one atomic step. Reads and writes without an
 * offset, which an MPI may use, are not changed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { PARTS = 3, PART_MIN_BYTES = 64 };

static long wait_ns = 60000;
static _Thread_local uint64_t state;

__attribute__((constructor)) static void read_settings(void)
{
    const char *text = getenv("CAPULET_DELAY_US");
    if (text) wait_ns = 1000 * atol(text);
}

static void pause_a_little(void)
{
    if (!state) state = (uint64_t)(uintptr_t)&state ^ (uint64_t)getpid() << 20;
    state = state * 6364136223846793005u + 1442695040888963407u;
    if (wait_ns > 0) nanosleep(&(struct timespec){ 0, (long)((state >> 33) % (uint64_t)wait_ns) }, NULL);
}

static int is_file(int fd)
{
    struct stat facts;
    int before = errno, is = fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode);
    errno = before;
    return is;
}

typedef ssize_t (*reading_t)(int, void *, size_t, off_t);
typedef ssize_t (*writing_t)(int, const void *, size_t, off_t);
typedef ssize_t (*listing_t)(int, const struct iovec *, int, off_t);

/* The next function of that name in the search order of the loader. */
static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

/* The first element of part `part` of `count` elements. */
static size_t start_of(size_t count, int part)
{
    return count * (size_t)part / PARTS;
}

static ssize_t bytes_in_parts(int fd, char *bytes, size_t count, off_t offset, reading_t reading,
                              writing_t writing)
{
    ssize_t done = 0;
    const int parts = count >= PART_MIN_BYTES && is_file(fd) ? PARTS : 1;
    for (int part = 0; part < parts; part++) {
        if (part > 0) pause_a_little();
        size_t from = parts == 1 ? 0 : start_of(count, part),
               to = parts == 1 ? count : start_of(count, part + 1);
        ssize_t moved = reading ? reading(fd, bytes + from, to - from, offset + (off_t)from)
                                : writing(fd, bytes + from, to - from, offset + (off_t)from);
        if (moved < 0) return done > 0 ? done : moved;
        done += moved;
        if ((size_t)moved < to - from) break;
    }
    return done;
}

static ssize_t list_in_parts(int fd, const struct iovec *list, int count, off_t offset, listing_t listing)
{
    if (count < PARTS || !is_file(fd)) return listing(fd, list, count, offset);
    ssize_t done = 0;
    for (int part = 0; part < PARTS; part++) {
        if (part > 0) pause_a_little();
        size_t from = start_of((size_t)count, part), to = start_of((size_t)count, part + 1), wanted = 0;
        for (size_t i = from; i < to; i++) wanted += list[i].iov_len;
        ssize_t moved = listing(fd, list + from, (int)(to - from), offset + done);
        if (moved < 0) return done > 0 ? done : moved;
        done += moved;
        if ((size_t)moved < wanted) break;
    }
    return done;
}

#define READING(name) \
    ssize_t name(int fd, void *bytes, size_t count, off_t offset) \
    { \
        static reading_t real; \
        if (!real) real = (reading_t)(uintptr_t)next(#name); \
        return bytes_in_parts(fd, bytes, count, offset, real, NULL); \
    }
#define WRITING(name) \
    ssize_t name(int fd, const void *bytes, size_t count, off_t offset) \
    { \
        static writing_t real; \
        if (!real) real = (writing_t)(uintptr_t)next(#name); \
        return bytes_in_parts(fd, (char *)(uintptr_t)bytes, count, offset, NULL, real); \
    }
#define LISTING(name) \
    ssize_t name(int fd, const struct iovec *list, int count, off_t offset) \
    { \
        static listing_t real; \
        if (!real) real = (listing_t)(uintptr_t)next(#name); \
        return list_in_parts(fd, list, count, offset, real); \
    }

READING(pread)
READING(pread64)
WRITING(pwrite)
WRITING(pwrite64)
LISTING(preadv)
LISTING(preadv64)
LISTING(pwritev)
LISTING(pwritev64)
