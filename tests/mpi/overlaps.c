/* Collective writes in which ranks write the same bytes. The bytes of the highest rank must stay, on
 * whichever nodes the ranks are. The standard leaves the result open; Capulet promises this one. The
 * pieces of a rank are rows in even rounds, and a long irregular list in odd rounds. */
#include "check.h"

#define PIECES 3000
#define ROUNDS 6

static uint64_t state;

static int pick(int below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int)((state >> 33) % (uint64_t)below);
}

/* The pieces of a rank in a round, the same on every rank that calls the function. Returns the number of
 * their bytes. */
static int pieces_of(int rank, int round, MPI_Aint *places, int *lengths)
{
    int bytes = 0, is_row = round % 2 == 0;
    MPI_Aint at = is_row ? rank * 16 : 0;
    state = (uint64_t)(round * 100 + rank + 1) * 0x9E3779B97F4A7C15u;
    for (int i = 0; i < PIECES; i++) {
        if (!is_row) at += 1 + pick(40);
        places[i] = at;
        lengths[i] = is_row ? 24 : 1 + pick(30);
        at += is_row ? 16 * world_size + 24 : lengths[i];
        bytes += lengths[i];
    }
    return bytes;
}

static unsigned char value(int rank, int round, int at)
{
    return (unsigned char)(rank * 41 + round * 17 + at % 249 + 1);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    static MPI_Aint places[PIECES];
    static int lengths[PIECES];
    const int largest = PIECES * (16 * world_size + 128);
    unsigned char *expected = calloc(1, (size_t)largest), *bytes = malloc(PIECES * 32);
    MPI_File file;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "16384");
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_Info_set(info, "romio_cb_read", "enable");
    const char *path = path_of("overlaps");
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    CHECK_OK(MPI_File_set_size(file, 0));
    for (int round = 0; round < ROUNDS; round++) {
        section("round %d", round);
        for (int rank = 0; rank < world_size; rank++) {
            pieces_of(rank, round, places, lengths);
            for (int i = 0, at = 0; i < PIECES; at += lengths[i++])
                for (int j = 0; j < lengths[i]; j++) expected[places[i] + j] = value(rank, round, at + j);
        }
        int count = pieces_of(world_rank, round, places, lengths);
        MPI_Datatype filetype;
        MPI_Type_create_hindexed(PIECES, lengths, places, MPI_BYTE, &filetype);
        MPI_Type_commit(&filetype);
        CHECK_OK(MPI_File_set_view(file, 0, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
        for (int at = 0; at < count; at++) bytes[at] = value(world_rank, round, at);
        CHECK_OK(MPI_File_write_at_all(file, 0, bytes, count, MPI_BYTE, MPI_STATUS_IGNORE));
        memset(bytes, 0, (size_t)count);
        MPI_Status status;
        int got;
        CHECK_OK(MPI_File_read_at_all(file, 0, bytes, count, MPI_BYTE, &status));
        MPI_Get_count(&status, MPI_BYTE, &got);
        CHECK_EQ(got, count, "bytes read");
        int wrong = 0;
        for (int i = 0, at = 0; i < PIECES; at += lengths[i++])
            wrong += memcmp(bytes + at, expected + places[i], (size_t)lengths[i]) != 0;
        CHECK_EQ(wrong, 0, "number of pieces that are not from the highest rank");
        if (world_rank == 0) {
            long long size;
            unsigned char *found = slurp(path, &size);
            CHECK(size <= largest && memcmp(found, expected, (size_t)size) == 0,
                  "the file differs from the bytes written");
            free(found);
        }
        barrier();
        MPI_Type_free(&filetype);
    }
    CHECK_OK(MPI_File_close(&file));
    MPI_Info_free(&info);
    free(expected);
    free(bytes);
    return finish();
}
