/* hint_keys FOLDER [MODE BYTES]: ROMIO reports these hints on every file, and programs and MPICH's own
 * tests read them. Each hint is present, has the value in force, and can be set if Capulet uses it. Hints
 * for independent access (ind_*, romio_ds_*) may differ between ranks. With MODE (romio_ds_read) and BYTES
 * (ind_rd_buffer_size), the program makes one access, and the harness counts its system calls. */
#include "check.h"

static int lookup(MPI_File file, const char *key, char *value)
{
    MPI_Info info = MPI_INFO_NULL;
    int found = 0;
    value[0] = 0;
    CHECK_OK(MPI_File_get_info(file, &info));
    MPI_Info_get(info, (char *)key, 255, value, &found);
    MPI_Info_free(&info);
    return found;
}

static void expect(MPI_File file, const char *key, const char *expected)
{
    char value[256];
    int found = lookup(file, key, value);
    CHECK(found && strcmp(value, expected) == 0, "%s is `%s` (%sfound), not `%s`", key, value,
          found ? "" : "not ", expected);
}

static MPI_Info hints_of(int pairs, const char *const *text)
{
    MPI_Info info;
    MPI_Info_create(&info);
    for (int p = 0; p < pairs; p++) MPI_Info_set(info, (char *)text[2 * p], (char *)text[2 * p + 1]);
    return info;
}

static MPI_File open_with(int pairs, const char *const *text)
{
    MPI_Info info = hints_of(pairs, text);
    MPI_File file = MPI_FILE_NULL;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("keys"), MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    return file;
}

static void defaults(void)
{
    static const char *const keys[] = { "cb_buffer_size", "cb_nodes", "cb_config_list", "romio_cb_read",
                                        "romio_cb_write", "romio_cb_pfr", "romio_cb_fr_types",
                                        "romio_no_indep_rw", "ind_rd_buffer_size", "ind_wr_buffer_size",
                                            "romio_ds_read", "romio_ds_write" };
    char value[256];
    section("defaults");
    MPI_File file = open_with(0, NULL);
    for (unsigned k = 0; k < sizeof keys / sizeof *keys; k++)
        CHECK(lookup(file, keys[k], value), "%s is missing", keys[k]);
    expect(file, "romio_no_indep_rw", "false");
    expect(file, "romio_cb_read", "automatic");
    expect(file, "romio_cb_write", "automatic");
    expect(file, "romio_ds_read", "automatic");
    expect(file, "romio_cb_pfr", "disable");
    expect(file, "romio_cb_fr_types", "aar");
    CHECK(lookup(file, "ind_rd_buffer_size", value) && atoi(value) > 0, "ind_rd_buffer_size is %s", value);
    CHECK(lookup(file, "ind_wr_buffer_size", value) && atoi(value) > 0, "ind_wr_buffer_size is %s", value);
    CHECK_OK(MPI_File_close(&file));
}

static void set(void)
{
    static const char *const text[] = { "cb_buffer_size", "8388608", "ind_rd_buffer_size", "2097152",
                                        "ind_wr_buffer_size", "1048576", "cb_config_list", "*:*",
                                        "striping_unit", "131072", "start_iodevice", "0", "pfs_svr_buf",
                                            "true", "romio_ds_read", "disable" };
    static const char *const later[] = { "ind_rd_buffer_size", "65536", "romio_ds_read", "enable",
                                         "ind_wr_buffer_size", "0", "romio_ds_write", "enable" };
    section("hints at open");
    MPI_File file = open_with(8, text);
    expect(file, "cb_buffer_size", "8388608");
    expect(file, "ind_rd_buffer_size", "2097152");
    expect(file, "ind_wr_buffer_size", "1048576");
    expect(file, "cb_config_list", "*:*");
    expect(file, "romio_ds_read", "disable");
    section("hints on an open file");
    MPI_Info info = hints_of(4, later);
    CHECK_OK(MPI_File_set_info(file, info));
    MPI_Info_free(&info);
    expect(file, "ind_rd_buffer_size", "65536");
    expect(file, "ind_wr_buffer_size", "1048576");
    expect(file, "romio_ds_read", "enable");
    if (!getenv("CHECK_NATIVE"))
        /* Without the promise of capulet_exclusive, no hole is written back. */
        expect(file, "romio_ds_write", "disable");
    CHECK_OK(MPI_File_close(&file));
    static const char *const promised[] = { "capulet_exclusive", "true", "romio_ds_write", "enable" };
    file = open_with(2, promised);
    expect(file, "romio_ds_write", "enable");
    CHECK_OK(MPI_File_close(&file));
}

static void of_one_rank(void)
{
    char bytes[32];
    section("hints that differ between ranks");
    snprintf(bytes, sizeof bytes, "%d", 4096 * (world_rank + 1));
    const char *const own[] = { "ind_rd_buffer_size", bytes, "ind_wr_buffer_size", bytes, "romio_ds_read",
                                world_rank % 2 ? "disable" : "enable" };
    MPI_File file = open_with(3, own);
    expect(file, "ind_rd_buffer_size", bytes);
    expect(file, "ind_wr_buffer_size", bytes);
    expect(file, "romio_ds_read", world_rank % 2 ? "disable" : "enable");
    MPI_Info info = hints_of(3, own);
    CHECK_OK(MPI_File_set_info(file, info));
    CHECK_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", info));
    MPI_Info_free(&info);
    CHECK_OK(MPI_File_close(&file));
}

#define PIECES 4096
#define PIECE 16
#define PERIOD 32

/* Each rank accesses every second piece of its part of the file independently, with these hints of the
 * sieve buffer. */
static void used(const char *mode, const char *bytes)
{
    const char *const text[] = { "romio_ds_read", mode, "ind_rd_buffer_size", bytes, "ind_wr_buffer_size",
                                 bytes, "romio_ds_write", mode, "capulet_exclusive", "true" };
    static unsigned char mine[PIECES * PIECE], back[PIECES * PIECE];
    MPI_Datatype piece, pieces;
    section("romio_ds_read=%s ind_rd_buffer_size=%s", mode, bytes);
    MPI_File file = open_with(5, text);
    MPI_Type_contiguous(PIECE, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, PERIOD, &pieces);
    MPI_Type_commit(&pieces);
    CHECK_OK(MPI_File_set_view(file, (MPI_Offset)world_rank * PIECES * PERIOD, MPI_BYTE, pieces, "native",
             MPI_INFO_NULL));
    for (int i = 0; i < PIECES * PIECE; i++) mine[i] = value_at(world_rank, i, (int)strlen(bytes));
    memset(back, 0, sizeof back);
    CHECK_OK(MPI_File_write_at(file, 0, mine, sizeof mine, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_read_at(file, 0, back, sizeof back, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(memcmp(mine, back, sizeof mine) == 0, "the bytes read differ from those written");
    CHECK_OK(MPI_File_close(&file));
    MPI_Type_free(&piece);
    MPI_Type_free(&pieces);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (argc > 3) {
        used(argv[2], argv[3]);
        return finish();
    }
    defaults();
    set();
    of_one_rank();
    static const char *const modes[] = { "enable", "disable", "automatic" },
        *const sizes[] = { "1", "49", "4096", "262144", "4194304" };
    for (unsigned m = 0; m < 3; m++)
        for (unsigned s = 0; s < 5; s++)
            used(modes[m], sizes[s]);
    return finish();
}
