/* system_calls FOLDER [OTHER]: each kind of system call on a file fails once, on one of two ranks, in
 * FOLDER or in OTHER. A preloaded library (tests/preload/strike.c) makes one call fail: the first, second,
 * middle or last of its kind. Each failure has a life of a file of its own: create, access, close, delete.
 * Every rank returns from every failure. A collective call has one class on all ranks: the class of the failed
 * call. Bytes that were reported as written are in the file for plain readers. A
 * call that a signal interrupts (EINTR) is repeated, and no error is returned. */
#include "check.h"
#include <dlfcn.h>

#define BYTES 9000          /* of a collective access: several rounds with collective buffers of a page */
#define PIECES 200          /* small pieces: Capulet stores them through a mapping if this is safe */
#define PIECE 16
#define PERIOD 64
#define FILE_BYTES 100000
#define INDEPENDENT_AT 0    /* one independent run per rank */
#define PIECES_AT 8000      /* independent pieces of each rank */
#define LOCKED_AT 40000     /* one run per rank in atomic mode */
#define COLLECTIVE_AT 50000 /* collective: blocks of 100 bytes, the ranks in turn */

static long (*strike_calls)(const char *), (*strike_disarm)(void);
static void (*strike_arm)(const char *, long, int, long), (*strike_below)(const char *);
static void (*strike_reservations_above)(long);
static long long (*strike_end_ns)(void);

/* The expected content of the file where this rank has written, and whether the content is certain. */
static unsigned char expected[FILE_BYTES], is_known[FILE_BYTES];
static int allowed_class, was_seen;

static void find_functions(void)
{
    *(void **)&strike_calls = dlsym(RTLD_DEFAULT, "strike_calls");
    *(void **)&strike_disarm = dlsym(RTLD_DEFAULT, "strike_disarm");
    *(void **)&strike_arm = dlsym(RTLD_DEFAULT, "strike_arm");
    *(void **)&strike_below = dlsym(RTLD_DEFAULT, "strike_below");
    *(void **)&strike_end_ns = dlsym(RTLD_DEFAULT, "strike_end_ns");
    *(void **)&strike_reservations_above = dlsym(RTLD_DEFAULT, "strike_reservations_above");
    if (!strike_calls || !strike_disarm || !strike_arm || !strike_below || !strike_end_ns
        || !strike_reservations_above) {
        fprintf(stderr, "tests/preload/strike.c is not preloaded\n");
        exit(2);
    }
}

static int is_fine(const char *call, int code)
{
    int class = class_of(code);
    CHECK(class == MPI_SUCCESS || class == allowed_class, "%s returned %s", call, class_name(class));
    was_seen |= class != MPI_SUCCESS;
    return class == MPI_SUCCESS;
}

static int collective(const char *call, int code)
{
    int class = class_of(code);
    long long greatest = reduce_all(class, MPI_MAX), least = reduce_all(class, MPI_MIN);
    CHECK(greatest == least, "%s returned %s on one rank and %s on another", call, class_name((int)greatest),
          class_name((int)least));
    return is_fine(call, code);
}

/* --- content of the file */

/* Records `count` bytes of data in blocks of `block` bytes, one every `period` bytes of the file from `at`
 * on. The bytes are certain (`known`) or in doubt. */
static void note(const unsigned char *data, int count, long long at, int block, int period, int known)
{
    for (int i = 0; i < count; i++) {
        long long place = at + (long long)(i / block) * period + i % block;
        expected[place] = data[i];
        is_known[place] = (unsigned char)known;
    }
}

/* Records a write. The bytes that the status counts are certain. The others are in doubt: the old or the
 * new value is right. */
static void wrote(int fine, MPI_Status *status, const unsigned char *data, int count, long long at,
                  int block, int period)
{
    int moved = fine ? count : count_of(status, MPI_BYTE);
    if (fine) CHECK_EQ(count_of(status, MPI_BYTE), count, "bytes written");
    if (moved < 0 || moved > count) moved = 0;
    note(data, count, at, block, period, 0);
    note(data, moved, at, block, period, 1);
}

