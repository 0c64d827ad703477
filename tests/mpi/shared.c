/* The shared file pointer (MPI 4.1, 14.4.4): every access has a place of its own, and ordered accesses
 * have places by rank. Also seeks, views, access modes, and failures. */
#include "check.h"

enum { RECORDS = 60 };
typedef struct { int rank, number; } record_t;

static MPI_File file;

static long long position(void)
{
    MPI_Offset offset = -1;
    CHECK_OK(MPI_File_get_position_shared(file, &offset));
    return offset;
}

static void open_file(const char *name, int mode)
{
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of(name), mode, MPI_INFO_NULL, &file));
}

/* Counts the records that this rank has found, and checks that the records of all ranks were found
 * exactly once. */
static void check_each_record_once(const record_t *found, int count, int per_rank)
{
    int *seen = calloc((size_t)(world_size * per_rank), sizeof *seen), wrong = 0;
    for (int i = 0; i < count; i++) {
        if (found[i].rank < 0 || found[i].rank >= world_size || found[i].number < 0
            || found[i].number >= per_rank) wrong++;
        else seen[found[i].rank * per_rank + found[i].number]++;
    }
    for (int i = 0; i < world_size * per_rank; i++) wrong += reduce_all(seen[i], MPI_SUM) != 1;
    CHECK_EQ(wrong, 0, "number of records that are missing or duplicate");
    free(seen);
}

static void every_access_has_its_place(void)
{
    section("accesses in any order");
    open_file("shared", MPI_MODE_CREATE | MPI_MODE_RDWR);
    CHECK_EQ(position(), 0, "position at open");
    CHECK_OK(MPI_File_set_view(file, 24, MPI_2INT, MPI_2INT, "native", MPI_INFO_NULL));
    for (int number = 0; number < RECORDS; number++) {
        record_t record = { world_rank, number };
        MPI_Request request;
        MPI_Status status;
        if (number % 3) CHECK_OK(MPI_File_write_shared(file, &record, 1, MPI_2INT, &status));
        else {
            CHECK_OK(MPI_File_iwrite_shared(file, &record, 1, MPI_2INT, &request));
            wait_yielding(&request);
        }
    }
    barrier();
    CHECK_EQ(position(), RECORDS * world_size, "position after writing");
    MPI_Offset own;
    CHECK_OK(MPI_File_get_position(file, &own));
    CHECK_EQ(own, 0, "position of the individual pointer");
    CHECK_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    record_t found[RECORDS * 8 + 2];
    int count = 0, got = 1;
    while (got > 0 && count <= RECORDS * 8) {
        MPI_Status status;
        if (count % 2) CHECK_OK(MPI_File_read_shared(file, &found[count], 1, MPI_2INT, &status));
        else {
            MPI_Request request;
            CHECK_OK(MPI_File_iread_shared(file, &found[count], 1, MPI_2INT, &request));
            MPI_Wait(&request, &status);
        }
        MPI_Get_count(&status, MPI_2INT, &got);
        count += got;
    }
    barrier();
    CHECK_EQ(position(), (RECORDS + 1) * world_size, "position after reads past the end");
    check_each_record_once(found, count, RECORDS);
}

