/* One round trip through a view, compared with the oracle. Every rank writes through its view. Rank 0
 * reads the file with POSIX calls and compares every byte, also the bytes that no rank wrote. Then every
 * rank reads what its neighbor wrote. */
#ifndef SCENARIO_H
#define SCENARIO_H
#include "oracle.h"

enum { METHOD_AT, METHOD_AT_ALL, METHOD_EACH, METHOD_ALL, METHOD_IAT, METHOD_IEACH, METHOD_IAT_ALL,
       METHOD_IALL, METHOD_SPLIT_AT, METHOD_SPLIT, METHODS };
enum { HINTS = 6 };
enum { MEMORY_DENSE, MEMORY_SPACED, MEMORY_VECTOR, MEMORY_BACKWARD, MEMORY_SHIFTED, MEMORIES };

/* The access of one rank: `bytes` bytes from etype `offset` of the view (displacement, etype, filetype).
 * `unit` is the type of which the memory consists. */
typedef struct { i64 displacement; map_t etype, file; i64 offset, bytes; MPI_Datatype unit; } access_t;
typedef access_t (*make_access_t)(int rank, int size, int round);

static map_t memory_of(int variant, i64 bytes, MPI_Datatype unit_type, int *count)
{
    map_t unit = map_named(unit_type), map;
    i64 u = unit.size;
    static const int backward[] = { 3, 0 }, ones[] = { 1, 1 };
    MPI_Aint shifted[] = { u, 3 * u };
    switch (bytes % (4 * u) == 0 && bytes ? variant : MEMORY_DENSE) {
    case MEMORY_SPACED: map = map_resized(0, 3 * u, unit); *count = (int)(bytes / u); break;
    case MEMORY_VECTOR: map = map_vector((int)(bytes / (2 * u)), 2, 3, unit); *count = 1; break;
    case MEMORY_BACKWARD:
        map = map_indexed_block(2, 2, backward, unit);
        *count = (int)(bytes / (4 * u));
        break;
    case MEMORY_SHIFTED: {
        map_t inner = map_hindexed(2, ones, shifted, unit);
        map = map_resized(-u, 5 * u, inner);
        map_free(&inner);
        *count = (int)(bytes / (2 * u));
        break;
    }
    default: *count = (int)(bytes / u); return unit;
    }
    map_free(&unit);
    return map;
}

/* A user buffer for `count` instances of `map`, with room on both sides for negative displacements.
 * `base` is the address that MPI gets. */
typedef struct { unsigned char *bytes, *base; i64 size; } buffer_t;

static buffer_t buffer_for(const map_t *map, int count, unsigned char fill)
{
    i64 low = 0, high = 0;
    for (int edge = 0; edge < 2 && count > 0; edge++)
        for (int r = 0; r < map->count; r++) {
            i64 at = (edge ? count - 1 : 0) * extent_of(map) + map->runs[r].offset;
            if (at < low) low = at;
            if (at + map->runs[r].len > high) high = at + map->runs[r].len;
        }
    buffer_t buffer = { malloc((size_t)(high - low) + 64), NULL, high - low + 64 };
    memset(buffer.bytes, fill, (size_t)buffer.size);
    buffer.base = buffer.bytes + 32 - low;
    return buffer;
}

typedef struct { unsigned char *base; int rank, round; i64 skipped; } fill_t;

static void fill_visit(void *context, i64 offset, i64 stream)
{
    fill_t *fill = context;
    fill->base[offset] = value_at(fill->rank, stream, fill->round);
}

typedef struct { unsigned char *bytes; i64 capacity, end, first; int rank, round; } model_t;

static void model_visit(void *context, i64 offset, i64 stream)
{
    model_t *model = context;
    if (offset + 1 > model->end) model->end = offset + 1;
    if (model->bytes && offset < model->capacity)
        model->bytes[offset] = value_at(model->rank, stream - model->first, model->round);
}

typedef struct { model_t *model; i64 displacement; } shifted_t;

static void shifted_visit(void *context, i64 offset, i64 stream)
{
    shifted_t *shifted = context;
    model_visit(shifted->model, shifted->displacement + offset, stream);
}

static void model_apply(model_t *model, const access_t *access, int rank)
{
    shifted_t shifted = { model, access->displacement };
    model->rank = rank;
    model->first = access->offset * access->etype.size;
    map_walk(&access->file, model->first, access->bytes, shifted_visit, &shifted);
}

