#!/usr/bin/env bash
# All tests: the crates that know no MPI once, the others on both MPIs, and then whole programs on both; the toolkit on
# the wheels of both as well.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

# A closure that the compiler does not inline is compiled without the instructions of the function around it, and calls a
# function for each of them: right, and ten times slower.
say "test: no vector instruction of a kernel is a call"
for mpi in openmpi mpich mpich5; do
    symbols=$(nm --demangle "target/$mpi/release/libcapulet.so")
    grep -q copy::kernel <<<"$symbols" || fail "target/$mpi has no symbols to look through"
    called=$(grep core_arch <<<"$symbols" | grep -v xgetbv) || true
    [ -z "$called" ] || fail "functions of single instructions in target/$mpi: $called"
done

say "test: the demo's own checks"
PYTHONDONTWRITEBYTECODE=1 "$python" -m unittest discover -s tests/demo
use_mpi openmpi
say "test: the crates without MPI"
cargo test --target-dir target/openmpi "${pure[@]}"
for mpi in openmpi mpich; do
    use_mpi "$mpi"
    say "test: the crates on $mpi"
    cargo test --target-dir "target/$mpi" "${on_mpi[@]}"
    say "test: whole programs on $mpi"
    cargo test --target-dir "target/$mpi" -p capulet-tests
done
# Which functions call us while MPI waits is another matter on the newest MPICH. Built as the library is, which is there already.
use_mpi mpich5
say "test: nonblocking collectives on mpich5"
cargo test --release --target-dir target/mpich5 -p capulet-capi --test programs -- nonblocking_collectives split_collectives
# The toolkit hangs on what an MPI says of its types, so the newest of each is asked too.
for mpi in mpich5 openmpi5; do
    use_mpi "$mpi"
    say "test: the toolkit on $mpi"
    cargo test --release --target-dir "target/$mpi" -p capulet-capi --test toolkit
done
say "test: all passed"
