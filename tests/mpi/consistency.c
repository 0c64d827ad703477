/* The section on consistency and semantics (MPI 4.1, 14.6): one function for each promise, named by its
 * section. `capulet verify` tests whether a serial order of many random accesses exists. */
#include "check.h"

enum { PART = 512, ROUNDS = 30 };

static MPI_File file;

static MPI_File opened(MPI_Comm comm, const char *name, int atomic)
{
    MPI_File handle;
    CHECK_OK(MPI_File_open(comm, path_of(name), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &handle));
    if (atomic) CHECK_OK(MPI_File_set_atomicity(handle, 1));
    return handle;
}

/* Writes PART cells with the value `value`. */
static void put(MPI_File handle, MPI_Offset offset, int value)
{
    int cells[PART];
    for (int i = 0; i < PART; i++) cells[i] = value;
    CHECK_OK(MPI_File_write_at(handle, offset, cells, PART, MPI_INT, MPI_STATUS_IGNORE));
}

/* The value of PART cells if they are all equal, else -1. */
static int got(MPI_File handle, MPI_Offset offset)
{
    int cells[PART];
    memset(cells, 0xff, sizeof cells);
    CHECK_OK(MPI_File_read_at(handle, offset, cells, PART, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 1; i < PART; i++)
        if (cells[i] != cells[0]) return -1;
    return cells[0];
}

static void wait_all(MPI_Request *requests, int count)
{
    for (int i = 0; i < count; i++) wait_yielding(&requests[i]);
}

/* 14.6.1, one handle, nonatomic: accesses that are not concurrent take effect in program order, and so do
 * concurrent accesses that do not conflict. */
static void case_1_nonatomic(void)
{
    section("14.6.1, one handle, nonatomic");
    MPI_File own = opened(MPI_COMM_WORLD, "case1", 0);
    const MPI_Offset at = (MPI_Offset)world_rank * 4 * (MPI_Offset)sizeof(int[PART]);
    int out[2][PART], in[PART], wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        put(own, at, round);
        put(own, at + 4, round + 1);
        CHECK_EQ(got(own, at + 4), round + 1, "value written last");
        MPI_Request requests[3];
        for (int i = 0; i < PART; i++) out[0][i] = out[1][i] = round, in[i] = -1;
        CHECK_OK(MPI_File_iread_at_all(own, at + 4, in, PART - 1, MPI_INT, &requests[0]));
        for (int k = 0; k < 2; k++)
            CHECK_OK(MPI_File_iwrite_at_all(own, at + (2 + k) * (MPI_Offset)sizeof out[k], out[k], PART,
                     MPI_INT, &requests[1 + k]));
        wait_all(requests, 3);
        for (int i = 0; i < PART - 1; i++) wrong += in[i] != round + 1;
        CHECK_EQ(got(own, at + 3 * (MPI_Offset)sizeof out[0]), round, "value written during other writes");
    }
    CHECK_EQ(wrong, 0, "number of wrong cells read during writes to other bytes");
    CHECK_OK(MPI_File_close(&own));
}

/* 14.6.1, one handle, atomic: even concurrent accesses that conflict take effect as if one after another. */
static void case_1_atomic(void)
{
    section("14.6.1, one handle, atomic");
    MPI_File own = opened(MPI_COMM_WORLD, "case1", 1);
    const MPI_Offset at = (MPI_Offset)world_rank * 4 * (MPI_Offset)sizeof(int[PART]);
    int out[2][PART], in[PART];
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request requests[3];
        put(own, at, 0);
        for (int i = 0; i < PART; i++) out[0][i] = 1, out[1][i] = 2;
        for (int k = 0; k < 2; k++)
            CHECK_OK(MPI_File_iwrite_at_all(own, at, out[k], PART, MPI_INT, &requests[k]));
        CHECK_OK(MPI_File_iread_at_all(own, at, in, PART, MPI_INT, &requests[2]));
        wait_all(requests, 3);
        int torn = 0;
        for (int i = 1; i < PART; i++) torn += in[i] != in[0];
        CHECK_EQ(torn, 0, "number of cells from another access than the first cell");
        CHECK(in[0] >= 0 && in[0] <= 2, "no rank wrote the value that was read");
        int last = got(own, at);
        CHECK(last == 1 || last == 2, "the final cells are not from one write: %d", last);
    }
    CHECK_OK(MPI_File_close(&own));
}

/* 14.6.1, handles of one open, nonatomic: without conflicts every rank sees what it wrote, even if bytes
 * of other ranks lie in between. */
