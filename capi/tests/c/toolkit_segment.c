/* MPIT_Segment_: the arguments of leaf functions, the order of their calls, and the end of the
 * processing. */
#include "capulet_types.h"
#include "types.h"

static unsigned char memory[ROOM], stream[ROOM], copied[ROOM];

/* The state of leaf functions that copy their leaves, and count the calls of each kind. */
typedef struct {
    unsigned char *next;
    int contigs, vectors, block_lists, lists;
    MPI_Aint elements;
    /* The expected element size of the leaves, or 0 for any size. */
    int element_bytes;
    /* The number of elements that may still be processed, or a negative number for no limit. */
    MPI_Aint left;
    int code;
} Copy;

static Copy copy_from(int first)
{
    Copy copy = {copied + first, 0, 0, 0, 0, 0, 0, -1, 0};
    memset(copied, 0, ROOM);
    return copy;
}

static int size_of(MPI_Datatype type)
{
    int bytes = 0, count, addresses, types, combiner;
    MPI_Type_get_envelope(type, &count, &addresses, &types, &combiner);
    CHECK(combiner == MPI_COMBINER_NAMED);
    MPI_Type_size(type, &bytes);
    return bytes;
}

static void take(Copy *copy, const unsigned char *from, MPI_Aint elements, MPI_Datatype type)
{
    int bytes = size_of(type);
    CHECK(elements > 0 && (copy->element_bytes == 0 || bytes == copy->element_bytes));
    memcpy(copy->next, from, elements * bytes);
    copy->next += elements * bytes;
    copy->elements += elements;
}

static int contig(MPI_Aint *blocks, MPI_Datatype type, MPI_Aint at, void *base, void *parameter)
{
    Copy *copy = parameter;
    copy->contigs++;
    CHECK(base == memory + BEFORE);
    if (copy->left >= 0 && *blocks > copy->left)
        *blocks = copy->left;
    if (*blocks > 0)
        take(copy, (unsigned char *)base + at, *blocks, type);
    if (copy->left < 0)
        return 0;
    copy->left -= *blocks;
    return copy->left == 0 ? copy->code : 0;
}

static int vector(MPI_Aint *blocks, MPI_Aint count, MPI_Aint length, MPI_Aint stride, MPI_Datatype type,
                  MPI_Aint at, void *base, void *parameter)
{
    Copy *copy = parameter;
    copy->vectors++;
    CHECK(*blocks == count * length && count > 1);
    for (MPI_Aint i = 0; i < count; i++)
        take(copy, (unsigned char *)base + at + i * stride, length, type);
    return 0;
}

static int block_indexed(MPI_Aint *blocks, MPI_Aint count, MPI_Aint length, const MPI_Aint *places,
                         MPI_Datatype type, MPI_Aint at, void *base, void *parameter)
{
    Copy *copy = parameter;
    copy->block_lists++;
    CHECK(*blocks == count * length);
    for (MPI_Aint i = 0; i < count; i++)
        take(copy, (unsigned char *)base + at + places[i], length, type);
    return 0;
}

static int indexed(MPI_Aint *blocks, MPI_Aint count, const MPI_Aint *lengths, const MPI_Aint *places,
                   MPI_Datatype type, MPI_Aint at, void *base, void *parameter)
{
    Copy *copy = parameter;
    MPI_Aint sum = 0;
    copy->lists++;
    for (MPI_Aint i = 0; i < count; i++) {
        take(copy, (unsigned char *)base + at + places[i], lengths[i], type);
        sum += lengths[i];
    }
    CHECK(*blocks == sum);
    return 0;
}

static int run(MPIT_Segment *segment, MPI_Aint first, MPI_Aint *end, Copy *copy, int all)
{
    return MPIT_Segment_manipulate(segment, first, end, contig, all ? vector : NULL,
                                   all ? block_indexed : NULL, all ? indexed : NULL, NULL, copy);
}

/* Many ranges of every sample, with contig only and with all four functions: the leaves give the stream, in
 * order. */
static void every_range(void)
{
    MPIT_Segment *segment = MPIT_Segment_alloc();
    CHECK(segment != NULL);
    for (int i = 0; i < sample_count; i++)
        for (int count = 0; count < 4; count++) {
            MPI_Datatype type = samples[i].type;
            int bytes = pack(memory + BEFORE, count, type, stream), step = bytes > 100 ? 7 : 1;
            CHECK_OK(MPIT_Segment_init(memory + BEFORE, count, type, segment, 0));
            for (int first = 0; first <= bytes; first += step)
                for (int last = first; last <= bytes; last += step)
                    for (int all = 0; all < 2; all++) {
                        Copy copy = copy_from(first);
                        MPI_Aint end = last;
                        CHECK_OK(run(segment, first, &end, &copy, all));
                        CHECK(end == last && copy.next == copied + last);
                        CHECK(memcmp(copied + first, stream + first, last - first) == 0);
                    }
        }
    CHECK_OK(MPIT_Segment_free(segment));
}

