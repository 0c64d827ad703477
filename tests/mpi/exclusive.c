/* The promise that no other access writes between the first and the last byte of a write
 * (`capulet_exclusive`). Holes may then be read and written back, and must keep their bytes. Tested are
 * ranks one after another, all ranks collectively, a file that is not open for reading, and atomic mode,
 * in which the writes of the ranks interleave in spite of the promise. */
#include "check.h"

enum { PIECE = 16, PIECES = 600, OLD = 0xee };

/* The distance between the pieces of a rank. The last piece of each period belongs to no rank. */
static int period(void) { return (world_size + 1) * PIECE; }

static long long file_bytes(void) { return (long long)PIECES * period(); }

static unsigned char value(int rank, int piece, int round)
{
    return (unsigned char)(1 + (rank * 37 + piece * 11 + round * 5) % 200);
}

/* Creates a file of `bytes` old bytes. */
static void fill(const char *path, long long bytes)
{
    if (world_rank == 0) {
        unsigned char *old = malloc((size_t)bytes + 1);
        memset(old, OLD, (size_t)bytes);
        spill(path, old, bytes);
        free(old);
    }
    barrier();
}

static MPI_File open_with(const char *path, int mode, const char *promise)
{
    MPI_File file;
    MPI_Info info;
    MPI_Datatype piece, comb;
    MPI_Info_create(&info);
    MPI_Info_set(info, "capulet_exclusive", promise);
    MPI_Info_set(info, "romio_cb_write", "enable");
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path, mode, info, &file));
    MPI_Info_free(&info);
    MPI_Type_contiguous(PIECE, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, period(), &comb);
    MPI_Type_commit(&comb);
    CHECK_OK(MPI_File_set_view(file, world_rank * PIECE, MPI_BYTE, comb, "native", MPI_INFO_NULL));
    MPI_Type_free(&comb);
    MPI_Type_free(&piece);
    return file;
}

static unsigned char *pieces(int round)
{
    static unsigned char bytes[PIECE * PIECES];
    for (int i = 0; i < PIECES; i++) memset(bytes + i * PIECE, value(world_rank, i, round), PIECE);
    return bytes;
}

/* Checks the pieces of all ranks in a round, and the bytes between them: the `kept` bytes of the old
 * file, and zeros behind. */
static void expect(const char *path, int round, long long kept)
{
    barrier();
    if (world_rank == 0) {
        long long size, wrong = 0;
        unsigned char *found = slurp(path, &size);
        for (long long i = 0; i < size; i++) {
            int owner = (int)(i % period() / PIECE), piece = (int)(i / period());
            unsigned char hole = i < kept ? OLD : 0;
            wrong += found[i] != (owner < world_size && piece < PIECES ? value(owner, piece, round) : hole);
        }
        long long end = file_bytes() - PIECE;
        CHECK_EQ(size, kept > end ? kept : end, "length");
        CHECK(wrong == 0, "%lld of %lld bytes are wrong", wrong, size);
        free(found);
    }
    barrier();
}

static void writes(const char *path, int mode, long long kept)
{
    MPI_Status status;
    fill(path, kept);
    MPI_File file = open_with(path, mode, "true");
    for (int writer = 0; writer < world_size; writer++) {
        if (writer == world_rank)
            CHECK_OK(MPI_File_write_at(file, 0, pieces(1), PIECE * PIECES, MPI_BYTE, &status));
        barrier();
    }
    CHECK_EQ(count_of(&status, MPI_BYTE), PIECE * PIECES, "bytes written one rank after another");
    expect(path, 1, kept);
    CHECK_OK(MPI_File_write_at_all(file, 0, pieces(2), PIECE * PIECES, MPI_BYTE, &status));
    CHECK_EQ(count_of(&status, MPI_BYTE), PIECE * PIECES, "bytes written collectively");
    expect(path, 2, kept);
    MPI_Request request;
    CHECK_OK(MPI_File_iwrite_at_all(file, 0, pieces(3), PIECE * PIECES, MPI_BYTE, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    expect(path, 3, kept);
    CHECK_OK(MPI_File_close(&file));
}

/* A collective write in which each rank moves its own bytes: between the pieces of one rank lie pieces of
 * others. */
static void collective_by_own_runs(const char *path)
{
    fill(path, file_bytes());
    MPI_File file = open_with(path, MPI_MODE_RDWR, "true");
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", "disable");
    CHECK_OK(MPI_File_set_info(file, info));
    MPI_Info_free(&info);
    for (int round = 0; round < 30; round++) {
        CHECK_OK(MPI_File_write_at_all(file, 0, pieces(round), PIECE * PIECES, MPI_BYTE, MPI_STATUS_IGNORE));
        expect(path, round, file_bytes());
    }
    CHECK_OK(MPI_File_close(&file));
}

static void atomic_and_interleaved(const char *path)
{
    fill(path, file_bytes());
    MPI_File file = open_with(path, MPI_MODE_RDWR, "true");
    CHECK_OK(MPI_File_set_atomicity(file, 1));
    for (int round = 0; round < 30; round++) {
        CHECK_OK(MPI_File_write_at(file, 0, pieces(round), PIECE * PIECES, MPI_BYTE, MPI_STATUS_IGNORE));
        expect(path, round, file_bytes());
    }
    CHECK_OK(MPI_File_close(&file));
}

static void hints_in_force(const char *path, const char *promise, const char *sieving)
{
    MPI_File file = open_with(path, MPI_MODE_RDWR, promise);
    MPI_Info info;
    char found[2][MPI_MAX_INFO_VAL] = {"", ""};
    int is_there;
    CHECK_OK(MPI_File_get_info(file, &info));
    MPI_Info_get(info, "capulet_exclusive", MPI_MAX_INFO_VAL - 1, found[0], &is_there);
    MPI_Info_get(info, "romio_ds_write", MPI_MAX_INFO_VAL - 1, found[1], &is_there);
    MPI_Info_free(&info);
    CHECK(strcmp(found[0], promise) == 0 && strcmp(found[1], sieving) == 0,
          "capulet_exclusive is %s, romio_ds_write is %s", found[0], found[1]);
    CHECK_OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    const char *path = path_of("exclusive");
    section("a file as long as the access");
    writes(path, MPI_MODE_RDWR, file_bytes());
    section("a longer file");
    writes(path, MPI_MODE_RDWR, file_bytes() + 12345);
    section("a file that ends within the access");
    writes(path, MPI_MODE_RDWR, file_bytes() / 2 + 7);
    section("an empty file");
    writes(path, MPI_MODE_RDWR, 0);
    section("a file that is not open for reading");
    writes(path, MPI_MODE_WRONLY, file_bytes());
    section("collective, each rank moves its own bytes");
    collective_by_own_runs(path);
    section("atomic mode");
    atomic_and_interleaved(path);
    section("hints in force");
    hints_in_force(path, "true", "automatic");
    hints_in_force(path, "false", "disable");
    return finish();
}
