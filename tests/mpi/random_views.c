/* Round trips through random views: trees of type constructors, three levels deep, from fixed seeds. A
 * failure reports its round. argv[2] is the number of rounds, for longer runs by hand. */
#include "scenario.h"

static uint64_t state;

static int pick(int below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int)((state >> 33) % (uint64_t)below);
}

/* A type whose data lies in ascending order between its bounds, so that it can be a filetype and be
 * repeated. */
static map_t rising(int depth, MPI_Datatype unit_type)
{
    map_t unit = map_named(unit_type);
    if (depth == 0 || pick(6) == 0) return unit;
    map_t part = rising(depth - 1, unit_type), map;
    int count = 1 + pick(3), blocks = 1 + pick(3), gap = pick(3), at[4], lens[4], next = 0;
    MPI_Aint bytes_at[4];
    i64 extent = extent_of(&part), u = unit.size;
    for (int i = 0; i < 4; i++) {
        next += pick(3);
        at[i] = next;
        bytes_at[i] = (MPI_Aint)(next * extent + u * i);
        lens[i] = pick(3) + (i == 0);
        next += lens[i] > 0 ? lens[i] : 1;
    }
    switch (pick(9)) {
    case 0: map = map_contiguous(count, part); break;
    case 1: map = map_vector(count, blocks, blocks + gap, part); break;
    case 2: map = map_hvector(count, blocks, blocks * extent + gap * u, part); break;
    case 3: map = map_indexed(1 + pick(4), lens, at, part); break;
    case 4: map = map_hindexed(1 + pick(4), lens, bytes_at, part); break;
    case 5: map = map_indexed_block(1 + pick(4), 1, at, part); break;
    case 6: map = map_dup(part); break;
    case 7: {
        int sizes[] = { 2 + pick(3), 2 + pick(3) }, starts[] = { pick(sizes[0]), pick(sizes[1]) };
        int parts[] = { 1 + pick(sizes[0] - starts[0]), 1 + pick(sizes[1] - starts[1]) };
        map = map_subarray(2, sizes, parts, starts, pick(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, part);
        break;
    }
    default: {
        map_t parts[] = { part, unit };
        MPI_Aint places[] = { 0, (MPI_Aint)(blocks * extent + gap * u) };
        int lengths[] = { blocks, 1 + pick(2) };
        map = map_struct(2, lengths, places, parts, 0, places[1] + (lengths[1] + gap) * u);
    }
    }
    map_free(&part);
    /* The bounds contain 0, whatever the first displacement is. */
    map_t resized = map_resized(0, map.ub + pick(2) * u, map);
    map_free(&map);
    return resized;
}

static access_t random_access(int rank, int size, int round)
{
    static const MPI_Datatype units[3] = { MPI_BYTE, MPI_INT, MPI_DOUBLE };
    /* Different views for each number of ranks and nodes. */
    const char *nodes = getenv("CAPULET_NODES");
    uint64_t seed = (uint64_t)(round + 1) + 1000u * (uint64_t)size
        + 100000u * (uint64_t)(nodes ? atoi(nodes) : 0);
    state = seed * 0x9E3779B97F4A7C15u;
    for (int i = 0; i < 5; i++) pick(2);
    MPI_Datatype unit_type = units[pick(3)];
    map_t unit = map_named(unit_type), shape = rising(3, unit_type);
    /* The copies of the shape belong to the ranks in cyclic order: rank r gets the r-th of every `size`
     * copies. */
    int one = 1;
    MPI_Aint at = (MPI_Aint)(rank * extent_of(&shape));
    map_t inner = map_hindexed(1, &one, &at, shape), file = map_resized(0, size * extent_of(&shape), inner);
    i64 displacement = pick(100), offset = pick(200), bytes = (1 + pick(60)) * 4 * unit.size;
    map_free(&inner);
    map_free(&shape);
    return (access_t){ displacement, unit, file, offset + rank % 3, bytes + rank % 2 * 4 * unit.size,
                       unit_type };
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int rounds = argc > 2 ? atoi(argv[2]) : world_size <= 2 ? 160 : 48;
    for (int round = 0; round < rounds; round++)
        run_scenario("random", random_access, round % METHODS, round / 4 % MEMORIES, round / 3 % HINTS,
                     round + world_size * 1000);
    return finish();
}
