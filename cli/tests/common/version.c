// An MPI program that needs no launcher. It prints whether the stand-in answers, which MPI libraries are
// mapped, and its arguments and variables.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    int version = 0, subversion = 0;
    MPI_Get_version(&version, &subversion);
    printf("interposed %s\n", subversion >= 1000 ? "yes" : "no");
    for (int i = 1; i < argc; i++) printf("argument %s\n", argv[i]);
    const char *names[] = {"LD_PRELOAD", "CAPULET_DRIVER", "CAPULET_HINTS", "CAPULET_STATS", "CAPULET_LOG"};
    for (int i = 0; i < 5; i++)
        if (getenv(names[i])) printf("%s %s\n", names[i], getenv(names[i]));
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "/libmpi") && strstr(line, "r-xp")) printf("mapped %s", strchr(line, '/'));
    return argc > 1 ? atoi(argv[1]) : 0;
}
