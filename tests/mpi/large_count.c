/* The functions with MPI_Count arguments. Open MPI up to 5.0 lacks these functions and their
 * declarations. Capulet exports them there too, so the program looks them up by name. A count above 2^31
 * is passed for a read of a file that ends long before. */
#include "check.h"
#include <dlfcn.h>

typedef int (*at_function)(MPI_File, MPI_Offset, void *, MPI_Count, MPI_Datatype, MPI_Status *);
typedef int (*pointer_function)(MPI_File, void *, MPI_Count, MPI_Datatype, MPI_Status *);
typedef int (*extent_function)(MPI_File, MPI_Datatype, MPI_Count *);

static void *function(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    CHECK(found != NULL, "%s is not exported", name);
    if (found == NULL) exit(finish());
    return found;
}

#define LOOK_UP(type, name) type name = (type)(intptr_t)function("MPI_File_" #name)

static void small_counts(MPI_File file)
{
    LOOK_UP(at_function, write_at_c);
    LOOK_UP(at_function, write_at_all_c);
    LOOK_UP(at_function, read_at_c);
    LOOK_UP(at_function, read_at_all_c);
    LOOK_UP(pointer_function, write_c);
    LOOK_UP(pointer_function, write_all_c);
    LOOK_UP(pointer_function, read_c);
    LOOK_UP(pointer_function, read_all_c);
    LOOK_UP(extent_function, get_type_extent_c);
    const at_function writes_at[] = { write_at_c, write_at_all_c }, reads_at[] = { read_at_c, read_at_all_c };
    const pointer_function writes[] = { write_c, write_all_c }, reads[] = { read_c, read_all_c };
    MPI_Status status;
    MPI_Count extent = -1;
    for (int c = 0; c < 2; c++) {
        section("64-bit counts, %s", c ? "collective" : "independent");
        int values[16], back[16];
        for (int i = 0; i < 16; i++) values[i] = 1000 * c + 100 * world_rank + i;
        CHECK_OK(writes_at[c](file, 64 * world_rank, values, 16, MPI_INT, &status));
        CHECK_EQ(count_of(&status, MPI_INT), 16, "count");
        CHECK_OK(reads_at[c](file, 64 * world_rank, back, 16, MPI_INT, &status));
        CHECK(memcmp(values, back, sizeof back) == 0, "the values read back are wrong");
        CHECK_OK(MPI_File_seek(file, 64 * world_rank, MPI_SEEK_SET));
        for (int i = 0; i < 16; i++) values[i] += 7;
        CHECK_OK(writes[c](file, values, 16, MPI_INT, &status));
        CHECK_OK(MPI_File_seek(file, 64 * world_rank, MPI_SEEK_SET));
        CHECK_OK(reads[c](file, back, 16, MPI_INT, &status));
        CHECK_EQ(count_of(&status, MPI_INT), 16, "count");
        CHECK(memcmp(values, back, sizeof back) == 0, "the values read back are wrong");
        CHECK_CLASS(reads_at[c](file, 0, back, -1, MPI_INT, &status), MPI_ERR_COUNT);
    }
    CHECK_OK(get_type_extent_c(file, MPI_DOUBLE, &extent));
    CHECK_EQ(extent, 8, "extent");
}

/* Requests 2^31 + 8 bytes of a file that ends long before. The count must be the true one, and no
 * assertion about int may fail. */
static void count_above_int(MPI_File file)
{
    LOOK_UP(at_function, read_at_c);
    LOOK_UP(at_function, read_at_all_c);
    MPI_Count many = (1LL << 31) + 8;
    MPI_Offset size = -1;
    MPI_Status status;
    section("a count above 2^31");
    CHECK_OK(MPI_File_get_size(file, &size));
    /* Not touched beyond the end of the file, so not backed by memory. */
    unsigned char *bytes = malloc((size_t)many);
    for (int c = 0; c < 2; c++) {
        CHECK_OK((c ? read_at_all_c : read_at_c)(file, 16, bytes, many, MPI_BYTE, &status));
        CHECK_EQ(elements(&status, MPI_BYTE), size - 16, "bytes");
    }
    free(bytes);
}

int main(int argc, char **argv)
{
    MPI_File file;
    start(&argc, &argv);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("large-count"), MPI_MODE_CREATE | MPI_MODE_RDWR,
             MPI_INFO_NULL, &file));
    small_counts(file);
    barrier();
    count_above_int(file);
    CHECK_OK(MPI_File_close(&file));
    return finish();
}
