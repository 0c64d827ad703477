/* rewrites FOLDER DISK SECONDS: two ranks rewrite pieces of 256 bytes of the existing file DISK/rewritten
 * for so many seconds, while another program fills the disk again and again. Every call returns with
 * success or MPI_ERR_NO_SPACE, a collective call with the same class on all ranks. Bytes that were reported
 * as written are in the file for plain readers. */
#include "check.h"

#define PIECE 256
#define PIECES 8192
#define BYTES (PIECE * PIECES)
/* An independent write fills every other piece of the rank's own part of PART bytes. A collective write
 * fills one piece per rank in every 1024 bytes of the whole file. */
#define PART (2 * BYTES)

static unsigned char data[BYTES], found[PART * 2];

static int is_expected(int class) { return class == MPI_SUCCESS || class == MPI_ERR_NO_SPACE; }

static int collective(const char *what, int code)
{
    int class = class_of(code);
    section("%s", what);
    CHECK_EQ(reduce_all(class, MPI_MAX), reduce_all(class, MPI_MIN),
             "largest error class of all ranks (other value: smallest)");
    CHECK(is_expected(class), "%s", class_name(class));
    return class == MPI_SUCCESS;
}

/* Checks the first `bytes` bytes of the pieces. The first piece begins at `first`, and each next one
 * `period` bytes later. */
static void check_pieces(const char *what, const char *path, long long first, int period, int bytes)
{
    int fd = open(path, O_RDONLY), wrong = 0;
    const long long span = (long long)(bytes / PIECE) * period;
    CHECK(fd >= 0, "%s: %s", path, strerror(errno));
    if (span > 0) CHECK(pread(fd, found, (size_t)span, first) >= span - period + PIECE, "the file is short");
    for (int piece = 0; piece < bytes / PIECE; piece++)
        wrong += memcmp(found + (long long)piece * period, data + piece * PIECE, PIECE) != 0;
    CHECK(wrong == 0, "%d of %d pieces of %s were reported as written, but are missing", wrong,
          bytes / PIECE, what);
    close(fd);
}

static void new_data(int round)
{
    for (int at = 0; at < BYTES; at++) data[at] = value_at(world_rank, at % 8191, round);
}

/* Opens the file and writes rounds until a call finds the disk full. Returns the number of calls that found
 * the disk full. */
static int rewrite(const char *path, int first_round)
{
    MPI_File file;
    MPI_Status status;
    MPI_Datatype every_other, every_fourth;
    int full = 0;
    MPI_Type_vector(PIECES, PIECE, 2 * PIECE, MPI_BYTE, &every_other);
    MPI_Type_vector(PIECES, PIECE, 4 * PIECE, MPI_BYTE, &every_fourth);
    MPI_Type_commit(&every_other);
    MPI_Type_commit(&every_fourth);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    for (int round = 0; round < 20 && !reduce_all(full, MPI_MAX); round++) {
        section("an independent write");
        new_data(first_round + 2 * round);
        CHECK_OK(MPI_File_set_view(file, (long long)world_rank * PART, MPI_BYTE, every_other, "native",
                 MPI_INFO_NULL));
        int class = class_of(MPI_File_write_at(file, 0, data, BYTES, MPI_BYTE, &status));
        CHECK(is_expected(class), "%s", class_name(class));
        full += class != MPI_SUCCESS;
        if (class == MPI_SUCCESS) CHECK_EQ(count_of(&status, MPI_BYTE), BYTES, "bytes written");
        check_pieces("an independent write", path, (long long)world_rank * PART, 2 * PIECE,
                     count_of(&status, MPI_BYTE));
        barrier();
        new_data(first_round + 2 * round + 1);
        CHECK_OK(MPI_File_set_view(file, (long long)world_rank * 2 * PIECE, MPI_BYTE, every_fourth,
                 "native", MPI_INFO_NULL));
        if (collective("a collective write", MPI_File_write_at_all(file, 0, data, BYTES, MPI_BYTE, &status)))
            check_pieces("a collective write", path, (long long)world_rank * 2 * PIECE, 4 * PIECE, BYTES);
        else
            full++;
        barrier();
    }
    full += !collective("sync", MPI_File_sync(file));
    full += !collective("close", MPI_File_close(&file));
    MPI_Type_free(&every_other);
    MPI_Type_free(&every_fourth);
    return full;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (argc < 4) return 2;
    char path[PATH_MAX];
    int openings = 0, full = 0;
    snprintf(path, sizeof path, "%s/rewritten", argv[2]);
    CHECK_EQ(world_size, 2, "ranks");
    for (const double end = MPI_Wtime() + atof(argv[3]); reduce_all(MPI_Wtime() < end, MPI_MIN); openings++)
        full += rewrite(path, 100 * openings) > 0;
    full = (int)reduce_all(full, MPI_MAX);
    section("the disk");
    CHECK(full > 0, "the disk was never full, in %d opens", openings);
    if (world_rank == 0) printf("the disk was full in %d of %d opens\n", full, openings);
    return finish();
}
