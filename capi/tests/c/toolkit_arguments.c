/* Invalid arguments of the toolkit: each function returns an error class, writes nothing, and calls no
 * error handler. */
#include "capulet_types.h"
#include "check.h"

static unsigned char memory[1000], before[1000];
static MPI_Datatype rows, loose;

static int contig(MPI_Aint *blocks, MPI_Datatype type, MPI_Aint at, void *base, void *parameter)
{
    (void)blocks, (void)type, (void)at, (void)base;
    ++*(int *)parameter;
    return 0;
}

static void of_memcpy(void)
{
    char stream[100] = {0};
    void *base = memory;
    int from = MPIT_MEMCPY_FROM_USERBUF, to = MPIT_MEMCPY_TO_USERBUF;
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_memcpy(base, 1, MPI_DATATYPE_NULL, stream, to, 0, 4));
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_memcpy(base, 1, loose, stream, to, 0, 4));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_memcpy(base, -1, rows, stream, to, 0, 4));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_memcpy_c(base, -1, rows, stream, to, 0, 4));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_memcpy_c(base, (MPI_Count)1 << 62, rows, stream, to, 0, 4));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_memcpy(NULL, 1, rows, stream, to, 0, 4));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_memcpy(base, 1, rows, NULL, to, 0, 4));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_memcpy(base, 1, rows, stream, 2, 0, 4));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_memcpy(base, 1, rows, stream, -1, 0, 4));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_memcpy(base, 1, rows, stream, to, -1, 4));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_memcpy(base, 1, rows, stream, to, 5, 4));
    CHECK_CLASS(MPI_ERR_OTHER, MPIT_Type_memcpy(base, 1, rows, stream, to, 40, 44));
    CHECK_CLASS(MPI_ERR_OTHER, MPIT_Type_memcpy(base, 0, rows, stream, to, 0, 4));
    CHECK(memcmp(memory, before, sizeof memory) == 0);
    CHECK_OK(MPIT_Type_memcpy(NULL, 1, rows, NULL, to, 4, 4));
    CHECK_OK(MPIT_Type_memcpy(NULL, 0, rows, NULL, from, 0, 0));
    /* The part of the range that lies in the stream is processed. */
    CHECK_CLASS(MPI_ERR_OTHER, MPIT_Type_memcpy(base, 1, rows, stream, from, 36, 44));
    CHECK(memcmp(stream, memory + 9 * 8, 4) == 0 && stream[4] == 0);
}

static void of_lists(void)
{
    MPI_Aint places[20], blocks = 77;
    int lengths[20], length = 20;
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_flatten(memory, 1, MPI_DATATYPE_NULL, 0, 4, places, lengths,
                &length));
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_flatten(memory, 1, loose, 0, 4, places, lengths, &length));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_flatten(memory, -1, rows, 0, 4, places, lengths, &length));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_flatten(memory, 1, rows, 0, 4, NULL, lengths, &length));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_flatten(memory, 1, rows, 0, 4, places, NULL, &length));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_flatten(memory, 1, rows, 0, 4, places, lengths, NULL));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_flatten(memory, 1, rows, 4, 0, places, lengths, &length));
    CHECK(length == 20);
    length = -1;
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_flatten(memory, 1, rows, 0, 4, places, lengths, &length));
    length = 0;
    CHECK_CLASS(MPI_ERR_OTHER, MPIT_Type_flatten(memory, 1, rows, 0, 4, NULL, NULL, &length));
    CHECK(length == 0);
    length = 20;
    CHECK_CLASS(MPI_ERR_OTHER, MPIT_Type_flatten(NULL, 1, rows, 4, 500, places, lengths, &length));
    CHECK(length == 9 && places[0] == 8 && lengths[0] == 4);
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_blockct(1, MPI_DATATYPE_NULL, 0, 4, &blocks));
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_blockct(1, loose, 0, 4, &blocks));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_blockct(-1, rows, 0, 4, &blocks));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_blockct(1, rows, -1, 4, &blocks));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_blockct(1, rows, 0, 4, NULL));
    CHECK(blocks == 77);
    CHECK_CLASS(MPI_ERR_OTHER, MPIT_Type_blockct(1, rows, 0, 500, &blocks));
    CHECK(blocks == 10);
}

