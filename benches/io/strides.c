/* Accesses to equal pieces at equal distances. The ranks own the pieces in turn. */
#include "bench_io.h"

/* `file_gap` and `memory_gap`: one piece of so many is used. 1 means no gap. */
static void plan_pieces(const demand *asked, int64_t total_bytes, int file_gap, int memory_gap, access_plan *plan)
{
    const int64_t piece = asked->piece_bytes, distance = piece * team_size * file_gap;
    int64_t pieces = total_bytes / (piece * team_size);
    if (pieces == 0) pieces = 1;
    MPI_Datatype unit;
    MPI_Type_contiguous((int)piece, MPI_BYTE, &unit);
    MPI_Type_create_resized(unit, 0, distance, &plan->filetype);
    committed(plan->filetype);
    plan->displacement = team_rank * piece * file_gap;
    if (memory_gap > 1) {
        MPI_Type_vector((int)pieces, 1, memory_gap, unit, &plan->memory_type);
        committed(plan->memory_type);
        plan->count = 1;
    } else {
        plan->memory_type = MPI_BYTE;
        plan->count = (int)(pieces * piece);
    }
    MPI_Type_free(&unit);
    plan->memory_bytes = pieces * piece * memory_gap;
    for (int64_t at = 0; at < pieces; at++) {
        append_run(&plan->in_file, plan->displacement + at * distance, piece);
        append_run(&plan->in_memory, at * piece * memory_gap, piece);
    }
}

void plan_strided(const demand *asked, access_plan *plan) { plan_pieces(asked, asked->total_bytes, 1, 1, plan); }

void plan_both_strided(const demand *asked, access_plan *plan) { plan_pieces(asked, asked->total_bytes, 1, 2, plan); }

/* Half of the file stays as it is, so a file of the asked size takes half of the payload. */
void plan_sparse(const demand *asked, access_plan *plan) { plan_pieces(asked, asked->total_bytes / 2, 2, 1, plan); }
