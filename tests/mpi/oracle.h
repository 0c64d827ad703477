/* MPI types with their type maps. The maps follow the definitions of MPI 4.1, chapter 5, one byte run at
 * a time and without regard to speed, and the library under test is compared with them. Every constructor
 * returns a committed MPI type and its map. */
#ifndef ORACLE_H
#define ORACLE_H
#include "check.h"

typedef long long i64;
typedef struct { i64 offset, len; } run_t;
typedef struct { run_t *runs; int count, capacity; i64 lb, ub, size; MPI_Datatype mpi; } map_t;

UNUSED static i64 extent_of(const map_t *map) { return map->ub - map->lb; }

static void map_push(map_t *map, i64 offset, i64 len)
{
    if (len == 0) return;
    map->size += len;
    if (map->count && map->runs[map->count - 1].offset + map->runs[map->count - 1].len == offset) {
        map->runs[map->count - 1].len += len;
        return;
    }
    if (map->count == map->capacity) {
        map->capacity = map->capacity ? 2 * map->capacity : 8;
        map->runs = realloc(map->runs, sizeof(run_t) * (size_t)map->capacity);
    }
    map->runs[map->count++] = (run_t){ offset, len };
}

/* Appends `blocks` copies of `part`, starting at byte `displacement`, and extends the bounds as the
 * standard defines. */
static void map_block(map_t *map, int *any, const map_t *part, int blocks, i64 displacement)
{
    for (int b = 0; b < blocks; b++) {
        i64 base = displacement + b * extent_of(part);
        for (int r = 0; r < part->count; r++) map_push(map, base + part->runs[r].offset, part->runs[r].len);
        if (!*any || base + part->lb < map->lb) map->lb = base + part->lb;
        if (!*any || base + part->ub > map->ub) map->ub = base + part->ub;
        *any = 1;
    }
}

static map_t map_commit(map_t map, MPI_Datatype type)
{
    MPI_Aint lb = 0, extent = 0;
    MPI_Count size = 0;
    map.mpi = type;
    MPI_Type_commit(&map.mpi);
    MPI_Type_get_extent(map.mpi, &lb, &extent);
    MPI_Type_size_x(map.mpi, &size);
    /* Compares the oracle with the MPI library: later checks are worthless if the oracle is wrong. */
    if (lb != map.lb || extent != extent_of(&map) || size != map.size) {
        fprintf(stderr, "oracle: lb %ld extent %ld size %lld, not %lld %lld %lld\n", (long)lb, (long)extent,
                (long long)size, map.lb, extent_of(&map), map.size);
        MPI_Abort(MPI_COMM_WORLD, 7);
    }
    return map;
}

UNUSED static void map_free(map_t *map)
{
    int integers, addresses, types, combiner;
    MPI_Type_get_envelope(map->mpi, &integers, &addresses, &types, &combiner);
    if (combiner != MPI_COMBINER_NAMED) MPI_Type_free(&map->mpi);
    free(map->runs);
    memset(map, 0, sizeof *map);
}

UNUSED static map_t map_named(MPI_Datatype type)
{
    int size;
    map_t map = { 0 };
    MPI_Type_size(type, &size);
    map_push(&map, 0, size);
    map.ub = size;
    map.mpi = type;
    return map;
}

UNUSED static map_t map_contiguous(int count, map_t part)
{
    map_t map = { 0 };
    int any = 0;
    MPI_Datatype type;
    map_block(&map, &any, &part, count, 0);
    MPI_Type_contiguous(count, part.mpi, &type);
    return map_commit(map, type);
}

UNUSED static map_t map_vector(int count, int blocks, int stride, map_t part)
{
    map_t map = { 0 };
    int any = 0;
    MPI_Datatype type;
    for (int i = 0; i < count; i++) map_block(&map, &any, &part, blocks, (i64)i * stride * extent_of(&part));
    MPI_Type_vector(count, blocks, stride, part.mpi, &type);
    return map_commit(map, type);
}

UNUSED static map_t map_hvector(int count, int blocks, i64 stride, map_t part)
{
    map_t map = { 0 };
    int any = 0;
    MPI_Datatype type;
    for (int i = 0; i < count; i++) map_block(&map, &any, &part, blocks, i * stride);
    MPI_Type_create_hvector(count, blocks, (MPI_Aint)stride, part.mpi, &type);
    return map_commit(map, type);
}

