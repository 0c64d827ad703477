/* capulet-verify-io FILE HISTORY MODE ROUNDS SEED FIRST ATOMIC: makes overlapping accesses by MPI-IO
 * alone, and records what each of them has read.
 *
 * A round: rank 0 writes the whole file. Then every rank sets a view, and makes a few accesses to random
 * parts of it. When all ranks are done, rank 0 reads the whole file. This program does not judge whether
 * the accesses have a serial order: `capulet verify` does. The exit code is 3 if the file layer refuses
 * atomic mode, and 1 if a call fails. */
#include "history.h"

enum { OPERATIONS = 4, WAIT_NS = 20000 };

/* The calls by which accesses are made. `capulet verify` uses the same names of modes and numbers of
 * calls. */
typedef enum { AT, POINTER, AT_ALL, ALL, IAT, IAT_ALL, SHARED, ORDERED } call_t;
/* The views of the ranks. RANDOM: random blocks. MIXED: random blocks or one block. BLOCK: one block for
 * the ranks that read, random blocks for the others. COMMON: the same view for all ranks. */
typedef enum { RANDOM, MIXED, BLOCK, COMMON } views_t;
typedef struct {
    const char *name;
    views_t views;
    int has_calls, operations;
    call_t calls[2];
    int toggles;
} shape_t;
static const shape_t SHAPES[] = {
    { "independent", RANDOM, 1, OPERATIONS, { AT }, 0 },
    { "mixed", MIXED, 1, OPERATIONS, { AT }, 0 },
    { "block", BLOCK, 1, OPERATIONS, { AT }, 0 },
    { "pointers", RANDOM, 1, OPERATIONS, { POINTER }, 0 },
    { "collective", RANDOM, 2, OPERATIONS, { AT_ALL, ALL }, 0 },
    { "once", RANDOM, 1, 1, { AT_ALL }, 0 },
    { "nonblocking", RANDOM, 2, OPERATIONS, { IAT, IAT_ALL }, 0 },
    { "toggled", MIXED, 1, OPERATIONS, { AT }, 1 },
    { "shared", COMMON, 2, OPERATIONS, { AT, SHARED }, 0 },
    { "ordered", COMMON, 2, OPERATIONS, { AT, ORDERED }, 0 },
};

int world_rank, world_size, cells_max = 3000;
static MPI_File file;
static const shape_t *shape;
static uint64_t seed;

