/* Figure 2 of "Processing MPI Datatypes Outside MPI" (Ross, Latham, Gropp, Lusk and Thakur, 2009) as a
 * complete program: a memcpy between a typed buffer and a contiguous one, built from leaf functions.
 *
 *   D=target/openmpi/release
 *   mpicc -I $D examples/memcpy_from_leaves.c -o memcpy_from_leaves $D/libcapulet_openmpi.so
 *   LD_LIBRARY_PATH=$D mpiexec -n 2 ./memcpy_from_leaves
 *
 * The compiler wrapper and the library must belong to the same MPI. The program packs and unpacks the inner
 * cells of a plate, a list of particles and a record, whole and in pieces of 100 bytes, and compares the
 * result with MPI_Pack. */
#include <capulet_types.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    int direction;
    char *packbuf;
    char *userbuf;
} memcpy_params;

/* Moves the next `size` bytes of the contiguous buffer to or from `user`. */
static void move(memcpy_params *params, char *user, size_t size)
{
    if (params->direction == MPIT_MEMCPY_TO_USERBUF)
        memcpy(user, params->packbuf, size);
    else
        memcpy(params->packbuf, user, size);
    params->packbuf += size;
}

static MPI_Aint bytes_of(MPI_Datatype el_type)
{
    int el_size;
    MPI_Type_size(el_type, &el_size);
    return el_size;
}

static int leaf_contig_memcpy(MPI_Aint *blocks_p, MPI_Datatype el_type, MPI_Aint dtype_pos, void *unused,
                              void *v_param)
{
    memcpy_params *params = v_param;
    (void)unused;
    move(params, params->userbuf + dtype_pos, *blocks_p * bytes_of(el_type));
    return 0;
}

static int leaf_vector_memcpy(MPI_Aint *blocks_p, MPI_Aint count, MPI_Aint blklen, MPI_Aint stride,
                              MPI_Datatype el_type,
                              MPI_Aint dtype_pos, void *unused, void *v_param)
{
    memcpy_params *params = v_param;
    MPI_Aint size = blklen * bytes_of(el_type), i;
    (void)blocks_p, (void)unused;
    for (i = 0; i < count; i++)
        move(params, params->userbuf + dtype_pos + i * stride, size);
    return 0;
}

static int leaf_blkidx_memcpy(MPI_Aint *blocks_p, MPI_Aint count, MPI_Aint blklen,
                              const MPI_Aint *offsetarray,
                              MPI_Datatype el_type, MPI_Aint dtype_pos, void *unused, void *v_param)
{
    memcpy_params *params = v_param;
    MPI_Aint size = blklen * bytes_of(el_type), i;
    (void)blocks_p, (void)unused;
    for (i = 0; i < count; i++)
        move(params, params->userbuf + dtype_pos + offsetarray[i], size);
    return 0;
}

static int leaf_index_memcpy(MPI_Aint *blocks_p, MPI_Aint count, const MPI_Aint *blockarray,
                             const MPI_Aint *offsetarray,
                             MPI_Datatype el_type, MPI_Aint dtype_pos, void *unused, void *v_param)
{
    memcpy_params *params = v_param;
    MPI_Aint size = bytes_of(el_type), i;
    (void)blocks_p, (void)unused;
    for (i = 0; i < count; i++)
        move(params, params->userbuf + dtype_pos + offsetarray[i], blockarray[i] * size);
    return 0;
}

/* Copies stream bytes start..*end between (typebuf, count, type) and packbuf; *end is where it ended. */
static int type_memcpy(void *typebuf, int count, MPI_Datatype type, void *packbuf, int direction,
                       MPI_Aint start,
                       MPI_Aint *end)
{
    memcpy_params params;
    int mpi_errno;
    MPIT_Segment *segp = MPIT_Segment_alloc();
    if (segp == NULL)
        return MPI_ERR_NO_MEM;
    params.userbuf = typebuf;
    params.packbuf = packbuf;
    params.direction = direction;
    mpi_errno = MPIT_Segment_init(NULL, count, type, segp, 0);
    if (mpi_errno == MPI_SUCCESS)
        mpi_errno = MPIT_Segment_manipulate(segp, start, end, leaf_contig_memcpy, leaf_vector_memcpy,
                                            leaf_blkidx_memcpy,
                                            leaf_index_memcpy, NULL, &params);
    MPIT_Segment_free(segp);
    return mpi_errno;
}

