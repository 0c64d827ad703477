/* The measuring program of `capulet bench collective`, `independent` and `atomic`: plain MPI-3.1, so that
 * the same binary runs on Capulet and on the MPI's own I/O.
 *
 *   content.c   the bytes of a file, as a function of the offset; filling and checking memory
 *   runs.c      the runs of an access: an oracle that does not use MPI types
 *   team.c      agreements of the ranks, with waits that yield
 *   storage.c   the file by POSIX alone: preparation, checks, and the limit of the machine
 *   arrays.c    accesses to decomposed arrays
 *   codes.c     accesses of applications: BTIO, FLASH, climate, requests of PnetCDF
 *   strides.c   accesses to equal pieces at equal distances
 *   cases.c     the rows of the suites
 *   trips.c     raw round trips over TCP, without MPI
 *   shared.c    writes through the shared file pointer
 *   measure.c   one row
 *   main.c      the command line; a line of JSON for each row */
#ifndef CAPULET_BENCH_IO_H
#define CAPULET_BENCH_IO_H

#define _GNU_SOURCE
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* content.c. A cell is a byte that this program writes; its high bit is set. The bytes that fill a file
 * or memory before, and those of a hole, have the high bit clear. */
#define FILL_BYTE 0x5A
void fill_cells(unsigned char *memory, int64_t offset, int64_t bytes);
bool are_cells(const unsigned char *memory, int64_t offset, int64_t bytes);
/* Returns the number of cells. Stores in `strangers` the number of bytes that are neither cells nor
 * `hole`. */
int64_t count_cells(const unsigned char *memory, int64_t bytes, unsigned char hole, int64_t *strangers);
uint64_t hash_of(const unsigned char *memory, int64_t bytes);

/* runs.c */
typedef struct {
    int64_t offset, bytes;
} run;

typedef struct {
    run *runs;
    size_t count, capacity;
    int64_t bytes;
} run_list;

/* Adds a run. The run is joined with the one before it if they touch. */
void append_run(run_list *list, int64_t offset, int64_t bytes);
/* Adds the rows of a box in a 3-D array of elements. The last dimension varies fastest; the array begins
 * at `base`. */
void append_box(run_list *list, const int sizes[3], const int subsizes[3], const int starts[3], int64_t element_bytes, int64_t base);
void free_runs(run_list *list);
/* The offset behind the last byte. */
int64_t end_of(const run_list *list);

/* Both lists describe the same stream of bytes, so each byte of memory belongs to one byte of the file. */
void fill_memory(unsigned char *memory, const run_list *in_memory, const run_list *in_file);
bool memory_is_filled(const unsigned char *memory, const run_list *in_memory, const run_list *in_file);

/* team.c */
extern int team_rank, team_size;
/* The highest rank that has no memory in common with rank 0; the highest rank if all ranks share memory. */
extern int team_far_rank;
void team_start(int *argc, char ***argv);
double now_seconds(void);
void team_barrier(void);
int64_t team_sum(int64_t value);
int64_t team_max(int64_t value);
int64_t team_sum_below(int64_t value);
/* Seconds from the first begin to the last end of all ranks. Collective. */
double team_span(double begin, double end);
double team_largest(double value);
/* A barrier for a rank that must leave the cores to a measured rank: this rank sleeps between its tests. */
void team_rest(void);
#define FAULT_BYTES 200
/* Copies the fault of the lowest rank that has one to all ranks. Returns true if there is one.
 * Collective. */
bool team_fault(char fault[FAULT_BYTES]);
/* Keeps the first fault, because a later one is often its consequence. */
void note_fault(char fault[FAULT_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));
void note_mpi(char fault[FAULT_BYTES], const char *call, int code);
void wait_yielding(MPI_Request *request);

/* storage.c */
typedef enum { FRESH, EXISTING, CELLS } file_state;
/* Whether a prepared file lies on the disk alone, so that a read must wait for the disk. */
extern bool storage_is_cold;
/* Collective, as are the functions below. Afterwards the file does not exist (FRESH), holds `bytes` bytes
 * of FILL_BYTE (EXISTING), or holds `bytes` cells (CELLS). */