UNUSED static map_t map_indexed(int count, const int *blocks, const int *displacements, map_t part)
{
    map_t map = { 0 };
    int any = 0;
    MPI_Datatype type;
    for (int i = 0; i < count; i++)
        map_block(&map, &any, &part, blocks[i], displacements[i] * extent_of(&part));
    MPI_Type_indexed(count, (int *)blocks, (int *)displacements, part.mpi, &type);
    return map_commit(map, type);
}

UNUSED static map_t map_hindexed(int count, const int *blocks, const MPI_Aint *displacements, map_t part)
{
    map_t map = { 0 };
    int any = 0;
    MPI_Datatype type;
    for (int i = 0; i < count; i++) map_block(&map, &any, &part, blocks[i], displacements[i]);
    MPI_Type_create_hindexed(count, (int *)blocks, (MPI_Aint *)displacements, part.mpi, &type);
    return map_commit(map, type);
}

UNUSED static map_t map_indexed_block(int count, int blocks, const int *displacements, map_t part)
{
    map_t map = { 0 };
    int any = 0;
    MPI_Datatype type;
    for (int i = 0; i < count; i++) map_block(&map, &any, &part, blocks, displacements[i] * extent_of(&part));
    MPI_Type_create_indexed_block(count, blocks, (int *)displacements, part.mpi, &type);
    return map_commit(map, type);
}

UNUSED static map_t map_hindexed_block(int count, int blocks, const MPI_Aint *displacements, map_t part)
{
    map_t map = { 0 };
    int any = 0;
    MPI_Datatype type;
    for (int i = 0; i < count; i++) map_block(&map, &any, &part, blocks, displacements[i]);
    MPI_Type_create_hindexed_block(count, blocks, (MPI_Aint *)displacements, part.mpi, &type);
    return map_commit(map, type);
}

UNUSED static map_t map_resized(i64 lb, i64 extent, map_t part)
{
    map_t map = { 0 };
    int any = 0;
    MPI_Datatype type;
    map_block(&map, &any, &part, 1, 0);
    map.lb = lb;
    map.ub = lb + extent;
    MPI_Type_create_resized(part.mpi, (MPI_Aint)lb, (MPI_Aint)extent, &type);
    return map_commit(map, type);
}

/* A struct with explicit bounds, so that the padding that the MPI library chooses has no effect. */
UNUSED static map_t map_struct(int count, const int *blocks, const MPI_Aint *displacements,
                               const map_t *parts, i64 lb, i64 extent)
{
    map_t map = { 0 };
    int any = 0;
    MPI_Datatype types[16], inner, type;
    for (int i = 0; i < count; i++) {
        map_block(&map, &any, &parts[i], blocks[i], displacements[i]);
        types[i] = parts[i].mpi;
    }
    map.lb = lb;
    map.ub = lb + extent;
    MPI_Type_create_struct(count, (int *)blocks, (MPI_Aint *)displacements, types, &inner);
    MPI_Type_create_resized(inner, (MPI_Aint)lb, (MPI_Aint)extent, &type);
    MPI_Type_free(&inner);
    return map_commit(map, type);
}

UNUSED static map_t map_dup(map_t part)
{
    map_t map = { 0 };
    int any = 0;
    MPI_Datatype type;
    map_block(&map, &any, &part, 1, 0);
    MPI_Type_dup(part.mpi, &type);
    return map_commit(map, type);
}

/* Visits all elements of an array of `dims` dimensions in the order of memory. `owned` tells which
 * elements belong to the type. */
static map_t map_of_array(int dims, const int *sizes, int order, map_t part,
                          int (*owned)(const int *index, const void *), const void *context)
{
    map_t map = { 0 };
    int any = 0, index[8] = { 0 };
    i64 total = 1;
    for (int d = 0; d < dims; d++) total *= sizes[d];
    for (i64 linear = 0; linear < total; linear++) {
        i64 rest = linear;
        for (int k = 0; k < dims; k++) {
            int d = order == MPI_ORDER_C ? dims - 1 - k : k;
            index[d] = (int)(rest % sizes[d]);
            rest /= sizes[d];
        }
        if (owned(index, context)) map_block(&map, &any, &part, 1, linear * extent_of(&part));
    }
    map.lb = 0;
    map.ub = total * extent_of(&part);
    return map;
}

typedef struct { int dims; const int *parts, *starts; } box_t;

static int in_box(const int *index, const void *context)
{
    const box_t *box = context;
    for (int d = 0; d < box->dims; d++)
        if (index[d] < box->starts[d] || index[d] >= box->starts[d] + box->parts[d]) return 0;
    return 1;
}