static void of_transpack(void)
{
    char target[100] = {0}, zeros[100] = {0};
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_transpack(memory, 1, MPI_DATATYPE_NULL, target, 40, MPI_CHAR));
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_transpack(memory, 1, rows, target, 40, loose));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_transpack(memory, -1, rows, target, 40, MPI_CHAR));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_transpack(NULL, 1, rows, target, 40, MPI_CHAR));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_transpack(memory, 1, rows, NULL, 40, MPI_CHAR));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_transpack(memory, 1, rows, target, 41, MPI_CHAR));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_transpack_range(memory, 1, rows, -1, target, 40, MPI_CHAR, 0, 4));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_transpack_range(memory, 1, rows, 0, target, 40, MPI_CHAR, 0, -4));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_transpack_range(memory, 1, rows, 4, target, 40, MPI_CHAR, 0,
                ~((MPI_Offset)1 << 63)));
    CHECK(memcmp(target, zeros, sizeof target) == 0);
    CHECK_CLASS(MPI_ERR_OTHER, MPIT_Type_transpack_range(memory, 1, rows, 36, target, 40, MPI_CHAR, 0, 8));
    CHECK(memcmp(target, memory + 9 * 8, 4) == 0 && target[4] == 0);
}

static void of_segments(void)
{
    MPIT_Segment *segment = MPIT_Segment_alloc();
    int calls = 0;
    MPI_Aint end = 4;
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Segment_manipulate(segment, 0, &end, contig, NULL, NULL, NULL, NULL,
                &calls));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Segment_init(memory, 1, rows, NULL, 0));
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Segment_init(memory, 1, MPI_DATATYPE_NULL, segment, 0));
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Segment_init(memory, 1, loose, segment, 0));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Segment_init(memory, -1, rows, segment, 0));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Segment_init_c(memory, (MPI_Count)1 << 62, rows, segment, 0));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Segment_init(memory, 1, rows, segment, 1));
    CHECK_OK(MPIT_Segment_init(memory, 1, rows, segment, 0));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Segment_manipulate(NULL, 0, &end, contig, NULL, NULL, NULL, NULL, &calls));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Segment_manipulate(segment, 0, NULL, contig, NULL, NULL, NULL, NULL,
                &calls));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Segment_manipulate(segment, 0, &end, NULL, NULL, NULL, NULL, NULL, &calls));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Segment_manipulate(segment, -1, &end, contig, NULL, NULL, NULL, NULL,
                &calls));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Segment_manipulate(segment, 5, &end, contig, NULL, NULL, NULL, NULL,
                &calls));
    CHECK(end == 4 && calls == 0);
    end = 500;
    CHECK_CLASS(MPI_ERR_OTHER, MPIT_Segment_manipulate(segment, 36, &end, contig, NULL, NULL, NULL, NULL,
                &calls));
    CHECK(end == 40 && calls == 1);
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Segment_free(NULL));
    CHECK_OK(MPIT_Segment_free(segment));
}

int main(int argc, char **argv)
{
    MPI_Aint blocks;
    CHECK(MPIT_Type_blockct(1, MPI_INT, 0, 4, &blocks) == MPI_ERR_OTHER);
    CHECK(MPIT_Type_is_initialized(MPI_INT) == 0);
    start(&argc, &argv);
    for (int i = 0; i < 1000; i++)
        memory[i] = before[i] = (unsigned char)(i * 7 + 1);
    MPI_Type_vector(10, 1, 2, MPI_INT, &rows);
    MPI_Type_dup(rows, &loose);
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_init(rows));
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_init(MPI_DATATYPE_NULL));
    CHECK(MPIT_Type_is_initialized(MPI_DATATYPE_NULL) == 0 && MPIT_Type_is_initialized(rows) == 0);
    MPI_Type_commit(&rows);
    MPI_Type_commit(&loose);
    CHECK_OK(MPIT_Type_init(rows));
    CHECK(MPIT_Type_is_initialized(rows) == 1 && MPIT_Type_is_initialized(loose) == 0);
    of_memcpy();
    of_lists();
    of_transpack();
    of_segments();
    CHECK_OK(MPIT_Type_debug(loose));
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_debug(MPI_DATATYPE_NULL));
    MPI_Type_free(&rows);
    MPI_Type_free(&loose);
    return finish();
}
