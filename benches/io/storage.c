/* The file by POSIX alone: preparation, checks, and the limit of the machine. */
#include "bench_io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK_BYTES ((int64_t)1 << 20)

/* Moves all bytes, even if the system moves fewer at once. */
static void transfer(int file, bool reading, unsigned char *memory, int64_t offset, int64_t bytes, char fault[FAULT_BYTES])
{
    while (bytes > 0) {
        const ssize_t moved =
            reading ? pread(file, memory, (size_t)bytes, offset) : pwrite(file, memory, (size_t)bytes, offset);
        if (moved < 0 && errno == EINTR) continue;
        if (moved <= 0) {
            note_fault(fault, "%s: %s", reading ? "pread" : "pwrite", moved < 0 ? strerror(errno) : "end of file");
            return;
        }
        memory += moved;
        offset += moved;
        bytes -= moved;
    }
}

static int open_for_all(const char *path, int flags, char fault[FAULT_BYTES])
{
    const int file = open(path, flags | O_CLOEXEC, 0600);
    if (file < 0) note_fault(fault, "%s: %s", path, strerror(errno));
    return file;
}

void remove_file(const char *path)
{
    team_barrier();
    if (team_rank == 0) unlink(path);
    team_barrier();
}

bool storage_is_cold = false;

/* Removes the file from the system's cache, so that a read must wait for the disk. */
static void drop_cache(const char *path, char fault[FAULT_BYTES])
{
    if (team_rank == 0) {
        const int file = open_for_all(path, O_RDWR, fault);
        if (file >= 0) {
            if (fsync(file) != 0) note_fault(fault, "fsync: %s", strerror(errno));
            const int code = posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
            if (code != 0) note_fault(fault, "posix_fadvise: %s", strerror(code));
            close(file);
        }
    }
    team_barrier();
}

void prepare_file(const char *path, file_state state, int64_t bytes, char fault[FAULT_BYTES])
{
    remove_file(path);
    if (state == FRESH) return;
    /* Each rank writes its own part, which has whole chunks. */
    const int64_t chunks = (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
    int64_t offset = chunks * team_rank / team_size * CHUNK_BYTES, end = chunks * (team_rank + 1) / team_size * CHUNK_BYTES;
    if (end > bytes) end = bytes;
    unsigned char *chunk = malloc(CHUNK_BYTES);
    const int file = open_for_all(path, O_RDWR | O_CREAT, fault);
    if (chunk != NULL && file >= 0) {
        memset(chunk, FILL_BYTE, CHUNK_BYTES);
        for (; offset < end; offset += CHUNK_BYTES) {
            const int64_t part = end - offset < CHUNK_BYTES ? end - offset : CHUNK_BYTES;
            if (state == CELLS) fill_cells(chunk, offset, part);
            transfer(file, false, chunk, offset, part, fault);
        }
    }
    if (file >= 0) close(file);
    free(chunk);
    team_barrier();
    if (storage_is_cold) drop_cache(path, fault);
}

/* Counts the changed bytes outside of the written ones. Written bytes are cells, and every other byte
 * must be as before. */
static int64_t judge_holes(const unsigned char *bytes, int64_t size, file_state before, int64_t all_written, char fault[FAULT_BYTES])
{
    int64_t strangers;
    const int64_t cells = count_cells(bytes, size, before == EXISTING ? FILL_BYTE : 0, &strangers);
    const int64_t changed = cells + strangers - all_written;
    if (changed != 0 && before == EXISTING) note_fault(fault, "%lld bytes that no rank wrote have changed", (long long)changed);
    /* The number is negative if written bytes are wrong, which judge_runs reports. */
    return changed > 0 ? changed : 0;
}

static void judge_runs(const unsigned char *bytes, const run_list *written, char fault[FAULT_BYTES])
{
    for (size_t at = 0; at < written->count; at++) {
        const run *run = &written->runs[at];
        if (!are_cells(bytes + run->offset, run->offset, run->bytes)) {
            note_fault(fault, "the file is wrong within the %lld bytes from offset %lld", (long long)run->bytes, (long long)run->offset);
            return;
        }
    }
}

uint64_t judge_file(const char *path, file_state before, int64_t bytes, const run_list *written, int64_t all_written, int64_t *strays,
                    char fault[FAULT_BYTES])
{
    uint64_t hash = 0;
    struct stat about;
    const int file = open_for_all(path, O_RDONLY, fault);
    if (file < 0 || fstat(file, &about) != 0 || about.st_size != bytes) {
        note_fault(fault, "the file does not have %lld bytes", (long long)bytes);
    } else {
        unsigned char *mapped = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, file, 0);
        if (mapped == MAP_FAILED) {
            note_fault(fault, "mmap: %s", strerror(errno));
        } else {
            judge_runs(mapped, written, fault);
            if (team_rank == 0) {
                *strays = judge_holes(mapped, bytes, before, all_written, fault);
                hash = hash_of(mapped, bytes);
            }
            munmap(mapped, (size_t)bytes);
        }
    }
    if (file >= 0) close(file);
    return hash;
}

double limit_seconds(const char *path, file_state state, bool reading, unsigned char *memory, int64_t bytes, char fault[FAULT_BYTES])
{
    const int64_t offset = team_sum_below(bytes);
    prepare_file(path, state, team_sum(bytes), fault);
    if (team_rank == 0) {
        const int file = open_for_all(path, O_RDWR | O_CREAT, fault);
        if (file >= 0) close(file);
    }
    team_barrier();
    const int file = open_for_all(path, O_RDWR, fault);
    team_barrier();
    const double begin = now_seconds();
    if (file >= 0) transfer(file, reading, memory, offset, bytes, fault);
    const double end = now_seconds();
    if (file >= 0) close(file);
    const double seconds = team_span(begin, end);
    remove_file(path);
    return seconds;
}

double limit_of_opens(const char *path, int operations, char fault[FAULT_BYTES])
{
    team_barrier();
    const double begin = now_seconds();
    for (int at = 0; at < operations; at++) {
        const int file = open_for_all(path, O_RDWR | O_CREAT, fault);
        if (file >= 0) close(file);
    }
    const double end = now_seconds();
    return team_span(begin, end);
}