static void check_file(const char *path)
{
    long long size, wrong = 0, first = -1;
    unsigned char *bytes = slurp(path, &size);
    for (long long at = 0; at < FILE_BYTES; at++)
        if (is_known[at] && (at >= size || bytes[at] != expected[at]) && wrong++ == 0) first = at;
    CHECK(wrong == 0, "%lld bytes were reported as written, but are missing: the first at %lld of %lld",
          wrong, first, size);
    free(bytes);
}

static void check_read(const char *call, const unsigned char *back, int count, long long at, int block,
                       int period)
{
    int wrong = 0;
    for (int i = 0; i < count; i++) {
        long long place = at + (long long)(i / block) * period + i % block;
        wrong += is_known[place] && back[i] != expected[place];
    }
    CHECK(wrong == 0, "%d wrong bytes from %s", wrong, call);
}

/* --- the life of a file */

static unsigned char data[BYTES], back[BYTES];

static void new_data(int seed)
{
    for (int i = 0; i < BYTES; i++) data[i] = value_at(world_rank, i, seed);
}

static void write_independent(MPI_File file, int seed)
{
    MPI_Status status;
    MPI_Datatype pieces;
    long long at = INDEPENDENT_AT + 4000 * world_rank;
    new_data(seed);
    wrote(is_fine("write_at", MPI_File_write_at(file, at, data, 3000, MPI_BYTE, &status)), &status, data,
          3000, at, 1, 1);
    if (is_fine("read_at", MPI_File_read_at(file, at, back, 3000, MPI_BYTE, &status)))
        check_read("read_at", back, count_of(&status, MPI_BYTE), at, 1, 1);
    at = PIECES_AT + PIECES * PERIOD * world_rank;
    MPI_Type_vector(PIECES, PIECE, PERIOD, MPI_BYTE, &pieces);
    MPI_Type_commit(&pieces);
    collective("set_view of pieces", MPI_File_set_view(file, at, MPI_BYTE, pieces, "native", MPI_INFO_NULL));
    for (int round = 0; round < 3; round++) {
        new_data(seed + 1 + round);
        wrote(is_fine("write_at of pieces", MPI_File_write_at(file, 0, data, PIECES * PIECE, MPI_BYTE,
              &status)), &status, data, PIECES * PIECE, at, PIECE, PERIOD);
    }
    MPI_Type_free(&pieces);
}

static void write_collective(MPI_File file, int seed)
{
    MPI_Status status;
    MPI_Request request;
    MPI_Datatype blocks, filetype;
    long long at = COLLECTIVE_AT + 100 * world_rank;
    const int period = 100 * world_size;
    MPI_Type_contiguous(100, MPI_BYTE, &blocks);
    MPI_Type_create_resized(blocks, 0, period, &filetype);
    MPI_Type_commit(&filetype);
    collective("set_view of blocks", MPI_File_set_view(file, at, MPI_BYTE, filetype, "native",
               MPI_INFO_NULL));
    new_data(seed);
    wrote(collective("write_at_all", MPI_File_write_at_all(file, 0, data, BYTES, MPI_BYTE, &status)),
          &status, data, BYTES, at, 100, period);
    if (!is_known[at])
        /* Another rank, as aggregator, may have failed to write these bytes. */
        note(data, BYTES, at, 100, period, 0);
    if (collective("read_at_all", MPI_File_read_at_all(file, 0, back, BYTES, MPI_BYTE, &status)))
        check_read("read_at_all", back, count_of(&status, MPI_BYTE), at, 100, period);
    new_data(seed + 1);
    int begun = collective("iwrite_at_all", MPI_File_iwrite_at_all(file, 0, data, BYTES, MPI_BYTE, &request));
    int fine = begun && collective("wait for iwrite_at_all", MPI_Wait(&request, &status));
    note(data, BYTES, at, 100, period, fine);
    collective("set_view of bytes", MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MPI_Type_free(&blocks);
    MPI_Type_free(&filetype);
}

static void write_locked(MPI_File file, int seed)
{
    MPI_Status status;
    const long long at = LOCKED_AT + 1000 * world_rank;
    if (!collective("set_atomicity", MPI_File_set_atomicity(file, 1))) return;
    new_data(seed);
    /* The views of the ranks overlap, so each rank locks the bytes that it accesses. */
    wrote(is_fine("atomic write_at", MPI_File_write_at(file, at, data, 1000, MPI_BYTE, &status)), &status,
          data, 1000, at, 1, 1);
    collective("set_atomicity back", MPI_File_set_atomicity(file, 0));
}

/* One life of a file, from its creation to its deletion. */
static void live(const char *path, int seed)
{
    MPI_File file;
    MPI_Offset size;
    MPI_Info info;
    memset(is_known, 0, sizeof is_known);
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "4096");
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_Info_set(info, "romio_cb_read", "enable");
    MPI_Info_set(info, "capulet_lock", "fcntl");
    if (collective("open", MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info,
        &file))) {
        collective("set_size", MPI_File_set_size(file, 1000));
        collective("preallocate", MPI_File_preallocate(file, 30000));
        is_fine("get_size", MPI_File_get_size(file, &size));
        barrier();
        write_independent(file, seed);
        write_collective(file, seed + 10);
        write_locked(file, seed + 20);
        collective("sync", MPI_File_sync(file));
        collective("close", MPI_File_close(&file));
        CHECK(file == MPI_FILE_NULL, "the handle was not set to MPI_FILE_NULL");
    }
    if (collective("open to delete", MPI_File_open(MPI_COMM_WORLD, path,
        MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info, &file)))
        collective("close and delete", MPI_File_close(&file));
    MPI_Info_free(&info);
}

