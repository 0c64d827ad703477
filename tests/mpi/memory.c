/* Kinds of memory in user buffers: absolute addresses, the same bytes many times, backward and sparse
 * types, types with padding, and every named type, both as etype and in memory. */
#include "oracle.h"

#include <stddef.h>

static MPI_File file;

static void fill(void *bytes, i64 size, int seed)
{
    for (i64 i = 0; i < size; i++) ((unsigned char *)bytes)[i] = value_at(world_rank, i, seed);
}

static const char *read_all_of_file(i64 offset, i64 size)
{
    static unsigned char found[1 << 16];
    memset(found, 0, sizeof found);
    int fd = open(path_of("memory"), O_RDONLY);
    CHECK_EQ(pread(fd, found, (size_t)size, offset), size, "bytes on disk");
    close(fd);
    return (const char *)found;
}

/* MPI_BOTTOM: the type contains the addresses, here of three variables that are far apart and out of
 * order. */
static void absolute_addresses(void)
{
    section("MPI_BOTTOM");
    static int first[100];
    int *second = malloc(sizeof(int) * 50), third[7], blocks[] = { 50, 100, 7 };
    fill(first, sizeof first, 1);
    fill(second, sizeof(int) * 50, 2);
    fill(third, sizeof third, 3);
    MPI_Aint at[3];
    MPI_Datatype all;
    MPI_Get_address(second, &at[0]);
    MPI_Get_address(first, &at[1]);
    MPI_Get_address(third, &at[2]);
    MPI_Type_create_hindexed(3, blocks, at, MPI_INT, &all);
    MPI_Type_commit(&all);
    i64 bytes = 157 * 4, place = bytes * world_rank;
    for (int collective = 0; collective < 2; collective++) {
        CHECK_OK(collective ? MPI_File_write_at_all(file, place, MPI_BOTTOM, 1, all, MPI_STATUS_IGNORE)
                 : MPI_File_write_at(file, place, MPI_BOTTOM, 1, all, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_File_sync(file));
        const char *found = read_all_of_file(place, bytes);
        CHECK(memcmp(found, second, 200) == 0 && memcmp(found + 200, first, 400) == 0
              && memcmp(found + 600, third, 28) == 0, "the bytes on disk are wrong");
        int copies[3][100];
        memcpy(copies[0], second, 200); memcpy(copies[1], first, 400); memcpy(copies[2], third, 28);
        memset(second, 0, 200); memset(first, 0, 400); memset(third, 0, 28);
        CHECK_OK(collective ? MPI_File_read_at_all(file, place, MPI_BOTTOM, 1, all, MPI_STATUS_IGNORE)
                 : MPI_File_read_at(file, place, MPI_BOTTOM, 1, all, MPI_STATUS_IGNORE));
        CHECK(memcmp(second, copies[0], 200) == 0 && memcmp(first, copies[1], 400) == 0
              && memcmp(third, copies[2], 28) == 0, "the memory is wrong after reading");
        barrier();
    }
    MPI_Type_free(&all);
    free(second);
}

/* For a write, a type may contain the same bytes repeatedly. */
static void repeated_bytes(void)
{
    MPI_Datatype same, backward;
    section("a stride of zero");
    int value = 0x01020304 + world_rank, line[8], i;
    MPI_Type_vector(1000, 1, 0, MPI_INT, &same);
    MPI_Type_commit(&same);
    CHECK_OK(MPI_File_write_at_all(file, 4000 * world_rank, &value, 1, same, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_sync(file));
    const int *found = (const int *)read_all_of_file(4000 * world_rank, 4000);
    for (i = 0; i < 1000 && found[i] == value; i++) { }
    CHECK_EQ(i, 1000, "number of equal integers");
    barrier();
    section("a negative stride");
    for (i = 0; i < 8; i++) line[i] = 100 * world_rank + i;
    MPI_Type_vector(8, 1, -1, MPI_INT, &backward);
    MPI_Type_commit(&backward);
    CHECK_OK(MPI_File_write_at_all(file, 32 * world_rank, line + 7, 1, backward, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_sync(file));
    found = (const int *)read_all_of_file(32 * world_rank, 32);
    for (i = 0; i < 8; i++) CHECK_EQ(found[i], 100 * world_rank + 7 - i, "integer");
    MPI_Type_free(&same);
    MPI_Type_free(&backward);
    barrier();
}

/* A struct in the layout of the compiler. Its padding must not reach the file, and a read must not change
 * it. */
static void padded_struct(void)
{
    struct cell { char tag; double value; short number; } cells[20], back[20];
    int blocks[] = { 1, 1, 1 };
    MPI_Aint at[] = { offsetof(struct cell, tag), offsetof(struct cell, value),
                      offsetof(struct cell, number) };
    MPI_Datatype types[] = { MPI_CHAR, MPI_DOUBLE, MPI_SHORT }, inner, cell;
    MPI_Status status;
    section("a struct with padding");
    MPI_Type_create_struct(3, blocks, at, types, &inner);
    MPI_Type_create_resized(inner, 0, sizeof(struct cell), &cell);
    MPI_Type_commit(&cell);
    fill(cells, sizeof cells, 5);
    CHECK_OK(MPI_File_write_at_all(file, 220 * world_rank, cells, 20, cell, &status));
    CHECK_EQ(elements(&status, MPI_BYTE), 220, "bytes written");
    CHECK_EQ(elements(&status, cell), 60, "elements written");
    CHECK_EQ(count_of(&status, cell), 20, "structs written");
    CHECK_OK(MPI_File_sync(file));
    const char *found = read_all_of_file(220 * world_rank, 220);
    int wrong = 0;
    for (int i = 0; i < 20; i++)
        wrong += found[11 * i] != cells[i].tag || memcmp(found + 11 * i + 1, &cells[i].value, 8)
            || memcmp(found + 11 * i + 9, &cells[i].number, 2);
    CHECK_EQ(wrong, 0, "number of structs that are wrong on disk");
    memset(back, 0x77, sizeof back);
    CHECK_OK(MPI_File_read_at_all(file, 220 * world_rank, back, 20, cell, &status));
    wrong = 0;
    for (int i = 0; i < 20; i++)
        wrong += back[i].tag != cells[i].tag || memcmp(&back[i].value, &cells[i].value, 8)
            || memcmp(&back[i].number, &cells[i].number, 2)
                 || ((unsigned char *)&back[i])[1] != 0x77 || ((unsigned char *)&back[i])[18] != 0x77;
    CHECK_EQ(wrong, 0, "number of structs that are wrong in memory or have changed padding");
    MPI_Type_free(&inner);
    MPI_Type_free(&cell);
    barrier();
}

static const struct { const char *name; MPI_Datatype type; } *named_types(int *count)
{
#define NAMED(type) { #type, type }
    static struct { const char *name; MPI_Datatype type; } all[64];
    const struct { const char *name; MPI_Datatype type; } table[] = {
        NAMED(MPI_CHAR), NAMED(MPI_SIGNED_CHAR), NAMED(MPI_UNSIGNED_CHAR), NAMED(MPI_BYTE),
        NAMED(MPI_WCHAR), NAMED(MPI_SHORT), NAMED(MPI_UNSIGNED_SHORT), NAMED(MPI_INT),
        NAMED(MPI_UNSIGNED), NAMED(MPI_LONG), NAMED(MPI_UNSIGNED_LONG), NAMED(MPI_LONG_LONG_INT),
        NAMED(MPI_UNSIGNED_LONG_LONG), NAMED(MPI_FLOAT), NAMED(MPI_DOUBLE), NAMED(MPI_LONG_DOUBLE),
        NAMED(MPI_C_BOOL), NAMED(MPI_INT8_T), NAMED(MPI_INT16_T), NAMED(MPI_INT32_T), NAMED(MPI_INT64_T),
        NAMED(MPI_UINT8_T), NAMED(MPI_UINT16_T), NAMED(MPI_UINT32_T), NAMED(MPI_UINT64_T),
        NAMED(MPI_C_FLOAT_COMPLEX), NAMED(MPI_C_DOUBLE_COMPLEX), NAMED(MPI_C_LONG_DOUBLE_COMPLEX),
        NAMED(MPI_AINT), NAMED(MPI_OFFSET), NAMED(MPI_COUNT), NAMED(MPI_PACKED), NAMED(MPI_FLOAT_INT),
        NAMED(MPI_DOUBLE_INT), NAMED(MPI_LONG_INT), NAMED(MPI_SHORT_INT), NAMED(MPI_2INT),
        NAMED(MPI_LONG_DOUBLE_INT), NAMED(MPI_INTEGER), NAMED(MPI_REAL), NAMED(MPI_DOUBLE_PRECISION),
        NAMED(MPI_COMPLEX), NAMED(MPI_DOUBLE_COMPLEX), NAMED(MPI_LOGICAL), NAMED(MPI_CHARACTER),
        NAMED(MPI_2INTEGER), NAMED(MPI_2REAL), NAMED(MPI_INTEGER4), NAMED(MPI_INTEGER8), NAMED(MPI_REAL4),
        NAMED(MPI_REAL8), NAMED(MPI_CXX_BOOL),
    };
    int kept = 0;
    for (unsigned t = 0; t < sizeof table / sizeof *table; t++)
        if (table[t].type != MPI_DATATYPE_NULL) memcpy(&all[kept++], &table[t], sizeof *table);
    *count = kept;
    return (void *)all;
}

/* Each named type, as etype and in memory. The file must contain what MPI_Pack makes of the values, and
 * reading must restore them. */
static void every_named_type(void)
{
    int count;
    typedef struct { const char *name; MPI_Datatype type; } named_t;
    const named_t *types = (const named_t *)named_types(&count);
    CHECK(count > 40, "only %d named types", count);
    for (int t = 0; t < count; t++) {
        section("%s", types[t].name);
        MPI_Aint lb, extent;
        int size, packed_bytes = 0;
        MPI_Status status;
        MPI_Type_get_extent(types[t].type, &lb, &extent);
        MPI_Type_size(types[t].type, &size);
        if (size <= 0) continue; /* a Fortran type that this MPI library lacks */
        unsigned char values[10 * 32], back[10 * 32], packed[10 * 32 + 64];
        fill(values, sizeof values, t);
        MPI_Pack(values, 10, types[t].type, packed, sizeof packed, &packed_bytes, MPI_COMM_SELF);
        CHECK_EQ(packed_bytes, 10 * size, "packed bytes");
        /* Instances of an etype must be without gaps to follow one another in the file. So a type with
         * padding has MPI_BYTE as its etype. */
        int dense = extent == size;
        CHECK_OK(MPI_File_set_view(file, 16, dense ? types[t].type : MPI_BYTE,
                 dense ? types[t].type : MPI_BYTE, "native", MPI_INFO_NULL));
        i64 offset = (i64)world_rank * 10 * (dense ? 1 : size);
        CHECK_OK(MPI_File_write_at_all(file, offset, values, 10, types[t].type, &status));
        CHECK_EQ(count_of(&status, types[t].type), 10, "count written");
        CHECK_OK(MPI_File_sync(file));
        CHECK(memcmp(read_all_of_file(16 + (i64)world_rank * 10 * size, 10 * size), packed,
              (size_t)(10 * size)) == 0, "the bytes on disk differ from those of MPI_Pack");
        memset(back, 0x33, sizeof back);
        CHECK_OK(MPI_File_read_at_all(file, offset, back, 10, types[t].type, &status));
        unsigned char again[10 * 32 + 64];
        packed_bytes = 0;
        MPI_Pack(back, 10, types[t].type, again, sizeof again, &packed_bytes, MPI_COMM_SELF);
        CHECK(memcmp(again, packed, (size_t)(10 * size)) == 0, "the values read back are wrong");
        barrier();
    }
    CHECK_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
}

/* All ranks write the same bytes at the same time. Which rank wins is undefined, but each byte must come
 * from one of the ranks, and no call may hang or fail. */
static void overlapping_writes(void)
{
    unsigned char mine[5000];
    section("overlapping writes");
    memset(mine, 10 + world_rank, sizeof mine);
    CHECK_OK(MPI_File_set_size(file, 0));
    CHECK_OK(MPI_File_write_at_all(file, 100 * world_rank, mine, 5000, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_sync(file));
    barrier();
    i64 size = 5000 + 100 * (world_size - 1), wrong = 0;
    const char *found = read_all_of_file(0, size);
    for (i64 i = 0; i < size; i++) {
        int owner = found[i] - 10;
        wrong += owner < 0 || owner >= world_size || i < 100 * owner || i >= 100 * owner + 5000;
    }
    CHECK_EQ(wrong, 0, "number of bytes that no rank wrote");
    barrier();
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("memory"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
             &file));
    absolute_addresses();
    repeated_bytes();
    padded_struct();
    every_named_type();
    overlapping_writes();
    CHECK_OK(MPI_File_close(&file));
    return finish();
}
