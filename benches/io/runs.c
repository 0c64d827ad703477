/* The runs of an access, as lists. */
#include "bench_io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void append_run(run_list *list, int64_t offset, int64_t bytes)
{
    if (bytes == 0) return;
    list->bytes += bytes;
    run *last = list->count > 0 ? &list->runs[list->count - 1] : NULL;
    if (last != NULL && last->offset + last->bytes == offset) {
        last->bytes += bytes;
        return;
    }
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        list->runs = realloc(list->runs, list->capacity * sizeof *list->runs);
        if (list->runs == NULL) {
            perror("runs");
            exit(1);
        }
    }
    list->runs[list->count++] = (run){ offset, bytes };
}

void append_box(run_list *list, const int sizes[3], const int subsizes[3], const int starts[3], int64_t element_bytes, int64_t base)
{
    for (int64_t z = starts[0]; z < starts[0] + subsizes[0]; z++)
        for (int64_t y = starts[1]; y < starts[1] + subsizes[1]; y++)
            append_run(list, base + ((z * sizes[1] + y) * sizes[2] + starts[2]) * element_bytes, subsizes[2] * element_bytes);
}

void free_runs(run_list *list)
{
    free(list->runs);
    memset(list, 0, sizeof *list);
}

int64_t end_of(const run_list *list)
{
    int64_t end = 0;
    for (size_t at = 0; at < list->count; at++) {
        const int64_t behind = list->runs[at].offset + list->runs[at].bytes;
        if (behind > end) end = behind;
    }
    return end;
}

/* A position in a list: `into` bytes into run number `at`. */
typedef struct {
    const run_list *list;
    size_t at;
    int64_t into;
} place;

static int64_t left_in_run(const place *place) { return place->list->runs[place->at].bytes - place->into; }

static int64_t advance(place *place, int64_t bytes)
{
    const int64_t offset = place->list->runs[place->at].offset + place->into;
    place->into += bytes;
    if (left_in_run(place) == 0) {
        place->at++;
        place->into = 0;
    }
    return offset;
}

/* Advances over the next bytes that are contiguous in both lists. Returns their number, or 0 at the end. */
static int64_t next_piece(place *memory, place *file, int64_t *memory_offset, int64_t *file_offset)
{
    if (memory->at == memory->list->count || file->at == file->list->count) return 0;
    const int64_t in_memory = left_in_run(memory), in_file = left_in_run(file);
    const int64_t bytes = in_memory < in_file ? in_memory : in_file;
    *memory_offset = advance(memory, bytes);
    *file_offset = advance(file, bytes);
    return bytes;
}

void fill_memory(unsigned char *memory, const run_list *in_memory, const run_list *in_file)
{
    place there = { in_memory, 0, 0 }, here = { in_file, 0, 0 };
    int64_t memory_offset, file_offset, bytes;
    while ((bytes = next_piece(&there, &here, &memory_offset, &file_offset)) > 0)
        fill_cells(memory + memory_offset, file_offset, bytes);
}

bool memory_is_filled(const unsigned char *memory, const run_list *in_memory, const run_list *in_file)
{
    place there = { in_memory, 0, 0 }, here = { in_file, 0, 0 };
    int64_t memory_offset, file_offset, bytes;
    while ((bytes = next_piece(&there, &here, &memory_offset, &file_offset)) > 0)
        if (!are_cells(memory + memory_offset, file_offset, bytes)) return false;
    return true;
}