void prepare_file(const char *path, file_state state, int64_t bytes, char fault[FAULT_BYTES]);
void remove_file(const char *path);
/* Checks every byte of the file against the runs of all ranks and the state before. The file must have
 * `bytes` bytes. All ranks together have written `all_written` bytes. Rank 0 returns the hash of the file
 * and stores in `strays` the number of bytes in the holes of a fresh file that are not 0. These bytes are
 * no fault, because the standard does not define the contents of holes. */
uint64_t judge_file(const char *path, file_state before, int64_t bytes, const run_list *written, int64_t all_written, int64_t *strays,
                    char fault[FAULT_BYTES]);
/* Seconds to move the same number of bytes of each rank in one piece, each rank in its own range. */
double limit_seconds(const char *path, file_state state, bool reading, unsigned char *memory, int64_t bytes, char fault[FAULT_BYTES]);
double limit_of_opens(const char *path, int operations, char fault[FAULT_BYTES]);

/* trips.c. Connects rank 0 with the far rank over TCP, at the first address of rank 0 that the far rank
 * reaches. A thread of rank 0 returns each message until the end. Returns false on all ranks if no address
 * is reached or if there is only one rank. Collective. */
bool trips_begin(void);
/* Seconds of one round trip: the mean of `count`. For the far rank, between begin and end. */
double trip_seconds(int count);
/* Collective. */
void trips_end(void);

/* An access of this rank: the types that MPI gets, and the runs that it must touch, both in the order of
 * the stream. */
typedef struct {
    MPI_Offset displacement;
    MPI_Datatype filetype, memory_type;
    int count;
    int64_t memory_bytes;
    run_list in_file, in_memory;
    /* If not 0: the number of requests. They have equal size, and each has a view of its own that is made
     * of the runs in the file. */
    int requests;
} access_plan;

/* The demand of a case. */
typedef struct {
    /* Payload of all ranks, approximately. */
    int64_t total_bytes;
    /* Bytes of one piece, or another number that the case defines. */
    int64_t piece_bytes;
    bool reading;
} demand;

typedef void plan_builder(const demand *asked, access_plan *plan);
/* arrays.c */
plan_builder plan_contiguous, plan_checkpoint, plan_checkpoint_ghosts, plan_tiles, plan_darray;
/* codes.c */
plan_builder plan_btio, plan_flash, plan_climate, plan_requests;
/* strides.c */
plan_builder plan_strided, plan_both_strided, plan_sparse;
void free_plan(access_plan *plan);
MPI_Datatype committed(MPI_Datatype type);

/* cases.c */
/* The ranks that access the file; the others only open it. */
typedef enum { EVERY_RANK, FIRST_RANK, FAR_RANK } rank_choice;
/* Rounds of measuring in a row of FAR_RANK: an odd number, for the median. */
#define ROUNDS 9
typedef enum { NO_POINTER, SHARED_POINTER, ORDERED_POINTER } pointer_use;
typedef struct {
    int id;
    const char *suite, *name;
    /* NULL: the row opens and closes the file, or writes through the shared file pointer. */
    plan_builder *build;
    pointer_use pointer;
    int64_t piece_bytes;
    bool reading, collective;
    file_state state;
    /* Rows in atomic mode: all ranks access the same bytes (is_same), and each accessing rank repeats its
     * access `repeats` times. */
    bool atomic, is_same;
    rank_choice who;
    int repeats;
} bench_row;

/* The rows of a suite, or NULL if there is no such suite. */
const bench_row *rows_of(const char *suite, int *count);
const char *op_name(const bench_row *row);
const char *state_name(const bench_row *row);

/* measure.c */
typedef struct {
    int64_t bytes, pieces;
    int operations;
    double seconds, view_seconds, limit_seconds;
    /* Rows of FAR_RANK: seconds of the same accesses without atomic mode, and of one raw round trip. 0 if
     * not measured. */
    double plain_seconds, round_trip_seconds;
    uint64_t hash;
    int64_t strays;
    char fault[FAULT_BYTES];
} measurement;

/* Collective. Leaves no file behind. */
void measure(const bench_row *row, const char *folder, double scale, measurement *result);
/* shared.c. Collective. */
void measure_shared(const bench_row *row, const char *path, measurement *result);
/* Makes the first access of the process, in which the MPI makes communicators and windows. This work is
 * part of no row. Returns the name of the layer that serves the files. Collective. */
const char *warm_up(const char *folder, char fault[FAULT_BYTES]);

#endif
