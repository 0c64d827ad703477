#!/usr/bin/env bash
# Builds the command, the library and the benches once for each MPI that a program may use:
# target/MPI/release.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

# The command links to no MPI, so one build of it serves all.
say "build: the command"
use_mpi openmpi
cargo build --release --target-dir target/openmpi -p capulet-cli

# The file name and the SONAME of the library contain the name of its MPI, so that no loader mistakes one
# library for another.
for mpi in openmpi mpich mpich5; do
    use_mpi "$mpi"
    out=target/$mpi/release
    say "build: $out (MPICC=$(basename "$MPICC"))"
    [ "$mpi" = openmpi ] || share_built openmpi "$mpi" release
    cargo build --release --target-dir "target/$mpi" -p capulet-capi -p capulet-benches
    [ "$mpi" = openmpi ] || ln -f target/openmpi/release/capulet "$out/capulet"
    library=$out/$CAPULET_SONAME
    # A rename replaces the library. A program that has mapped the old file keeps the whole file.
    if ! cmp -s "$out/libcapulet.so" "$library"; then
        cp "$out/libcapulet.so" "$library.new"
        mv "$library.new" "$library"
    fi
    cp capi/include/capulet_types.h "$out/"
done

# The measuring program for files is C on MPI alone: the same binary runs on Capulet and on the MPI's own
# I/O. So is the program that verifies. The library that splits system calls into parts knows no MPI, but
# must lie beside the program.
strict=(-std=c11 -O2 -g -Wall -Wextra -Werror)
for mpi in openmpi mpich openmpi5 mpich5; do
    use_mpi "$mpi"
    out=target/$mpi/release
    say "build: capulet-bench-io, capulet-verify-io in $out"
    mkdir -p "$out"
    "$MPICC" "${strict[@]}" -o "$out/capulet-bench-io" benches/io/*.c -lm
    "$MPICC" "${strict[@]}" -o "$out/capulet-verify-io" verify/program/history.c verify/program/main.c
    gcc "${strict[@]}" -shared -fPIC -o "$out/libcapulet_delay.so" verify/program/delay.c -ldl
done

say "build: figures in target/openmpi/release"
use_mpi openmpi
cargo build --release --target-dir target/openmpi -p capulet-bench-figures

# One library serves both versions of Open MPI. The benches measure each version separately.
use_mpi openmpi5
say "build: benches in target/openmpi5/release"
share_built openmpi openmpi5 release
cargo build --release --target-dir target/openmpi5 -p capulet-benches
