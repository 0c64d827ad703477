/* Compares MPIT_Type_memcpy, flatten, blockct and transpack with MPI_Pack and MPI_Unpack, for every sample
 * and many ranges. */
#include "capulet_types.h"
#include "types.h"

static unsigned char memory[ROOM], other[ROOM], expected[ROOM], stream[ROOM], part[ROOM];

static void out_of_buffer(int count, MPI_Datatype type, int bytes)
{
    int step = bytes > 100 ? 7 : 1;
    for (int first = 0; first <= bytes; first += step)
        for (int end = first; end <= bytes; end += step) {
            memset(part, 0xee, bytes + 1);
            CHECK_OK(MPIT_Type_memcpy(memory + BEFORE, count, type, part, MPIT_MEMCPY_FROM_USERBUF, first,
                     end));
            CHECK(memcmp(part, stream + first, end - first) == 0 && part[end - first] == 0xee);
        }
}

/* The bytes of the range are changed, and no other bytes. */
static void into_buffer(int count, MPI_Datatype type, int bytes)
{
    int step = bytes > 100 ? 11 : 1;
    for (int first = 0; first <= bytes; first += step)
        for (int end = first; end <= bytes; end += step) {
            memset(other, 0x55, ROOM);
            memset(expected, 0x55, ROOM);
            memset(part, 0x55, bytes);
            memcpy(part + first, stream + first, end - first);
            unpack(part, expected + BEFORE, count, type);
            CHECK_OK(MPIT_Type_memcpy_c(other + BEFORE, count, type, stream + first, MPIT_MEMCPY_TO_USERBUF,
                     first, end));
            CHECK(memcmp(other, expected, ROOM) == 0);
        }
}

/* The regions hold the stream and do not touch. After a list that is too short, the next call continues the
 * list. */
static void regions(int count, MPI_Datatype type, int first, int end, int room)
{
    MPI_Aint places[ROOM / 16], blocks = -1, counted = 0, from = first;
    MPI_Count large = -1;
    int lengths[ROOM / 16], length, outcome;
    char *behind = NULL;
    unsigned char *next = stream + first;
    CHECK_OK(MPIT_Type_blockct(count, type, first, end, &blocks));
    CHECK_OK(MPIT_Type_blockct_c(count, type, first, end, &large));
    CHECK(large == blocks);
    do {
        length = room;
        outcome = MPIT_Type_flatten(memory + BEFORE, count, type, from, end, places, lengths, &length);
        for (int i = 0; i < length; i++) {
            counted += (char *)places[i] != behind;
            CHECK(lengths[i] > 0 && memcmp((char *)places[i], next, lengths[i]) == 0);
            behind = (char *)places[i] + lengths[i];
            next += lengths[i];
            from += lengths[i];
        }
        CHECK(outcome == MPI_SUCCESS || (class_of(outcome) == MPI_ERR_OTHER && length == room));
    } while (outcome != MPI_SUCCESS && length > 0);
    CHECK(from == end && next == stream + end && counted == blocks);
}

static void all_regions(int count, MPI_Datatype type, int bytes)
{
    int step = bytes > 60 ? bytes / 30 : 1;
    for (int first = 0; first <= bytes; first += step)
        for (int end = first; end <= bytes; end += step) {
            regions(count, type, first, end, ROOM / 16);
            regions(count, type, first, end, 2);
        }
}

static void between(const Sample *from, const Sample *to)
{
    int source_bytes = stream_bytes(1, from->type), target_bytes = stream_bytes(1, to->type);
    if (source_bytes == 0 || target_bytes == 0)
        return;
    int sources = 2 * target_bytes, targets = 2 * source_bytes;
    if (sources > 20 || targets > 20) {
        sources = source_bytes == target_bytes ? 3 : 1;
        targets = sources;
    }
    int read = sources * source_bytes, written = targets * target_bytes,
        least = read < written ? read : written;
    pack(memory + BEFORE, sources, from->type, stream);
    memset(other, 0x55, ROOM);
    memset(expected, 0x55, ROOM);
    memset(part, 0x55, ROOM);
    if (read == written) {
        unpack(stream, expected + BEFORE, targets, to->type);
        CHECK_OK(MPIT_Type_transpack(memory + BEFORE, sources, from->type, other + BEFORE, targets,
                 to->type));
        CHECK(memcmp(other, expected, ROOM) == 0);
    } else {
        CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_transpack(memory + BEFORE, sources, from->type, other + BEFORE,
                    targets, to->type));
        CHECK(memcmp(other, expected, ROOM) == 0);
    }
    int skip = least / 3, bytes = least / 2;
    memset(other, 0x55, ROOM);
    memset(expected, 0x55, ROOM);
    memcpy(part + least - bytes, stream + skip, bytes);
    unpack(part, expected + BEFORE, targets, to->type);
    CHECK_OK(MPIT_Type_transpack_range(memory + BEFORE, sources, from->type, skip, other + BEFORE, targets,
             to->type, least - bytes, bytes));
    CHECK(memcmp(other, expected, ROOM) == 0);
}

/* A region that is too long for an int is listed in parts. The memory of the region is not accessed. */
static void long_region(void)
{
    MPI_Datatype ints;
    MPI_Aint places[4], blocks = 0, gib = (MPI_Aint)1 << 30;
    MPI_Count large[4], regions = 4;
    int lengths[4], length = 4;
    MPI_Type_contiguous(1 << 29, MPI_INT, &ints);
    MPI_Type_commit(&ints);
    CHECK_OK(MPIT_Type_init(ints));
    CHECK_OK(MPIT_Type_flatten(NULL, 3, ints, 4, 3 * gib + 10, places, lengths, &length));
    CHECK(length == 4 && places[0] == 4 && places[1] == gib + 4 && places[3] == 3 * gib + 4);
    CHECK(lengths[0] == gib && lengths[2] == gib && lengths[3] == 6);
    CHECK_OK(MPIT_Type_flatten_c(NULL, 3, ints, 4, 3 * gib + 10, places, large, &regions));
    CHECK(regions == 1 && places[0] == 4 && large[0] == 3 * gib + 6);
    CHECK_OK(MPIT_Type_blockct(3, ints, 0, 6 * gib, &blocks));
    CHECK(blocks == 1);
    length = 2;
    CHECK_CLASS(MPI_ERR_OTHER, MPIT_Type_flatten(NULL, 3, ints, 4, 3 * gib + 10, places, lengths, &length));
    CHECK(length == 2 && lengths[1] == gib);
    MPI_Type_free(&ints);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    long_region();
    make_samples();
    number(memory);
    for (int i = 0; i < sample_count; i++) {
        MPI_Datatype type = samples[i].type;
        CHECK(MPIT_Type_is_initialized(type) == !samples[i].derived || strcmp(samples[i].name,
              "duplicate") == 0);
        CHECK_OK(MPIT_Type_init(type));
        CHECK_OK(MPIT_Type_init(type));
        CHECK(MPIT_Type_is_initialized(type) == 1);
        int before = failures;
        for (int count = 0; count < 4; count++) {
            int bytes = pack(memory + BEFORE, count, type, stream);
            out_of_buffer(count, type, bytes);
            into_buffer(count, type, bytes);
            all_regions(count, type, bytes);
        }
        if (failures > before)
            fprintf(stderr, "failures in the sample: %s\n", samples[i].name);
    }
    for (int i = 0; i < sample_count; i++)
        for (int k = 0; k < sample_count; k++)
            between(&samples[i], &samples[k]);
    free_samples();
    return finish();
}
