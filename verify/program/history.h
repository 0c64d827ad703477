/* Declarations that the parts of the verifying program share: random numbers, views in cells, and the
 * recorded history. */
#ifndef HISTORY_H
#define HISTORY_H
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCKS_MAX = 48, ACCESSES_MAX = 60 };

/* The bytes of a view, in cells of 8 bytes: ascending blocks with gaps between them. */
typedef struct { int blocks, cells, at[BLOCKS_MAX], len[BLOCKS_MAX]; } view_t;

typedef enum { READ = 0, WRITE = 1 } kind_t;

/* One access of one rank. `group`: the number of the rank's accesses that were complete before this one
 * began. */
typedef struct { uint32_t round, index, group, call; kind_t kind; } access_t;

extern int world_rank, world_size, cells_max;

/* A random number generator. Each rank, round and purpose has its own. */
typedef struct { uint64_t state; } random_t;
random_t random_of(uint64_t seed, uint64_t round, uint64_t rank, uint64_t purpose);
int pick(random_t *random, int below);

view_t random_view(random_t *random);
view_t block_view(random_t *random);
view_t whole_view(void);

/* The number of an access as the writer of a cell. No access has the number 0: it stands for the state at
 * the start of the round. */
uint32_t writer_of(int rank, uint32_t index);
uint64_t cell_value(uint32_t round, uint32_t writer, int cell);
int cell_of(uint32_t round, uint64_t value);
void fill(uint64_t *cells, const access_t *access, const view_t *view, int from, int count);

void history_open(const char *path);
/* Records the cells of the view that an access touched. For a read, also the writer of each cell. */
void history_note(const access_t *access, const view_t *view, int from, int count, const uint64_t *cells);
void history_close(void);

_Noreturn void fail(const char *what, int code);
#endif
