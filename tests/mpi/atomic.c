/* Atomic mode (MPI 4.1, 14.6.1). The mode can be set and queried, and holds for accesses that begin
 * later. A write is visible after a message, without a sync. Bytes between those of an access keep their
 * values. After an access fails, others can enter. Collective accesses, and accesses of another thread.
 * `capulet verify` tests whether a serial order of the accesses exists. */
#include "check.h"
#include <pthread.h>
#include <sys/resource.h>

enum { BLOCKS = 64, BLOCK = 48, ROUNDS = 40, PART = 3000 };

static MPI_File file;
static char bytes[BLOCKS * BLOCK];

static int atomicity(void)
{
    int atomic = -1;
    CHECK_OK(MPI_File_get_atomicity(file, &atomic));
    return atomic;
}

/* The blocks of one rank. The blocks of all ranks lie side by side. */
static void own_blocks(MPI_Datatype *type)
{
    MPI_Datatype vector;
    MPI_Type_vector(BLOCKS, BLOCK, world_size * BLOCK, MPI_BYTE, &vector);
    MPI_Type_create_resized(vector, 0, (MPI_Aint)BLOCKS * BLOCK * world_size, type);
    MPI_Type_commit(type);
    MPI_Type_free(&vector);
}

/* Each rank writes and sends a message to the next rank, which then reads. */
static void write_is_visible_after_message(void)
{
    section("a write is visible after a message");
    int next = (world_rank + 1) % world_size, last = (world_rank + world_size - 1) % world_size;
    for (int round = 0; round < ROUNDS; round++) {
        int told = -1, value = round * world_size + world_rank, found = -1;
        CHECK_OK(MPI_File_write_at(file, 4 * world_rank, &value, 4, MPI_BYTE, MPI_STATUS_IGNORE));
        MPI_Request requests[2];
        MPI_Irecv(&told, 1, MPI_INT, last, round, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(&value, 1, MPI_INT, next, round, MPI_COMM_WORLD, &requests[1]);
        wait_yielding(&requests[0]);
        CHECK_OK(MPI_File_read_at(file, 4 * last, &found, 4, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK_EQ(found, told, "value read after the message");
        wait_yielding(&requests[1]);
        barrier();
    }
}

/* All ranks write their own blocks repeatedly at the same time. No rank may overwrite the bytes in
 * between with old ones. */
static void bytes_between_are_kept(void)
{
    section("bytes between those of an access");
    MPI_Datatype type;
    own_blocks(&type);
    CHECK_OK(MPI_File_set_view(file, (MPI_Offset)world_rank * BLOCK, MPI_BYTE, type, "native",
             MPI_INFO_NULL));
    int wrong = 0;
    for (int round = 1; round <= ROUNDS; round++) {
        memset(bytes, round, BLOCKS * BLOCK);
        CHECK_OK(MPI_File_write_at(file, 0, bytes, BLOCKS * BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
        memset(bytes, 0, BLOCKS * BLOCK);
        CHECK_OK(MPI_File_read_at(file, 0, bytes, BLOCKS * BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
        for (int i = 0; i < BLOCKS * BLOCK; i++) wrong += bytes[i] != round;
    }
    CHECK_EQ(wrong, 0, "number of bytes that this rank did not write last");
    CHECK_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MPI_Type_free(&type);
}

/* A write that fails while it is isolated. */
static void others_enter_after_failure(void)
{
    section("others enter after an access fails");
    const MPI_Offset far = 1 << 20;
    barrier();
    if (world_rank == 0) {
        struct rlimit before, small;
        signal(SIGXFSZ, SIG_IGN);
        CHECK_EQ(getrlimit(RLIMIT_FSIZE, &before), 0, "getrlimit");
        small = before;
        small.rlim_cur = (rlim_t)far;
        CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0, "setrlimit");
        CHECK(MPI_File_write_at(file, far + 10, bytes, 100, MPI_BYTE, MPI_STATUS_IGNORE) != MPI_SUCCESS,
              "a write beyond the file size limit succeeded");
        setrlimit(RLIMIT_FSIZE, &before);
    }
    barrier();
    CHECK_OK(MPI_File_write_at(file, far, bytes, 200, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_write_at_all(file, far, bytes, 200, MPI_BYTE, MPI_STATUS_IGNORE));
}

static volatile int keeps_reading;
static int torn, seen;

/* Reads the parts of all ranks repeatedly. Each part is written by one access, of which a read must see
 * all or nothing. */
static void *read_repeatedly(void *context)
{
    char *all = context;
    while (keeps_reading || seen == 0) {
        torn += MPI_File_read_at(file, 0, all, world_size * PART, MPI_BYTE, MPI_STATUS_IGNORE) != MPI_SUCCESS;
        for (int rank = 0; rank < world_size; rank++)
            torn += memcmp(all + rank * PART, all + rank * PART + 1, PART - 1) != 0;
        seen++;
    }
    return NULL;
}

static void another_thread_reads_during_writes(const char *two_phase)
{
    section("another thread reads during collective writes, romio_cb_write %s", two_phase);
    MPI_Info info;
    pthread_t thread;
    char *all = malloc((size_t)world_size * PART);
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", two_phase);
    CHECK_OK(MPI_File_set_info(file, info));
    MPI_Info_free(&info);
    memset(bytes, 1, PART);
    CHECK_OK(MPI_File_write_at_all(file, world_rank * PART, bytes, PART, MPI_BYTE, MPI_STATUS_IGNORE));
    barrier();
    keeps_reading = 1;
    seen = torn = 0;
    int has_thread = world_rank == world_size - 1 && pthread_create(&thread, NULL, read_repeatedly, all) == 0;
    for (int round = 2; round <= ROUNDS; round++) {
        MPI_Request request;
        memset(bytes, round, PART);
        if (round % 4)
            CHECK_OK(MPI_File_write_at_all(file, world_rank * PART, bytes, PART, MPI_BYTE,
                     MPI_STATUS_IGNORE));
        else {
            CHECK_OK(MPI_File_iwrite_at_all(file, world_rank * PART, bytes, PART, MPI_BYTE, &request));
            wait_yielding(&request);
        }
    }
    keeps_reading = 0;
    if (has_thread) {
        pthread_join(thread, NULL);
        CHECK(seen > 0, "the thread has not read");
        CHECK_EQ(torn, 0, "number of parts that were read torn");
    }
    free(all);
    barrier();
}

int main(int argc, char **argv)
{
    int provided, differs;
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) return 9;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    if (argc > 1) work_dir = argv[1];
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("atomic"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
             &file));
    section("atomic mode is set and queried");
    CHECK_EQ(atomicity(), 0, "atomicity at open");
    differs = world_rank == 0;
    if (world_size > 1) CHECK_CLASS(MPI_File_set_atomicity(file, differs), MPI_ERR_NOT_SAME);
    CHECK_EQ(atomicity(), 0, "atomicity after flags that differ between ranks");
    for (int atomic = 1; atomic >= -1; atomic--) {
        CHECK_OK(MPI_File_set_atomicity(file, atomic));
        CHECK_EQ(atomicity(), atomic != 0, "atomicity after set_atomicity");
    }
    write_is_visible_after_message();
    bytes_between_are_kept();
    others_enter_after_failure();
    CHECK_OK(MPI_File_set_size(file, 10));
    CHECK_OK(MPI_File_preallocate(file, 4096));
    CHECK_OK(MPI_File_read_at(file, 0, bytes, 0, MPI_BYTE, MPI_STATUS_IGNORE));
    if (provided == MPI_THREAD_MULTIPLE) {
        another_thread_reads_during_writes("enable");
        another_thread_reads_during_writes("disable");
    }
    CHECK_OK(MPI_File_set_atomicity(file, 0));
    CHECK_EQ(atomicity(), 0, "atomicity at the end");
    CHECK_OK(MPI_File_close(&file));
    return finish();
}