_Noreturn void fail(const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (code > 0) MPI_Error_string(code, text, &length);
    fprintf(stderr, "capulet-verify-io: rank %d: %s: %s\n", world_rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

#define MUST(call) do { int code_ = (call); if (code_ != MPI_SUCCESS) fail(#call, code_); } while (0)

/* Waits for all ranks, and sleeps meanwhile, so that the other ranks get the processor. */
static void meet(void)
{
    MPI_Request request;
    int done = 0;
    MUST(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    for (;;) {
        MUST(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
        if (done) return;
        nanosleep(&(struct timespec){ 0, WAIT_NS }, NULL);
    }
}

static view_t view_of(uint32_t round, int rank)
{
    random_t random = random_of(seed, round, shape->views == COMMON ? 0 : (uint64_t)rank, 1000);
    int has_block = shape->views == MIXED ? pick(&random, 2) : shape->views == BLOCK && rank % 2;
    return has_block ? block_view(&random) : random_view(&random);
}

/* Sets a view. Its filetype is a derived one, also if the view is one block. */
static void set_view(const view_t *view)
{
    MPI_Datatype type;
    MPI_Aint places[BLOCKS_MAX];
    for (int i = 0; i < view->blocks; i++) places[i] = 8 * (MPI_Aint)view->at[i];
    MUST(MPI_Type_create_hindexed(view->blocks, view->len, places, MPI_UINT64_T, &type));
    MUST(MPI_Type_commit(&type));
    MUST(MPI_File_set_view(file, 0, MPI_UINT64_T, type, "native", MPI_INFO_NULL));
    MUST(MPI_Type_free(&type));
}

static void must_be_whole(const MPI_Status *status, int count)
{
    int got;
    MUST(MPI_Get_count(status, MPI_UINT64_T, &got));
    if (got != count) fail("an access was short", -1);
}

/* Makes one access. `request` is set if the access is not complete on return. */
static void carry_out(call_t call, kind_t kind, int from, int count, uint64_t *cells, MPI_Request *request)
{
    MPI_Status status;
    const MPI_Datatype type = MPI_UINT64_T;
    const int writes = kind == WRITE;
    switch (call) {
    case AT:
        MUST(writes ? MPI_File_write_at(file, from, cells, count, type, &status)
                    : MPI_File_read_at(file, from, cells, count, type, &status));
        break;
    case POINTER:
        MUST(MPI_File_seek(file, from, MPI_SEEK_SET));
        MUST(writes ? MPI_File_write(file, cells, count, type, &status)
                    : MPI_File_read(file, cells, count, type, &status));
        break;
    case AT_ALL:
        MUST(writes ? MPI_File_write_at_all(file, from, cells, count, type, &status)
                    : MPI_File_read_at_all(file, from, cells, count, type, &status));
        break;
    case ALL:
        MUST(MPI_File_seek(file, from, MPI_SEEK_SET));
        MUST(writes ? MPI_File_write_all(file, cells, count, type, &status)
                    : MPI_File_read_all(file, cells, count, type, &status));
        break;
    case SHARED:
        MUST(writes ? MPI_File_write_shared(file, cells, count, type, &status)
                    : MPI_File_read_shared(file, cells, count, type, &status));
        break;
    case ORDERED:
        MUST(writes ? MPI_File_write_ordered(file, cells, count, type, &status)
                    : MPI_File_read_ordered(file, cells, count, type, &status));
        break;
    case IAT:
        MUST(writes ? MPI_File_iwrite_at(file, from, cells, count, type, request)
                    : MPI_File_iread_at(file, from, cells, count, type, request));
        return;
    case IAT_ALL:
        MUST(writes ? MPI_File_iwrite_at_all(file, from, cells, count, type, request)
                    : MPI_File_iread_at_all(file, from, cells, count, type, request));
        return;
    }
    must_be_whole(&status, count);
}

static int is_collective(call_t call)
{
    return call == AT_ALL || call == ALL || call == IAT_ALL || call == ORDERED;
}

/* The place of a cell in the view. -1 if the cell is in no block of the view. */
static int place_of(const view_t *view, int cell)
{
    for (int block = 0, at = 0; block < view->blocks; at += view->len[block++])
        if (cell >= view->at[block] && cell < view->at[block] + view->len[block])
            return at + cell - view->at[block];
    return -1;
}

/* Chooses this rank's part of an ordered access: returns its start, and sets `count`. All ranks use the
 * same random numbers. */
static int ordered_part(random_t *common, const view_t *view, int *count)
{
    int before = 0, total = 0;
    for (int rank = 0; rank < world_size; rank++) {
        int cells = pick(common, view->cells / world_size + 1);
        if (rank < world_rank) before += cells;
        if (rank == world_rank) *count = cells;
        total += cells;
    }
    int start = pick(common, view->cells - total + 1);
    MUST(MPI_File_seek_shared(file, start, MPI_SEEK_SET));
    return start + before;
}

static void access_all(uint32_t round, const view_t *view, uint64_t *buffers[OPERATIONS])
{
    random_t own = random_of(seed, round, (uint64_t)world_rank, 1),
             common = random_of(seed, round, 0, 2);
    access_t accesses[OPERATIONS];
    int from[OPERATIONS], count[OPERATIONS], waited = 0;
    MPI_Request requests[OPERATIONS];
    for (int i = 0; i < shape->operations; i++) {
        call_t call = shape->calls[pick(&common, shape->has_calls)];
        int common_kind = pick(&common, 2), own_kind = pick(&own, 2), waits = pick(&common, 2);
        /* A collective access has the same kind on all ranks. A round of one access must write: only the
         * final read shows it. */
        kind_t kind = shape->operations == 1 || (is_collective(call) ? common_kind : own_kind) ? WRITE : READ;
        if (shape->views == BLOCK) kind = world_rank % 2 ? READ : WRITE;
        /* The place of an access at the shared pointer is not known before the access, so its cells could
         * not be filled. */
        if (call == SHARED) kind = READ;
        count[i] = 1 + pick(&own, call == SHARED ? view->cells / (OPERATIONS * world_size) : view->cells);
        from[i] = call == ORDERED ? ordered_part(&common, view, &count[i])
                                  : pick(&own, view->cells - count[i] + 1);
        accesses[i] = (access_t){ round, (uint32_t)i, (uint32_t)waited, call, kind };
        if (kind == WRITE) fill(buffers[i], &accesses[i], view, from[i], count[i]);
        requests[i] = MPI_REQUEST_NULL;
        carry_out(call, kind, from[i], count[i], buffers[i], &requests[i]);
        if (call == SHARED) {
            from[i] = place_of(view, cell_of(round, buffers[i][0]));
            if (from[i] < 0 || from[i] + count[i] > view->cells)
                fail("a value read at the shared file pointer belongs to no place of the view", -1);
        }
        if (!(waits || i + 1 == shape->operations) && (call == IAT || call == IAT_ALL)) continue;
        for (; waited <= i; waited++) {
            MPI_Status status;
            if (requests[waited] == MPI_REQUEST_NULL) continue;
            MUST(MPI_Wait(&requests[waited], &status));
            must_be_whole(&status, count[waited]);
        }
    }
    for (int i = 0; i < shape->operations; i++)
        history_note(&accesses[i], view, from[i], count[i], buffers[i]);
}

/* Rank 0 writes the whole file, as no access of the round, or reads it. The syncs and meetings make this
 * visible to all ranks in any mode. */
static void whole(uint32_t round, kind_t kind, uint64_t *cells)
{
    view_t view = whole_view();
    MUST(MPI_File_set_view(file, 0, MPI_UINT64_T, MPI_UINT64_T, "native", MPI_INFO_NULL));
    MUST(MPI_File_sync(file));
    meet();
    if (world_rank == 0) {
        MPI_Status status;
        if (kind == WRITE) {
            for (int cell = 0; cell < cells_max; cell++) cells[cell] = cell_value(round, 0, cell);
            MUST(MPI_File_write_at(file, 0, cells, cells_max, MPI_UINT64_T, &status));
        } else {
            MUST(MPI_File_read_at(file, 0, cells, cells_max, MPI_UINT64_T, &status));
            access_t last = { round, ACCESSES_MAX - 1, ACCESSES_MAX, AT, READ };
            history_note(&last, &view, 0, cells_max, cells);
        }
        must_be_whole(&status, cells_max);
    }
    meet();
    MUST(MPI_File_sync(file));
}

static int set_atomicity(int atomic)
{
    int set = -1;
    if (MPI_File_set_atomicity(file, atomic) != MPI_SUCCESS) return 0;
    MUST(MPI_File_get_atomicity(file, &set));
    return set == atomic;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    if (argc != 8) fail("usage: capulet-verify-io FILE HISTORY MODE ROUNDS SEED FIRST ATOMIC", -1);
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++)
        if (!strcmp(argv[3], SHAPES[i].name)) shape = &SHAPES[i];
    if (!shape) fail("there is no such mode", -1);
    const int rounds = atoi(argv[4]), first = atoi(argv[6]), atomic = atoi(argv[7]);
    seed = strtoull(argv[5], NULL, 10);
    uint64_t *buffers[OPERATIONS];
    for (int i = 0; i < OPERATIONS; i++)
        if (!(buffers[i] = malloc(8 * (size_t)cells_max))) fail("no memory", -1);
    history_open(argv[2]);
    MUST(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    int refused = !set_atomicity(atomic);
    for (uint32_t round = (uint32_t)first; !refused && round < (uint32_t)(first + rounds); round++) {
        if (shape->toggles) MUST(MPI_File_set_atomicity(file, 0));
        whole(round, WRITE, buffers[0]);
        if (shape->toggles) MUST(MPI_File_set_atomicity(file, atomic));
        view_t view = view_of(round, world_rank);
        set_view(&view);
        if (shape->calls[1] == SHARED) MUST(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
        meet();
        access_all(round, &view, buffers);
        whole(round, READ, buffers[0]);
    }
    MUST(MPI_File_close(&file));
    history_close();
    for (int i = 0; i < OPERATIONS; i++) free(buffers[i]);
    meet();
    MPI_Finalize();
    return refused ? 3 : 0;
}
