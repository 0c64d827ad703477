/* faults FOLDER CLASS SEEN: opens, accesses, closes and deletes a file under injected faults.
 * `CAPULET_FAULTS` makes one storage call of one rank fail, and CLASS is the class that its error must get.
 * Whatever fails, every rank returns, a collective call has one class on all ranks, no other class is
 * returned, and the program goes on. SEEN is 1 if a rank must see the fault, 0 if no rank may see it. */
#include "oracle.h"

static int injected_class, seen_anywhere;
static char trail[4096];

static int class_by_name(const char *name)
{
    static const int classes[] = { MPI_ERR_IO, MPI_ERR_NO_SPACE, MPI_ERR_ACCESS, MPI_ERR_NO_SUCH_FILE,
                                   MPI_ERR_QUOTA, MPI_ERR_READ_ONLY, MPI_ERR_FILE_EXISTS, MPI_ERR_BAD_FILE,
                                   MPI_ERR_FILE_IN_USE, MPI_ERR_UNSUPPORTED_OPERATION };
    for (unsigned c = 0; c < sizeof classes / sizeof *classes; c++)
        if (strcmp(class_name(classes[c]), name) == 0) return classes[c];
    fprintf(stderr, "no class %s\n", name);
    exit(2);
}

/* Checks the outcome of a collective call: all ranks have one class, success or the injected class. */
static int collective(const char *what, int code)
{
    section("%s", what);
    int class = class_of(code);
    CHECK_EQ(reduce_all(class, MPI_MAX), reduce_all(class, MPI_MIN),
             "largest error class of all ranks (other value: smallest)");
    CHECK(class == MPI_SUCCESS || class == injected_class, "%s", class_name(class));
    if (class != MPI_SUCCESS) {
        seen_anywhere = 1;
        snprintf(trail + strlen(trail), sizeof trail - strlen(trail), " %s", what);
    }
    return class == MPI_SUCCESS;
}

/* Checks the outcome of an independent call: success or the injected class. */
static int independent(const char *what, int code)
{
    section("%s", what);
    int class = class_of(code);
    CHECK(class == MPI_SUCCESS || class == injected_class, "%s", class_name(class));
    if (class != MPI_SUCCESS)
        snprintf(trail + strlen(trail), sizeof trail - strlen(trail), " %s(independent)", what);
    seen_anywhere |= class != MPI_SUCCESS;
    return class == MPI_SUCCESS;
}

static void check_bytes(const char *what, const unsigned char *bytes, int count, int seed)
{
    int wrong = 0;
    for (int i = 0; i < count; i++) wrong += bytes[i] != (unsigned char)(seed + i);
    CHECK(wrong == 0, "%s reported success, but %d bytes are wrong", what, wrong);
}

/* With collective buffers of one page, each access takes two rounds or more, and every rank aggregates. */
#define BYTES 9000

static void transfers(MPI_File file)
{
    static unsigned char mine[BYTES], back[BYTES];
    MPI_Status status;
    map_t unit = map_named(MPI_BYTE), piece = map_contiguous(100, unit),
        filetype = map_resized(0, 100 * world_size, piece);
    int seed = 7 * world_rank, written;
    for (int i = 0; i < BYTES; i++) mine[i] = (unsigned char)(seed + i);
    collective("set_view", MPI_File_set_view(file, 100 * world_rank, MPI_BYTE, filetype.mpi, "native",
             MPI_INFO_NULL));
    written = collective("write_at_all", MPI_File_write_at_all(file, 0, mine, BYTES, MPI_BYTE, &status));
    if (written) CHECK_EQ(count_of(&status, MPI_BYTE), BYTES, "bytes written");
    if (collective("read_at_all", MPI_File_read_at_all(file, 0, back, BYTES, MPI_BYTE, &status)) && written) {
        CHECK_EQ(count_of(&status, MPI_BYTE), BYTES, "bytes read");
        check_bytes("read_at_all", back, BYTES, seed);
    }
    written = independent("write_at", MPI_File_write_at(file, BYTES, mine, BYTES, MPI_BYTE, &status));
    if (independent("read_at", MPI_File_read_at(file, BYTES, back, BYTES, MPI_BYTE, &status)) && written)
        check_bytes("read_at", back, BYTES, seed);
    barrier();
    MPI_Request request;
    written = collective("iwrite_at_all", MPI_File_iwrite_at_all(file, 0, mine, BYTES, MPI_BYTE, &request))
              && collective("wait for iwrite_at_all", MPI_Wait(&request, &status));
    if (written) CHECK_EQ(count_of(&status, MPI_BYTE), BYTES, "bytes written");
    if (collective("read_at_all_begin", MPI_File_read_at_all_begin(file, 0, back, BYTES, MPI_BYTE)))
        if (collective("read_at_all_end", MPI_File_read_at_all_end(file, back, &status)) && written)
            check_bytes("read_at_all_end", back, BYTES, seed);
    collective("set_view back", MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    /* Rank 0 moves no bytes, but must get the failure of another rank. */
    collective("write_all", MPI_File_write_all(file, mine, world_rank == 0 ? 0 : BYTES, MPI_BYTE, &status));
    collective("read_all", MPI_File_read_all(file, back, world_rank == 0 ? 0 : BYTES, MPI_BYTE, &status));
    map_free(&piece);
    map_free(&filetype);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (argc < 4) return 2;
    injected_class = class_by_name(argv[2]);
    MPI_File file = MPI_FILE_NULL;
    MPI_Offset size;
    const char *path = path_of("faults");
    if (world_rank == 0) spill(path, "start", 5);
    barrier();
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "4096");
    if (collective("open", MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info,
        &file))) {
        collective("set_size", MPI_File_set_size(file, 100));
        collective("preallocate", MPI_File_preallocate(file, 5000));
        independent("get_size", MPI_File_get_size(file, &size));
        independent("seek to the end", MPI_File_seek(file, 0, MPI_SEEK_END));
        barrier();
        transfers(file);
        collective("sync", MPI_File_sync(file));
        collective("close", MPI_File_close(&file));
    }
    MPI_Info_free(&info);
    CHECK(file == MPI_FILE_NULL, "the handle was not set to MPI_FILE_NULL");
    if (collective("open to append", MPI_File_open(MPI_COMM_WORLD, path,
        MPI_MODE_RDWR | MPI_MODE_APPEND | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file)))
        collective("close and delete", MPI_File_close(&file));
    CHECK(file == MPI_FILE_NULL, "the handle was not set to MPI_FILE_NULL");
    barrier();
    if (world_rank == 0) unlink(path);
    barrier();
    section("delete of a missing file");
    int class = class_of(MPI_File_delete(path, MPI_INFO_NULL));
    CHECK(class == MPI_ERR_NO_SUCH_FILE || class == injected_class, "%s", class_name(class));
    if (class != MPI_ERR_NO_SUCH_FILE) seen_anywhere = 1;
    int seen = (int)reduce_all(seen_anywhere, MPI_MAX);
    section("the fault");
    CHECK_EQ(seen, atoi(argv[3]), "whether the fault was seen");
    if (trail[0]) printf("rank %d: seen at%s\n", world_rank, trail);
    return finish();
}