UNUSED static map_t map_subarray(int dims, const int *sizes, const int *parts, const int *starts, int order,
                                 map_t part)
{
    MPI_Datatype type;
    box_t box = { dims, parts, starts };
    map_t map = map_of_array(dims, sizes, order, part, in_box, &box);
    MPI_Type_create_subarray(dims, (int *)sizes, (int *)parts, (int *)starts, order, part.mpi, &type);
    return map_commit(map, type);
}

typedef struct {
    int dims;
    const int *sizes, *distributions, *arguments, *grid;
    int coordinates[8];
} spread_t;

static int in_spread(const int *index, const void *context)
{
    const spread_t *s = context;
    for (int d = 0; d < s->dims; d++) {
        int block = s->arguments[d];
        if (s->distributions[d] == MPI_DISTRIBUTE_NONE) continue;
        if (block == MPI_DISTRIBUTE_DFLT_DARG)
            block = s->distributions[d] == MPI_DISTRIBUTE_BLOCK
                ? (s->sizes[d] + s->grid[d] - 1) / s->grid[d]
                : 1;
        if (index[d] / block % s->grid[d] != s->coordinates[d]) return 0;
    }
    return 1;
}

UNUSED static map_t map_darray(int size, int rank, int dims, const int *sizes, const int *distributions,
                               const int *arguments, const int *grid, int order, map_t part)
{
    MPI_Datatype type;
    spread_t spread = { dims, sizes, distributions, arguments, grid, { 0 } };
    int rest = rank;
    for (int d = dims - 1; d >= 0; d--) { /* The process grid is numbered in C order, whatever `order` is. */
        spread.coordinates[d] = rest % grid[d];
        rest /= grid[d];
    }
    map_t map = map_of_array(dims, sizes, order, part, in_spread, &spread);
    MPI_Type_create_darray(size, rank, dims, (int *)sizes, (int *)distributions, (int *)arguments,
                           (int *)grid, order, part.mpi, &type);
    return map_commit(map, type);
}

/* Calls `visit(context, offset, stream)` for each byte of [first, first + bytes) of the infinite tiling
 * of `map`. */
UNUSED static void map_walk(const map_t *map, i64 first, i64 bytes,
                            void (*visit)(void *, i64 offset, i64 stream), void *context)
{
    if (bytes <= 0 || map->size == 0) return;
    i64 tile = first / map->size, stream = tile * map->size;
    for (;; tile++)
        for (int r = 0; r < map->count; r++)
            for (i64 b = 0; b < map->runs[r].len; b++, stream++) {
                if (stream >= first + bytes) return;
                if (stream >= first) visit(context, tile * extent_of(map) + map->runs[r].offset + b, stream);
            }
}

typedef struct { unsigned char *memory, *packed; i64 low, wrong; } packed_t;

static void packed_visit(void *context, i64 offset, i64 stream)
{
    packed_t *check = context;
    check->wrong += check->memory[offset - check->low] != check->packed[stream];
}

/* Compares the map with MPI_Pack, which must give the same bytes in the same order. If they differ, the
 * oracle is wrong, and no later check means anything. */
UNUSED static void map_verify(const map_t *map, int count)
{
    i64 low = 0, high = 0;
    for (int i = 0; i < count; i += count > 1 ? count - 1 : 1)
        for (int r = 0; r < map->count; r++) {
            i64 at = i * extent_of(map) + map->runs[r].offset;
            if (at < low) low = at;
            if (at + map->runs[r].len > high) high = at + map->runs[r].len;
        }
    int room = 0, position = 0;
    MPI_Pack_size(count, map->mpi, MPI_COMM_SELF, &room);
    packed_t check = { malloc((size_t)(high - low) + 1), calloc(1, (size_t)room + 1), low, 0 };
    for (i64 i = 0; i < high - low; i++) check.memory[i] = value_at(9, i, 9);
    MPI_Pack(check.memory - low, count, map->mpi, check.packed, room, &position, MPI_COMM_SELF);
    map_walk(map, 0, count * map->size, packed_visit, &check);
    if (check.wrong || position != count * map->size) {
        fprintf(stderr, "oracle in `%s`: %lld bytes differ from MPI_Pack, %d packed of %lld\n", section_name,
                check.wrong, position, count * map->size);
        MPI_Abort(MPI_COMM_WORLD, 6);
    }
    free(check.memory);
    free(check.packed);
}
#endif
