/* Types as messages: a message becomes the same type on every rank, and data that is not a message is
 * refused. */
#include "capulet_types.h"
#include "types.h"

static unsigned char memory[ROOM], packed[ROOM], again[ROOM];
static char message[100000];

static void same_bounds(MPI_Datatype left, MPI_Datatype right)
{
    MPI_Aint lb, extent, other_lb, other_extent;
    MPI_Type_get_extent(left, &lb, &extent);
    MPI_Type_get_extent(right, &other_lb, &other_extent);
    CHECK(lb == other_lb && extent == other_extent);
    MPI_Type_get_true_extent(left, &lb, &extent);
    MPI_Type_get_true_extent(right, &other_lb, &other_extent);
    CHECK(lb == other_lb && extent == other_extent);
}

static void same_constructor(MPI_Datatype left, MPI_Datatype right, int derived)
{
    int ints, addresses, types, combiner, other[4];
    MPI_Type_get_envelope(left, &ints, &addresses, &types, &combiner);
    MPI_Type_get_envelope(right, &other[0], &other[1], &other[2], &other[3]);
    if (derived)
        CHECK(ints == other[0] && addresses == other[1] && types == other[2] && combiner == other[3]);
    else
        CHECK(other[3] == MPI_COMBINER_DUP);
}

static void round_trip(void)
{
    for (int i = 0; i < sample_count; i++) {
        MPI_Datatype type = samples[i].type, made = MPI_DATATYPE_NULL;
        MPI_Aint bytes = -1, asked = -1;
        CHECK_OK(MPIT_Type_init(type));
        CHECK_OK(MPIT_Type_serialize(type, NULL, 0, &asked));
        CHECK_OK(MPIT_Type_serialize(type, message, asked, &bytes));
        CHECK(bytes == asked && bytes > 0 && bytes < 120);
        CHECK_OK(MPIT_Type_deserialize(message, bytes, &made));
        CHECK(MPIT_Type_is_initialized(made));
        same_bounds(type, made);
        same_constructor(type, made, samples[i].derived);
        int length = pack(memory + BEFORE, 3, type, packed);
        CHECK(pack(memory + BEFORE, 3, made, again) == length && memcmp(packed, again, length) == 0);
        CHECK_OK(MPIT_Type_memcpy(memory + BEFORE, 3, made, again, MPIT_MEMCPY_FROM_USERBUF, 0, length));
        CHECK(memcmp(packed, again, length) == 0);
        MPI_Type_free(&made);
    }
}

/* The last rank gets a type from rank 0, and uses the type to receive. */
static void to_another_rank(void)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Aint bytes = 0;
    double values[200] = {0};
    if (rank == 0) {
        MPI_Datatype column;
        MPI_Type_vector(10, 1, 10, MPI_DOUBLE, &column);
        MPI_Type_create_resized(column, 0, sizeof(double), &type);
        MPI_Type_free(&column);
        MPI_Type_commit(&type);
        CHECK_OK(MPIT_Type_init(type));
        CHECK_OK(MPIT_Type_serialize(type, message, sizeof message, &bytes));
    }
    MPI_Bcast(&bytes, 1, MPI_AINT, 0, MPI_COMM_WORLD);
    MPI_Bcast(message, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank != 0)
        CHECK_OK(MPIT_Type_deserialize(message, bytes, &type));
    if (size > 1 && rank == 0) {
        for (int i = 0; i < 100; i++)
            values[i] = i;
        MPI_Send(values, 3, type, size - 1, 0, MPI_COMM_WORLD);
    }
    if (size > 1 && rank == size - 1) {
        MPI_Recv(values, 3, type, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < 100; i++)
            CHECK(values[i] == (i % 10 < 3 ? i : 0));
    }
    MPI_Type_free(&type);
}

