/* The command line. Measures every row once, in order. Prints a line before each row, and a line with the
 * result after it. */
#include "bench_io.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *suite, *folder, *pattern, *skipped;
    int first;
    double scale;
} options;

static const char usage[] =
    "usage: mpiexec -n P capulet-bench-io --suite collective|independent|atomic --dir FOLDER [--case TEXT] [--scale S] [--first ROW]\n"
    "       [--skip ROW,ROW,...] [--cold]\n"
    "TEXT is searched for in `suite case op state`. S is the size of each row as a factor of 32 MiB.\n";

static bool parse(int argc, char **argv, options *parsed)
{
    static const struct option known[] = {
        { "suite", required_argument, NULL, 'u' }, { "dir", required_argument, NULL, 'd' },
        { "case", required_argument, NULL, 'c' },  { "scale", required_argument, NULL, 's' },
        { "first", required_argument, NULL, 'f' }, { "skip", required_argument, NULL, 'k' },
        { "cold", no_argument, NULL, 'o' },        { NULL, 0, NULL, 0 },
    };
    *parsed = (options){ .suite = NULL, .folder = NULL, .pattern = "", .skipped = "", .first = 0, .scale = 1 };
    opterr = team_rank == 0;
    for (int name; (name = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (name) {
        case 'u': parsed->suite = optarg; break;
        case 'd': parsed->folder = optarg; break;
        case 'c': parsed->pattern = optarg; break;
        case 's': parsed->scale = atof(optarg); break;
        case 'f': parsed->first = atoi(optarg); break;
        case 'k': parsed->skipped = optarg; break;
        case 'o': storage_is_cold = true; break;
        default: return false;
        }
    }
    /* A larger scale would need counts that an int cannot hold. */
    return optind == argc && parsed->suite != NULL && parsed->folder != NULL && parsed->scale > 0 && parsed->scale <= 32;
}

static bool is_skipped(const char *list, int id)
{
    while (*list != '\0') {
        char *end;
        if (strtol(list, &end, 10) == id && end != list) return true;
        if (*end == '\0' || end == list) return false;
        list = end + 1;
    }
    return false;
}

static bool is_wanted(const options *options, const bench_row *row)
{
    char text[128];
    snprintf(text, sizeof text, "%s %s %s %s", row->suite, row->name, op_name(row), state_name(row));
    return row->id >= options->first && strstr(text, options->pattern) != NULL && !is_skipped(options->skipped, row->id);
}

/* The common head of both lines of a row. The launch may die between the lines. */
static void print_head(const char *line, const bench_row *row)
{
    printf("{\"line\":\"%s\",\"id\":%d,\"suite\":\"%s\",\"case\":\"%s\",\"op\":\"%s\",\"state\":\"%s\"", line, row->id, row->suite,
           row->name, op_name(row), state_name(row));
}

static void print_row(const bench_row *row, const measurement *result)
{
    print_head("row", row);
    printf(",\"bytes\":%lld,\"pieces\":%lld,\"operations\":%d,\"seconds\":%.9f,\"view_seconds\":%.9f,\"limit_seconds\":%.9f,"
           "\"hash\":\"%016llx\",\"strays\":%lld",
           (long long)result->bytes, (long long)result->pieces, result->operations, result->seconds, result->view_seconds,
           result->limit_seconds, (unsigned long long)result->hash, (long long)result->strays);
    if (result->plain_seconds > 0) printf(",\"plain_seconds\":%.9f", result->plain_seconds);
    if (result->round_trip_seconds > 0) printf(",\"round_trip_seconds\":%.9f", result->round_trip_seconds);
    if (result->fault[0] == '\0')
        printf(",\"fault\":null}\n");
    else
        printf(",\"fault\":\"%s\"}\n", result->fault);
}

static void run_rows(const options *options, const bench_row *rows, int count)
{
    char fault[FAULT_BYTES], library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length, wanted = 0;
    MPI_Get_library_version(library, &length);
    library[strcspn(library, ",\n\"\\")] = '\0';
    for (char *at = library; *at != '\0'; at++)
        if (*at < ' ') *at = ' ';
    const char *layer = warm_up(options->folder, fault);
    for (int at = 0; at < count; at++) wanted += is_wanted(options, &rows[at]);
    if (team_rank == 0) {
        if (fault[0] != '\0') fprintf(stderr, "capulet-bench-io: first access: %s\n", fault);
        printf("{\"line\":\"start\",\"library\":\"%s\",\"layer\":\"%s\",\"rows\":%d}\n", library, layer, wanted);
    }
    for (int at = 0; at < count; at++) {
        if (!is_wanted(options, &rows[at])) continue;
        if (team_rank == 0) {
            print_head("begin", &rows[at]);
            printf("}\n");
            fflush(stdout);
        }
        measurement result;
        measure(&rows[at], options->folder, options->scale, &result);
        if (team_rank == 0) {
            print_row(&rows[at], &result);
            fflush(stdout);
        }
    }
}

int main(int argc, char **argv)
{
    team_start(&argc, &argv);
    options options;
    int count = 0;
    const bench_row *rows = parse(argc, argv, &options) ? rows_of(options.suite, &count) : NULL;
    if (rows == NULL) {
        if (team_rank == 0) fputs(usage, stderr);
        MPI_Finalize();
        return 2;
    }
    run_rows(&options, rows, count);
    MPI_Finalize();
    return 0;
}