/* The kinds and the numbers of the leaves: a single leaf if it can describe all data. */
static void kinds_of_leaves(void)
{
    MPIT_Segment *segment = MPIT_Segment_alloc();
    MPI_Datatype rows, list, mixed;
    int lengths[200], places[200];
    MPI_Aint end = MPIT_SEGMENT_ALL;
    for (int i = 0; i < 200; i++) {
        lengths[i] = 1 + i * i % 3;
        places[i] = 4 * i + i * i % 7 % 2;
    }
    MPI_Type_vector(100, 2, 5, MPI_DOUBLE, &rows);
    MPI_Type_create_indexed_block(200, 1, places, MPI_FLOAT, &list);
    MPI_Type_indexed(200, lengths, places, MPI_SHORT, &mixed);
    MPI_Type_commit(&rows);
    MPI_Type_commit(&list);
    MPI_Type_commit(&mixed);
    MPIT_Type_init(rows);
    MPIT_Type_init(list);
    MPIT_Type_init(mixed);

    Copy copy = copy_from(0);
    copy.element_bytes = 8;
    CHECK_OK(MPIT_Segment_init_c(memory + BEFORE, 1, rows, segment, 0));
    CHECK_OK(run(segment, 0, &end, &copy, 1));
    CHECK(end == 1600 && copy.elements == 200 && copy.vectors == 1 && copy.contigs == 0);
    copy = copy_from(0);
    end = MPIT_SEGMENT_ALL;
    CHECK_OK(run(segment, 0, &end, &copy, 0));
    CHECK(end == 1600 && copy.elements == 200 && copy.contigs == 100);

    copy = copy_from(0);
    copy.element_bytes = 4;
    end = MPIT_SEGMENT_ALL;
    CHECK_OK(MPIT_Segment_init(memory + BEFORE, 1, list, segment, 0));
    CHECK_OK(run(segment, 0, &end, &copy, 1));
    CHECK(end == 800 && copy.elements == 200 && copy.contigs + copy.vectors + copy.block_lists < 50);

    copy = copy_from(0);
    copy.element_bytes = 2;
    end = MPIT_SEGMENT_ALL;
    CHECK_OK(MPIT_Segment_init(memory + BEFORE, 1, mixed, segment, 0));
    CHECK_OK(run(segment, 0, &end, &copy, 1));
    CHECK(end == 2 * copy.elements && copy.contigs + copy.vectors + copy.block_lists + copy.lists < 50);
    CHECK_OK(MPIT_Segment_free(segment));
    MPI_Type_free(&rows);
    MPI_Type_free(&list);
    MPI_Type_free(&mixed);
}

/* Leaf functions that stop, that process a part of a leaf, and that process nothing. */
static void early_ends(void)
{
    MPIT_Segment *segment = MPIT_Segment_alloc();
    MPI_Datatype rows;
    MPI_Type_vector(10, 3, 5, MPI_INT, &rows);
    MPI_Type_commit(&rows);
    MPIT_Type_init(rows);
    pack(memory + BEFORE, 2, rows, stream);
    CHECK_OK(MPIT_Segment_init(memory + BEFORE, 2, rows, segment, 0));
    for (int stop = 1; stop < 60; stop++) {
        Copy copy = copy_from(0);
        MPI_Aint end = 240, rest = 240;
        copy.left = stop;
        copy.code = 1;
        CHECK_OK(run(segment, 0, &end, &copy, 0));
        CHECK(end == 4 * stop && copy.elements == stop);
        copy.left = -1;
        CHECK_OK(run(segment, end, &rest, &copy, 0));
        CHECK(rest == 240 && memcmp(copied, stream, 240) == 0);
    }
    /* A function that returns 0 ends the processing only when it has processed nothing. */
    Copy copy = copy_from(0);
    MPI_Aint end = 240;
    copy.left = 7;
    CHECK_OK(run(segment, 0, &end, &copy, 0));
    CHECK(end == 28 && copy.elements == 7 && copy.contigs == 4);
    CHECK_OK(MPIT_Segment_free(segment));
    MPI_Type_free(&rows);
}

static int lies(MPI_Aint *blocks, MPI_Datatype type, MPI_Aint at, void *base, void *parameter)
{
    (void)type, (void)at, (void)base;
    *blocks = *(MPI_Aint *)parameter;
    return 0;
}