/* --- failures */

struct strike { const char *kind; long call; int code, class; long wait_ms; };

/* One life of a file with a failure on one rank. Returns whether the call was made. A second link keeps the
 * file after its deletion, so that its content can be checked. */
static int strike(const char *path, int rank, struct strike strike, int seed)
{
    char aside[PATH_MAX];
    snprintf(aside, sizeof aside, "%s.aside", path);
    section("call %ld of %s on rank %d fails with %s", strike.call, strike.kind, rank, strerror(strike.code));
    allowed_class = strike.class;
    was_seen = 0;
    if (world_rank == 0) spill(path, "old", 3);
    if (world_rank == 0 && link(path, aside) != 0) perror(aside), exit(8);
    barrier();
    strike_arm(world_rank == rank ? strike.kind : "none", strike.call, strike.code, strike.wait_ms);
    live(path, seed);
    long hits = strike_disarm();
    check_file(aside);
    barrier();
    if (world_rank == 0) unlink(path), unlink(aside);
    CHECK(world_rank == rank || hits == 0, "the strike hit another rank");
    return reduce_all(hits, MPI_MAX) > 0;
}

/* Whether an error of the call must be returned to the program, because Capulet has no other call for the
 * same purpose. */
static int must_be_seen(const char *kind)
{
    return strcmp(kind, "open") == 0 || strcmp(kind, "close") == 0 || strcmp(kind, "fsync") == 0
        || strcmp(kind, "ftruncate") == 0 || strcmp(kind, "unlink") == 0;
}

