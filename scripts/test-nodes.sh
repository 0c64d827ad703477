#!/usr/bin/env bash
# Runs the rings of tests on real nodes, with both MPIs.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
for mpi in openmpi mpich; do
    use_mpi "$mpi"
    say "test: real nodes with $mpi"
    cargo test --target-dir "target/$mpi" -p capulet-tests --test nodes --test cached
done
