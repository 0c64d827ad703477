/* Sample datatypes of every constructor, sizes of buffers for them, and their streams from MPI_Pack. */
#ifndef TYPES_H
#define TYPES_H
#include "check.h"

#define TYPES_MAX 40

typedef struct {
    const char *name;
    MPI_Datatype type;
    int derived;
} Sample;

static Sample samples[TYPES_MAX];
static int sample_count;

static void add(const char *name, MPI_Datatype type, int derived)
{
    if (derived)
        MPI_Type_commit(&type);
    samples[sample_count].name = name;
    samples[sample_count].type = type;
    samples[sample_count++].derived = derived;
}

static MPI_Datatype array_of(int order)
{
    int sizes[] = {5, 6, 7}, parts[] = {2, 3, 4}, starts[] = {1, 2, 0};
    MPI_Datatype made;
    MPI_Type_create_subarray(3, sizes, parts, starts, order, MPI_FLOAT, &made);
    return made;
}

static MPI_Datatype distributed_array(int process)
{
    int sizes[] = {7, 9}, kinds[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK};
    int arguments[] = {2, MPI_DISTRIBUTE_DFLT_DARG}, grid[] = {2, 2};
    MPI_Datatype made;
    MPI_Type_create_darray(4, process, 2, sizes, kinds, arguments, grid, MPI_ORDER_C, MPI_SHORT, &made);
    return made;
}

static MPI_Datatype record(void)
{
    int lengths[] = {1, 2, 3};
    MPI_Aint places[] = {0, 8, 26};
    MPI_Datatype parts[] = {MPI_INT, MPI_DOUBLE, MPI_CHAR}, loose, made;
    MPI_Type_create_struct(3, lengths, places, parts, &loose);
    MPI_Type_create_resized(loose, 0, 32, &made);
    MPI_Type_free(&loose);
    return made;
}

static void add_lists(void)
{
    int lengths[] = {1, 3, 0, 2}, places[] = {9, 0, 4, 5}, equal[] = {0, 2, 5, 4, 9};
    MPI_Aint bytes[] = {40, -16, 0, 12};
    MPI_Datatype made;
    MPI_Type_indexed(4, lengths, places, MPI_DOUBLE, &made);
    add("indexed", made, 1);
    MPI_Type_create_hindexed(4, lengths, bytes, MPI_INT, &made);
    add("hindexed", made, 1);
    MPI_Type_create_indexed_block(5, 1, equal, MPI_FLOAT, &made);
    add("indexed_block", made, 1);
    MPI_Type_create_hindexed_block(4, 1, bytes, MPI_SHORT, &made);
    add("hindexed_block", made, 1);
}

static void add_nests(void)
{
    MPI_Datatype inner, made;
    inner = record();
    MPI_Type_vector(3, 2, 4, inner, &made);
    add("vector of records", made, 1);
    MPI_Type_create_hvector(2, 1, -80, inner, &made);
    add("backward records", made, 1);
    MPI_Type_free(&inner);
    MPI_Type_vector(2, 3, 5, MPI_DOUBLE_INT, &made);
    add("vector of pairs", made, 1);
    MPI_Type_vector(4, 2, 3, MPI_SHORT, &inner);
    MPI_Type_create_hvector(3, 2, 70, inner, &made);
    add("vector of vectors", made, 1);
    MPI_Type_free(&inner);
    MPI_Type_vector(6, 1, 2, MPI_FLOAT, &inner);
    MPI_Type_create_resized(inner, -4, 64, &made);
    add("resized", made, 1);
    MPI_Type_dup(made, &inner);
    add("duplicate", inner, 1);
}

static void make_samples(void)
{
    MPI_Datatype made;
    add("char", MPI_CHAR, 0);
    add("double", MPI_DOUBLE, 0);
    add("pair", MPI_DOUBLE_INT, 0);
    MPI_Type_contiguous(5, MPI_INT, &made);
    add("contiguous", made, 1);
    MPI_Type_vector(5, 2, 3, MPI_DOUBLE, &made);
    add("vector", made, 1);
    MPI_Type_create_hvector(4, 1, -12, MPI_INT, &made);
    add("hvector backward", made, 1);
    add("record", record(), 1);
    add("subarray C", array_of(MPI_ORDER_C), 1);
    add("subarray Fortran", array_of(MPI_ORDER_FORTRAN), 1);
    add("darray 0", distributed_array(0), 1);
    add("darray 3", distributed_array(3), 1);
    MPI_Type_contiguous(0, MPI_INT, &made);
    add("nothing", made, 1);
    add_lists();
    add_nests();
}

static void free_samples(void)
{
    for (int i = 0; i < sample_count; i++)
        if (samples[i].derived)
            MPI_Type_free(&samples[i].type);
    sample_count = 0;
}

/* The size of memory for a few elements of any sample, and the room before the base address for data at
 * negative displacements. */
enum { ROOM = 1 << 14, BEFORE = 1 << 12 };

static void number(unsigned char *memory)
{
    unsigned seed = 12345;
    for (int i = 0; i < ROOM; i++) {
        seed = seed * 1103515245u + 12345u;
        memory[i] = (unsigned char)(seed >> 16);
    }
}

static int stream_bytes(int count, MPI_Datatype type)
{
    int bytes;
    MPI_Type_size(type, &bytes);
    return count * bytes;
}

/* Packs with MPI. The packed data of the tested MPI libraries is exactly the stream. */
static int pack(const void *base, int count, MPI_Datatype type, unsigned char *stream)
{
    int position = 0;
    MPI_Pack(base, count, type, stream, ROOM, &position, MPI_COMM_WORLD);
    CHECK(position == stream_bytes(count, type));
    return position;
}

static void unpack(const unsigned char *stream, void *base, int count, MPI_Datatype type)
{
    int position = 0;
    MPI_Unpack(stream, stream_bytes(count, type), &position, base, count, type, MPI_COMM_WORLD);
}
#endif