static void access_free(access_t *access)
{
    map_free(&access->file);
    map_free(&access->etype);
}

static int by_pointer(int method)
{
    return method == METHOD_EACH || method == METHOD_ALL || method == METHOD_IEACH || method == METHOD_IALL
        || method == METHOD_SPLIT;
}

/* Both halves of a split collective access. */
static int transfer_split(MPI_File file, int writing, int method, i64 offset, void *base, int count,
                          MPI_Datatype type, MPI_Status *status)
{
    int code;
    if (method == METHOD_SPLIT_AT) {
        code = writing ? MPI_File_write_at_all_begin(file, offset, base, count, type)
            : MPI_File_read_at_all_begin(file, offset, base, count, type);
        if (code != MPI_SUCCESS) return code;
        return writing ? MPI_File_write_at_all_end(file, base, status)
            : MPI_File_read_at_all_end(file, base, status);
    }
    code = writing ? MPI_File_write_all_begin(file, base, count, type)
        : MPI_File_read_all_begin(file, base, count, type);
    if (code != MPI_SUCCESS) return code;
    return writing ? MPI_File_write_all_end(file, base, status) : MPI_File_read_all_end(file, base, status);
}

static int transfer(MPI_File file, int writing, int method, i64 offset, void *base, int count,
                    MPI_Datatype type, MPI_Status *status)
{
    MPI_Request request;
    if (by_pointer(method)) {
        int code = MPI_File_seek(file, offset, MPI_SEEK_SET);
        if (code != MPI_SUCCESS) return code;
    }
    int code;
    switch (method) {
    case METHOD_AT:
        return writing ? MPI_File_write_at(file, offset, base, count, type, status)
                       : MPI_File_read_at(file, offset, base, count, type, status);
    case METHOD_AT_ALL:
        return writing ? MPI_File_write_at_all(file, offset, base, count, type, status)
                       : MPI_File_read_at_all(file, offset, base, count, type, status);
    case METHOD_EACH:
        return writing ? MPI_File_write(file, base, count, type, status)
                       : MPI_File_read(file, base, count, type, status);
    case METHOD_ALL:
        return writing ? MPI_File_write_all(file, base, count, type, status)
                       : MPI_File_read_all(file, base, count, type, status);
    case METHOD_IAT:
        code = writing ? MPI_File_iwrite_at(file, offset, base, count, type, &request)
                       : MPI_File_iread_at(file, offset, base, count, type, &request);
        break;
    case METHOD_IEACH:
        code = writing ? MPI_File_iwrite(file, base, count, type, &request)
                       : MPI_File_iread(file, base, count, type, &request);
        break;
    case METHOD_IAT_ALL:
        code = writing ? MPI_File_iwrite_at_all(file, offset, base, count, type, &request)
                       : MPI_File_iread_at_all(file, offset, base, count, type, &request);
        break;
    case METHOD_IALL:
        code = writing ? MPI_File_iwrite_all(file, base, count, type, &request)
                       : MPI_File_iread_all(file, base, count, type, &request);
        break;
    default: return transfer_split(file, writing, method, offset, base, count, type, status);
    }
    return code == MPI_SUCCESS ? MPI_Wait(&request, status) : code;
}

static MPI_Info hints_of(int variant)
{
    static const char *keys[HINTS][4] = {
        { 0 }, { "cb_buffer_size", "4096", "cb_nodes", "1" },
        { "romio_cb_write", "enable", "romio_cb_read", "enable" },
        { "romio_cb_write", "disable", "romio_cb_read", "disable" },
        { "cb_buffer_size", "4096", "cb_nodes", "2" },
        { "striping_unit", "5000", "romio_no_indep_rw", "true" },
    };
    MPI_Info info;
    if (variant == 0) return MPI_INFO_NULL;
    MPI_Info_create(&info);
    for (int k = 0; k < 4; k += 2) MPI_Info_set(info, keys[variant][k], keys[variant][k + 1]);
    return info;
}

/* Sets the view of `access`, moves its bytes, and checks the status. At a file pointer, also checks the
 * position afterwards. */