/* Uses and frees the segment that calls this function: both are refused. It may use another segment. */
static int uses_itself(MPI_Aint *blocks, MPI_Datatype type, MPI_Aint at, void *base, void *parameter)
{
    (void)blocks, (void)type, (void)at;
    MPIT_Segment *segment = *(MPIT_Segment **)parameter, *inner = MPIT_Segment_alloc();
    MPI_Aint end = 4;
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Segment_manipulate(segment, 0, &end, uses_itself, NULL, NULL, NULL, NULL,
                parameter));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Segment_init(base, 1, MPI_INT, segment, 0));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Segment_free(segment));
    Copy copy = copy_from(0);
    CHECK_OK(MPIT_Segment_init(memory + BEFORE, 1, MPI_INT, inner, 0));
    CHECK_OK(run(inner, 0, &end, &copy, 1));
    CHECK(end == 4 && copy.elements == 1);
    CHECK_OK(MPIT_Segment_free(inner));
    return 0;
}

static void wrong_ends(void)
{
    MPIT_Segment *segment = MPIT_Segment_alloc();
    MPI_Aint end = 40, claim;
    CHECK_OK(MPIT_Segment_init(memory, 10, MPI_INT, segment, 0));
    for (claim = -1; claim < 20; claim += 12) {
        CHECK_CLASS(MPI_ERR_ARG, MPIT_Segment_manipulate(segment, 0, &end, lies, NULL, NULL, NULL, NULL,
                    &claim));
        CHECK(end == 0);
        end = 40;
    }
    CHECK_OK(MPIT_Segment_manipulate(segment, 0, &end, uses_itself, NULL, NULL, NULL, NULL, &segment));
    CHECK(end == 40);
    CHECK_OK(MPIT_Segment_free(segment));
}

/* The size function of leaf functions that convert doubles to floats: positions count floats. */
static MPI_Aint half(MPI_Datatype type)
{
    return type == MPI_DOUBLE ? 4 : type == MPI_INT ? 4 : 1;
}

static MPI_Aint no_size(MPI_Datatype type)
{
    (void)type;
    return 0;
}

static int to_float(MPI_Aint *blocks, MPI_Datatype type, MPI_Aint at, void *base, void *parameter)
{
    float **next = parameter;
    CHECK(type == MPI_DOUBLE);
    for (MPI_Aint i = 0; i < *blocks; i++)
        *(*next)++ = (float)((double *)((char *)base + at))[i];
    return 0;
}

static void own_sizes(void)
{
    double values[60];
    float floats[30], *next = floats + 3;
    MPI_Datatype rows;
    MPI_Aint end = 4 * 17;
    MPIT_Segment *segment = MPIT_Segment_alloc();
    for (int i = 0; i < 60; i++)
        values[i] = i;
    MPI_Type_vector(10, 1, 2, MPI_DOUBLE, &rows);
    MPI_Type_commit(&rows);
    MPIT_Type_init(rows);
    CHECK_OK(MPIT_Segment_init(values, 2, rows, segment, 0));
    CHECK_OK(MPIT_Segment_manipulate(segment, 4 * 3, &end, to_float, NULL, NULL, NULL, half, &next));
    CHECK(end == 4 * 17 && next == floats + 17);
    for (int i = 3; i < 17; i++)
        CHECK(floats[i] == (i < 10 ? 2 * i : 2 * i - 1));
    end = MPIT_SEGMENT_ALL;
    CHECK_OK(MPIT_Segment_manipulate(segment, 4 * 17, &end, to_float, NULL, NULL, NULL, half, &next));
    CHECK(end == 80 && next == floats + 20);
    end = 81;
    CHECK_CLASS(MPI_ERR_OTHER, MPIT_Segment_manipulate(segment, 76, &end, to_float, NULL, NULL, NULL, half,
                &next));
    CHECK(end == 80 && next == floats + 21);
    end = 79;
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Segment_manipulate(segment, 76, &end, to_float, NULL, NULL, NULL, half,
                &next));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Segment_manipulate(segment, 0, &end, to_float, NULL, NULL, NULL, no_size,
                &next));
    CHECK(end == 79 && next == floats + 21);
    CHECK_OK(MPIT_Segment_free(segment));
    MPI_Type_free(&rows);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    make_samples();
    number(memory);
    for (int i = 0; i < sample_count; i++)
        CHECK_OK(MPIT_Type_init(samples[i].type));
    every_range();
    kinds_of_leaves();
    early_ends();
    wrong_ends();
    own_sizes();
    free_samples();
    return finish();
}