static int strike_all(const char *path)
{
    static const char *const kinds[] = { "open", "close", "write", "read", "fsync", "ftruncate",
                                         "fallocate", "mmap", "munmap", "madvise", "fstat", "fstatfs",
                                         "fcntl", "unlink" };
    const struct { int code, class; } errors[] = { { ENOSPC, MPI_ERR_NO_SPACE }, { EIO, MPI_ERR_IO },
                                                   { EINTR, MPI_SUCCESS } };
    enum { KINDS = sizeof kinds / sizeof *kinds };
    int lives = 0, kinds_of_rank[2] = { 0, 0 };
    for (int rank = 0; rank < world_size; rank++) {
        long long calls[KINDS];
        CHECK(!strike(path, rank, (struct strike){ "none", 0, 0, MPI_SUCCESS, 0 }, 1),
              "a call failed, but none was armed");
        for (int k = 0; k < KINDS; k++)
            calls[k] = reduce_all(world_rank == rank ? strike_calls(kinds[k]) : 0, MPI_SUM);
        for (int k = 0; k < KINDS; k++) {
            const long long places[] = { 0, 1, calls[k] / 2, calls[k] - 1 };
            kinds_of_rank[rank & 1] += calls[k] > 0;
            for (int p = 0; p < 4; p++) {
                int is_new = places[p] >= 0 && places[p] < calls[k];
                for (int before = 0; before < p; before++) is_new &= places[before] != places[p];
                for (unsigned e = 0; is_new && e < sizeof errors / sizeof *errors; e++) {
                    struct strike one = { kinds[k], places[p], errors[e].code, errors[e].class, 0 };
                    CHECK(strike(path, rank, one, 50 * ++lives), "the call was not made");
                    int seen = (int)reduce_all(was_seen, MPI_MAX);
                    if (must_be_seen(kinds[k]) && errors[e].code != EINTR)
                        CHECK(seen, "no rank got the error");
                }
            }
            if (world_rank == 0 && getenv("CHECK_TRACE"))
                fprintf(stderr, "rank %d: %lld calls of %s\n", rank, calls[k], kinds[k]);
        }
    }
    /* Rank 0 makes some calls for all ranks. The other rank does not set sizes, reserve room for a
     * preallocation, force data to the device, or delete. */
    CHECK_EQ(kinds_of_rank[0], KINDS, "kinds of calls of rank 0");
    CHECK(kinds_of_rank[1] >= KINDS - 4, "only %d kinds of calls of rank 1", kinds_of_rank[1]);
    return lives;
}

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* The close of one rank takes two seconds and fails. It fails on all ranks, and no rank returns earlier. */
static void close_slowly(const char *path, int code, int class)
{
    MPI_File file;
    section("a slow close that fails with %s", strerror(code));
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK_OK(MPI_File_write_at_all(file, 100 * world_rank, data, 100, MPI_BYTE, MPI_STATUS_IGNORE));
    strike_arm(world_rank == 1 ? "close" : "none", 0, code, 2000);
    const long long begun = now_ns();
    CHECK_CLASS(MPI_File_close(&file), class);
    const long long returned = now_ns();
    CHECK_EQ(strike_disarm(), world_rank == 1, "number of failed closes");
    const long long over = reduce_all(world_rank == 1 ? strike_end_ns() : 0, MPI_MAX);
    CHECK(returned >= over, "rank %d returned %lld ms before the close of rank 1", world_rank,
          (over - returned) / 1000000);
    CHECK(returned - begun >= 1900000000LL, "the close took %lld ms", (returned - begun) / 1000000);
    CHECK(file == MPI_FILE_NULL, "the handle was not set to MPI_FILE_NULL");
}

/* Signals come faster than a large reservation ends. An implementation that only repeats the whole
 * reservation would never end. */
static void preallocate_under_signals(const char *path)
{
    const long long bytes = 40 << 20;
    MPI_File file;
    MPI_Offset size;
    struct stat about;
    section("a preallocation under signals");
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path,
             MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    strike_reservations_above(1 << 20);
    CHECK_OK(MPI_File_preallocate(file, bytes));
    CHECK_OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, bytes, "the size");
    CHECK(stat(path, &about) == 0 && about.st_blocks * 512LL >= bytes, "only %lld bytes are reserved",
          (long long)about.st_blocks * 512);
    barrier();
    /* The reservation for small pieces must end in the same way. */
    strike_reservations_above(4096);
    memset(is_known, 0, sizeof is_known);
    write_independent(file, 7);
    strike_reservations_above(LONG_MAX);
    check_file(path);
    barrier();
    CHECK_OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    find_functions();
    CHECK_EQ(world_size, 2, "ranks");
    const char *folder = argc > 2 ? argv[2] : work_dir;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/struck", folder);
    strike_below(folder);
    const long long begun = now_ns();
    int lives = strike_all(path);
    if (argc <= 2) {
        close_slowly(path, EDQUOT, MPI_ERR_QUOTA);
        preallocate_under_signals(path);
    }
    barrier();
    if (world_rank == 0)
        printf("%d failed calls in %.1f s\n", lives, (double)(now_ns() - begun) / 1e9);
    if (world_rank == 0) unlink(path);
    return finish();
}
