/* Arguments that are freed while a file is open, communicators that may open files, and files that are
 * closed late. */
#include "check.h"

static int closed_late;

/* Called inside MPI_Finalize, where HDF5 also closes the files that its user forgot. */
static int close_late(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm; (void)keyval; (void)extra;
    closed_late = MPI_File_close((MPI_File *)value) == MPI_SUCCESS;
    return MPI_SUCCESS;
}

static int copy_nothing(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm; (void)keyval; (void)extra; (void)in; (void)out;
    *flag = 0;
    return MPI_SUCCESS;
}

static void freed_arguments(void)
{
    section("communicator, info and types freed while the file is open");
    MPI_Comm comm;
    MPI_Info info;
    MPI_File file;
    MPI_Datatype inner, filetype, memory;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "4096");
    CHECK_OK(MPI_File_open(comm, path_of("freed"), MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    MPI_Comm_free(&comm);
    MPI_Type_contiguous(2, MPI_INT, &inner);
    MPI_Type_create_resized(inner, 0, 8 * world_size, &filetype);
    MPI_Type_commit(&filetype);
    CHECK_OK(MPI_File_set_view(file, 8 * world_rank, MPI_INT, filetype, "native", MPI_INFO_NULL));
    MPI_Type_free(&filetype);
    MPI_Type_free(&inner);
    /* Handles are reused for other types, so a stale cache would be detected. */
    for (int round = 0; round < 20; round++) {
        int values[24], back[24];
        for (int i = 0; i < 24; i++) values[i] = round * 1000 + world_rank * 100 + i, back[i] = -1;
        int gap = 1 + round % 3;
        MPI_Type_vector(8, 1, gap, MPI_INT, &memory);
        MPI_Type_commit(&memory);
        CHECK_OK(MPI_File_write_at_all(file, 8 * round, values, 1, memory, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_File_read_at_all(file, 8 * round, back, 1, memory, MPI_STATUS_IGNORE));
        for (int i = 0; i < 24; i++) CHECK_EQ(back[i], i % gap == 0 && i / gap < 8 ? values[i] : -1, "value");
        MPI_Type_free(&memory);
    }
    CHECK_OK(MPI_File_close(&file));
}

static void other_communicators(void)
{
    MPI_File file;
    MPI_Comm comm;
    char name[32];
    int value = world_rank, seen = -1;
    section("MPI_COMM_SELF");
    snprintf(name, sizeof name, "self-%d", world_rank);
    CHECK_OK(MPI_File_open(MPI_COMM_SELF, path_of(name),
             MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    CHECK_OK(MPI_File_write_all(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_read_at_all(file, 0, &seen, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(seen, world_rank, "value");
    CHECK_OK(MPI_File_close(&file));

    section("halves with their ranks in reverse order");
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, -world_rank, &comm);
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    snprintf(name, sizeof name, "half-%d", world_rank % 2);
    CHECK_OK(MPI_File_open(comm, path_of(name), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK_OK(MPI_File_set_view(file, 4 * rank, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_File_write_at_all(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_sync(file));
    barrier_on(comm);
    CHECK_OK(MPI_File_set_view(file, 4 * (size - 1 - rank), MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_File_read_at_all(file, 0, &seen, 1, MPI_INT, MPI_STATUS_IGNORE));
    /* The keys decrease, so rank size - 1 - rank of the half has the world rank 2 rank + half. */
    CHECK_EQ(seen, world_rank % 2 + 2 * rank, "value");
    CHECK_OK(MPI_File_close(&file));
    MPI_Comm_free(&comm);

    if (world_size > 1 && !getenv("CHECK_NATIVE")) {
        section("intercommunicator");
        MPI_Comm half, inter;
        MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, world_rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - world_rank % 2, 7, &inter);
        CHECK_CLASS(MPI_File_open(inter, path_of("inter"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                    &file), MPI_ERR_COMM);
        MPI_Comm_free(&inter);
        MPI_Comm_free(&half);
    }
}

/* Files of one communicator, used alternately and in different states, and one file that is opened twice. */
static void several_files(void)
{
    section("three files at once");
    MPI_File files[3];
    int seen = -1;
    for (int f = 0; f < 3; f++)
        CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of(f == 2 ? "turn-1" : f ? "turn-1" : "turn-0"),
                 MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &files[f]));
    for (int round = 0; round < 10; round++)
        for (int f = 0; f < 2; f++) {
            int value = round * 1000 + f * 100 + world_rank;
            CHECK_OK(MPI_File_write_at_all(files[f], 4 * (round * world_size + world_rank), &value, 1,
                     MPI_INT, MPI_STATUS_IGNORE));
        }
    CHECK_OK(MPI_File_sync(files[1]));
    barrier();
    CHECK_OK(MPI_File_sync(files[2]));
    for (int round = 0; round < 10; round++) {
        CHECK_OK(MPI_File_read_at(files[2], 4 * (round * world_size + world_rank), &seen, 1, MPI_INT,
                 MPI_STATUS_IGNORE));
        CHECK_EQ(seen, round * 1000 + 100 + world_rank, "value through the second handle");
    }
    for (int f = 2; f >= 0; f--) CHECK_OK(MPI_File_close(&files[f]));
}

static void no_status(void)
{
    section("MPI_STATUS_IGNORE and the error field");
    MPI_File file;
    MPI_Status status;
    char bytes[8] = "status!";
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("status"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
             &file));
    status.MPI_ERROR = 4711;
    CHECK_OK(MPI_File_write_at(file, 0, bytes, 8, MPI_BYTE, &status));
    CHECK_EQ(status.MPI_ERROR, 4711, "MPI_ERROR of a call that returns one status"); /* MPI 4.1, 3.2.5 */
    int cancelled = -1;
    MPI_Test_cancelled(&status, &cancelled);
    CHECK_EQ(cancelled, 0, "cancelled flag");
    CHECK_OK(MPI_File_read_at_all(file, 0, NULL, 0, MPI_BYTE, &status));
    CHECK_EQ(count_of(&status, MPI_INT), 0, "count of an empty access");
    CHECK_OK(MPI_File_close(&file));
}

/* A relative name means the file that was opened, even if the program has changed its folder when the
 * file is deleted. */
static void another_folder(void)
{
    section("delete on close from another folder");
    char before[PATH_MAX], name[] = "relative";
    MPI_File file;
    CHECK(getcwd(before, sizeof before) != NULL, "the current folder is unknown");
    if (world_rank == 0) CHECK_EQ(mkdir(path_of("elsewhere"), 0700), 0, "mkdir");
    CHECK_EQ(chdir(work_dir), 0, "chdir");
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
             MPI_INFO_NULL, &file));
    CHECK_EQ(access(path_of(name), F_OK), 0, "access to the opened file");
    CHECK_EQ(chdir(path_of("elsewhere")), 0, "chdir");
    if (world_rank == 0) {
        FILE *namesake = fopen(name, "w");
        CHECK(namesake && fclose(namesake) == 0, "cannot create a file of the same name in another folder");
    }
    CHECK_OK(MPI_File_close(&file));
    CHECK_EQ(access(path_of(name), F_OK), -1, "access to the opened file after close");
    CHECK_EQ(access(path_of("elsewhere/relative"), F_OK), 0, "a file of the same name in another folder");
    CHECK_EQ(chdir(before), 0, "chdir");
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    freed_arguments();
    other_communicators();
    several_files();
    no_status();
    if (!getenv("CHECK_NATIVE")) another_folder();
    static MPI_File forgotten;
    int keyval;
    section("closed inside MPI_Finalize");
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("forgotten"), MPI_MODE_CREATE | MPI_MODE_RDWR,
             MPI_INFO_NULL, &forgotten));
    MPI_Comm_create_keyval(copy_nothing, close_late, &keyval, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &forgotten);
    int code = finish();
    if (!closed_late)
        fprintf(stderr, "FAILED [rank %d]: the file was not closed inside MPI_Finalize\n", world_rank);
    return code || !closed_late;
}
