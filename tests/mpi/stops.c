/* stops FOLDER DISK write|sync|close|check [THIN]: the storage under DISK stops writing while the ranks use two
 * files there. Rank 0 makes FOLDER/begun, and another program makes FOLDER/struck when the storage has stopped.
 * Each call returns. A collective call returns one class on all ranks. No loss is silent: with `write`, the
 * ranks write and sync until a call fails; with `sync` and `close`, the first call after the stop is
 * MPI_File_sync or MPI_File_close, which fails. With `check`, which follows a restart of the storage, the disk
 * has all bytes of each successful sync. With THIN, the storage is full below the file system. */
#include "check.h"

/* Bytes that a rank writes in an access, and pieces of these bytes. */
#define BLOCK (256 << 10)
#define UNIT 256
/* A round writes slot number `round % SLOTS` of both files. */
#define SLOTS 40
#define ROUNDS_BEFORE 10
#define SECONDS_MAX 60

static unsigned char block[BLOCK], found[(size_t)BLOCK * 8];
static const char *names[2] = { "together", "apart" };
static MPI_File files[2];
static int is_thin;
/* The classes of errors that the ranks got after the stop. */
static int errors;

static const char *place_of(const char *disk, int which)
{
    static char path[2][PATH_MAX];
    snprintf(path[which], PATH_MAX, "%s/%s", disk, names[which]);
    return path[which];
}

static void fill_block(int which, int round)
{
    for (int at = 0; at < BLOCK; at++) block[at] = value_at(world_rank, at, 2 * round + which);
}

/* Checks the outcome of a call on this rank. Returns whether the call failed. */
static int failed(const char *what, int code)
{
    const int class = class_of(code);
    const int is_known =
        class == MPI_ERR_READ_ONLY || class == MPI_ERR_IO || (is_thin && class == MPI_ERR_NO_SPACE);
    CHECK(class == MPI_SUCCESS || is_known, "%s: %s", what, class_name(class));
    if (class != MPI_SUCCESS && !errors++ && world_rank == 0) printf("%s: %s\n", what, class_name(class));
    return class != MPI_SUCCESS;
}

/* As `failed`, for a collective call. */
static int all_failed(const char *what, int code)
{
    const int class = class_of(code);
    const long long most = reduce_all(class, MPI_MAX), least = reduce_all(class, MPI_MIN);
    CHECK(most == class && least == class, "%s: %s on this rank only", what, class_name(class));
    return failed(what, code);
}