static void move_through(MPI_File file, int writing, int method, const access_t *access, buffer_t buffer,
                         int count, MPI_Datatype type)
{
    MPI_Status status;
    CHECK_OK(MPI_File_set_view(file, access->displacement, access->etype.mpi, access->file.mpi, "native",
             MPI_INFO_NULL));
    CHECK_OK(transfer(file, writing, method, access->offset, buffer.base, count, type, &status));
    CHECK_EQ(elements(&status, MPI_BYTE), access->bytes, "bytes in the status");
    CHECK_EQ(count_of(&status, type), count, "count in the status");
    if (by_pointer(method)) {
        MPI_Offset position = -1;
        CHECK_OK(MPI_File_get_position(file, &position));
        CHECK_EQ(position, access->offset + access->bytes / access->etype.size, "position after the access");
    }
}

static void compare_file(const char *path, const model_t *model, i64 expected_size)
{
    i64 size, wrong = 0, first = -1;
    unsigned char *found = slurp(path, &size);
    CHECK_EQ(size, expected_size, "file size");
    for (i64 i = 0; found && i < size && i < model->capacity; i++)
        if (found[i] != model->bytes[i] && wrong++ == 0) first = i;
    CHECK(wrong == 0, "%lld wrong bytes in the file, first at %lld: %02x, not %02x", wrong, first,
          first >= 0 ? found[first] : 0, first >= 0 ? model->bytes[first] : 0);
    free(found);
}

UNUSED static void run_scenario(const char *name, make_access_t make, int method, int memory, int hints,
                                int round)
{
    char file_name[64];
    section("%s method %d memory %d hints %d round %d", name, method, memory, hints, round);
    snprintf(file_name, sizeof file_name, "scenario-%d", round % 3);
    const char *path = path_of(file_name);
    model_t model = { 0 };
    i64 prefilled = 0;
    /* The file starts with half of its final length, full of bytes that no rank may change. */
    if (world_rank == 0) {
        for (int pass = 0; pass < 2; pass++) {
            for (int r = 0; r < world_size; r++) {
                access_t access = make(r, world_size, round);
                model.round = round;
                model_apply(&model, &access, r);
                access_free(&access);
            }
            if (pass == 1) break;
            prefilled = model.end / 2;
            model.capacity = model.end + 1;
            model.bytes = calloc(1, (size_t)model.capacity);
            memset(model.bytes, 0xEE, (size_t)prefilled);
            spill(path, model.bytes, prefilled);
        }
    }
    barrier();
    MPI_File file;
    MPI_Info info = hints_of(hints);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    if (info != MPI_INFO_NULL) MPI_Info_free(&info);

    int count;
    access_t access = make(world_rank, world_size, round);
    map_t layout = memory_of(memory, access.bytes, access.unit, &count);
    buffer_t buffer = buffer_for(&layout, count, 0x55);
    map_verify(&layout, count);
    map_verify(&access.file, 2);
    fill_t fill = { buffer.base, world_rank, round, 0 };
    map_walk(&layout, 0, access.bytes, fill_visit, &fill);
    move_through(file, 1, method, &access, buffer, count, layout.mpi);
    CHECK_OK(MPI_File_sync(file));
    barrier();
    CHECK_OK(MPI_File_sync(file));
    map_free(&layout);
    access_free(&access);
    free(buffer.bytes);

    int neighbor = (world_rank + 1) % world_size;
    access = make(neighbor, world_size, round);
    layout = memory_of(memory, access.bytes, access.unit, &count);
    buffer = buffer_for(&layout, count, 0x55);
    buffer_t expected = buffer_for(&layout, count, 0x55);
    fill = (fill_t){ expected.base, neighbor, round, 0 };
    map_walk(&layout, 0, access.bytes, fill_visit, &fill);
    move_through(file, 0, method, &access, buffer, count, layout.mpi);
    i64 wrong = 0;
    for (i64 i = 0; i < buffer.size; i++) wrong += buffer.bytes[i] != expected.bytes[i];
    CHECK(wrong == 0, "%lld wrong bytes in memory after reading", wrong);
    free(buffer.bytes);
    free(expected.bytes);
    map_free(&layout);
    access_free(&access);

    CHECK_OK(MPI_File_close(&file));
    CHECK(file == MPI_FILE_NULL, "close did not set the handle to null");
    barrier();
    if (world_rank == 0) {
        compare_file(path, &model, model.end > prefilled ? model.end : prefilled);
        free(model.bytes);
        unlink(path);
    }
    barrier();
}
#endif