static void case_2_without_conflict(void)
{
    section("14.6.1, handles of one open, no conflict");
    MPI_Datatype cells;
    file = opened(MPI_COMM_WORLD, "case2", 0);
    MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)sizeof(int) * world_size, &cells);
    MPI_Type_commit(&cells);
    CHECK_OK(MPI_File_set_view(file, 4 * (MPI_Offset)world_rank, MPI_INT, cells, "native", MPI_INFO_NULL));
    for (int round = 0; round < ROUNDS; round++) {
        put(file, 0, round * world_size + world_rank);
        CHECK_EQ(got(file, 0), round * world_size + world_rank, "value of own cells between those of others");
    }
    CHECK_OK(MPI_File_close(&file));
    MPI_Type_free(&cells);
}

/* 14.6.1, handles of one open, atomic: a rank that is told of a write sees it without a sync, and sees an
 * access as a whole. */
static void case_2_atomic(void)
{
    section("14.6.1, handles of one open, atomic");
    /* With more ranks than cores each message takes a time slice. */
    const int rounds = world_size <= 2 ? 10000 : 300;
    file = opened(MPI_COMM_WORLD, "case2", 1);
    if (world_rank < 2 && world_size > 1)
        for (int round = 1; round <= rounds; round++) {
            int writer = round % 2, told = round;
            MPI_Request request;
            if (world_rank == writer) {
                CHECK_OK(MPI_File_write_at(file, 0, &round, 4, MPI_BYTE, MPI_STATUS_IGNORE));
                MPI_Isend(&told, 1, MPI_INT, 1 - writer, 0, MPI_COMM_WORLD, &request);
                wait_yielding(&request);
            } else {
                int found = -1;
                MPI_Irecv(&told, 1, MPI_INT, writer, 0, MPI_COMM_WORLD, &request);
                wait_yielding(&request);
                CHECK_OK(MPI_File_read_at(file, 0, &found, 4, MPI_BYTE, MPI_STATUS_IGNORE));
                CHECK_EQ(found, round, "value read after the message");
            }
        }
    barrier();
    put(file, 0, 0);
    barrier();
    for (int round = 0; round < ROUNDS; round++) {
        if (world_rank % 2) put(file, 0, round);
        else CHECK(got(file, 0) >= 0, "a read saw a part of another rank's write");
    }
    barrier();
    CHECK_OK(MPI_File_close(&file));
}

/* 14.6.1, handles of different opens: sequences that are separated by syncs, or by a close and an open. */
static void case_3(int atomic)
{
    section("14.6.1, handles of different opens, %s", atomic ? "atomic" : "nonatomic");
    MPI_File own = opened(MPI_COMM_SELF, "case3", atomic);
    barrier();
    for (int round = 0; round < 8; round++) {
        const int writer = round % world_size;
        if (world_rank == writer) put(own, 0, round);
        CHECK_OK(MPI_File_sync(own));
        barrier();
        CHECK_OK(MPI_File_sync(own));
        CHECK_EQ(got(own, 0), round, "value after sync, barrier, sync");
        barrier();
    }
    if (world_rank == 0) put(own, 0, 99);
    CHECK_OK(MPI_File_close(&own));
    barrier();
    own = opened(MPI_COMM_SELF, "case3", atomic);
    CHECK_EQ(got(own, 0), 99, "value after close, barrier, open");
    CHECK_OK(MPI_File_close(&own));
}

/* 14.6.1, MPI_FILE_SYNC: collective. After it, the writes that other ranks of the open made before it are
 * visible, also those of split collectives. */