static void invalid_messages(void)
{
    MPI_Datatype rows, made = MPI_INT;
    MPI_Aint bytes = 77, needed;
    MPI_Type_vector(10, 1, 2, MPI_INT, &rows);
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_serialize(MPI_DATATYPE_NULL, message, 1000, &bytes));
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_serialize(rows, message, 1000, &bytes));
    MPI_Type_commit(&rows);
    CHECK_OK(MPIT_Type_init(rows));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_serialize(rows, message, -1, &bytes));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_serialize(rows, message, 1000, NULL));
    CHECK(bytes == 77);
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_serialize(rows, NULL, 1000, &bytes));
    CHECK_OK(MPIT_Type_serialize(rows, NULL, 0, &needed));
    memset(message, 0x55, sizeof message);
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_serialize(rows, message, needed - 1, &bytes));
    CHECK(bytes == needed && message[0] == 0x55);
    CHECK_OK(MPIT_Type_serialize(rows, message, needed, &bytes));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_deserialize(NULL, bytes, &made));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_deserialize(message, -1, &made));
    CHECK_CLASS(MPI_ERR_ARG, MPIT_Type_deserialize(message, bytes, NULL));
    for (MPI_Aint length = 0; length < bytes; length++)
        CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_deserialize(message, length, &made));
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_deserialize(message, bytes + 1, &made));
    for (MPI_Aint at = 0; at < 8 * bytes; at++) {
        message[at / 8] ^= (char)(1 << at % 8);
        CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_deserialize(message, bytes, &made));
        message[at / 8] ^= (char)(1 << at % 8);
    }
    CHECK(made == MPI_INT);
    CHECK_OK(MPIT_Type_deserialize(message, bytes, &made));
    MPI_Type_free(&made);
    MPI_Type_free(&rows);
}

/* Writes a message with these nodes and a correct checksum (CRC-32 of IEEE 802.3), as an attacker would
 * send it. */
static MPI_Aint sealed(const unsigned char *nodes, int count)
{
    unsigned crc = ~0u;
    memcpy(message, "CDT\1", 4);
    memcpy(message + 4, nodes, count);
    for (int i = 0; i < 4 + count; i++) {
        crc ^= (unsigned char)message[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    for (int i = 0; i < 4; i++)
        message[4 + count + i] = (char)(~crc >> 8 * i);
    return 8 + count;
}

#define HOSTILE(...) \
    do { \
        static const unsigned char nodes[] = {__VA_ARGS__}; \
        CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_deserialize(message, sealed(nodes, sizeof nodes), &made)); \
        CHECK(made == MPI_DATATYPE_NULL); \
    } while (0)

static void hostile_messages(void)
{
    static const unsigned char good[] = {0, 5, 6, 3, 1}, int_node[] = {0, 5};
    unsigned char deep[2 + 2 * 600];
    MPI_Datatype made = MPI_DATATYPE_NULL;
    int bytes = 0;
    HOSTILE(0, 5, 6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1); /* the size overflows */
    HOSTILE(0, 5, 6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1); /* 2^64 - 1 int */
    HOSTILE(0, 5, 11, 1, 120, 0, 0, 0, 1); /* a list longer than the message */
    HOSTILE(0, 5, 6, 3, 9); /* a part that does not exist */
    HOSTILE(0, 5, 6, 3, 0); /* a type that is its own part */
    HOSTILE(17); /* an unknown constructor */
    HOSTILE(0, 100); /* an unknown predefined type */
    HOSTILE(0, 5, 14, 2, 4, 0, 0, 1); /* an empty subarray */
    HOSTILE(0x80, 5, 2, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1); /* bounds that overflow */
    memcpy(deep, int_node, 2);
    for (int i = 2; i < (int)sizeof deep; i += 2)
        deep[i] = 5, deep[i + 1] = 1; /* a duplicate of the node before */
    CHECK_CLASS(MPI_ERR_TYPE, MPIT_Type_deserialize(message, sealed(deep, sizeof deep), &made));
    CHECK(made == MPI_DATATYPE_NULL);
    /* A valid message that is written in the same way is accepted. */
    CHECK_OK(MPIT_Type_deserialize(message, sealed(good, sizeof good), &made));
    MPI_Type_size(made, &bytes);
    CHECK(bytes == 3 * (int)sizeof(int));
    MPI_Type_free(&made);
}

/* A type of 2^50 bytes has a message of some 20 bytes. */
static void large(void)
{
    MPI_Datatype type, next, made;
    MPI_Aint bytes;
    MPI_Count size = 0;
    MPI_Type_contiguous(1 << 25, MPI_BYTE, &type);
    MPI_Type_vector(1 << 25, 1, 2, type, &next);
    MPI_Type_commit(&next);
    CHECK_OK(MPIT_Type_init(next));
    CHECK_OK(MPIT_Type_serialize(next, message, 100, &bytes));
    CHECK_OK(MPIT_Type_deserialize(message, bytes, &made));
    MPI_Type_size_x(made, &size);
    CHECK(size == (MPI_Count)1 << 50);
    MPI_Type_free(&type);
    MPI_Type_free(&next);
    MPI_Type_free(&made);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    make_samples();
    number(memory);
    round_trip();
    to_another_rank();
    invalid_messages();
    hostile_messages();
    large();
    free_samples();
    return finish();
}
