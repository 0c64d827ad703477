/* Lifetimes of types: duplicates, types that are freed while in use, types that are never freed, and types
 * that are first used and freed while MPI finalizes. */
#include "capulet_types.h"
#include "check.h"

static int key_of_late = MPI_KEYVAL_INVALID;
static MPI_Datatype late, never_used_before;
static int values[40];

static MPI_Datatype rows(int count)
{
    MPI_Datatype made;
    MPI_Type_vector(count, 1, 2, MPI_INT, &made);
    MPI_Type_commit(&made);
    return made;
}

/* Returns 0 if the type selects every other value. */
static int wrong(MPI_Datatype type, int count)
{
    int packed[20] = {0}, bad = 0;
    if (MPIT_Type_memcpy(values, 1, type, packed, MPIT_MEMCPY_FROM_USERBUF, 0, 4 * count) != MPI_SUCCESS)
        return 1;
    for (int i = 0; i < count; i++)
        bad += packed[i] != 2 * i;
    return bad;
}

static void duplicates(void)
{
    for (int order = 0; order < 6; order++) {
        static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
        MPI_Datatype types[3] = {rows(10)};
        CHECK_OK(MPIT_Type_init(types[0]));
        MPI_Type_dup(types[0], &types[1]);
        MPI_Type_dup(types[1], &types[2]);
        CHECK(MPIT_Type_is_initialized(types[1]) && MPIT_Type_is_initialized(types[2]));
        for (int i = 0; i < 3; i++) {
            for (int k = i; k < 3; k++)
                CHECK(wrong(types[orders[order][k]], 10) == 0);
            MPI_Type_free(&types[orders[order][i]]);
        }
    }
}

/* A type that gets the handle of a freed type does not get the state of the freed type. */
static void reused_handles(void)
{
    for (int i = 1; i < 200; i++) {
        MPI_Datatype type = rows(1 + i % 20);
        CHECK(MPIT_Type_is_initialized(type) == 0);
        CHECK_OK(MPIT_Type_init(type));
        CHECK(wrong(type, 1 + i % 20) == 0);
        MPI_Type_free(&type);
    }
}

static int sum(MPI_Aint *blocks, MPI_Datatype type, MPI_Aint at, void *base, void *parameter)
{
    for (MPI_Aint i = 0; i < *blocks; i++)
        *(int *)parameter += ((int *)((char *)base + at))[i];
    return type != MPI_INT;
}

/* A segment may outlive its type, and a type may outlive the type that it was made from. */
static void freed_while_in_use(void)
{
    MPI_Datatype type = rows(10), outer;
    MPIT_Segment *segment = MPIT_Segment_alloc();
    MPI_Aint end = MPIT_SEGMENT_ALL;
    int total = 0;
    CHECK_OK(MPIT_Type_init(type));
    CHECK_OK(MPIT_Segment_init(values, 1, type, segment, 0));
    MPI_Type_contiguous(1, type, &outer);
    MPI_Type_commit(&outer);
    CHECK(MPIT_Type_is_initialized(outer) == 0);
    MPI_Type_free(&type);
    CHECK_OK(MPIT_Segment_manipulate(segment, 0, &end, sum, NULL, NULL, NULL, NULL, &total));
    CHECK(end == 40 && total == 90);
    CHECK_OK(MPIT_Type_init(outer));
    CHECK(wrong(outer, 10) == 0);
    MPI_Type_free(&outer);
    CHECK_OK(MPIT_Segment_free(segment));
}

static int bad_at_the_end;

/* MPI calls this function at the beginning of MPI_Finalize. */
static int at_finalize(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    bad_at_the_end += wrong(late, 10);
    bad_at_the_end += MPIT_Type_init(never_used_before) != MPI_SUCCESS;
    bad_at_the_end += wrong(never_used_before, 7);
    MPI_Type_free(&late);
    MPI_Type_free(&never_used_before);
    return MPI_SUCCESS;
}

static void hook(void)
{
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &key_of_late, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key_of_late, NULL);
}

int main(int argc, char **argv)
{
    MPIT_Segment *segment;
    MPI_Aint blocks = 0;
    for (int i = 0; i < 40; i++)
        values[i] = i;
    start(&argc, &argv);
    /* MPI runs the delete callbacks in the reverse order of the calls that set the attributes. On even
     * ranks the callback of this program runs after that of the library. */
    if (rank % 2 == 0)
        hook();
    late = rows(10);
    CHECK_OK(MPIT_Type_init(late));
    if (rank % 2 == 1)
        hook();
    duplicates();
    reused_handles();
    freed_while_in_use();
    MPI_Datatype never_freed = rows(10);
    CHECK_OK(MPIT_Type_init(never_freed));
    never_used_before = rows(7);
    segment = MPIT_Segment_alloc();
    CHECK_OK(MPIT_Segment_init(values, 1, never_freed, segment, 0));

    int all = 0;
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    all += bad_at_the_end;
    all += MPIT_Type_init(MPI_INT) != MPI_ERR_OTHER;
    all += MPIT_Type_blockct(1, MPI_INT, 0, 4, &blocks) != MPI_ERR_OTHER;
    all += MPIT_Segment_free(segment) != MPI_SUCCESS;
    if (all == 0)
        printf("rank %d: all checks passed\n", rank);
    return all != 0;
}