static void sync_makes_writes_visible(void)
{
    section("14.6.1, sync");
    file = opened(MPI_COMM_WORLD, "sync", 0);
    int cells[PART];
    for (int i = 0; i < PART; i++) cells[i] = world_rank;
    const MPI_Offset at = (MPI_Offset)sizeof cells * world_rank;
    CHECK_OK(MPI_File_write_at_all_begin(file, at, cells, PART, MPI_INT));
    CHECK_OK(MPI_File_write_at_all_end(file, cells, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_sync(file));
    barrier();
    CHECK_OK(MPI_File_sync(file));
    for (int rank = 0; rank < world_size; rank++)
        CHECK_EQ(got(file, (MPI_Offset)sizeof cells * rank), rank, "value that a rank wrote");
    CHECK_OK(MPI_File_close(&file));
}

/* 14.6.1, MPI_FILE_SET_ATOMICITY: holds for accesses that begin later. Accesses in progress complete
 * correctly. */
static void atomicity_changes_during_accesses(void)
{
    section("14.6.1, atomicity changes during accesses");
    enum { MANY = 6 };
    static int out[MANY][PART];
    file = opened(MPI_COMM_WORLD, "toggle", 0);
    const MPI_Offset at = (MPI_Offset)sizeof out * world_rank;
    for (int round = 0; round < 6; round++) {
        MPI_Request requests[MANY];
        int atomic = -1;
        for (int k = 0; k < MANY; k++) {
            for (int i = 0; i < PART; i++) out[k][i] = round * MANY + k;
            CHECK_OK(MPI_File_iwrite_at_all(file, at + (MPI_Offset)sizeof out[k] * k, out[k], PART, MPI_INT,
                     &requests[k]));
        }
        CHECK_OK(MPI_File_set_atomicity(file, round % 2));
        CHECK_OK(MPI_File_get_atomicity(file, &atomic));
        CHECK_EQ(atomic, round % 2, "atomicity");
        wait_all(requests, MANY);
        for (int k = 0; k < MANY; k++)
            CHECK_EQ(got(file, at + (MPI_Offset)sizeof out[k] * k), round * MANY + k,
                     "value written while the atomicity changed");
        barrier();
    }
    CHECK_OK(MPI_File_close(&file));
}

/* 14.6.2 and 14.3: in a sequential file each access begins where the previous one ended, also across a
 * change of the view. */
static void sequential_files(void)
{
    section("14.6.2, sequential files");
    int value = world_rank, found = -1;
    char tag = (char)('a' + world_rank), read = 0;
    MPI_Datatype padded;
    MPI_Offset start = -1;
    MPI_Type_create_resized(MPI_INT, 0, 8, &padded);
    MPI_Type_commit(&padded);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("stream"),
             MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file));
    CHECK_OK(MPI_File_write_ordered(file, &tag, 1, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, padded, "native", MPI_INFO_NULL));
    for (int round = 0; round < 3; round++)
        CHECK_OK(MPI_File_write_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_CLASS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    CHECK_OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_File_write_shared(file, "z", 1, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_close(&file));
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("stream"), MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL,
             MPI_INFO_NULL, &file));
    CHECK_OK(MPI_File_read_ordered(file, &read, 1, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK_EQ(read, tag, "first value");
    CHECK_OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, padded, "native", MPI_INFO_NULL));
    MPI_Datatype etype, filetype;
    char representation[MPI_MAX_DATAREP_STRING];
    CHECK_OK(MPI_File_get_view(file, &start, &etype, &filetype, representation));
    CHECK_EQ(start, world_size, "displacement of the view");
    MPI_Type_free(&filetype);
    for (int round = 0; round < 3; round++) {
        CHECK_OK(MPI_File_read_ordered(file, &found, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_EQ(found, world_rank, "next value");
    }
    CHECK_OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_File_get_view(file, &start, &etype, &filetype, representation));
    /* The view begins after the bytes that the last tile skips. */
    CHECK_EQ(start, world_size + 3 * world_size * 8, "displacement of the last view");
    CHECK_OK(MPI_File_read_ordered(file, &read, 1, MPI_CHAR, MPI_STATUS_IGNORE));
    if (world_rank == 0) CHECK_EQ(read, 'z', "last value");
    CHECK_OK(MPI_File_close(&file));
    file = opened(MPI_COMM_WORLD, "stream", 0);
    CHECK_CLASS(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_BYTE, MPI_BYTE, "native",
                MPI_INFO_NULL), MPI_ERR_ARG);
    CHECK_OK(MPI_File_close(&file));
    MPI_Type_free(&padded);
}

/* 14.6.3: an access completes even if another rank is outside of MPI. */
static void progress_needs_no_other_rank(int atomic)
{
    section("14.6.3, %s", atomic ? "atomic" : "nonatomic");
    const int mark = 4711 + atomic;
    file = opened(MPI_COMM_WORLD, "progress", atomic);
    int found = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    /* The home of the lock may be any rank, so every rank uses the lock once before. */
    put(file, 4096, 0);
    barrier();
    if (world_size > 1 && world_rank == 0) {
        /* Where nodes cache, only an open shows what another node wrote. */
        for (int tries = 0, plain; found != mark && tries < 20000; tries++) {
            if ((plain = open(path_of("progress"), O_RDONLY)) < 0 || pread(plain, &found, sizeof found, 0) < 0) break;
            close(plain);
            usleep(1000);
        }
        CHECK_EQ(found, mark, "value that another rank wrote while this rank made no MPI call");
    } else if (world_rank == world_size - 1) {
        int cells[PART];
        CHECK_OK(MPI_File_iread_at(file, 4096, cells, PART, MPI_INT, &request));
        CHECK_OK(MPI_File_write_at(file, 0, &mark, 1, MPI_INT, MPI_STATUS_IGNORE));
        wait_yielding(&request);
    }
    barrier();
    CHECK_OK(MPI_File_close(&file));
}

