/* Hints: get_info reports the hints in force, unknown keys are dropped, and the user's info takes
 * precedence over the file that ROMIO_HINTS names. */
#include "check.h"

static int lookup(MPI_Info info, const char *key, char *value)
{
    int found = 0;
    MPI_Info_get(info, (char *)key, 255, value, &found);
    return found;
}

static void expect(MPI_File file, const char *key, const char *expected)
{
    char value[256] = "";
    MPI_Info info = MPI_INFO_NULL;
    CHECK_OK(MPI_File_get_info(file, &info));
    CHECK(info != MPI_INFO_NULL, "get_info returned no info");
    if (info == MPI_INFO_NULL) return;
    int found = lookup(info, key, value);
    if (expected == NULL) CHECK(!found, "%s is `%s`, but should be absent", key, value);
    else CHECK(found && strcmp(value, expected) == 0, "%s is `%s` (%sfound), not `%s`", key, value,
               found ? "" : "not ", expected);
    MPI_Info_free(&info);
}

static MPI_File open_with(int pairs, const char *const *text)
{
    MPI_Info info = MPI_INFO_NULL;
    MPI_File file = MPI_FILE_NULL;
    if (pairs) MPI_Info_create(&info);
    for (int p = 0; p < pairs; p++) MPI_Info_set(info, (char *)text[2 * p], (char *)text[2 * p + 1]);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, path_of("hinted"), MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    if (pairs) MPI_Info_free(&info); /* The file keeps its own copy. */
    return file;
}

static void defaults_are_reported(void)
{
    static const char *const always[] = { "cb_buffer_size", "cb_nodes", "romio_cb_read", "romio_cb_write" };
    char value[256];
    section("defaults");
    MPI_File file = open_with(0, NULL);
    MPI_Info info = MPI_INFO_NULL;
    CHECK_OK(MPI_File_get_info(file, &info));
    for (unsigned k = 0; k < sizeof always / sizeof *always; k++)
        CHECK(lookup(info, always[k], value), "%s is missing", always[k]);
    CHECK(lookup(info, "cb_nodes", value) && atoi(value) >= 1 && atoi(value) <= world_size, "cb_nodes is %s",
          value);
    CHECK(!lookup(info, "romio_visibility_immediate", value) || strcmp(value, "true") == 0,
          "romio_visibility_immediate is false, so HDF5 refuses independent writes");
    MPI_Info_free(&info);
    CHECK_OK(MPI_File_close(&file));
}

static void requested_hints(void)
{
    static const char *const text[] = { "cb_buffer_size", "65536", "cb_nodes", "1", "romio_cb_write",
                                        "enable", "romio_cb_read", "disable",
                                        "no_such_hint", "5", "striping_unit", "8192" };
    section("hints at open");
    MPI_File file = open_with(6, text);
    expect(file, "cb_buffer_size", "65536");
    expect(file, "cb_nodes", "1");
    expect(file, "romio_cb_write", "enable");
    expect(file, "romio_cb_read", "disable");
    expect(file, "striping_unit", "8192");
    expect(file, "no_such_hint", NULL);

    section("set_info and set_view");
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", "disable");
    MPI_Info_set(info, "no_such_hint", "6");
    CHECK_OK(MPI_File_set_info(file, info));
    expect(file, "romio_cb_write", "disable");
    expect(file, "no_such_hint", NULL);
    MPI_Info_set(info, "romio_cb_write", "automatic");
    CHECK_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", info));
    expect(file, "romio_cb_write", "automatic");
    expect(file, "romio_cb_read", "disable");
    MPI_Info_set(info, "romio_cb_write", "nonsense");
    MPI_Info_set(info, "cb_buffer_size", "-5");
    CHECK_OK(MPI_File_set_info(file, info)); /* A meaningless value is ignored (MPI 4.1, 10). */
    expect(file, "romio_cb_write", "automatic");
    expect(file, "cb_buffer_size", "65536");
    MPI_Info_free(&info);
    CHECK_OK(MPI_File_set_info(file, MPI_INFO_NULL));
    CHECK_OK(MPI_File_close(&file));
}