static void seeks_move_the_pointer(void)
{
    MPI_Offset before;
    section("seeks");
    CHECK_OK(MPI_File_seek_shared(file, -3, MPI_SEEK_END));
    before = RECORDS * world_size - 3;
    CHECK_EQ(position(), before, "position after a seek from the end");
    CHECK_OK(MPI_File_seek_shared(file, 2, MPI_SEEK_CUR));
    CHECK_EQ(position(), before + 2, "position after a seek from the current position");
    CHECK_CLASS(MPI_File_seek_shared(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_seek_shared(file, 0, 77), MPI_ERR_ARG);
    if (world_size > 1) {
        CHECK_CLASS(MPI_File_seek_shared(file, world_rank == 0, MPI_SEEK_SET), MPI_ERR_NOT_SAME);
        CHECK_CLASS(MPI_File_seek_shared(file, 1, world_rank == 0 ? MPI_SEEK_SET : MPI_SEEK_CUR),
                    MPI_ERR_NOT_SAME);
    }
    CHECK_EQ(position(), before + 2, "position after failed seeks");
    const MPI_Offset last = (INT64_MAX - 24) / 8;
    record_t record = { 0, 0 };
    CHECK_OK(MPI_File_seek_shared(file, last, MPI_SEEK_SET));
    CHECK_CLASS(MPI_File_write_shared(file, &record, 1, MPI_2INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    CHECK_EQ(position(), last, "position after a refused write beyond the largest offset");
    CHECK_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    CHECK_EQ(position(), 0, "position after set_view");
    CHECK_CLASS(MPI_File_set_view(file, -1, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    CHECK_OK(MPI_File_write_ordered(file, "ab", 2, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_EQ(position(), 2 * world_size, "position after a refused view and an access");
    CHECK_OK(MPI_File_close(&file));
}

/* The number of records of a rank in a round. Some have none. */
static int records_of(int rank, int round) { return (rank * 5 + round * 3) % 4; }

static void ordered_accesses(void)
{
    section("ordered accesses");
    MPI_Datatype type;
    record_t own[4], found[4];
    long long total = 0;
    open_file("ordered", MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_Type_vector(2, 1, 3, MPI_2INT, &type);
    MPI_Type_commit(&type);
    CHECK_OK(MPI_File_set_view(file, 8, MPI_2INT, type, "native", MPI_INFO_NULL));
    for (int pass = 0; pass < 2; pass++) {
        CHECK_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
        total = 0;
        for (int round = 0; round < 12; round++) {
            const int count = records_of(world_rank, round);
            MPI_Status status;
            int got;
            for (int i = 0; i < count; i++) own[i] = (record_t){ world_rank, round * 4 + i };
            memset(found, 0xff, sizeof found);
            switch (pass * 2 + round % 2) {
            case 0: CHECK_OK(MPI_File_write_ordered(file, own, count, MPI_2INT, &status)); break;
            case 1:
                CHECK_OK(MPI_File_write_ordered_begin(file, own, count, MPI_2INT));
                CHECK_CLASS(MPI_File_read_ordered_end(file, own, &status), MPI_ERR_OTHER);
                CHECK_OK(MPI_File_write_ordered_end(file, own, &status));
                break;
            case 2: CHECK_OK(MPI_File_read_ordered(file, found, count, MPI_2INT, &status)); break;
            default:
                CHECK_OK(MPI_File_read_ordered_begin(file, found, count, MPI_2INT));
                CHECK_OK(MPI_File_read_ordered_end(file, found, &status));
            }
            MPI_Get_count(&status, MPI_2INT, &got);
            CHECK_EQ(got, count, "records of an ordered access");
            if (pass)
                CHECK_EQ(memcmp(own, found, (size_t)count * sizeof *own), 0,
                         "comparison of the records read with those written");
            for (int rank = 0; rank < world_size; rank++) total += records_of(rank, round);
            CHECK_EQ(position(), total, "position after an ordered access");
            barrier();
        }
    }
    section("one rank fails");
    CHECK_CLASS(MPI_File_write_ordered(file, own, world_rank == world_size - 1 ? -1 : 1, MPI_2INT,
                MPI_STATUS_IGNORE), MPI_ERR_COUNT);
    CHECK_EQ(position(), total, "position after an access that failed");
    CHECK_OK(MPI_File_write_ordered(file, own, 0, MPI_2INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_close(&file));
    if (world_rank == 0) {
        long long size, at = 0;
        char *bytes = (char *)slurp(path_of("ordered"), &size);
        int wrong = 0;
        for (int round = 0; round < 12; round++)
            for (int rank = 0; rank < world_size; rank++)
                for (int i = 0; i < records_of(rank, round); i++, at++) {
                    /* Tiles of 32 bytes with places at 0 and 24. */
                    long long place = 8 + at / 2 * 32 + at % 2 * 24;
                    record_t record;
                    memcpy(&record, bytes + place, sizeof record);
                    wrong += place + 8 > size || record.rank != rank || record.number != round * 4 + i;
                }
        CHECK_EQ(wrong, 0, "number of records out of the order of the ranks");
        free(bytes);
    }
    MPI_Type_free(&type);
}

static void modes(void)
{
    MPI_Offset offset;
    section("append mode, and words that an earlier file has used");
    open_file("modes", MPI_MODE_CREATE | MPI_MODE_WRONLY);
    CHECK_EQ(position(), 0, "position in a new file");
    CHECK_OK(MPI_File_write_ordered(file, "0123456789", 10, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_close(&file));
    open_file("modes", MPI_MODE_WRONLY | MPI_MODE_APPEND);
    CHECK_EQ(position(), 10 * world_size, "position at the end");
    barrier();
    CHECK_OK(MPI_File_write_shared(file, "abc", 3, MPI_BYTE, MPI_STATUS_IGNORE));
    barrier();
    CHECK_EQ(position(), 13 * world_size, "position after writing at the end");
    CHECK_CLASS(MPI_File_read_shared(file, &offset, 8, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
    CHECK_CLASS(MPI_File_read_ordered(file, &offset, 8, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
    barrier();
    CHECK_EQ(position(), 13 * world_size, "position after refused reads");
    CHECK_OK(MPI_File_close(&file));
    section("sequential mode");
    char bytes[10] = "";
    open_file("modes", MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL);
    CHECK_OK(MPI_File_read_ordered(file, bytes, 10, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_EQ(memcmp(bytes, "0123456789", 10), 0, "comparison of the bytes read with those written");
    CHECK_OK(MPI_File_read_shared(file, bytes, 3, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_EQ(memcmp(bytes, "abc", 3), 0, "comparison of the bytes read with those written");
    CHECK_CLASS(MPI_File_seek_shared(file, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK_CLASS(MPI_File_get_position_shared(file, &offset), MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK_CLASS(MPI_File_read_at(file, 0, bytes, 3, MPI_BYTE, MPI_STATUS_IGNORE),
                MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK_OK(MPI_File_close(&file));
}

/* More files than the words of one window serve, each with its own pointer. */
static void many_files(void)
{
    enum { FILES = 40 };
    MPI_File files[FILES];
    section("many files");
    for (int i = 0; i < FILES; i++) {
        char name[32];
        snprintf(name, sizeof name, "many-%d", i);
        open_file(name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
        files[i] = file;
    }
    for (int i = 0; i < FILES; i++) {
        CHECK_OK(MPI_File_set_atomicity(files[i], i % 8 == 0));
        for (int times = 0; times <= i % 5; times++)
            CHECK_OK(MPI_File_write_shared(files[i], "1234567", i % 8, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    barrier();
    for (int i = 0; i < FILES; i++) {
        file = files[i];
        CHECK_EQ(position(), (long long)(i % 8) * (i % 5 + 1) * world_size, "position of one of many files");
    }
    for (int i = 0; i < FILES; i++) CHECK_OK(MPI_File_close(&files[i]));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    every_access_has_its_place();
    seeks_move_the_pointer();
    ordered_accesses();
    modes();
    many_files();
    return finish();
}
