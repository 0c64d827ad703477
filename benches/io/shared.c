/* Writes through the shared file pointer. The content of a block names the rank and the number of the write,
 * because the rank does not know the offset before. */
#include "bench_io.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The content of a block is the cells from this offset on. */
static int64_t content_of(const bench_row *row, int rank, int64_t number)
{
    return (rank * (int64_t)row->repeats + number) * row->piece_bytes;
}

/* The file must have each block of each rank once. The blocks of a rank must be in the order of its writes.
 * The blocks of an ordered write must be in the order of the ranks. */
static void judge_blocks(const bench_row *row, const unsigned char *bytes, char fault[FAULT_BYTES])
{
    int64_t *found = calloc((size_t)team_size, sizeof *found);
    if (found == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    for (int64_t at = 0; at < (int64_t)row->repeats * team_size; at++) {
        int rank = row->collective ? (int)(at % team_size) : 0;
        const int end = row->collective ? rank + 1 : team_size;
        while (rank < end && !are_cells(bytes + at * row->piece_bytes, content_of(row, rank, found[rank]), row->piece_bytes)) rank++;
        if (rank == end) {
            note_fault(fault, "block %lld of the file is not the next block of a rank", (long long)at);
            break;
        }
        found[rank]++;
    }
    free(found);
}

static void judge(const bench_row *row, const char *path, char fault[FAULT_BYTES])
{
    const int64_t bytes = row->piece_bytes * row->repeats * team_size;
    struct stat about;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &about) != 0 || about.st_size != bytes) {
        note_fault(fault, "the file does not have %lld bytes", (long long)bytes);
    } else {
        unsigned char *mapped = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, file, 0);
        if (mapped == MAP_FAILED) {
            note_fault(fault, "mmap fails");
        } else {
            judge_blocks(row, mapped, fault);
            munmap(mapped, (size_t)bytes);
        }
    }
    if (file >= 0) close(file);
}

static void write_blocks(const bench_row *row, MPI_File file, const unsigned char *memory, measurement *result)
{
    MPI_Status status;
    team_barrier();
    const double begin = now_seconds();
    for (int number = 0; number < row->repeats; number++) {
        const unsigned char *block = memory + number * row->piece_bytes;
        const int code = (row->collective ? MPI_File_write_ordered : MPI_File_write_shared)(file, block, (int)row->piece_bytes,
                                                                                          MPI_BYTE, &status);
        note_mpi(result->fault, "write", code);
    }
    const double end = now_seconds();
    result->seconds = team_span(begin, end);
}

void measure_shared(const bench_row *row, const char *path, measurement *result)
{
    const int64_t own_bytes = row->piece_bytes * row->repeats;
    unsigned char *memory = malloc((size_t)own_bytes);
    MPI_File file;
    if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    fill_cells(memory, content_of(row, team_rank, 0), own_bytes);
    result->bytes = own_bytes * team_size;
    result->pieces = (int64_t)row->repeats * team_size;
    result->operations = row->repeats;
    prepare_file(path, row->state, 0, result->fault);
    note_mpi(result->fault, "open",
             MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    if (!team_fault(result->fault)) {
        write_blocks(row, file, memory, result);
        note_mpi(result->fault, "close", MPI_File_close(&file));
    }
    if (!team_fault(result->fault) && team_rank == 0) judge(row, path, result->fault);
    remove_file(path);
    if (!team_fault(result->fault))
        result->limit_seconds = limit_seconds(path, row->state, false, memory, own_bytes, result->fault);
    free(memory);
}