/* Which ranks aggregate: a list of hosts, of which the first entry that fits counts. */
static void config_list(void)
{
    char host[MPI_MAX_PROCESSOR_NAME + 1] = "", named[MPI_MAX_PROCESSOR_NAME + 64], all[16], by_node[16];
    const int nodes = getenv("CAPULET_NODES") ? atoi(getenv("CAPULET_NODES")) : 1;
    int length = 0;
    section("cb_config_list");
    MPI_Get_processor_name(host, &length); /* one machine, one name */
    snprintf(named, sizeof named, "no-such-host:3,%s:1,*:0", host);
    snprintf(all, sizeof all, "%d", world_size);
    snprintf(by_node, sizeof by_node, "%d", nodes < world_size ? nodes : world_size);
    const struct { const char *list, *in_force, *nodes; } cases[] = {
        { "*:1", "*:1", by_node }, { "*:*", "*:*", all }, { named, named, by_node },
        { "no-such-host:3", "*:*", all },
        { "nonsense:here", "*:*", all }, { "*:0", "*:*", all },
    };
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        const char *const text[] = { "cb_config_list", cases[c].list };
        MPI_File file = open_with(1, text);
        expect(file, "cb_config_list", cases[c].in_force);
        expect(file, "cb_nodes", cases[c].nodes);
        CHECK_OK(MPI_File_close(&file));
    }
    const char *const both[] = { "cb_config_list", "*:*", "cb_nodes", "1" };
    MPI_File file = open_with(2, both);
    expect(file, "cb_nodes", "1");
    CHECK_OK(MPI_File_close(&file));
    section("cb_config_list on an open file");
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_nodes", "1");
    MPI_Info_set(info, "cb_config_list", "*:0"); /* Counts at open only. */
    file = open_with(0, NULL);
    CHECK_OK(MPI_File_set_info(file, info));
    expect(file, "cb_nodes", "1");
    expect(file, "cb_config_list", "*:*");
    MPI_Info_set(info, "cb_nodes", "0");
    CHECK_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", info));
    expect(file, "cb_nodes", all);
    MPI_Info_free(&info);
    CHECK_OK(MPI_File_close(&file));
}

static void permissions(void)
{
    static const char *const text[] = { "file_perm", "0640" };
    struct stat about;
    section("file_perm");
    if (world_rank == 0) unlink(path_of("hinted"));
    mode_t mask = umask(0);
    barrier();
    MPI_File file = open_with(1, text);
    umask(mask);
    CHECK(stat(path_of("hinted"), &about) == 0, "the file does not exist");
    CHECK((about.st_mode & 0777) == 0640, "permissions are %o", about.st_mode & 0777);
    CHECK_OK(MPI_File_close(&file));
}

/* The harness wrote this file: cb_buffer_size 131072, romio_cb_read enable, a comment, an unknown key,
 * and a line without a value. */
static void hint_file(void)
{
    static const char *const text[] = { "romio_cb_read", "disable" };
    section("ROMIO_HINTS");
    MPI_File file = open_with(0, NULL);
    expect(file, "cb_buffer_size", "131072");
    expect(file, "romio_cb_read", "enable");
    expect(file, "unknown_key", NULL);
    CHECK_OK(MPI_File_close(&file));
    file = open_with(1, text);
    expect(file, "cb_buffer_size", "131072");
    expect(file, "romio_cb_read", "disable");
    CHECK_OK(MPI_File_close(&file));
}

/* `capulet run --hint cb_buffer_size=262144 --hint romio_cb_read=enable` takes precedence over the
 * program. */
static void hints_of_the_command(void)
{
    static const char *const text[] = { "cb_buffer_size", "65536", "romio_cb_write", "disable" };
    section("--hint");
    MPI_File file = open_with(2, text);
    expect(file, "cb_buffer_size", "262144");
    expect(file, "romio_cb_read", "enable");
    expect(file, "romio_cb_write", "disable");
    CHECK_OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (getenv("ROMIO_HINTS")) hint_file();
    else if (getenv("CHECK_COMMAND_HINTS")) hints_of_the_command();
    else {
        defaults_are_reported();
        requested_hints();
        if (getenv("CHECK_CONFIG_LIST")) config_list();
        permissions();
    }
    return finish();
}