static int write_together(int round)
{
    fill_block(0, round);
    return all_failed("a collective write", MPI_File_write_at_all(files[0], (MPI_Offset)(round % SLOTS) * BLOCK,
                      block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
}

static int write_apart(int round)
{
    fill_block(1, round);
    return failed("a write", MPI_File_write_at(files[1], (MPI_Offset)(round % SLOTS) * BLOCK, block, BLOCK,
                  MPI_BYTE, MPI_STATUS_IGNORE));
}

static int sync_both(void)
{
    const int first = all_failed("sync", MPI_File_sync(files[0]));
    return all_failed("sync", MPI_File_sync(files[1])) || first;
}

static int close_both(void)
{
    const int first = all_failed("close", MPI_File_close(&files[0]));
    return all_failed("close", MPI_File_close(&files[1])) || first;
}

/* Leaves the numbers of the last round on the disk and of the last round that was begun. */
static void note(int synced, int begun)
{
    char text[64];
    snprintf(text, sizeof text, "%d %d", synced, begun);
    if (world_rank == 0) spill(path_of("rounds"), text, (long long)strlen(text));
}

static void open_both(const char *disk)
{
    for (int which = 0; which < 2; which++) {
        MPI_Datatype piece, view;
        CHECK_OK(MPI_File_open(MPI_COMM_WORLD, place_of(disk, which), MPI_MODE_CREATE | MPI_MODE_RDWR,
                 MPI_INFO_NULL, &files[which]));
        MPI_Type_contiguous(UNIT, MPI_BYTE, &piece);
        MPI_Type_create_resized(piece, 0, (MPI_Aint)UNIT * world_size, &view);
        MPI_Type_commit(&view);
        CHECK_OK(MPI_File_set_view(files[which], (MPI_Offset)UNIT * world_rank, MPI_BYTE, view, "native",
                 MPI_INFO_NULL));
        MPI_Type_free(&view);
        MPI_Type_free(&piece);
    }
}

/* Rounds before the stop. The first half is on the disk. */
static void begin(void)
{
    for (int round = 0; round < ROUNDS_BEFORE; round++) {
        CHECK(!write_together(round), "a collective write before the stop");
        CHECK(!write_apart(round), "a write before the stop");
        if (round == ROUNDS_BEFORE / 2 - 1) CHECK(!sync_both(), "a sync before the stop");
    }
    note(ROUNDS_BEFORE / 2 - 1, ROUNDS_BEFORE - 1);
    barrier();
    if (world_rank == 0) spill(path_of("begun"), "", 0);
}

static void wait_for_stop(void)
{
    const double end = MPI_Wtime() + SECONDS_MAX;
    while (access(path_of("struck"), F_OK) != 0 && MPI_Wtime() < end) nap(5);
    CHECK(access(path_of("struck"), F_OK) == 0, "the storage was not stopped");
}

/* Writes and syncs until a call fails on a rank. */
static void write_until_failure(void)
{
    const double end = MPI_Wtime() + SECONDS_MAX;
    int is_over = 0, synced = ROUNDS_BEFORE / 2 - 1, round = ROUNDS_BEFORE;
    for (; !is_over; round++) {
        int bad = write_together(round);
        bad += write_apart(round);
        bad = (int)reduce_all(bad, MPI_MAX);
        if (bad == 0 && round % 4 == 3) {
            bad = sync_both();
            if (!bad) synced = round;
        }
        is_over = (int)reduce_all(bad || MPI_Wtime() > end, MPI_MAX);
    }
    note(synced, round);
    CHECK(reduce_all(errors, MPI_SUM) > 0, "no call failed in %d rounds", round);
}

/* Calls on the stopped storage. */
static void after_stop(void)
{
    int value = 0;
    wait_for_stop();
    for (int round = 0; round < 3; round++) {
        const int together = write_together(round), apart = write_apart(round);
        /* Above a full thin volume, the cache takes bytes. The next sync reports them as lost. */
        CHECK(is_thin || together, "a collective write after the stop succeeded");
        CHECK(is_thin || apart, "a write after the stop succeeded");
        barrier();
    }
    all_failed("set_size", MPI_File_set_size(files[0], 64 << 20));
    all_failed("preallocate", MPI_File_preallocate(files[0], 16 << 20));
    all_failed("read", MPI_File_read_at_all(files[0], 0, &value, 4, MPI_BYTE, MPI_STATUS_IGNORE));
    failed("read", MPI_File_read_at(files[1], 0, &value, 4, MPI_BYTE, MPI_STATUS_IGNORE));
    all_failed("set_atomicity", MPI_File_set_atomicity(files[0], 1));
    CHECK(write_together(0) || is_thin, "an atomic write after the stop succeeded");
    CHECK(sync_both(), "a sync after the stop succeeded");
    CHECK(sync_both(), "the next sync after the stop succeeded");
}

static void check_slots(const char *disk)
{
    int synced = -1, begun = -1;
    FILE *rounds = fopen(path_of("rounds"), "r");
    CHECK(rounds && fscanf(rounds, "%d %d", &synced, &begun) == 2, "no note of the rounds");
    if (rounds) fclose(rounds);
    CHECK(synced >= ROUNDS_BEFORE / 2 - 1 && begun >= synced, "rounds %d and %d", synced, begun);
    for (int which = 0; which < 2; which++) {
        const int fd = open(place_of(disk, which), O_RDONLY);
        /* `after_stop` wrote to the first slots. */
        for (int round = synced; round > 2 && round + SLOTS > begun && round % SLOTS > 2; round--) {
            const size_t bytes = (size_t)BLOCK * (size_t)world_size;
            const ssize_t got = pread(fd, found, bytes, (off_t)(round % SLOTS) * (off_t)bytes);
            int wrong = 0;
            fill_block(which, round);
            for (int at = 0; at < BLOCK; at++)
                wrong += found[(at / UNIT * world_size + world_rank) * UNIT + at % UNIT] != block[at];
            CHECK(got == (ssize_t)bytes && wrong == 0, "%d bytes of round %d of `%s` are missing after a sync",
                  wrong, round, names[which]);
        }
        close(fd);
    }
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (argc < 4 || world_size > 8) return 2;
    const char *disk = argv[2], *act = argv[3];
    is_thin = argc > 4;
    section("%s", act);
    if (strcmp(act, "check") == 0) {
        check_slots(disk);
        return finish();
    }
    open_both(disk);
    begin();
    if (strcmp(act, "write") == 0) {
        write_until_failure();
        section("calls after the first error");
        after_stop();
        close_both();
    } else {
        wait_for_stop();
        if (strcmp(act, "sync") == 0) CHECK(sync_both(), "the sync after the stop succeeded");
        CHECK(close_both() || strcmp(act, "close") != 0, "the close after the stop succeeded");
    }
    section("another file");
    MPI_File file = MPI_FILE_NULL;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/new", disk);
    if (!all_failed("open", MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                    &file)))
        all_failed("close", MPI_File_close(&file));
    return finish();
}
