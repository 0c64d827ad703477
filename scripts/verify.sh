#!/usr/bin/env bash
# Whether atomic mode holds, for long: on a disk, where calls to the system are cut into parts, and in memory, where bytes are stored
# without calls. MPICH spins, so it has no more ranks than the machine has cores, but 2.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

rounds=${1:-10000}
for folder in /var/tmp /dev/shm; do
    say "verify: Open MPI, 4 ranks, $folder"
    target/openmpi/release/capulet verify atomic "$folder" --rounds "$rounds" --ranks 4 --mpi openmpi
    say "verify: MPICH, 2 ranks, $folder"
    target/openmpi/release/capulet verify atomic "$folder" --rounds "$rounds" --ranks 2 --mpi mpich
done
say "verify: no round without an order"
