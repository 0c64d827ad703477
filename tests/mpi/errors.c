/* Wrong arguments. They are refused with the class that the standard names, on all ranks and without a
 * hang (MPI 4.1, 14.7 and the descriptions of the calls). First every rank passes the wrong argument.
 * Then, if the call is collective, only one rank passes it. */
#include "oracle.h"

#include <limits.h>

static MPI_File plain(int mode)
{
    MPI_File file = MPI_FILE_NULL;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("errors"), mode, MPI_INFO_NULL, &file));
    return file;
}

static void bad_modes(void)
{
    const int modes[] = {
        0, MPI_MODE_CREATE, MPI_MODE_RDONLY | MPI_MODE_WRONLY, MPI_MODE_RDONLY | MPI_MODE_RDWR,
        MPI_MODE_WRONLY | MPI_MODE_RDWR, MPI_MODE_RDONLY | MPI_MODE_WRONLY | MPI_MODE_RDWR,
        MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_MODE_RDONLY | MPI_MODE_EXCL,
        MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_SEQUENTIAL,
        MPI_MODE_RDWR | (1 << 20),
    };
    for (unsigned m = 0; m < sizeof modes / sizeof *modes; m++) {
        section("access mode %#x", modes[m]);
        MPI_File file = MPI_FILE_NULL;
        CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path_of("errors"), modes[m], MPI_INFO_NULL, &file),
                    MPI_ERR_AMODE);
        CHECK(file == MPI_FILE_NULL, "a failed open returned a handle");
    }
}

