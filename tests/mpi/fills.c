/* fills FOLDER DISK NO_SPACE|QUOTA TAKE GIVE: the ranks write a file on DISK in several ways until the storage
 * is full. Rank 0 runs the command TAKE before, which leaves some MiB, and GIVE after, which makes room. An
 * access without room returns the class on each rank, in a collective call on all ranks. Bytes that were
 * reported as written are on the disk. With room, the same access and the close succeed. Preallocated space
 * takes bytes on a full storage, except at the limit of a quota group. */
#include "check.h"

/* Bytes that a rank writes in an access. */
#define BLOCK (256 << 10)
#define ACCESSES_MAX 256

static unsigned char block[BLOCK], found[BLOCK];
static int expected;

typedef int writer(MPI_File file, MPI_Offset at, MPI_Status *status);

static int independent(MPI_File file, MPI_Offset at, MPI_Status *status)
{
    return MPI_File_write_at(file, at, block, BLOCK, MPI_BYTE, status);
}

static int collective(MPI_File file, MPI_Offset at, MPI_Status *status)
{
    return MPI_File_write_at_all(file, at, block, BLOCK, MPI_BYTE, status);
}

static int split(MPI_File file, MPI_Offset at, MPI_Status *status)
{
    const int code = MPI_File_write_at_all_begin(file, at, block, BLOCK, MPI_BYTE);
    const int ended = MPI_File_write_at_all_end(file, block, status);
    return code == MPI_SUCCESS ? ended : code;
}

static int request(MPI_File file, MPI_Offset at, MPI_Status *status)
{
    MPI_Request request;
    const int code = MPI_File_iwrite_at(file, at, block, BLOCK, MPI_BYTE, &request);
    if (code == MPI_SUCCESS) return MPI_Wait(&request, status);
    /* No request, hence no count. */
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    return code;
}

static int collective_request(MPI_File file, MPI_Offset at, MPI_Status *status)
{
    MPI_Request request;
    const int code = MPI_File_iwrite_at_all(file, at, block, BLOCK, MPI_BYTE, &request);
    return code == MPI_SUCCESS ? MPI_Wait(&request, status) : code;
}

static int is_collective(writer *write) { return write != independent && write != request; }

/* A way to write. The file consists of units. Unit number i belongs to rank i modulo the number of ranks. */
struct way {
    const char *name;
    writer *write;
    int unit;
    int is_atomic;
    /* Whether the file has its full length before, without space. */
    int has_holes;
};

static const struct way ways[] = {
    { "collective blocks", collective, BLOCK, 0, 0 },
    { "collective pieces", collective, 256, 0, 0 },
    { "collective pieces into holes", collective, 256, 0, 1 },
    { "collective blocks in atomic mode", collective, BLOCK, 1, 0 },
    { "split collective pieces", split, 1000, 0, 0 },
    { "collective requests", collective_request, 5000, 0, 0 },
    { "blocks", independent, BLOCK, 0, 0 },
    { "pieces", independent, 256, 0, 0 },
    { "pieces into holes", independent, 256, 0, 1 },
    { "pieces in atomic mode", independent, 1000, 1, 0 },
    { "requests", request, 256, 0, 0 },
};

static void run(const char *command)
{
    if (world_rank == 0) CHECK_EQ(system(command), 0, command);
    barrier();
}

static void fill_block(int way, int access)
{
    for (int at = 0; at < BLOCK; at++) block[at] = value_at(world_rank, (long long)access * BLOCK + at, way);
}

static void set_view(MPI_File file, int unit)
{
    MPI_Datatype piece, view;
    MPI_Type_contiguous(unit, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, (MPI_Aint)unit * world_size, &view);
    MPI_Type_commit(&view);
    CHECK_OK(MPI_File_set_view(file, (MPI_Offset)unit * world_rank, MPI_BYTE, view, "native", MPI_INFO_NULL));
    MPI_Type_free(&view);
    MPI_Type_free(&piece);
}

/* Returns the number of bytes of `block` that are not in the file from position `first` of the rank's own
 * bytes on. Looks at the first `bytes` bytes. */
static int missing(int fd, int unit, long long first, int bytes)
{
    memset(found, 0xA5, sizeof found);
    for (int at = 0, step; at < bytes; at += step) {
        const long long position = first + at;
        step = unit - (int)(position % unit);
        if (step > bytes - at) step = bytes - at;
        const long long place = (position / unit * world_size + world_rank) * unit + position % unit;
        if (pread(fd, found + at, (size_t)step, place) != step) return bytes;
    }
    int wrong = 0;
    for (int at = 0; at < bytes; at++) wrong += found[at] != block[at];
    return wrong;
}

/* Checks the bytes of `accesses` accesses, and of `bytes` bytes of the next one, as the disk has them. */
static void check_bytes(const char *path, int way, int accesses, int bytes)
{
    const int fd = open(path, O_RDONLY);
    CHECK(fd >= 0, "%s: %s", path, strerror(errno));
    /* Clean pages leave the cache, so that the bytes come from the disk. */
    CHECK_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0, "advice to the system");
    for (int access = 0; access <= accesses; access++) {
        const int wanted = access < accesses ? BLOCK : bytes;
        fill_block(way, access);
        const int wrong = missing(fd, ways[way].unit, (long long)access * BLOCK, wanted);
        CHECK(wrong == 0, "%d of %d bytes of access %d were reported as written, but are missing", wrong,
              wanted, access);
    }
    close(fd);
}

