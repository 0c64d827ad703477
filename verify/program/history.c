/* The history: for each access the cells that it touched, as runs of one writer. In words of 32 bits, in
 * the byte order of the machine:
 *     magic, round, rank, index, group, kind, call, runs, then for each run: first cell, cells, writer.
 * A value that no writer of the round can have written to that cell gets the writer STRANGE: it is part
 * of a cell, or of another cell or round. */
#include "history.h"

static const uint32_t MAGIC = 0x43504C54, STRANGE = UINT32_MAX;
static const uint32_t CELL_FACTOR = 0xC2B2AE35u;
static FILE *file;

random_t random_of(uint64_t seed, uint64_t round, uint64_t rank, uint64_t purpose)
{
    random_t random = { seed * 0x9E3779B97F4A7C15u + round * 0xD1B54A32D192ED03u
                        + rank * 0x8CB92BA72F3D8DD7u + purpose };
    pick(&random, 2);
    return random;
}

int pick(random_t *random, int below)
{
    uint64_t z = random->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (int)((z ^ z >> 31) % (uint64_t)below);
}

view_t random_view(random_t *random)
{
    view_t view = { 0 };
    int wanted = 2 + pick(random, BLOCKS_MAX - 2), at = pick(random, cells_max / 8),
        stride = 1 + 2 * (cells_max - at) / (3 * wanted);
    while (view.blocks < wanted) {
        int len = 1 + pick(random, stride);
        if (at + len > cells_max) break;
        view.at[view.blocks] = at;
        view.len[view.blocks++] = len;
        view.cells += len;
        at += len + 1 + pick(random, stride);
    }
    return view;
}

view_t block_view(random_t *random)
{
    int at = pick(random, cells_max / 2), len = cells_max / 4 + pick(random, cells_max / 4);
    return (view_t){ 1, len, { at }, { len } };
}

view_t whole_view(void)
{
    return (view_t){ 1, cells_max, { 0 }, { cells_max } };
}

uint32_t writer_of(int rank, uint32_t index)
{
    return (uint32_t)rank * ACCESSES_MAX + index + 1;
}

/* The value of a cell: the writer in the upper half. The lower half shows that the whole value belongs to
 * this round and cell. */
uint64_t cell_value(uint32_t round, uint32_t writer, int cell)
{
    uint32_t check = (round * 0x85EBCA6Bu ^ (uint32_t)cell * CELL_FACTOR) + writer * 0x27D4EB2Fu;
    return (uint64_t)writer << 32 | check;
}

/* The cell that a value belongs to, for any writer. */
int cell_of(uint32_t round, uint64_t value)
{
    uint32_t mixed = ((uint32_t)value - (uint32_t)(value >> 32) * 0x27D4EB2Fu) ^ round * 0x85EBCA6Bu,
             inverse = CELL_FACTOR;
    /* Newton's iteration for the inverse of an odd number modulo 2^32. */
    for (int step = 0; step < 5; step++) inverse *= 2 - CELL_FACTOR * inverse;
    return (int)(mixed * inverse & INT32_MAX);
}

void fill(uint64_t *cells, const access_t *access, const view_t *view, int from, int count)
{
    for (int block = 0, at = 0, done = 0; block < view->blocks && done < count; at += view->len[block++])
        for (int i = 0; i < view->len[block]; i++)
            if (at + i >= from && done < count)
                cells[done++] = cell_value(access->round, writer_of(world_rank, access->index),
                                           view->at[block] + i);
}

void history_open(const char *path)
{
    char name[4096];
    snprintf(name, sizeof name, "%s.%d", path, world_rank);
    file = fopen(name, "wb");
    if (!file) fail("the history cannot be written", -1);
}

static uint32_t judged(uint64_t value, uint32_t round, int cell)
{
    uint32_t writer = (uint32_t)(value >> 32);
    return cell_value(round, writer, cell) == value ? writer : STRANGE;
}

void history_note(const access_t *access, const view_t *view, int from, int count, const uint64_t *cells)
{
    static uint32_t *runs;
    static int room;
    int used = 0, done = 0;
    for (int block = 0, at = 0; block < view->blocks && done < count; at += view->len[block++]) {
        int starts_block = 1;
        for (int i = 0; i < view->len[block]; i++) {
            if (at + i < from || done == count) continue;
            int cell = view->at[block] + i;
            uint32_t writer = access->kind == WRITE ? writer_of(world_rank, access->index)
                                                    : judged(cells[done], access->round, cell);
            done++;
            if (!starts_block && runs[3 * used - 1] == writer) {
                runs[3 * used - 2]++;
                continue;
            }
            if (used == room) {
                room = 2 * room + 64;
                runs = realloc(runs, sizeof *runs * 3 * (size_t)room);
                if (!runs) fail("no memory for the history", -1);
            }
            runs[3 * used] = (uint32_t)cell;
            runs[3 * used + 1] = 1;
            runs[3 * used++ + 2] = writer;
            starts_block = 0;
        }
    }
    uint32_t head[] = { MAGIC,         access->round, (uint32_t)world_rank, access->index,
                        access->group, access->kind,  access->call,         (uint32_t)used };
    if (fwrite(head, sizeof head, 1, file) != 1 ||
        (used && fwrite(runs, 3 * sizeof *runs, (size_t)used, file) != (size_t)used))
        fail("the history cannot be written", -1);
}

void history_close(void)
{
    if (fclose(file)) fail("the history cannot be written", -1);
}
