/* What ranks see of a file that other nodes change. Here each open is of one rank or for reading only, so that no
 * lock of Capulet keeps the accesses apart: only MPI_File_sync and close publish, and only MPI_File_sync and open
 * show what was published (MPI 4.1, 14.6.1). On file systems that nodes cache, reads without a sync are old. */
#include "check.h"

enum { BYTES = 3 * 4096 + 100, GROWN = 2 * BYTES };

static char bytes[GROWN], found[GROWN];

static void check_content(MPI_File file, int value, int count, const char *what)
{
    MPI_Status status;
    MPI_Offset size;
    int got, wrong = 0;
    memset(found, 0, sizeof found);
    CHECK_OK(MPI_File_read_at(file, 0, found, GROWN, MPI_BYTE, &status));
    MPI_Get_count(&status, MPI_BYTE, &got);
    CHECK_EQ(got, count, what);
    for (int i = 0; i < got; i++) wrong += found[i] != (char)value;
    CHECK_EQ(wrong, 0, what);
    CHECK_OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, count, "size");
}

/* Rank `writer` opens the file alone, and writes `count` bytes. */
static MPI_File written_by(int writer, int value, int count, int mode)
{
    MPI_File own = MPI_FILE_NULL;
    if (world_rank == writer) {
        memset(bytes, value, sizeof bytes);
        CHECK_OK(MPI_File_open(MPI_COMM_SELF, path_of("refresh"), mode, MPI_INFO_NULL, &own));
        CHECK_OK(MPI_File_write_at(own, 0, bytes, count, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    return own;
}

static void sync_shows_what_a_close_published(int writer)
{
    MPI_File file, own;
    section("readers and a close, writer %d", writer);
    own = written_by(writer, 1, BYTES, MPI_MODE_CREATE | MPI_MODE_RDWR);
    if (world_rank == writer) CHECK_OK(MPI_File_close(&own));
    barrier();
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("refresh"), MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    check_content(file, 1, BYTES, "first content");
    barrier();
    for (int value = 2; value < 6; value++) {
        int count = value % 2 ? BYTES : GROWN;
        own = written_by(writer, value, count, MPI_MODE_RDWR);
        if (world_rank == writer) {
            CHECK_OK(MPI_File_set_size(own, count));
            CHECK_OK(MPI_File_close(&own));
        }
        barrier();
        CHECK_OK(MPI_File_sync(file));
        check_content(file, value, count, "content after a close and a sync");
        barrier();
    }
    CHECK_OK(MPI_File_close(&file));
    if (world_rank == 0) MPI_File_delete(path_of("refresh"), MPI_INFO_NULL);
    barrier();
}

static void sync_barrier_sync(int writer)
{
    MPI_File file, own;
    section("sync, barrier, sync, writer %d", writer);
    own = written_by(writer, 1, BYTES, MPI_MODE_CREATE | MPI_MODE_RDWR);
    if (world_rank == writer) CHECK_OK(MPI_File_sync(own));
    barrier();
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("refresh"), MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    for (int value = 2; value < 6; value++) {
        if (world_rank == writer) {
            memset(bytes, value, sizeof bytes);
            CHECK_OK(MPI_File_write_at(own, 0, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_File_sync(own));
        }
        barrier();
        CHECK_OK(MPI_File_sync(file));
        check_content(file, value, BYTES, "content after sync, barrier, sync");
        barrier();
    }
    if (world_rank == writer) CHECK_OK(MPI_File_close(&own));
    CHECK_OK(MPI_File_close(&file));
    if (world_rank == 0) MPI_File_delete(path_of("refresh"), MPI_INFO_NULL);
    barrier();
}

/* One open of all ranks for writing: with the promise that nodes share no page, or without it. */
static void one_open(const char *promise)
{
    enum { PAGE = 4096 };
    MPI_File file;
    MPI_Info info;
    MPI_Offset size;
    section("one open, promise %s", promise);
    MPI_Info_create(&info);
    MPI_Info_set(info, "capulet_exclusive_pages", promise);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("pages"), MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    for (int round = 1; round < 4; round++) {
        memset(bytes, round * 16 + world_rank, PAGE);
        /* The promise is that no two nodes write to one page while the file is open. */
        int moved = strcmp(promise, "true") ? round : 0, wrong = 0;
        MPI_Offset at = (MPI_Offset)((world_rank + moved) % world_size) * PAGE;
        CHECK_OK(MPI_File_write_at(file, at, bytes, PAGE, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_File_sync(file));
        barrier();
        CHECK_OK(MPI_File_sync(file));
        for (int rank = 0; rank < world_size; rank++) {
            MPI_Offset place = (MPI_Offset)((rank + moved) % world_size) * PAGE;
            CHECK_OK(MPI_File_read_at(file, place, found, PAGE, MPI_BYTE, MPI_STATUS_IGNORE));
            for (int i = 0; i < PAGE; i++) wrong += found[i] != (char)(round * 16 + rank);
        }
        CHECK_EQ(wrong, 0, "wrong bytes after sync, barrier, sync");
        CHECK_OK(MPI_File_get_size(file, &size));
        CHECK_EQ(size, (MPI_Offset)world_size * PAGE, "size");
        barrier();
    }
    CHECK_OK(MPI_File_close(&file));
    if (world_rank == 0) MPI_File_delete(path_of("pages"), MPI_INFO_NULL);
    barrier();
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    sync_shows_what_a_close_published(0);
    sync_shows_what_a_close_published(world_size - 1);
    sync_barrier_sync(0);
    sync_barrier_sync(world_size - 1);
    one_open("false");
    one_open("true");
    return finish();
}