/* 14.6.4: collective operations on several files are called in one order, and each completes even if
 * other ranks have not yet called the next one. */
static void collectives_have_one_order(void)
{
    section("14.6.4");
    MPI_File first = opened(MPI_COMM_WORLD, "first", 0), second = opened(MPI_COMM_WORLD, "second", 1);
    for (int round = 0; round < 10; round++) {
        int value = round * 100 + world_rank, found = -1;
        CHECK_OK(MPI_File_write_at_all(first, 4 * world_rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_File_write_at_all(second, 4 * world_rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_File_read_at_all(first, 4 * world_rank, &found, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_EQ(found, value, "value that this rank wrote to the first file");
        CHECK_OK(MPI_File_read_at_all(second, 4 * world_rank, &found, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_EQ(found, value, "value that this rank wrote to the second file");
    }
    CHECK_OK(MPI_File_close(&first));
    CHECK_OK(MPI_File_close(&second));
}

/* 14.6.5: several operations at a time, completed in different orders on different ranks, next to
 * blocking collectives. */
static void nonblocking_collectives(int atomic)
{
    section("14.6.5, %s", atomic ? "atomic" : "nonatomic");
    enum { MANY = 5 };
    file = opened(MPI_COMM_WORLD, "nonblocking", atomic);
    int values[MANY], found[MANY];
    MPI_Request requests[MANY];
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < MANY; k++) {
            MPI_Offset at = 4 * (k * world_size + world_rank);
            values[k] = k * 1000 + world_rank, found[k] = pass ? found[k] : -1;
            if (pass == 0) CHECK_OK(MPI_File_iwrite_at_all(file, at, &values[k], 1, MPI_INT, &requests[k]));
            else CHECK_OK(MPI_File_iread_at_all(file, at, &found[k], 1, MPI_INT, &requests[k]));
        }
        int beside = -1;
        CHECK_OK(MPI_File_write_at_all(file, 4 * (MANY * world_size + world_rank), &beside, 1, MPI_INT,
                 MPI_STATUS_IGNORE));
        for (int k = 0; k < MANY; k++)
            wait_yielding(&requests[(k * (world_rank % 2 ? 2 : 3) + world_rank) % MANY]);
        barrier();
    }
    for (int k = 0; k < MANY; k++) CHECK_EQ(found[k], values[k], "value that a nonblocking collective read");
    CHECK_OK(MPI_File_close(&file));
}

/* 14.6.6: data must be read with the type of the file that it was written with; as bytes, any data may be
 * read. */
static void types_match(void)
{
    section("14.6.6");
    file = opened(MPI_COMM_WORLD, "types", 0);
    const MPI_Offset at = world_rank * (MPI_Offset)sizeof(double);
    double value = 0.1 + world_rank, found = 0;
    char bytes[sizeof value];
    CHECK_OK(MPI_File_set_view(file, 0, MPI_DOUBLE, MPI_DOUBLE, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_File_write_at_all(file, world_rank, &value, 1, MPI_DOUBLE, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_read_at_all(file, world_rank, &found, 1, MPI_DOUBLE, MPI_STATUS_IGNORE));
    CHECK(found == value, "the double read differs from the double written");
    CHECK_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_File_read_at_all(file, at, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(memcmp(bytes, &value, sizeof value) == 0, "the bytes in the file differ from those in memory");
    CHECK_OK(MPI_File_close(&file));
}

/* 14.6.7: after the call the user may reuse its buffers, types and hints. */
static void arguments_can_be_reused(void)
{
    section("14.6.7");
    MPI_Datatype type;
    MPI_Request request;
    int cells[2] = { world_rank, -world_rank };
    file = opened(MPI_COMM_WORLD, "arguments", 0);
    MPI_Type_vector(2, 1, world_size, MPI_INT, &type);
    MPI_Type_commit(&type);
    CHECK_OK(MPI_File_set_view(file, 4 * world_rank, MPI_INT, type, "native", MPI_INFO_NULL));
    MPI_Type_free(&type);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_commit(&type);
    CHECK_OK(MPI_File_iwrite_at_all(file, 0, cells, 1, type, &request));
    MPI_Type_free(&type);
    wait_yielding(&request);
    cells[0] = cells[1] = 77;
    CHECK_OK(MPI_File_read_at(file, 0, cells, 2, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(cells[0] == world_rank && cells[1] == -world_rank, "data written with freed types is wrong");
    CHECK_OK(MPI_File_close(&file));
}

/* 14.6.8 to 14.6.10: offsets have 64 bits. The size of a file is set by its last byte, in whatever order
 * bytes are written. Growing or truncating a file acts as a write of the bytes in between. */
static void sizes(int atomic)
{
    section("14.6.8 to 14.6.10, %s", atomic ? "atomic" : "nonatomic");
    CHECK_EQ(sizeof(MPI_Offset), 8, "size of an offset in bytes");
    file = opened(MPI_COMM_WORLD, atomic ? "sizes1" : "sizes0", atomic);
    MPI_Offset size = -1;
    const MPI_Offset far = (MPI_Offset)5 << 30;
    barrier();
    CHECK_OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, 0, "size of a new file");
    barrier();
    if (world_rank == 0) CHECK_OK(MPI_File_write_at(file, far, "x", 1, MPI_BYTE, MPI_STATUS_IGNORE));
    barrier();
    CHECK_OK(MPI_File_sync(file));
    CHECK_OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, far + 1, "size after a write beyond a gap");
    CHECK_OK(MPI_File_set_size(file, 100));
    CHECK_OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, 100, "size after truncation");
    char bytes[40];
    MPI_Status status;
    int count = -1;
    memset(bytes, 7, sizeof bytes);
    CHECK_OK(MPI_File_read_at(file, 80, bytes, sizeof bytes, MPI_BYTE, &status));
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK_EQ(count, 20, "bytes read up to the end of the file");
    CHECK(bytes[19] == 0 && bytes[20] == 7, "the read at the end of the file is wrong");
    barrier();
    CHECK_OK(MPI_File_preallocate(file, 5000));
    CHECK_OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, 5000, "size after preallocation");
    CHECK_OK(MPI_File_preallocate(file, 50));
    CHECK_OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, 5000, "size after a smaller preallocation");
    barrier();
    CHECK_OK(MPI_File_close(&file));
}

/* 14.6.11, the example of double buffering: one buffer is written while the next is filled. */
static void double_buffering(void)
{
    section("14.6.11");
    enum { BLOCKS = 9 };
    int buffers[2][PART], wrong = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    file = opened(MPI_COMM_WORLD, "double", 0);
    CHECK_OK(MPI_File_set_view(file, (MPI_Offset)sizeof(int[PART]) * BLOCKS * world_rank, MPI_INT, MPI_INT,
             "native", MPI_INFO_NULL));
    for (int block = 0; block < BLOCKS; block++) {
        for (int i = 0; i < PART; i++) buffers[block % 2][i] = block * PART + i;
        wait_yielding(&request);
        CHECK_OK(MPI_File_iwrite_all(file, buffers[block % 2], PART, MPI_INT, &request));
    }
    wait_yielding(&request);
    for (int block = 0; block < BLOCKS; block++) {
        CHECK_OK(MPI_File_read_at(file, block * PART, buffers[0], PART, MPI_INT, MPI_STATUS_IGNORE));
        for (int i = 0; i < PART; i++) wrong += buffers[0][i] != block * PART + i;
    }
    CHECK_EQ(wrong, 0, "number of cells that differ from those written");
    CHECK_OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    /* If the MPI library does not reach the memory of a rank that computes, locks between nodes wait for
     * that rank. The README lists these libraries. */
    const int is_reached = argc < 3;
    case_1_nonatomic();
    case_1_atomic();
    case_2_without_conflict();
    case_2_atomic();
    case_3(0);
    case_3(1);
    sync_makes_writes_visible();
    atomicity_changes_during_accesses();
    sequential_files();
    progress_needs_no_other_rank(0);
    if (is_reached) progress_needs_no_other_rank(1);
    collectives_have_one_order();
    nonblocking_collectives(0);
    nonblocking_collectives(1);
    types_match();
    arguments_can_be_reused();
    sizes(0);
    sizes(1);
    double_buffering();
    return finish();
}
