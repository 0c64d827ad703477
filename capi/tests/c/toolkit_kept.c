/* The memory that the toolkit keeps for a type, in addition to the memory of MPI: a node, and lists of
 * about the size of the arguments. */
#include <malloc.h>
#include <stdio.h>
#include "capulet_types.h"
#include "check.h"

#define TYPES 1000
#define ENTRIES 1000
/* The memory for a type without lists: its constructor, its layout, and its entry in a table. */
#define NODE_BYTES 1280

static MPI_Datatype types[TYPES];
static int lengths[ENTRIES], places[ENTRIES];

/* The bytes in use of malloc, in the whole process. */
static double used_bytes(void)
{
    struct mallinfo2 in_use = mallinfo2();
    return (double)in_use.uordblks + (double)in_use.hblkhd;
}

static const struct {
    const char *name;
    int listed;
} kinds[] = {{"vector", 0}, {"subarray", 0}, {"indexed, 5 blocks", 5}, {"indexed, 1,000 blocks", ENTRIES}};

static void make(size_t kind, MPI_Datatype *type)
{
    static const int sizes[] = {64, 64, 64}, subsizes[] = {8, 9, 10}, starts[] = {1, 2, 3};
    if (kind == 0)
        MPI_Type_vector(8, 1, 2, MPI_DOUBLE, type);
    else if (kind == 1)
        MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, type);
    else
        MPI_Type_indexed(kinds[kind].listed, lengths, places, MPI_DOUBLE, type);
    MPI_Type_commit(type);
}

/* Measures bytes per type: of the type in MPI, of its first attribute in MPI, and of the toolkit, which
 * stores an attribute, too. Only the second half of the types is measured, because tables grow during the
 * first half. */
static void measure(size_t kind, int key, double kept[3])
{
    double before = 0;
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < TYPES; i++) {
            if (i == TYPES / 2)
                before = used_bytes();
            if (step == 0)
                make(kind, &types[i]);
            else if (step == 1)
                MPI_Type_set_attr(types[i], key, &kept);
            else
                CHECK_OK(MPIT_Type_init(types[i]));
        }
        kept[step] = (used_bytes() - before) / (TYPES / 2);
    }
    for (int i = 0; i < TYPES; i++)
        MPI_Type_free(&types[i]);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int key, at = 0;
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &key, NULL);
    for (int i = 0; i < ENTRIES; i++) {
        lengths[i] = 1 + (i * 7 + i * i) % 3;
        places[i] = at;
        at += lengths[i] + 1 + (i * i + i / 3) % 5;
    }
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        double kept[3];
        measure(kind, key, kept);
        double given = 2.0 * sizeof(int) * kinds[kind].listed;
        printf("%s: %.0f bytes by MPI, %.0f more by its first attribute, %.0f more by the toolkit, "
               "%.0f in the arguments\n",
               kinds[kind].name, kept[0], kept[1], kept[2], given);
        CHECK(kept[0] > 0 && kept[2] > 0);
        CHECK(kept[2] <= NODE_BYTES + 2 * given);
    }
    MPI_Type_free_keyval(&key);
    return finish();
}