/* ---- The rest of the program tries it. ---- */

enum { VALUES = 4096, PIECE = 100 };

static double values[VALUES], back[VALUES];
static char by_mpi[8 * VALUES], by_leaves[8 * VALUES], in_pieces[8 * VALUES];

/* Whether packing and unpacking in pieces of so many bytes is what MPI does. */
static int agrees(const char *name, int count, MPI_Datatype type)
{
    int bytes = 0, position = 0, same, i;
    MPI_Aint start, end;
    MPI_Type_commit(&type);
    MPIT_Type_init(type);
    MPI_Pack(values, count, type, by_mpi, sizeof by_mpi, &bytes, MPI_COMM_WORLD);
    end = bytes;
    same = type_memcpy(values, count, type, by_leaves, MPIT_MEMCPY_FROM_USERBUF, 0, &end) == MPI_SUCCESS
        && end == bytes;
    memset(back, 0, sizeof back);
    for (start = 0; start < bytes; start = end) {
        end = start + PIECE < bytes ? start + PIECE : bytes;
        same &= type_memcpy(values, count, type, in_pieces + start, MPIT_MEMCPY_FROM_USERBUF, start,
                            &end) == MPI_SUCCESS;
        same &= type_memcpy(back, count, type, in_pieces + start, MPIT_MEMCPY_TO_USERBUF, start,
                            &end) == MPI_SUCCESS;
    }
    same &= memcmp(by_leaves, by_mpi, bytes) == 0 && memcmp(in_pieces, by_mpi, bytes) == 0;
    MPI_Unpack(by_mpi, bytes, &position, values, count, type, MPI_COMM_WORLD);
    memset(by_leaves, 0, sizeof by_leaves);
    position = 0;
    MPI_Pack(back, count, type, by_leaves, sizeof by_leaves, &position, MPI_COMM_WORLD);
    same &= memcmp(by_leaves, by_mpi, bytes) == 0;
    for (i = 0; i < VALUES; i++)
        same &= back[i] == 0 || back[i] == values[i];
    printf("%s: %d bytes, %s\n", name, bytes, same ? "as MPI_Pack has them" : "WRONG");
    MPI_Type_free(&type);
    return same;
}

int main(int argc, char **argv)
{
    int sizes[2] = {48, 64}, inner[2] = {46, 62}, first[2] = {1, 1}, lengths[60], places[60],
        fields[2] = {1, 3}, ok, all, rank, i;
    MPI_Aint at[2] = {0, 8};
    MPI_Datatype plate, particles, record, parts[2] = {MPI_INT, MPI_DOUBLE};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (i = 0; i < VALUES; i++)
        values[i] = i + 1;
    for (i = 0; i < 60; i++) {
        lengths[i] = 1 + i * i % 5;
        places[i] = 20 * i + i * i % 7;
    }
    MPI_Type_create_subarray(2, sizes, inner, first, MPI_ORDER_C, MPI_DOUBLE, &plate);
    MPI_Type_indexed(60, lengths, places, MPI_DOUBLE, &particles);
    MPI_Type_create_struct(2, fields, at, parts, &record);
    ok = agrees("the inner cells of a plate", 1, plate);
    ok &= agrees("a list of particles", 2, particles);
    ok &= agrees("records", 100, record);
    MPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == 0)
        printf(all ? "all checks passed\n" : "some checks failed\n");
    MPI_Finalize();
    return !all;
}