static void bad_names(void)
{
    MPI_File file = MPI_FILE_NULL;
    char longer[2 * PATH_MAX];
    int writing = MPI_MODE_CREATE | MPI_MODE_RDWR;
    section("names");
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path_of("no-such-file"), MPI_MODE_RDWR, MPI_INFO_NULL, &file),
                MPI_ERR_NO_SUCH_FILE);
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path_of("no-such-dir/file"), writing, MPI_INFO_NULL, &file),
                MPI_ERR_NO_SUCH_FILE);
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, work_dir, MPI_MODE_RDWR, MPI_INFO_NULL, &file),
                MPI_ERR_BAD_FILE);
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, work_dir, MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
                MPI_ERR_BAD_FILE);
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, work_dir, writing, MPI_INFO_NULL, &file), MPI_ERR_BAD_FILE);
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path_of("errors/below-a-file"), writing, MPI_INFO_NULL, &file),
                MPI_ERR_BAD_FILE);
    memset(longer, 'a', sizeof longer);
    longer[sizeof longer - 1] = 0;
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, longer, writing, MPI_INFO_NULL, &file), MPI_ERR_BAD_FILE);
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, "", writing, MPI_INFO_NULL, &file), MPI_ERR_BAD_FILE);
    CHECK(file == MPI_FILE_NULL, "a failed open returned a handle");
    CHECK_CLASS(MPI_File_delete(path_of("no-such-file"), MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    CHECK_CLASS(MPI_File_delete(path_of("no-such-dir/file"), MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    CHECK_CLASS(MPI_File_open(MPI_COMM_NULL, path_of("errors"), writing, MPI_INFO_NULL, &file), MPI_ERR_COMM);
}

/* The file of one rank is missing: all ranks get the class of that rank, and no file stays open. */
static void one_rank_misses(void)
{
    MPI_File file = MPI_FILE_NULL;
    for (int culprit = 0; culprit < world_size; culprit++) {
        section("open fails on rank %d", culprit);
        const char *path = path_of(world_rank == culprit ? "no-such-file" : "errors");
        CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
                    MPI_ERR_NO_SUCH_FILE);
        CHECK(file == MPI_FILE_NULL, "a failed open returned a handle");
    }
}

static void bad_views(void)
{
    static const int falling_at[] = { 4, 0 }, ones[] = { 1, 1 };
    static const MPI_Aint negative_at[] = { -4, 8 }, overlap_at[] = { 4, 4 };
    map_t unit = map_named(MPI_INT), three = map_contiguous(3, map_named(MPI_BYTE));
    map_t falling = map_indexed_block(2, 1, falling_at, unit),
        negative = map_hindexed(2, ones, negative_at, unit);
    /* The same integer twice: the displacements do not decrease, but the type overlaps itself. */
    map_t both[] = { unit, unit }, overlap = map_struct(2, ones, overlap_at, both, 0, 8);
    const struct {
        const char *what;
        MPI_Offset displacement;
        MPI_Datatype etype, filetype;
        const char *representation;
        int class;
    } cases[] = {
        { "negative displacement", -1, MPI_BYTE, MPI_BYTE, "native", MPI_ERR_ARG },
        { "filetype with decreasing displacements", 0, MPI_INT, falling.mpi, "native", MPI_ERR_IO },
        { "filetype with a negative displacement", 0, MPI_INT, negative.mpi, "native", MPI_ERR_IO },
        { "filetype that overlaps itself", 0, MPI_INT, overlap.mpi, "native", MPI_ERR_IO },
        { "filetype of half an etype", 0, MPI_DOUBLE, MPI_INT, "native", MPI_ERR_ARG },
        { "filetype not made of etypes", 0, MPI_INT, three.mpi, "native", MPI_ERR_ARG },
        { "null etype", 0, MPI_DATATYPE_NULL, MPI_BYTE, "native", MPI_ERR_TYPE },
        { "null filetype", 0, MPI_BYTE, MPI_DATATYPE_NULL, "native", MPI_ERR_TYPE },
        { "unknown representation", 0, MPI_BYTE, MPI_BYTE, "carved in stone", MPI_ERR_UNSUPPORTED_DATAREP },
    };
    MPI_File file = plain(MPI_MODE_RDWR);
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++)
        /* all ranks, then the last */
        for (int culprit = -1; culprit < world_size; culprit += world_size > 1 ? world_size : 1) {
            int wrong = culprit < 0 || world_rank == world_size - 1;
            section("view: %s, %s", cases[c].what, culprit < 0 ? "all" : "one rank");
            CHECK_OK(MPI_File_set_view(file, 40, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
            CHECK_CLASS(wrong ? MPI_File_set_view(file, cases[c].displacement, cases[c].etype,
                                                  cases[c].filetype, cases[c].representation, MPI_INFO_NULL)
                              : MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL),
                        cases[c].class);
            MPI_Offset at = -1;
            CHECK_OK(MPI_File_get_byte_offset(file, 2, &at));
            CHECK_EQ(at, 42, "byte offset in the unchanged view");
        }
    CHECK_OK(MPI_File_close(&file));
    section("overlapping filetype in a read-only file");
    file = plain(MPI_MODE_RDONLY);
    CHECK_OK(MPI_File_set_view(file, 0, MPI_INT, overlap.mpi, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_File_close(&file));
    map_free(&falling); map_free(&negative); map_free(&overlap); map_free(&three);
}

/* Every transfer with a wrong argument. A collective transfer is wrong on rank 0 or on the last rank
 * only, and all ranks must get the error. */
static void bad_transfers(void)
{
    char bytes[16] = "0123456789abcde";
    MPI_File file = plain(MPI_MODE_RDWR);
    MPI_Status status;
    section("transfers: wrong on all ranks");
    CHECK_CLASS(MPI_File_read_at(file, -1, bytes, 1, MPI_BYTE, &status), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_write_at(file, -1, bytes, 1, MPI_BYTE, &status), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_read_at(file, 0, bytes, -1, MPI_BYTE, &status), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_File_write_at(file, 0, bytes, -1, MPI_BYTE, &status), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_File_read(file, bytes, -1, MPI_BYTE, &status), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_File_write(file, bytes, -1, MPI_BYTE, &status), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_File_read_at(file, 0, bytes, 1, MPI_DATATYPE_NULL, &status), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_File_write(file, bytes, 1, MPI_DATATYPE_NULL, &status), MPI_ERR_TYPE);
    for (int culprit = 0; culprit < world_size; culprit += world_size > 1 ? world_size - 1 : 1) {
        int wrong = world_rank == culprit;
        section("collective transfers: wrong on rank %d", culprit);
        CHECK_CLASS(MPI_File_read_at_all(file, wrong ? -1 : 0, bytes, 1, MPI_BYTE, &status), MPI_ERR_ARG);
        CHECK_CLASS(MPI_File_write_at_all(file, wrong ? -1 : 0, bytes, 1, MPI_BYTE, &status), MPI_ERR_ARG);
        CHECK_CLASS(MPI_File_read_at_all(file, 0, bytes, wrong ? -1 : 1, MPI_BYTE, &status), MPI_ERR_COUNT);
        CHECK_CLASS(MPI_File_write_at_all(file, 0, bytes, wrong ? -1 : 1, MPI_BYTE, &status), MPI_ERR_COUNT);
        CHECK_CLASS(MPI_File_read_all(file, bytes, wrong ? -1 : 1, MPI_BYTE, &status), MPI_ERR_COUNT);
        CHECK_CLASS(MPI_File_write_all(file, bytes, 1, wrong ? MPI_DATATYPE_NULL : MPI_BYTE, &status),
                    MPI_ERR_TYPE);
    }
    MPI_Offset at = -1;
    CHECK_OK(MPI_File_get_position(file, &at));
    CHECK_EQ(at, 0, "position after refused transfers");
    section("bytes that are not whole etypes");
    CHECK_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    CHECK_CLASS(MPI_File_write_at(file, 0, bytes, 3, MPI_BYTE, &status), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_write_at(file, LLONG_MAX / 4 - 1, bytes, 4, MPI_INT, &status), MPI_ERR_ARG);
    section("resizing");
    CHECK_CLASS(MPI_File_set_size(file, -1), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_preallocate(file, -1), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_get_byte_offset(file, -1, &at), MPI_ERR_ARG);
    CHECK_OK(MPI_File_close(&file));
}

/* Ranks that fail in different ways at the same time: all ranks get one class, which is the class of one
 * of the failures. */
static void different_failures(void)
{
    char bytes[16];
    MPI_File file = plain(MPI_MODE_RDWR);
    section("different failures at the same time");
    int first = world_rank == 0, last = world_rank == world_size - 1;
    int class = class_of(MPI_File_write_at_all(file, first ? -1 : 0, bytes, !first && last ? -1 : 1, MPI_BYTE,
                         MPI_STATUS_IGNORE));
    CHECK(class == MPI_ERR_ARG || class == MPI_ERR_COUNT, "%s", class_name(class));
    CHECK_EQ(reduce_all(class, MPI_MAX), reduce_all(class, MPI_MIN),
             "largest error class of all ranks (other value: smallest)");
    CHECK_OK(MPI_File_close(&file));
    file = MPI_FILE_NULL;
    const char *path = path_of(last ? "no-such-file" : "errors");
    class = class_of(MPI_File_open(MPI_COMM_WORLD, path, first ? MPI_MODE_CREATE : MPI_MODE_RDONLY,
                     MPI_INFO_NULL, &file));
    CHECK(class == MPI_ERR_AMODE || class == MPI_ERR_NO_SUCH_FILE || class == MPI_ERR_NOT_SAME, "%s",
          class_name(class));
    CHECK_EQ(reduce_all(class, MPI_MAX), reduce_all(class, MPI_MIN),
             "largest error class of all ranks (other value: smallest)");
    CHECK(file == MPI_FILE_NULL, "a failed open returned a handle");
}

static void forbidden(void)
{
    char bytes[16];
    MPI_Status status;
    section("writing to a file opened for reading");
    MPI_File file = plain(MPI_MODE_RDONLY);
    CHECK_CLASS(MPI_File_write_at(file, 0, bytes, 1, MPI_BYTE, &status), MPI_ERR_READ_ONLY);
    CHECK_CLASS(MPI_File_write(file, bytes, 1, MPI_BYTE, &status), MPI_ERR_READ_ONLY);
    CHECK_CLASS(MPI_File_write_at_all(file, 0, bytes, 1, MPI_BYTE, &status), MPI_ERR_READ_ONLY);
    CHECK_CLASS(MPI_File_write_all(file, bytes, 1, MPI_BYTE, &status), MPI_ERR_READ_ONLY);
    CHECK_CLASS(MPI_File_set_size(file, 5), MPI_ERR_READ_ONLY);
    CHECK_CLASS(MPI_File_preallocate(file, 50000), MPI_ERR_READ_ONLY);
    CHECK_OK(MPI_File_read_at_all(file, 0, bytes, 1, MPI_BYTE, &status));
    CHECK_OK(MPI_File_close(&file));
    section("reading from a file opened for writing");
    file = plain(MPI_MODE_WRONLY);
    CHECK_CLASS(MPI_File_read_at(file, 0, bytes, 1, MPI_BYTE, &status), MPI_ERR_ACCESS);
    CHECK_CLASS(MPI_File_read(file, bytes, 1, MPI_BYTE, &status), MPI_ERR_ACCESS);
    CHECK_CLASS(MPI_File_read_at_all(file, 0, bytes, 1, MPI_BYTE, &status), MPI_ERR_ACCESS);
    CHECK_CLASS(MPI_File_read_all(file, bytes, 1, MPI_BYTE, &status), MPI_ERR_ACCESS);
    CHECK_OK(MPI_File_write_at_all(file, 0, "x", 1, MPI_BYTE, &status));
    CHECK_OK(MPI_File_close(&file));
}

static void use_dead(MPI_File file)
{
    char bytes[4];
    MPI_Status status;
    MPI_Offset offset;
    MPI_Info info;
    int number;
    CHECK_CLASS(MPI_File_read_at(file, 0, bytes, 1, MPI_BYTE, &status), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_write_all(file, bytes, 1, MPI_BYTE, &status), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_get_size(file, &offset), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_get_info(file, &info), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_get_amode(file, &number), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_seek(file, 0, MPI_SEEK_SET), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_sync(file), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_set_size(file, 0), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_get_atomicity(file, &number), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_close(&file), MPI_ERR_FILE);
}

static void dead_handles(void)
{
    section("null handle");
    use_dead(MPI_FILE_NULL);
    section("closed handle");
    MPI_File file = plain(MPI_MODE_RDWR), copy = file;
    CHECK_OK(MPI_File_close(&file));
    use_dead(copy);
    section("closed handle while another file is open");
    MPI_File other = plain(MPI_MODE_RDWR);
    use_dead(copy);
    MPI_Offset size = -1;
    CHECK_OK(MPI_File_get_size(other, &size));
    CHECK_EQ(size, 1000, "size");
    CHECK_OK(MPI_File_close(&other));
    section("foreign handles");
    static char not_a_file[4096];
    memset(not_a_file, 0x5a, sizeof not_a_file);
    use_dead((MPI_File)(intptr_t)not_a_file);
    use_dead((MPI_File)(intptr_t)-1);
    use_dead((MPI_File)(intptr_t)77);
    section("Fortran handles");
    use_dead(MPI_File_f2c(-5));
    use_dead(MPI_File_f2c(123456789));
    CHECK(MPI_File_f2c(MPI_File_c2f(MPI_FILE_NULL)) == MPI_FILE_NULL,
          "the null handle changed in c2f and f2c");
}

int main(int argc, char **argv)
{
    static char content[1000];
    start(&argc, &argv);
    if (world_rank == 0) spill(path_of("errors"), content, sizeof content);
    barrier();
    bad_modes();
    bad_names();
    one_rank_misses();
    bad_views();
    bad_transfers();
    different_failures();
    forbidden();
    /* The MPI libraries themselves dereference a foreign handle. */
    if (!getenv("CHECK_NATIVE")) dead_handles();
    return finish();
}