/* Writes until an access fails. Returns the number of accesses before, and the bytes of the failed one. */
static int write_until_full(MPI_File file, int way, int *bytes)
{
    int class = MPI_SUCCESS, access = -1;
    MPI_Status status;
    while (class == MPI_SUCCESS && ++access < ACCESSES_MAX) {
        fill_block(way, access);
        class = class_of(ways[way].write(file, (MPI_Offset)access * BLOCK, &status));
        if (is_collective(ways[way].write))
            CHECK_EQ(reduce_all(class, MPI_MAX), reduce_all(class, MPI_MIN),
                     "largest error class of all ranks (other value: smallest)");
        if (class == MPI_SUCCESS) CHECK_EQ(count_of(&status, MPI_BYTE), BLOCK, "bytes written");
    }
    CHECK(class == expected, "access %d of %d: %s", access, ACCESSES_MAX, class_name(class));
    *bytes = is_collective(ways[way].write) ? 0 : count_of(&status, MPI_BYTE);
    CHECK(*bytes >= 0 && *bytes < BLOCK, "%d bytes of the failed access", *bytes);
    return access;
}

static void fill(const char *path, int way, const char *take, const char *give)
{
    MPI_File file;
    MPI_Status status;
    int bytes;
    section("%s", ways[way].name);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
             MPI_INFO_NULL, &file));
    CHECK_OK(MPI_File_set_atomicity(file, ways[way].is_atomic));
    if (ways[way].has_holes)
        CHECK_OK(MPI_File_set_size(file, (MPI_Offset)ACCESSES_MAX * BLOCK * world_size));
    set_view(file, ways[way].unit);
    run(take);
    const int accesses = write_until_full(file, way, &bytes);
    const long long before = reduce_all(accesses, MPI_SUM);
    CHECK(before > 0, "there was no room");
    barrier();
    section("%s: the full disk", ways[way].name);
    CHECK_CLASS(MPI_File_preallocate(file, (MPI_Offset)1 << 30), expected);
    CHECK_OK(MPI_File_sync(file));
    check_bytes(path, way, accesses, bytes);
    barrier();
    section("%s: the disk with room", ways[way].name);
    run(give);
    const int first = (int)reduce_all(accesses, MPI_MIN), last = (int)reduce_all(accesses, MPI_MAX);
    for (int access = first; access <= last; access++) {
        fill_block(way, access);
        CHECK_OK(ways[way].write(file, (MPI_Offset)access * BLOCK, &status));
        CHECK_EQ(count_of(&status, MPI_BYTE), BLOCK, "bytes written");
    }
    CHECK_OK(MPI_File_sync(file));
    check_bytes(path, way, last + 1, 0);
    barrier();
    CHECK_OK(MPI_File_close(&file));
    CHECK(access(path, F_OK) != 0, "the file is left");
}

/* Writes into preallocated space while another file has the rest of the disk. */
static void write_preallocated(const char *path, const char *greedy, const char *take, const char *give)
{
    enum { WAY = 1, ACCESSES = 8 };
    MPI_File file, other;
    MPI_Status status;
    int bytes, done = 0, class = MPI_SUCCESS;
    section("preallocated space");
    const int mode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file));
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, greedy, mode, MPI_INFO_NULL, &other));
    CHECK_OK(MPI_File_preallocate(file, (MPI_Offset)ACCESSES * BLOCK * world_size));
    set_view(file, ways[WAY].unit);
    set_view(other, BLOCK);
    run(take);
    CHECK(write_until_full(other, 0, &bytes) > 0, "there was no room");
    for (; done < ACCESSES && class == MPI_SUCCESS; done += class == MPI_SUCCESS) {
        fill_block(WAY, done);
        class = class_of(ways[WAY].write(file, (MPI_Offset)done * BLOCK, &status));
    }
    /* A quota group of Btrfs counts a write to preallocated space again. */
    CHECK(class == MPI_SUCCESS || (class == expected && expected == MPI_ERR_QUOTA), "access %d: %s", done,
          class_name(class));
    CHECK_EQ(reduce_all(done, MPI_MAX), reduce_all(done, MPI_MIN), "accesses of all ranks");
    CHECK_OK(MPI_File_sync(file));
    check_bytes(path, WAY, done, 0);
    barrier();
    run(give);
    CHECK_OK(MPI_File_close(&other));
    CHECK_OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    char path[PATH_MAX], greedy[PATH_MAX];
    start(&argc, &argv);
    if (argc < 6) return 2;
    snprintf(path, sizeof path, "%s/filled", argv[2]);
    snprintf(greedy, sizeof greedy, "%s/greedy", argv[2]);
    expected = strcmp(argv[3], "QUOTA") == 0 ? MPI_ERR_QUOTA : MPI_ERR_NO_SPACE;
    for (int way = 0; way < (int)(sizeof ways / sizeof *ways); way++) fill(path, way, argv[4], argv[5]);
    write_preallocated(path, greedy, argv[4], argv[5]);
    return finish();
}
