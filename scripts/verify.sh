#!/usr/bin/env bash
# Verifies atomic mode with many rounds: on a disk, where system calls are split into parts, and in
# memory, where bytes are stored without system calls. MPICH spins, so it gets only 2 ranks: no more
# ranks than cores.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

rounds=${1:-10000}
for folder in /var/tmp /dev/shm; do
    say "verify: Open MPI, 4 ranks, $folder"
    target/openmpi/release/capulet verify atomic "$folder" --rounds "$rounds" --ranks 4 --mpi openmpi
    say "verify: MPICH, 2 ranks, $folder"
    target/openmpi/release/capulet verify atomic "$folder" --rounds "$rounds" --ranks 2 --mpi mpich
done
say "verify: every round has an order"
