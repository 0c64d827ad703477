/* Disjoint bytes of one file, written through one handle. Some ranks have a strided view, the others a
 * contiguous one. ROMIO overwrites the contiguous writes with stale bytes here, because its data sieving
 * reads, changes and writes back whole spans. Every byte must be the last one written to it. */
#include "check.h"

#define PIECE 16
#define PIECES 64
#define PERIOD (2 * PIECE)
#define ROUNDS 60

/* Rank 0 reads the file with system calls. */
static void check_bytes(const char *path, int round)
{
    if (world_rank) return;
    long long size, wrong = 0;
    unsigned char *found = slurp(path, &size);
    for (long long i = 0; i < size; i++) {
        int owner = (int)(i / (PIECES * PERIOD)) * 2 + (int)(i / PIECE % 2);
        if (owner < world_size) wrong += found[i] != ((round * 31 + owner) & 0xff);
    }
    CHECK(wrong == 0, "%lld of %lld bytes are wrong", wrong, size);
    free(found);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int rounds = argc > 2 ? atoi(argv[2]) : ROUNDS, strided = world_rank % 2 == 0, pair = world_rank / 2;
    const char *path = path_of("disjoint");
    MPI_File file;
    MPI_Datatype comb, filetype;
    MPI_Type_vector(PIECES, PIECE, PERIOD, MPI_BYTE, &comb);
    MPI_Type_create_resized(comb, 0, PIECES * PERIOD, &filetype);
    MPI_Type_commit(&filetype);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    /* All pairs of ranks share the span of the file. The even rank of a pair owns the even pieces of the
     * pair's region, the odd rank the odd pieces. */
    MPI_Offset region = (MPI_Offset)pair * PIECES * PERIOD;
    if (strided) CHECK_OK(MPI_File_set_view(file, region, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
    else CHECK_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    unsigned char bytes[PIECES * PIECE];
    for (int round = 0; round < rounds; round++) {
        section("round %d", round);
        memset(bytes, (round * 31 + world_rank) & 0xff, sizeof bytes);
        barrier();
        if (strided) CHECK_OK(MPI_File_write_at(file, 0, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE));
        else
            for (int p = 0; p < PIECES; p++)
                CHECK_OK(MPI_File_write_at(file, region + p * PERIOD + PIECE, bytes + p * PIECE, PIECE,
                         MPI_BYTE, MPI_STATUS_IGNORE));
        barrier();
        check_bytes(path, round);
        barrier();
    }
    CHECK_OK(MPI_File_close(&file));
    check_bytes(path, rounds - 1);
    MPI_Type_free(&comb);
    MPI_Type_free(&filetype);
    return finish();
}
